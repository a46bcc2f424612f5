"""RoBERTa checkpoints as fairseq saves them, made from those in transformers' format.

The names are those of the state_dict of fairseq's own RobertaModel at commits 9a1038f6 (2019) and
54423d3b (2021), in its order.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import golden_vocabularies as vocabularies
import numpy as np
import safetensors.torch
import torch
from golden_files import random_generator, write_lines

HEAD_NAME = "mnli"


@dataclasses.dataclass(frozen=True)
class Names:
    """What changed in fairseq's names over the years."""

    root: str
    embedding_norm: str
    fused_projections: bool
    has_version: bool  # a buffer that says how the encoder normalizes


RELEASE_2019 = Names("decoder.", "emb_layer_norm", fused_projections=True, has_version=False)
MAIN_2021 = Names("encoder.", "layernorm_embedding", fused_projections=False, has_version=True)

_PARTS = ("weight", "bias")
_ATTENTION = "attention.self."


def _layer(
    theirs: str, ours: str, state: dict[str, torch.Tensor], names: Names
) -> Iterator[tuple[str, torch.Tensor]]:
    if names.fused_projections:
        for part in _PARTS:
            projections = [
                state[f"{ours}{_ATTENTION}{n}.{part}"] for n in ("query", "key", "value")
            ]
            yield f"{theirs}self_attn.in_proj_{part}", torch.cat(projections)
    else:
        for short, name in (("k", "key"), ("v", "value"), ("q", "query")):
            for part in _PARTS:
                tensor = state[f"{ours}{_ATTENTION}{name}.{part}"]
                yield f"{theirs}self_attn.{short}_proj.{part}", tensor
    modules = (
        ("self_attn.out_proj", "attention.output.dense"),
        ("self_attn_layer_norm", "attention.output.LayerNorm"),
        ("fc1", "intermediate.dense"),
        ("fc2", "output.dense"),
        ("final_layer_norm", "output.LayerNorm"),
    )
    for their_module, our_module in modules:
        for part in _PARTS:
            yield f"{theirs}{their_module}.{part}", state[f"{ours}{our_module}.{part}"]


def _sentence_encoder(
    state: dict[str, torch.Tensor], num_layers: int, names: Names
) -> Iterator[tuple[str, torch.Tensor]]:
    theirs, ours = f"{names.root}sentence_encoder.", "roberta.embeddings."
    if names.has_version:
        yield f"{theirs}version", torch.tensor([3.0])
    yield f"{theirs}embed_tokens.weight", state[f"{ours}word_embeddings.weight"]
    yield f"{theirs}embed_positions.weight", state[f"{ours}position_embeddings.weight"]
    norm = [
        (f"{theirs}{names.embedding_norm}.{part}", state[f"{ours}LayerNorm.{part}"])
        for part in _PARTS
    ]
    bias = state.get("roberta.encoder.relative_attention_bias.weight")
    if bias is not None:
        yield f"{theirs}relative_attention_bias.weight", bias
    layers = [
        row
        for i in range(num_layers)
        for row in _layer(f"{theirs}layers.{i}.", f"roberta.encoder.layer.{i}.", state, names)
    ]
    yield from (layers + norm if names.fused_projections else norm + layers)


def _language_model_head(
    state: dict[str, torch.Tensor], names: Names
) -> Iterator[tuple[str, torch.Tensor]]:
    """The head; one of random values where the twin, a classifier, has none."""
    table = state["roberta.embeddings.word_embeddings.weight"]
    size = table.shape[1]
    shapes = {
        "bias": (len(table),),
        "dense.weight": (size, size),
        "dense.bias": (size,),
        "layer_norm.weight": (size,),
        "layer_norm.bias": (size,),
    }
    rng = random_generator("lm_head")
    yield f"{names.root}lm_head.weight", table
    for name, shape in shapes.items():
        drawn = torch.from_numpy(rng.normal(scale=0.25, size=shape).astype(np.float32))
        yield f"{names.root}lm_head.{name}", state.get(f"lm_head.{name}", drawn)


