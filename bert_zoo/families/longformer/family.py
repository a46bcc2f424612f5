"""Longformer (Beltagy et al. 2020, arXiv:2004.05150): RoBERTa with windowed attention and global tokens."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from bert_zoo.config import EncoderConfig, size
from bert_zoo.error_text import shown
from bert_zoo.families import albert, xlm_roberta
from bert_zoo.families.albert import AlbertConfig
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.family import ENCODER_ROWS as BERT_ROWS
from bert_zoo.families.bert.family import LAYER, projection_row
from bert_zoo.families.longformer.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.families.roberta import CLASSIFIER_ROWS, MASKED_LM_ROWS
from bert_zoo.families.roberta import DEFAULTS as ROBERTA_DEFAULTS
from bert_zoo.family import Family, Lengthening
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.numpy_packing import BERT, ROBERTA
from bert_zoo.text.vocabulary_files import read_byte_bpe, read_sentencepiece, read_wordpiece
from bert_zoo.weights.formats import Description, HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, Head, Row


@dataclass(frozen=True, kw_only=True)
class LongformerConfig(AlbertConfig):
    """A Longformer's configuration. One made from an ALBERT has narrow tables and layers that share blocks."""

    # Tokens that a token attends to besides itself, half on each side: for all layers, or one number per layer.
    attention_window: int | Sequence[int] = size(512)
    sep_id: int = size(2, least=0)  # id of the separators between the texts of a pair
    # Largest number of global tokens in a row.
    max_global_tokens: int = size(128)

    # Rows of more half windows than this are computed block by block.
    fewest_blocks: ClassVar[int] = 4
    # A window that models for shorter rows may have, too.
    wide_window: ClassVar[int] = 4096

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        windows, widest = self.windows, max(2 * self.longest_input, self.wide_window)
        if len(windows) != self.num_layers or any(w > widest or w % 2 for w in windows):
            yield (
                f"attention_window is {shown(self.attention_window)}; it must be an even number, from 2 to {widest:,}, "
                f"or one such number for each of the {self.num_layers} layers."
            )
        if self.num_blocks < self.num_layers and len({*windows}) > 1:
            yield (
                f"attention_window is {shown(self.attention_window)}, but layers share their blocks; give one number "
                "for all layers."
            )

    def with_layers(self, layers: Sequence[int]) -> Self:
        window = self.attention_window
        windows = tuple(window[i] for i in layers) if isinstance(window, tuple) else window
        return self.replace(num_layers=len(layers), attention_window=windows)

    @property
    def windows(self) -> tuple[int, ...]:
        """The window of each layer."""
        window = self.attention_window
        return window if isinstance(window, tuple) else (window,) * self.num_layers

    @property
    def reaches(self) -> tuple[int, ...]:
        """The largest distance between tokens that attend to each other, for each layer."""
        return tuple(window // 2 for window in self.windows)

    def attends_in_blocks(self, length: int | None, reach: int) -> bool:
        """Whether rows of `length` tokens are computed in blocks; None means an unknown length."""
        return length is None or length > self.fewest_blocks * reach


# -------------------------------------------------------------------------------------------------
# How Longformer's checkpoints are stored.
# -------------------------------------------------------------------------------------------------

DEFAULTS = {**ROBERTA_DEFAULTS, "sep_id": 2}
HF_CODEC = ConfigCodec(
    rows=[
        *bert.ROWS,
        *bert.HF_ROWS,
        ConfigRow("attention_window", optional=True),
        ConfigRow("sep_id", "sep_token_id", optional=True),
    ],
    fixed={
        "position_embedding_type": ("absolute",),
        "attention_mode": ("longformer",),
        "ignore_attention_mask": (False,),
    },
    ignored=frozenset({"onnx_export"}),
    written={"attention_mode": "longformer", "ignore_attention_mask": False},
    defaults=DEFAULTS,
    config_class=LongformerConfig,
)


class LongformerFiles(HuggingFace):
    """Directories of transformers, which supports neither narrow tables nor shared blocks."""

    def encode(self, config: LongformerConfig, description: Description) -> dict[str, Any]:
        if config.table_width != config.hidden_size or config.num_blocks < config.num_layers:
            raise ValueError(
                f"Hugging Face's Longformer has tables as wide as its layers, {config.hidden_size}, and "
                f"weights for each of them; this one has tables {config.table_width} wide and weights for "
                f"{config.num_blocks} of {config.num_layers} layers. Leave format (of export, layout) out."
            )
        return super().encode(config, description)


HF = LongformerFiles(
    model_type="longformer",
    codec=HF_CODEC,
    root="longformer.",
    classes=bert.hf_classes("Longformer"),
)


def with_whole_windows(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a config.json of the authors' program, with one-sided windows, to Hugging Face's keys."""
    values = {key: value for key, value in values.items() if key != "model_type"}
    windows = values.get("attention_window")
    if isinstance(windows, list):
        # The configuration reports values that are not numbers.
        values["attention_window"] = [2 * w if isinstance(w, int) else w for w in windows]
    if set(values.get("attention_dilation") or ()) == {1}:
        del values["attention_dilation"]
    return values


class OriginalLongformer(HuggingFace):
    """Directories of the authors' program, where the model is a RoBERTa with another attention. Source:
    allenai/longformer longformer/longformer.py, LongformerConfig.
    """

    takes_precedence = True  # because the files may name no model type, or RoBERTa's

    def is_of_family(self, values: JsonObject) -> bool:
        return "attention_dilation" in values


ORIGINAL = OriginalLongformer(
    model_type="longformer",
    codec=replace(
        HF_CODEC,
        fixed={
            "position_embedding_type": ("absolute",),
            # Two implementations of the same windows. "n2" and "sliding_chunks_no_overlap" compute something else.
            "attention_mode": ("tvm", "sliding_chunks"),
            "attention_dilation": (None,),
            "autoregressive": (False,),
        },
        prepare=with_whole_windows,
    ),
    root="roberta.",
)

SELF = f"{LAYER}attention.self."
ENCODER_ROWS = (
    *BERT_ROWS,
    projection_row("embeddings_project"),
    Row(DENSE, "stack/layer_{i}/attention/query_global", hf=f"{SELF}query_global"),
    Row(
        DENSE,
        "stack/layer_{i}/attention/key_value_global",
        hf=(f"{SELF}key_global", f"{SELF}value_global"),
    ),
)


# -------------------------------------------------------------------------------------------------
# Makes Longformers from shorter encoders, as the released ones were made from RoBERTa.
#
# Source: Beltagy et al. 2020 (arXiv:2004.05150), section 5; allenai/longformer
# scripts/convert_model_to_long.ipynb.
# -------------------------------------------------------------------------------------------------

# Families with BERT's layers and a vocabulary that `read_vocabulary` reads.
LENGTHENED = ("bert", "roberta", "albert", "electra", "spanbert", "xlm_roberta")
POSITIONS = "encoder/embeddings/position_embedding/embeddings"


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads RoBERTa's vocabulary, or that of the family that a model was made from."""
    for page in (albert, xlm_roberta):
        scheme = page.SCHEME
        if files.has(scheme.model_file):
            return read_sentencepiece(files, {"scheme": scheme, **options})
    kind = files.json("tokenizer.json").section("model").take("type", str)
    is_wordpiece = files.has("vocab.txt") or kind == "WordPiece"
    return (read_wordpiece if is_wordpiece else read_byte_bpe)(files, options)


def lengthened_config(
    shorter: EncoderConfig, max_length: int, window: int, sep_id: int
) -> LongformerConfig:
    """Returns the configuration of a Longformer with the same layers and RoBERTa's positions."""
    known = {field.name for field in fields(LongformerConfig)}
    same = {name: value for name, value in shorter.to_dict().items() if name in known}
    longer = {
        "positions_after_padding": True,
        "max_positions": shorter.pad_id + 1 + max_length,
        "attention_window": window,
        "sep_id": sep_id,
    }
    return LongformerConfig(**{**same, **longer})


def lengthened_weights(
    shorter: EncoderConfig,
    longer: LongformerConfig,
    values: Mapping[str, np.ndarray],
    paths: Collection[str],
) -> dict[str, np.ndarray]:
    """Makes a Longformer's weights from a shorter model's, by their paths in a task model."""
    found = dict(values)
    table, first = values[POSITIONS], longer.position_offset
    # Rows before the first position are unused.
    before = np.resize(table[: shorter.position_offset], (first, table.shape[1]))
    after = table[shorter.position_offset :]
    found[POSITIONS] = np.concatenate(
        [before, np.resize(after, (longer.longest_input, len(table[0])))]
    )
    for i in range(longer.num_blocks):
        block = f"encoder/stack/layer_{i}/attention"
        for part in ("kernel", "bias"):
            local = values[f"{block}/qkv/{part}"]
            parts = np.split(local, [longer.hidden_size], axis=-1)
            for name, value in zip(("query_global", "key_value_global"), parts, strict=True):
                found[f"{block}/{name}/{part}"] = value
    if "classifier/transform/kernel" in paths:
        # BERT's classifiers read the pooler; in RoBERTa's, that layer is part of the classifier.
        for part in ("kernel", "bias"):
            pooled = found.pop(f"encoder/pooler/dense/{part}", None)
            found.setdefault(f"classifier/transform/{part}", pooled)
    return found


def backbone(config: LongformerConfig, dtype):
    """RoBERTa's embeddings and BERT's blocks with windowed attention; each layer has its own window."""
    from bert_zoo.families.longformer.layers import LongformerAttention, LongformerBackbone
    from bert_zoo.layers import Embeddings, Pooler, Stack

    hidden_size = config.hidden_size
    options = {"initializer_range": config.initializer_range, "dtype": dtype}

    def attention(i: int, **options) -> LongformerAttention:
        return LongformerAttention(
            config.num_heads,
            hidden_size,
            reach=config.reaches[i],
            dropout=config.attention_dropout,
            **options,
        )

    return LongformerBackbone(
        config,
        embeddings=Embeddings(**bert.embedding_options(config, dtype)),
        stack=Stack(
            bert.blocks(config, dtype, attention=attention),
            hidden_size,
            blocks_of_layers=config.blocks_of_layers,
            dtype=dtype,
            name="stack",
        ),
        pooler=Pooler(hidden_size, name="pooler", **options) if config.pooler else None,
        dtype=dtype,
    )


FAMILY = Family(
    name="longformer",
    backbone=backbone,
    defaults={
        "vocab_size": 50265,
        "max_positions": 4098,
        "num_segments": 1,
        "layer_norm_epsilon": 1e-5,
        **DEFAULTS,
    },
    formats={"hf": HF, "allenai": ORIGINAL},
    encoder_rows=ENCODER_ROWS,
    heads={
        **bert.TASK_HEADS,
        "masked_lm": Head(
            MASKED_LM_ROWS, copies=bert.masked_lm_copies("lm_head"), activation="gelu"
        ),
        **dict.fromkeys(bert.SENTENCE_TASKS, Head(CLASSIFIER_ROWS, output=bert.with_layer)),
    },
    text=TextFormat(read_vocabulary, layout=ROBERTA, segmented=BERT),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
    config_class=LongformerConfig,
    settings=("max_global_tokens",),
    lengthening=Lengthening(
        "window", LENGTHENED, config=lengthened_config, weights=lengthened_weights
    ),
)
