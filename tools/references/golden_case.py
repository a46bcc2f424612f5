"""One tiny checkpoint and what transformers computes with it: what the families' goldens share.

A family (`golden_bert.py`, `golden_roberta.py`, ...) lists its cases; `make_case` writes one. The
outputs are computed in float64 by the model that transformers reads from the directory, and stored
as float32, so that a difference found by a test is the tested model's own.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable

import numpy as np
import safetensors
import safetensors.torch
import torch
import transformers
from golden_files import empty_directory, random_generator, write_json

# task -> {name in io.npz: transformers' name of the output}
OUTPUTS = {
    "encoder": {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"},
    "masked_lm": {"logits": "logits"},
    "pretraining": {
        "mlm_logits": "prediction_logits",
        "nsp_logits": "seq_relationship_logits",
        "sop_logits": "sop_logits",
        "discriminator_logits": "logits",
    },
    "classification": {"logits": "logits"},
    "multi_label_classification": {"logits": "logits"},
    "regression": {"logits": "logits"},
    "token_classification": {"logits": "logits"},
    "question_answering": {"start_logits": "start_logits", "end_logits": "end_logits"},
    "multiple_choice": {"logits": "logits"},
}


# Of every family; a family adds what it has besides.
TINY_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
POSITIONS = 40  # tokens in the longest input


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Ids that inputs are made of; those from `first_ordinary` on stand for text."""

    pad: int
    first: int  # [CLS] or <s>
    last: int  # [SEP] or </s>
    first_ordinary: int


@dataclasses.dataclass(frozen=True)
class Family:
    """What the cases of a family have in common.

    Attributes:
        config_class: transformers' class of its config.json.
        tiny_config: The fields that differ from the class's own values.
        tokens: Its special tokens.
        write_vocabulary: Writes the files of the tokenizer into a case's directory.
        has_segments: Whether inputs have `segment_ids`.
        capture_internals: Runs a model as `run_with_internals` does.
    """

    config_class: type[transformers.PreTrainedConfig]
    tiny_config: dict
    tokens: Tokens
    write_vocabulary: Callable[[pathlib.Path], None]
    has_segments: bool = True
    capture_internals: Callable | None = None


# --- Weights -------------------------------------------------------------------------------------


_NORM_SCALES = ("layernorm.weight", "layer_norm.weight", ".gamma")


def randomize(model: torch.nn.Module, rng: np.random.Generator) -> None:
    """Draws every parameter anew, so far from its usual start that a misplaced one shows."""
    for name, parameter in model.named_parameters():
        is_norm_scale = name.lower().endswith(_NORM_SCALES)
        values = rng.normal(loc=1.0 if is_norm_scale else 0.0, scale=0.25, size=parameter.shape)
        parameter.data = torch.from_numpy(values.astype(np.float32))
    tie_weights(model)


def round_to_half(model: torch.nn.Module) -> None:
    """Rounds every parameter to a value that half precision holds exactly."""
    for parameter in model.parameters():
        parameter.data = parameter.half().float()
    tie_weights(model)


def tie_weights(model: torch.nn.Module) -> None:
    """Ties transformers' models again; others share their parameters for good."""
    if isinstance(model, transformers.PreTrainedModel):
        model.tie_weights()


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
        segments = getattr(config, "type_vocab_size", 1)
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


def batch_inputs(family, config, rng):
    return random_inputs(family, config, rng, lengths=(16, 11, 6, 3))


def longest_inputs(family, config, rng):
    return random_inputs(family, config, rng, lengths=(POSITIONS, 23))


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


# --- config.json ---------------------------------------------------------------------------------


def keep_config(config: dict) -> dict:
    return config


def labelled(*names: str) -> dict:
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


