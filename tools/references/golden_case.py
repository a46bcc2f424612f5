"""One tiny checkpoint and what transformers computes with it: what the families' goldens share.

`golden_families.py` lists the families and their cases; `make_case` writes one. The
outputs are computed in float64 by the model that transformers reads from the directory, and stored
as float32, so that a difference found by a test is the tested model's own.
"""

import dataclasses
import json
import pathlib
import zlib
from collections.abc import Callable, Mapping

import numpy as np
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
POSITIONS = 40  # tokens in the longest input


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Ids that inputs are made of; those from `first_ordinary` on stand for text."""

    pad: int
    first: int  # [CLS] or <s>
    last: int  # [SEP] or </s>
    first_ordinary: int


def batch_inputs(family, config, rng):
    return random_inputs(family, config, rng, lengths=(16, 11, 6, 3))


@dataclasses.dataclass(frozen=True)
class Family:
    """What the cases of a family have in common, and the cases."""

    prefix: str  # what the names of transformers' classes begin with
    tiny_config: dict  # the fields that differ from the configuration class's own values
    tokens: Tokens  # its special tokens
    # Writes the files of the tokenizer into a case's directory.
    write_vocabulary: Callable[[pathlib.Path], None]
    cases: Mapping[str, "Case"]  # by name
    has_segments: bool = True  # whether inputs have `segment_ids`
    # Of cases that have none of their own; see Case.
    make_inputs: Callable = batch_inputs
    edit_weights: Callable[[torch.nn.Module], None] | None = None
    edit_config: Callable[[dict], dict] = dict

    def config(self, **changes) -> transformers.PreTrainedConfig:
        config_class = getattr(transformers, f"{self.prefix}Config")
        return config_class(**(self.tiny_config | changes))


# --- Weights -------------------------------------------------------------------------------------


_NORM_SCALES = ("norm.weight", ".gamma", "ln_1.weight", "ln_2.weight", "ln_f.weight")


def randomize(model: transformers.PreTrainedModel, rng: np.random.Generator) -> None:
    """Draws every parameter anew, so far from its usual start that a misplaced one shows."""
    for name, parameter in model.named_parameters():
        is_norm_scale = name.lower().endswith(_NORM_SCALES)
        values = rng.normal(loc=1.0 if is_norm_scale else 0.0, scale=0.25, size=parameter.shape)
        parameter.data = torch.from_numpy(values.astype(np.float32))
    model.tie_weights()


def write_json(path: pathlib.Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def save_current(model: transformers.PreTrainedModel, directory: pathlib.Path) -> None:
    """As this version of transformers writes it: one safetensors file, tied tensors once."""
    model.save_pretrained(directory)


# --- Inputs and labels ---------------------------------------------------------------------------


def random_inputs(
    family: Family,
    config: transformers.PreTrainedConfig,
    rng: np.random.Generator,
    lengths: tuple[int, ...],
) -> dict[str, np.ndarray]:
    """`[CLS] ... [SEP]` of random tokens, [batch, longest]; row i has lengths[i] real tokens."""
    tokens = family.tokens
    shape = (len(lengths), max(lengths))
    padding_mask = (np.arange(shape[1]) < np.array(lengths)[:, None]).astype(np.int32)
    token_ids = rng.integers(tokens.first_ordinary, config.vocab_size, shape)
    token_ids = np.where(padding_mask == 1, token_ids, tokens.pad)
    token_ids[:, 0] = tokens.first
    segment_ids = np.zeros(shape, np.int32)
    for row, length in enumerate(lengths):
        token_ids[row, length - 1] = tokens.last
        segments = max(getattr(config, "type_vocab_size", 1), 1)
        starts = np.sort(rng.integers(1, length, segments - 1))
        for start in starts:
            segment_ids[row, start:length] += 1
    inputs = {
        "token_ids": token_ids.astype(np.int32),
        "segment_ids": segment_ids,
        "padding_mask": padding_mask,
    }
    if not family.has_segments:
        del inputs["segment_ids"]
    return inputs


def choice_inputs(family, config, rng):
    """Two questions of three choices: [batch, choices, length]."""
    flat = random_inputs(family, config, rng, lengths=(12, 9, 5, 7, 12, 4))
    return {name: values.reshape(2, 3, -1) for name, values in flat.items()}


def class_labels(inputs, family, config, rng):
    return rng.integers(0, config.num_labels, len(inputs["token_ids"]))


def label_sets(inputs, family, config, rng):
    """1 for each label of a row, and 0 for the others."""
    return rng.integers(0, 2, (len(inputs["token_ids"]), config.num_labels))


def masked_token_labels(inputs, family, config, rng):
    """A label at about a third of the real positions; elsewhere -100, which the loss leaves out."""
    chosen = (inputs["padding_mask"] == 1) & (rng.random(inputs["token_ids"].shape) < 0.35)
    labels = rng.integers(family.tokens.first_ordinary, config.vocab_size, chosen.shape)
    return np.where(chosen, labels, -100)


# --- Tasks ---------------------------------------------------------------------------------------

# Task -> names in io.npz -> transformers' names; of the others it is `logits`.
OUTPUTS = {
    "encoder": {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"},
    "pretraining": {
        "mlm_logits": "prediction_logits",
        "nsp_logits": "seq_relationship_logits",
        "sop_logits": "sop_logits",
        "discriminator_logits": "logits",
    },
    "question_answering": {"start_logits": "start_logits", "end_logits": "end_logits"},
}
# Task -> (inputs, family, config, rng) to labels, for cases with gradients.
LABELS = {
    "masked_lm": masked_token_labels,
    "classification": class_labels,
    "multi_label_classification": label_sets,
}


def labelled(*names: str) -> dict:
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


# --- A case --------------------------------------------------------------------------------------


def make_case(family: Family, case: "Case", directory: pathlib.Path) -> None:
    """Writes a checkpoint, and what transformers computes after reading it."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    written = write_checkpoint(family, case, rng, directory)
    model = load_checkpoint(case, directory, written)

    inputs = case.make_inputs(family, model.config, rng)
    arrays = inputs | reference_outputs(case, model, inputs)
    if case.gradients:
        labels = LABELS[case.task](inputs, family, model.config, rng).astype(np.int64)
        arrays |= {"labels": labels.astype(np.int32)}
        arrays |= reference_gradients(case, model, inputs, labels)
    np.savez_compressed(directory / "io.npz", **arrays)