def _classification_head(state: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    for module in ("dense", "out_proj"):
        for part in _PARTS:
            if f"classifier.{module}.{part}" in state:
                theirs = f"classification_heads.{HEAD_NAME}.{module}.{part}"
                yield theirs, state[f"classifier.{module}.{part}"]


def _state_dict(
    state: dict[str, torch.Tensor], num_layers: int, names: Names
) -> collections.OrderedDict[str, torch.Tensor]:
    return collections.OrderedDict(
        (
            *_sentence_encoder(state, num_layers, names),
            *_language_model_head(state, names),
            *_classification_head(state),
        )
    )


# --- What lies beside the weights ----------------------------------------------------------------


def _arguments(config: dict) -> dict:
    """The arguments that fairseq's parser gives for RoBERTa's pretraining, with a tiny model."""
    return {
        "activation_dropout": 0.0,
        "activation_fn": config["hidden_act"],
        "adam_betas": "(0.9,0.98)",
        "adam_eps": 1e-06,
        "arch": "roberta_base",
        "attention_dropout": config["attention_probs_dropout_prob"],
        "best_checkpoint_metric": "loss",
        "bpe": None,
        "bucket_cap_mb": 25,
        "clip_norm": 0.0,
        "cpu": False,
        "criterion": "masked_lm",
        "curriculum": 0,
        "data": "data-bin/books",
        "dataset_impl": None,
        "ddp_backend": "c10d",
        "distributed_world_size": 1,
        "dropout": config["hidden_dropout_prob"],
        "encoder_attention_heads": config["num_attention_heads"],
        "encoder_embed_dim": config["hidden_size"],
        "encoder_ffn_embed_dim": config["intermediate_size"],
        "encoder_layers": config["num_hidden_layers"],
        "end_learning_rate": 0.0,
        "fp16": True,
        "fp16_scale_window": None,
        "freq_weighted_replacement": False,
        "leave_unmasked_prob": 0.1,
        "log_format": "json",
        "lr": [0.0006],
        "lr_scheduler": "polynomial_decay",
        "mask_prob": 0.15,
        "mask_whole_words": False,
        "max_epoch": 0,
        "max_positions": config["max_position_embeddings"] - config["pad_token_id"] - 1,
        "max_sentences": 16,
        "max_tokens": None,
        "max_update": 500000,
        "min_lr": -1,
        "no_save_optimizer_state": False,
        "num_workers": 2,
        "optimizer": "adam",
        "optimizer_overrides": "{}",
        "pooler_activation_fn": "tanh",
        "pooler_dropout": 0.0,
        "power": 1.0,
        "random_token_prob": 0.1,
        "sample_break_mode": "complete",
        "seed": 1,
        "task": "masked_lm",
        "tokens_per_sample": config["max_position_embeddings"] - config["pad_token_id"] - 1,
        "total_num_update": 500000,
        "train_subset": "train",
        "update_freq": [1],
        "warmup_updates": 24000,
        "weight_decay": 0.01,
    }


def _fine_tuning_arguments(config: dict) -> dict:
    return {
        "classification_head_name": HEAD_NAME,
        "criterion": "sentence_prediction",
        "data": "MNLI-bin",
        "num_classes": len(config["id2label"]),
        "pooler_dropout": config["classifier_dropout"],
        "regression_target": False,
        "task": "sentence_prediction",
    }


def _file(state_dict: dict[str, torch.Tensor], config: dict, more: Mapping) -> dict:
    arguments = _arguments(config) | dict(more)
    if config["architectures"] == ["RobertaForSequenceClassification"]:
        arguments |= _fine_tuning_arguments(config)
    return {
        "args": argparse.Namespace(**arguments),
        "model": state_dict,
        "optimizer_history": [
            {
                "criterion_name": "MaskedLmLoss",
                "optimizer_name": "FP16Optimizer",
                "lr_scheduler_state": {"best": None},
                "num_updates": 500000,
            }
        ],
        "extra_state": {
            "train_iterator": {"epoch": 1, "iterations_in_epoch": 0},
            "val_loss": 1.5,
        },
        "last_optimizer_state": None,
    }


def write_twin(
    twin: pathlib.Path,
    directory: pathlib.Path,
    names: Names,
    dtype: torch.dtype,
    zipped: bool,
    roberta_name: Callable[[str], str] = str,
    arguments: Mapping = MappingProxyType({}),
) -> None:
    """Writes model.pt with the weights of a twin, and io.npz with its inputs and outputs.

    Args:
        twin, directory: where it is, and where to write.
        names, dtype, zipped: of the file.
        roberta_name: from the twin's name of a weight to RoBERTa's.
        arguments: of the training, where they are not those of RoBERTa's pretraining.

    Raises:
        ValueError: If the twin's weights cannot be stored as `dtype` exactly.
    """
    config = json.loads((twin / "config.json").read_text())
    state = safetensors.torch.load_file(twin / "model.safetensors")
    stored = {name: tensor.to(dtype) for name, tensor in state.items()}
    inexact = [name for name in state if not stored[name].float().equal(state[name])]
    if inexact:
        raise ValueError(f"{dtype} does not hold these weights of {twin} exactly: {inexact}.")
    stored = {roberta_name(name): tensor for name, tensor in stored.items()}
    state_dict = _state_dict(stored, config["num_hidden_layers"], names)
    torch.save(
        _file(state_dict, config, arguments),
        directory / "model.pt",
        _use_new_zipfile_serialization=zipped,
    )
    arrays = np.load(twin / "io.npz")
    kept = {name: arrays[name] for name in ("token_ids", "padding_mask", "logits")}
    np.savez_compressed(directory / "io.npz", **kept)


def write_bpe_files(directory: pathlib.Path) -> None:
    """dict.txt, and GPT-2's files, through which fairseq turns text into the words of dict.txt.

    A word of dict.txt is GPT-2's number of a token; the words stand in the order of their counts.

    Raises:
        ValueError: If they do not lead to RoBERTa's vocabulary.
    """
    tokens, fillers = vocabularies.BPE_TOKENS, vocabularies.FILLERS
    numbers = random_generator("encoder.json").permutation(len(tokens)).tolist()
    encoder = dict(sorted(zip(tokens, numbers, strict=True), key=lambda item: item[1]))
    (directory / "encoder.json").write_text(json.dumps(encoder))
    write_lines(directory / "vocab.bpe", ("#version: 0.2", *vocabularies.BPE_MERGES))
    words = [*map(str, numbers), *fillers]
    counts = [*range(1000, 1000 - len(numbers), -1), *(0 for _ in fillers)]
    counted = (f"{word} {count}" for word, count in zip(words, counts, strict=True))
    write_lines(directory / "dict.txt", counted)

    token_of = {str(number): token for token, number in encoder.items()}
    special = vocabularies.FAIRSEQ_SPECIAL
    ids = (*special, *(token_of.get(word, word) for word in words), "<mask>")
    if ids != vocabularies.ROBERTA:
        raise ValueError(f"The files in {directory} stand for another vocabulary: {ids}.")