# --- A case --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """One directory: a checkpoint and what transformers computes with it.

    Attributes:
        name: The directory's name.
        about: What the case shows, in one sentence.
        task: A key of OUTPUTS.
        model_class: The class that makes and reloads the checkpoint.
        config: What differs from the family's tiny_config.
        model_arguments: Further arguments of the class.
        make_inputs: (family, config, rng) to the arrays that io.npz stores as inputs.
        make_labels: (inputs, family, config, rng) to labels; with it, loss and gradients are stored.
        gradients: Names of the parameters whose gradients are stored.
        make_training: (model, rng) to the arrays of training.npz; without it there is none.
        internals: Whether hidden states and attention probabilities are stored.
        edit_weights: Changes the random weights of the model before they are written.
        save: Writes the weights.
        unused: Tensors that the file has beyond those of the class.
        edit_config: From the config.json that transformers writes to the one that the case stores.
        dtype: The type that the weights are stored in.
        init: Parts of our model of the task that the class does not have.
    """

    name: str
    about: str
    task: str
    model_class: type[transformers.PreTrainedModel]
    config: dict = dataclasses.field(default_factory=dict)
    model_arguments: dict = dataclasses.field(default_factory=dict)
    make_inputs: Callable = batch_inputs
    make_labels: Callable | None = None
    gradients: tuple[str, ...] = ()
    make_training: Callable | None = None
    internals: bool = False
    edit_weights: Callable[[transformers.PreTrainedModel], None] | None = None
    save: Callable = save_current
    unused: tuple[str, ...] = ()
    edit_config: Callable[[dict], dict] = keep_config
    dtype: torch.dtype = torch.float32
    init: tuple[str, ...] = ()


def write_checkpoint(
    family: Family, case: Case, rng: np.random.Generator, directory: pathlib.Path
) -> transformers.PreTrainedModel:
    """Writes weights, config.json and vocabulary of a case, and returns the model written."""
    config = family.config_class(**(family.tiny_config | case.config))
    model = case.model_class(config, **case.model_arguments)
    randomize(model, rng)
    if case.edit_weights is not None:
        case.edit_weights(model)
    model.to(case.dtype)
    config.architectures = [case.model_class.__name__]
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
    model, info = case.model_class.from_pretrained(
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
    }
    return {
        theirs[name]: torch.from_numpy(values).long()
        for name, values in inputs.items()
        if name in theirs
    }


def run_with_internals(
    model: transformers.PreTrainedModel, inputs: dict[str, torch.Tensor]
) -> tuple[dict, dict[str, torch.Tensor]]:
    """The outputs; every hidden state and attention probability that transformers returns."""
    result = model(**inputs, output_hidden_states=True, output_attentions=True)
    return result, {
        "hidden_states": torch.stack(result.hidden_states),
        "attentions": torch.stack(result.attentions),
    }


def reference_outputs(
    family: Family, case: Case, model: transformers.PreTrainedModel, inputs: dict
) -> dict[str, np.ndarray]:
    with torch.no_grad():
        if case.internals:
            run = family.capture_internals or run_with_internals
            result, internals = run(model, torch_inputs(inputs))
        else:
            result, internals = model(**torch_inputs(inputs)), {}
    outputs = {ours: result.get(theirs) for ours, theirs in OUTPUTS[case.task].items()}
    return {
        name: value.numpy().astype(np.float32)
        for name, value in (outputs | internals).items()
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


def make_case(family: Family, case: Case, directory: pathlib.Path) -> None:
    empty_directory(directory)
    rng = random_generator(case.name)
    written = write_checkpoint(family, case, rng, directory)
    model = load_checkpoint(case, directory, written)

    inputs = case.make_inputs(family, model.config, rng)
    arrays = inputs | reference_outputs(family, case, model, inputs)
    if case.make_labels is not None:
        labels = case.make_labels(inputs, family, model.config, rng).astype(np.int64)
        arrays |= {"labels": labels.astype(np.int32)} | reference_gradients(
            case, model, inputs, labels
        )
    np.savez_compressed(directory / "io.npz", **arrays)
    if case.make_training is not None:
        np.savez_compressed(directory / "training.npz", **case.make_training(model, rng))


# --- Files ---------------------------------------------------------------------------------------


def write_case_list(path: pathlib.Path, cases: Iterable) -> None:
    """What each directory shows, for the tests to go through, and what made it."""
    listing = {}
    for case in cases:
        listing[case.name] = {
            "about": case.about,
            "task": case.task,
            "model_class": getattr(case.model_class, "__name__", case.model_class),
        }
        if getattr(case, "twin", None) is not None:
            listing[case.name]["twin"] = case.twin
        if getattr(case, "init", ()):
            listing[case.name]["init"] = case.init
    write_json(
        path,
        {
            "made_with": {
                module.__name__: module.__version__
                for module in (np, safetensors, torch, transformers)
            },
            "cases": listing,
        },
    )
