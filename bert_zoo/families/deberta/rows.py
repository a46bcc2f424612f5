"""DeBERTa's weight rows and heads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.deberta.config import (
    DebertaConfig,
)
from bert_zoo.weights.table import BIAS, DENSE, EMBED, KERNEL, NORM, Copy, Head, Row, Stored

LM_HEAD = "lm_predictions.lm_head"


SELF = f"{bert_rows.LAYER}attention.self."
SHARED_ROWS = (
    *bert_rows.renamed(
        bert_rows.ENCODER_ROWS,
        "hf",
        {},
        lacks="embeddings/position_embedding embeddings/segment_embedding "
        "stack/layer_{i}/attention/qkv pooler/dense",
    ),
    Row(
        EMBED,
        "embeddings/position_embedding",
        hf="embeddings.position_embeddings",
        when=lambda config: config.position_biased_input,
    ),
    Row(
        EMBED,
        "embeddings/segment_embedding",
        hf="embeddings.token_type_embeddings",
        when=lambda config: config.num_segments,
    ),
    Row(
        EMBED,
        "stack/position_embedding",
        hf="encoder.rel_embeddings",
        when=lambda config: config.relative_attention,
    ),
)


def reads(term: str, own: bool = False) -> Callable[[DebertaConfig], bool]:
    """Whether attention has a position term; with `own`, whether it also has its own projection."""
    return lambda config: (
        term in config.position_attention and not (own and config.shares_projections)
    )


@dataclass(frozen=True)
class PartOfHeads(Stored):
    """A stored kernel with the rows of query, key and value interleaved head by head."""

    number: int = 0  # 0, 1 or 2

    def entry(self, block: int, blocks: int) -> tuple[int, int]:
        return self.number, 3

    def joint_shape(self, entry, entries, config):
        return (entries * entry[0], *entry[1:])

    def entry_of(self, tensor, number, entries, config):
        by_head = tensor.reshape(config.num_heads, entries, -1, *tensor.shape[1:])
        return by_head[:, number].reshape(-1, *tensor.shape[1:])

    def joined(self, entries, config):
        by_head = [entry.reshape(config.num_heads, -1, *entry.shape[1:]) for entry in entries]
        return np.concatenate(by_head, axis=1).reshape(-1, *entries[0].shape[1:])


def part_of_heads(number: int):
    """The kernel of query (0), key (1) or value (2) in such an interleaved tensor."""
    return {"kernel": {"pytorch": PartOfHeads(".weight", transposed=True, number=number)}}


ENCODER_ROWS = (
    *SHARED_ROWS,
    *(
        Row(part_of_heads(number), f"stack/layer_{{i}}/attention/{name}", hf=f"{SELF}in_proj")
        for number, name in enumerate(("query", "key", "value"))
    ),
    Row(BIAS, "stack/layer_{i}/attention/query", hf=f"{SELF}q_bias"),
    Row(BIAS, "stack/layer_{i}/attention/value", hf=f"{SELF}v_bias"),
    Row(KERNEL, "stack/layer_{i}/attention/position_key", hf=f"{SELF}pos_proj", when=reads("c2p")),
    Row(
        DENSE, "stack/layer_{i}/attention/position_query", hf=f"{SELF}pos_q_proj", when=reads("p2c")
    ),
)


def after_pooler(config: DebertaConfig) -> dict[str, Any]:
    return bert_rows.with_layer(config, config.pooler_activation, config.pooler_dropout)


SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="pooler.dense"), bert_rows.CLASSIFIER),
    output=after_pooler,
)


def is_legacy(config: DebertaConfig) -> bool:
    return config.mask_decoder == "legacy"


def legacy_copies(config: DebertaConfig) -> tuple[Copy, ...]:
    return bert_rows.MASKED_LM_COPIES["hf"](config) if is_legacy(config) else ()


MASKED_LM = Head(
    (
        Row(
            EMBED,
            "masked_lm/position_embedding",
            hf="deberta.embeddings.position_embeddings",
            when=lambda config: config.enhances_masks,
        ),
        *(
            Row(
                kind,
                ours,
                hf=f"{LM_HEAD}.{name}",
                when=lambda config: not is_legacy(config),
            )
            for kind, ours, name in (
                (DENSE, "masked_lm/transform", "dense"),
                (NORM, "masked_lm/norm", "LayerNorm"),
                (BIAS, "masked_lm", "bias"),
            )
        ),
        *(row.only(is_legacy) for row in bert_rows.MASKED_LM_ROWS),
    ),
    copies={"hf": legacy_copies},
)
HEADS = {
    **bert_rows.TASK_HEADS,
    "masked_lm": MASKED_LM,
    "token_classification": Head((bert_rows.CLASSIFIER,), output=bert_rows.hidden_dropout),
    **dict.fromkeys((*bert_rows.SENTENCE_TASKS, "multiple_choice"), SENTENCE),
}
