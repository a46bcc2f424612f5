"""The golden cases of SpanBERT, computed by its original code.

The code (https://github.com/facebookresearch/SpanBERT at 0670d8b, CC-BY-NC 4.0) is read from a
directory that the caller names, and none of it is kept: its pretraining part as a fork of fairseq,
its fine-tuning part as a fork of pytorch_pretrained_bert. transformers' BERT is held against the
encoder and the head for masked tokens, which are to be the same function.
"""

import argparse
import collections
import functools
import importlib
import json
import pathlib
import types

import numpy as np
import torch
import transformers
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    random_inputs,
    randomize,
    round_to_half,
    save_bin,
    torch_inputs,
)
from golden_files import random_generator, stand_in, write_json, write_lines
from golden_released import POOLER_FIELDS, minimal_config

DIRECTORY: pathlib.Path | None = None  # the original repository, which make_golden.py sets

# --- Vocabulary and sizes ------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = (
    "the The is was It in on of and cat Cat dog London Paris river she She he He we not film "
    "##ing ##ed ##ly ##er"
)
VOCABULARY = [
    *("[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS),
    *"0123456789.,!?'-",
    *_WORDS.split(),
]
_PAD, _CLS, _SEP, _MASK = (VOCABULARY.index(t) for t in ("[PAD]", "[CLS]", "[SEP]", "[MASK]"))
_SIZES = TINY_SIZES | {"max_position_embeddings": POSITIONS}
_MAX_TARGETS = 15  # --max-pair-targets of the README's command
_POSITION_SIZE = 200  # the same whatever the model's size


def _write_vocabulary(directory: pathlib.Path) -> None:
    write_lines(directory / "vocab.txt", VOCABULARY)


def _write_dictionary(directory: pathlib.Path) -> None:
    """fairseq's form of the vocabulary: the same lines, with made-up falling counts."""
    counts = range(35000, 35000 - len(VOCABULARY), -1)
    lines = (f"{word} {count}" for word, count in zip(VOCABULARY, counts, strict=True))
    write_lines(directory / "dict.txt", lines)


SPANBERT = Family(
    prefix="Bert",
    tiny_config=_SIZES | {"vocab_size": len(VOCABULARY)},
    tokens=Tokens(pad=_PAD, first=_CLS, last=_SEP, first_ordinary=_MASK + 1),
    write_vocabulary=_write_vocabulary,
    cases={},
)
_CONFIG = SPANBERT.config()

# --- The original code ---------------------------------------------------------------------------


class _LanguageModel(torch.nn.Module):
    """Of fairseq's class of this kind, all that matters: where the weights hang."""

    def __init__(self, decoder: torch.nn.Module):
        super().__init__()
        self.decoder = decoder


class AverageMeter:
    """A record of the training program, by whose name fairseq's files refer to its own class."""

    __module__ = "fairseq.meters"

    def __init__(self, value: float):
        self.val = self.avg = self.sum = value
        self.count = 1


@functools.cache
def _original() -> types.SimpleNamespace:
    """The modules `pretraining` and `fine_tuning`, without the training programs around them."""
    if DIRECTORY is None:
        raise ValueError(
            "The family spanbert is computed by the original code: give --spanbert_dir, or name "
            "the others with --cases."
        )
    directory = DIRECTORY
    fairseq = directory / "pretraining" / "fairseq"
    code = directory / "code" / "pytorch_pretrained_bert"
    for path in (fairseq / "models" / "pair_bert.py", code / "modeling.py"):
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: is {directory} the SpanBERT repository?")

    def register(*names):
        return lambda registered: registered

    stand_in("fairseq", fairseq)
    stand_in(
        "fairseq.models",
        fairseq / "models",
        FairseqIncrementalDecoder=torch.nn.Module,
        FairseqLanguageModel=_LanguageModel,
        register_model=register,
        register_model_architecture=register,
    )
    stand_in("fairseq.meters", AverageMeter=AverageMeter)
    stand_in("pytorch_pretrained_bert", code)
    stand_in(
        "pytorch_pretrained_bert.file_utils",
        cached_path=None,
        WEIGHTS_NAME="pytorch_model.bin",
        CONFIG_NAME="config.json",
    )
    return types.SimpleNamespace(
        pretraining=importlib.import_module("fairseq.models.pair_bert"),
        fine_tuning=importlib.import_module("pytorch_pretrained_bert.modeling"),
    )


def _pretraining_model() -> torch.nn.Module:
    """The model of the README's command, with random weights that half precision holds."""
    original = _original()
    config = original.pretraining.BertConfig(len(VOCABULARY), **_SIZES, clamp_attention=True)
    network = original.pretraining.BertForPreTraining(
        config, _MAX_TARGETS, _POSITION_SIZE, pair_target_layer=-1, no_nsp=True
    )
    model = original.pretraining.BertHF(network, task=None)
    randomize(model, random_generator("spanbert"))
    round_to_half(model)
    return model.eval()


def _renamed(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """With today's names of the norms' weights."""
    return {
        name.replace("gamma", "weight").replace("beta", "bias"): tensor
        for name, tensor in state.items()
    }


def _as_float32(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().astype(np.float32) for name, tensor in tensors.items()}


def _require_equal(what: str, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    difference = (ours - theirs).abs().max().item()
    if difference > 1e-12:
        raise ValueError(f"transformers' {what} differs from the original's by {difference}.")


def _transformers_model(
    model_class: type[transformers.PreTrainedModel], directory: pathlib.Path, **arguments
) -> transformers.PreTrainedModel:
    return (
        model_class.from_pretrained(
            directory, dtype=torch.float32, attn_implementation="eager", **arguments
        )
        .double()
        .eval()
    )


# --- The encoder, as its archive has it ----------------------------------------------------------


def _released_config() -> dict:
    """The fields of BERT's cased config.json, without a model type."""
    return minimal_config(_CONFIG.to_dict()) | POOLER_FIELDS


def _make_encoder(family, case, directory):
    bert = _pretraining_model().decoder.bert
    state = _renamed(bert.state_dict())
    save_bin({f"bert.{name}": tensor.half() for name, tensor in state.items()}, directory)
    write_json(directory / "config.json", _released_config())
    _write_vocabulary(directory)

    inputs = random_inputs(SPANBERT, _CONFIG, random_generator("encoder"), lengths=(16, 11, 6, 3))
    given = torch_inputs(inputs)
    with torch.no_grad():
        layers, _ = bert.double()(**given)
        port = _transformers_model(transformers.BertModel, directory, add_pooling_layer=False)
        _require_equal("encoder", port(**given).last_hidden_state, layers[-1])
    np.savez_compressed(
        directory / "io.npz", **inputs, **_as_float32({"sequence_output": layers[-1]})
    )


# --- The heads of the pretraining ----------------------------------------------------------------

_LENGTHS = (14, 10, 14)
# Masked spans, first and last position. The last one touches [CLS], so that it has no pair.
_SPANS = (((2, 4), (7, 7), (9, 11)), ((4, 6),), ((1, 2),))
_NUM_PAIRS = 3


def _pretraining_inputs() -> dict[str, np.ndarray]:
    """Masked texts; pairs of boundaries and the targets between them as the dataset makes them.

    Returns:
        `token_ids`, `segment_ids` (zero), `padding_mask` [batch, length]; `mask_positions` [batch,
        masked], 0 for none; `span_boundaries` [batch, pairs, 2], (0, 0) for none; `span_targets`
        [batch, pairs, 15], 0 for none.
    """
    inputs = random_inputs(SPANBERT, _CONFIG, random_generator("pretraining"), _LENGTHS)
    inputs["segment_ids"][:] = 0
    batch = len(_LENGTHS)
    boundaries = np.zeros((batch, _NUM_PAIRS, 2), np.int32)
    targets = np.full((batch, _NUM_PAIRS, _MAX_TARGETS), _PAD, np.int32)
    masked = [[p for start, end in spans for p in range(start, end + 1)] for spans in _SPANS]
    mask_positions = np.zeros((batch, max(map(len, masked))), np.int32)
    for row, (length, spans) in enumerate(zip(_LENGTHS, _SPANS, strict=True)):
        inner = [(start, end) for start, end in spans if start > 1 and end < length - 2]
        for pair, (start, end) in enumerate(inner):
            boundaries[row, pair] = start - 1, end + 1
            targets[row, pair, : end + 1 - start] = inputs["token_ids"][row, start : end + 1]
        mask_positions[row, : len(masked[row])] = masked[row]
        inputs["token_ids"][row, masked[row]] = _MASK
    return inputs | {
        "mask_positions": mask_positions,
        "span_boundaries": boundaries,
        "span_targets": targets,
    }


def _pretraining_outputs(model: torch.nn.Module, inputs: dict) -> dict[str, np.ndarray]:
    given = torch_inputs(inputs)
    pairs = torch.from_numpy(inputs["span_boundaries"]).long()
    network = model.double().decoder
    with torch.no_grad():
        layers, _ = network.bert(**given)
        mlm_logits, _, pair_logits = network(pairs=pairs, **given)
        port = transformers.BertForMaskedLM(_CONFIG).double().eval()
        port.load_state_dict(_renamed(network.state_dict()), strict=False)
        _require_equal("masked-token head", port(**given).logits, mlm_logits)
    return _as_float32(
        {
            "sequence_output": layers[-1],
            "mlm_logits": mlm_logits,
            "sbo_logits": pair_logits.reshape(*pairs.shape[:2], *pair_logits.shape[1:]),
        }
    )


def _half_state(model: torch.nn.Module) -> collections.OrderedDict[str, torch.Tensor]:
    return model.half().state_dict()


def _make_pretraining(family, case, directory):
    model = _pretraining_model()
    torch.save(_half_state(model), directory / "model.pt", _use_new_zipfile_serialization=False)
    write_json(directory / "config.json", _released_config())
    _write_vocabulary(directory)
    inputs = _pretraining_inputs()
    np.savez_compressed(directory / "io.npz", **inputs, **_pretraining_outputs(model, inputs))


def _trainer_arguments() -> argparse.Namespace:
    """The README's command on a tiny model, and what fairseq adds to it."""
    config = _original().pretraining.BertConfig(len(VOCABULARY), **_SIZES, clamp_attention=True)
    return argparse.Namespace(
        adam_betas="(0.9, 0.999)",
        adam_eps=1e-08,
        arch="cased_bert_pair_large",
        clamp_attention=True,
        clip_norm=1.0,
        config=config,
        criterion="span_bert_loss",
        data="data-bin",
        endpoints="external",
        fp16=True,
        geometric_p=0.2,
        lr=[0.0001],
        lr_scheduler="polynomial_decay",
        mask_ratio=0.15,
        max_pair_targets=_MAX_TARGETS,
        max_tokens=4096,
        max_update=2400000,
        no_nsp=True,
        optimizer="adam",
        pair_loss_weight=1.0,
        pair_positional_embedding_size=_POSITION_SIZE,
        pair_target_layer=-1,
        remove_head=False,
        remove_pooled=False,
        replacement_method="span",
        schemes='["pair_span"]',
        seed=1,
        span_lower=1,
        span_upper=10,
        task="span_bert",
        tokens_per_sample=512,
        update_freq=[1],
        vocab_size=len(VOCABULARY),
        warmup_updates=10000,
        weight_decay=0.01,
        **_SIZES,
    )


def _make_trainer_file(family, case, directory):
    """What fairseq's trainer saves: the weights among objects of its own classes."""
    model = _pretraining_model()
    torch.save(
        {
            "args": _trainer_arguments(),
            "model": _half_state(model),
            "optimizer_history": [
                {
                    "criterion_name": "SpanBertLoss",
                    "optimizer_name": "FP16Optimizer",
                    "lr_scheduler_state": {"best": None},
                    "num_updates": 50000,
                }
            ],
            "last_optimizer_state": {"state": {}, "param_groups": [], "loss_scale": 128.0},
            "extra_state": {
                "train_iterator": {"epoch": 1, "iterations_in_epoch": 50000},
                "val_loss": 2.5,
                "train_meters": collections.OrderedDict(train_loss=AverageMeter(2.5)),
            },
        },
        directory / "model.pt",
    )
    _write_dictionary(directory)
    inputs = _pretraining_inputs()
    np.savez_compressed(directory / "io.npz", **inputs, **_pretraining_outputs(model, inputs))


# --- A fine-tuned archive ------------------------------------------------------------------------


def _make_squad(family, case, directory):
    config = _original().fine_tuning.BertConfig(len(VOCABULARY), **_SIZES)
    model = _original().fine_tuning.BertForQuestionAnswering(config)
    randomize(model, random_generator("squad"))
    torch.save(model.state_dict(), directory / "pytorch_model.bin")
    write_json(directory / "config.json", json.loads(config.to_json_string()))
    _write_vocabulary(directory)

    inputs = random_inputs(SPANBERT, _CONFIG, random_generator("squad io"), (POSITIONS, 23))
    given = torch_inputs(inputs)
    with torch.no_grad():
        start_logits, end_logits = model.double().eval()(**given)
        port = _transformers_model(transformers.BertForQuestionAnswering, directory)(**given)
        _require_equal("start logits", port.start_logits, start_logits)
        _require_equal("end logits", port.end_logits, end_logits)
    outputs = {"start_logits": start_logits, "end_logits": end_logits}
    np.savez_compressed(directory / "io.npz", **inputs, **_as_float32(outputs))


# --- The cases -----------------------------------------------------------------------------------

SPANBERT.cases.update(
    {
        "encoder": Case(make=_make_encoder),
        "pretraining": Case(make=_make_pretraining),
        "pretraining_trainer": Case(make=_make_trainer_file),
        "squad": Case(make=_make_squad),
    }
)
