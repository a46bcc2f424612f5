"""RoFormer (Su et al. 2021, arXiv:2104.09864): BERT with the rotary positions that it introduced."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bert_zoo.config import ConfigError
from bert_zoo.families import roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.encoder_stack import StackConfig, backbone
from bert_zoo.family import HF, Checkpoint, Family, TextSpec
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.vocabulary_files import read_wordpiece
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import DENSE, LAST_REAL_TOKEN, Head, Row, stored_with

log = logging.getLogger("bert_zoo")

CHECKPOINTS = [
    Checkpoint(
        "roformer_chinese_base",
        {"vocab_size": 50_000},
        sources=[HF("junnyu/roformer_chinese_base")],
        provides=frozenset({"encoder", "masked_lm"}),
        # transformers counts 98,304 more, of a table of sines.
        params=123_457_536,
        licence="not declared (no licence was found)",
        paper="RoFormer: Enhanced Transformer with Rotary Position Embedding, arXiv:2104.09864",
        text=TextSpec(lowercase=True, max_length=1536),
        note=(
            "For Chinese. Its training split texts into words with jieba; here they are split into characters, so ids "
            "differ. Pass ids of transformers' RoFormerTokenizer for the same."
        ),
    )
]


@dataclass(frozen=True, kw_only=True)
class RoFormerConfig(StackConfig):
    """BERT's layers without a position table; `embedding_size` as in ALBERT."""


DEFAULTS = {"max_positions": 1536, "pooler": False}
HF_CODEC = replace(
    bert.HF_CODEC,
    rows=[
        *bert.HF_CODEC.rows,
        ConfigRow("embedding_size", optional=True, written="table_width"),
    ],
    ignored=frozenset(),
    # Positions in values, too, would need another order of their weights.
    fixed={"rotary_value": (False, None)},
    written={"rotary_value": False},
    defaults=DEFAULTS,
    config_class=RoFormerConfig,
)


def sinusoids(config: RoFormerConfig) -> Mapping[str, np.ndarray]:
    """transformers' frozen table of positions: sines, then cosines, [max_positions, width of a head]."""
    exponents = np.arange(0, config.width_of_head, 2) / config.width_of_head
    angles = np.arange(config.max_positions)[:, None] / np.power(10_000, exponents)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    return {"encoder.embed_positions.weight": table}


class WithTable(HuggingFace):
    """Files hold a table of sines, which must be the one that rotary positions are."""

    def inferred_fields(self, source, config, unsaid) -> dict[str, Any]:
        for name, ours in sinusoids(config).items():
            for key in (key for key in source if key.endswith(name)):
                if source.shape(key) != ours.shape or not np.allclose(source[key], ours, 0, 1e-3):
                    raise ConfigError(
                        f"{key} in {source.location} is not the table of {ours.shape[0]} positions of RoFormer, so the "
                        "model has other positions."
                    )
        return dict(super().inferred_fields(source, config, unsaid))


def rotating_pairs(config: StackConfig) -> np.ndarray:
    """`Stored.order` of queries, keys and values whose even numbers rotate with the odd ones beside them."""
    size = config.width_of_head
    within = np.arange(size).reshape(-1, 2).T.ravel()
    rotated = config.num_heads + config.num_key_heads
    heads = [within] * rotated + [np.arange(size)] * config.num_key_heads
    return np.concatenate([head + i * size for i, head in enumerate(heads)])


QKV = "stack/layer_{i}/attention/qkv"
LACKED = "embeddings/position_embedding pooler/dense"
ENCODER_ROWS = (
    *(
        Row(stored_with(DENSE, order=rotating_pairs), QKV, **row.names) if row.ours == QKV else row
        for row in bert.renamed(bert.ENCODER_ROWS, "hf", {}, lacks=LACKED)
    ),
    bert.projection_row("embeddings_project"),
)


def activated(config: RoFormerConfig) -> dict[str, Any]:
    return bert.with_layer(config, config.activation)


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads BERT's WordPiece; warns of a vocabulary with Chinese words, which are not looked for."""
    parts = read_wordpiece(files, options)
    words = [t for t in parts.arguments["vocabulary"] if len(t) > 1 and is_chinese(t)]
    if words:
        log.warning(
            "The vocabulary in %s has %d Chinese words, such as %r, which jieba found in the texts of its training. Here "
            "texts are split into characters, so ids differ from transformers' RoFormerTokenizer.",
            files.directory,
            len(words),
            words[0],
        )
    return parts


def is_chinese(token: str) -> bool:
    return all("\u4e00" <= character <= "\u9fff" for character in token)


CLASSES = bert.hf_classes("RoFormer")
FAMILY = Family(
    name="roformer",
    backbone=backbone,
    defaults={"vocab_size": 50_000, **DEFAULTS},
    formats={
        "hf": WithTable(
            model_type="roformer",
            codec=HF_CODEC,
            root="roformer.",
            classes=CLASSES,
            ignorable=(r"(^|\.)encoder\.embed_positions\.weight$",),
            buffers=sinusoids,
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads=bert.heads_of(
        CLASSES,
        **dict.fromkeys(bert.SENTENCE_TASKS, Head(roberta.CLASSIFIER_ROWS, output=activated)),
        multiple_choice=Head(
            (bert.CLASSIFIER,),
            summary=lambda config: LAST_REAL_TOKEN,
            output=bert.without_dropout,
        ),
    ),
    text=TextFormat(read_vocabulary, transformers_class="BertTokenizer"),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    config_class=RoFormerConfig,
)