@dataclasses.dataclass(frozen=True)
class Case:
    """One directory: a checkpoint and what a reference computes with it.

    What it shows, the task and the reference's class stand in the family's cases.json.
    """

    # What differs from the family's tiny_config.
    config: dict = dataclasses.field(default_factory=dict)
    # Names of the parameters whose gradients are stored, and the loss and labels with them.
    gradients: tuple[str, ...] = ()
    # (family, config, rng) to the arrays that io.npz stores as inputs; None: the family's.
    make_inputs: Callable | None = None
    internals: bool = False  # whether hidden states and attention probabilities are stored
    # Further arguments of the class.
    model_arguments: dict = dataclasses.field(default_factory=dict)
    # Changes the random weights of the model before they are written; None: as the family's.
    edit_weights: Callable[[torch.nn.Module], None] | None = None
    save: Callable = save_current  # writes the weights
    unused: tuple[str, ...] = ()  # tensors that the file has beyond those of the class
    # From the config.json that transformers writes to the one that is stored; None: the family's.
    edit_config: Callable[[dict], dict] | None = None
    dtype: torch.dtype = torch.float32  # the type that the weights are stored in
    # From cases.json.
    name: str = ""
    task: str = ""
    model_class: str = ""


def listed_cases(file: pathlib.Path, family: Family) -> list[Case]:
    """The cases of a family, with what its cases.json says of them.

    Raises:
        ValueError: a case is not listed.
    """
    listed = json.loads(file.read_text())["cases"]
    if unknown := sorted({*family.cases} - {*listed}):
        raise ValueError(f"Say in {file} what the cases {unknown} show.")
    return [
        dataclasses.replace(
            case,
            name=name,
            make_inputs=case.make_inputs or family.make_inputs,
            edit_weights=case.edit_weights or family.edit_weights,
            edit_config=case.edit_config or family.edit_config,
            **{key: listed[name].get(key) for key in ("task", "model_class")},
        )
        for name, case in family.cases.items()
    ]


def write_checkpoint(
    family: Family, case: Case, rng: np.random.Generator, directory: pathlib.Path
) -> transformers.PreTrainedModel:
    """Writes weights, config.json and vocabulary of a case, and returns the model written."""
    config = family.config(**case.config)
    model_class = getattr(transformers, case.model_class)
    model = model_class(config, **case.model_arguments)
    randomize(model, rng)
    if case.edit_weights is not None:
        case.edit_weights(model)
    model.to(case.dtype)
    config.architectures = [model_class.__name__]
    config.dtype = case.dtype
    case.save(model, directory)
    config.save_pretrained(directory)

    config_file = directory / "config.json"
    edited = case.edit_config(json.loads(config_file.read_text()))
    write_json(config_file, edited)
    family.write_vocabulary(directory)
    return model


def load_checkpoint(
    case: Case, directory: pathlib.Path, written: transformers.PreTrainedModel
) -> transformers.PreTrainedModel:
    """The case's model as transformers reads the directory, in evaluation mode and float64.

    Raises:
        ValueError: If transformers does not read exactly what was written.
    """
    model, info = type(written).from_pretrained(
        directory,
        output_loading_info=True,
        dtype=torch.float32,
        attn_implementation="eager",
        **case.model_arguments,
    )
    info["unexpected_keys"] = set(info["unexpected_keys"]) ^ set(case.unused)
    problems = {kind: found for kind, found in info.items() if found}
    loaded = model.state_dict()
    changed = [
        name
        for name, value in written.state_dict().items()
        if not value.float().equal(loaded[name])
    ]
    if problems or changed:
        raise ValueError(
            f"transformers does not read {directory} as it was meant: {problems}, {changed}."
        )
    return model.double().eval()


def torch_inputs(inputs: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    theirs = {
        "token_ids": "input_ids",
        "segment_ids": "token_type_ids",
        "padding_mask": "attention_mask",
        "position_ids": "position_ids",
        "language_ids": "langs",
        "global_attention_mask": "global_attention_mask",
    }
    return {
        theirs[name]: torch.from_numpy(values).long()
        for name, values in inputs.items()
        if name in theirs
    }


def reference_outputs(
    case: Case, model: transformers.PreTrainedModel, inputs: dict
) -> dict[str, np.ndarray]:
    with torch.no_grad():
        result = model(
            **torch_inputs(inputs),
            output_hidden_states=case.internals,
            output_attentions=case.internals,
        )
    names = OUTPUTS.get(case.task, {"logits": "logits"})
    outputs = {ours: result.get(theirs) for ours, theirs in names.items()}
    if case.internals:
        outputs |= {name: torch.stack(result[name]) for name in ("hidden_states", "attentions")}
    return {
        name: value.numpy().astype(np.float32)
        for name, value in outputs.items()
        if value is not None
    }


def reference_gradients(
    case: Case, model: transformers.PreTrainedModel, inputs: dict, labels: np.ndarray
) -> dict[str, np.ndarray]:
    """`loss`, and `gradient/<name>` for each named parameter, without dropout."""
    targets = torch.from_numpy(labels)
    if model.config.problem_type == "multi_label_classification":
        targets = targets.double()  # transformers takes no integers there
    loss = model(**torch_inputs(inputs), labels=targets).loss
    loss.backward()
    parameters = dict(model.named_parameters())
    return {"loss": loss.detach().numpy().astype(np.float32)} | {
        f"gradient/{name}": parameters[name].grad.numpy().astype(np.float32)
        for name in case.gradients
    }
