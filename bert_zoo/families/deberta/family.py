"""DeBERTa (He et al. 2020, arXiv:2006.03654): disentangled attention by content and by distance."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_zoo.config import MOST_LAYERS, EncoderConfig, activation_name, rate, size
from bert_zoo.error_text import shown
from bert_zoo.families.bert import family as bert
from bert_zoo.families.deberta.cards import CHECKPOINTS, FIRST_PRETRAINING, PRESETS
from bert_zoo.family import Family
from bert_zoo.fields import setting
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.text.files import VocabularyFiles, special_tokens
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.vocabulary_files import read_byte_bpe
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import BIAS, DENSE, EMBED, KERNEL, NORM, Copy, Head, Row, Stored

DEFAULTS = {"num_segments": 0, "pooler": False, "layer_norm_epsilon": 1e-7}
# A configuration's name for the position terms of attention -> those terms.
POSITION_TERMS = {"c2p|p2c": ("c2p", "p2c"), "c2p": ("c2p",), "p2c": ("p2c",), "": ()}
MASK_DECODERS = ("enhanced", "direct", "legacy")

# Largest distance allowed: a table holds the bucket of each distance, and no parameter count limits it.
MOST_DISTANCES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class DebertaConfig(EncoderConfig):
    """The configuration of a DeBERTa of any version. The defaults are version 1's."""

    # Longer distances count as this one.
    max_distance: int = size(-1, least=2, special=(-1, "max_positions"))
    # Buckets of distances in each direction.
    position_buckets: int = size(-1, least=2, special=(-1, "one per distance"))
    norm_positions: bool = False  # whether the table of distances has a layer norm
    shares_projections: bool = False  # whether one layer projects both tokens and distances
    key_bias: bool = False  # whether keys have a bias
    # Width of the convolution after the first block.
    conv_size: int = size(0, special=(0, "no convolution"))
    conv_activation: str = activation_name("gelu")
    pooler_dropout: float = rate(0.0)  # rate before a classifier's layer over the first token
    pooler_activation: str = activation_name("gelu")
    # Layers of the generator in `pretraining` (version 3).
    generator_layers: int = size(0, most=MOST_LAYERS, special=(0, "half of num_layers"))
    relative_attention: bool = True  # whether there is a table of distances
    # The terms of attention that read that table: a key of `POSITION_TERMS`.
    position_attention: str = setting("c2p|p2c", choices=POSITION_TERMS)
    position_biased_input: bool = False  # whether embeddings add a table of absolute positions
    # The masked-token head: "enhanced" runs the last block again with absolute positions (He et al. 2020,
    # section 3.2); "direct" and "legacy" are transformers' heads on the last hidden states.
    mask_decoder: str = setting("enhanced", choices=MASK_DECODERS)

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.position_attention and not self.relative_attention:
            yield (
                f"position_attention is {self.position_attention!r}, which reads a table of distances; "
                "relative_attention says that there is none."
            )
        if self.position_biased_input and self.enhances_masks:
            yield (
                "position_biased_input adds absolute positions to the embeddings already; mask_decoder "
                "must be 'direct' or 'legacy' then."
            )
        if self.longest_distance > MOST_DISTANCES:
            name = "max_positions" if self.max_distance == -1 else "max_distance"
            yield f"{name} is {self.longest_distance}; distances must be at most {MOST_DISTANCES:,}."
        if self.conv_size and self.conv_size % 2 == 0:
            yield f"conv_size is {self.conv_size}; it must be odd."

    @property
    def enhances_masks(self) -> bool:
        return self.mask_decoder == "enhanced"

    @property
    def longest_distance(self) -> int:
        return self.max_positions if self.max_distance == -1 else self.max_distance

    @property
    def generator(self) -> "DebertaConfig":
        """The generator's configuration (microsoft/DeBERTa experiments/language_model/rtd_*.json)."""
        return self.replace(num_layers=self.generator_layers or max(1, self.num_layers // 2))


def as_said(values: Mapping[str, Any]) -> dict[str, Any]:
    """Completes a config.json with the meaning of missing keys, and removes repeated sizes."""
    values = {"relative_attention": False, "position_biased_input": True, **values}
    terms = values.get("pos_att_type") or ()
    if isinstance(terms, str):
        terms = terms.lower().split("|")
    if isinstance(terms, list | tuple) and all(isinstance(term, str) for term in terms):
        values["pos_att_type"] = "|".join(sorted(term.strip() for term in terms))
    legacy = values.pop("legacy", True)
    if values["position_biased_input"] is True:
        values["legacy"] = "legacy" if legacy else "direct"
    hidden_size = values.get("hidden_size")
    if values.get("pooler_hidden_size") == hidden_size:
        values.pop("pooler_hidden_size", None)
    heads, head_size = values.get("num_attention_heads"), values.get("attention_head_size")
    if isinstance(heads, int) and isinstance(head_size, int) and heads * head_size == hidden_size:
        del values["attention_head_size"]
    for key in ("max_relative_positions", "position_buckets"):
        if values.get(key) == 0:
            values[key] = -1
    return values


def as_written(values: Mapping[str, Any]) -> dict[str, Any]:
    """Spells the written values as transformers does."""
    terms = POSITION_TERMS[values["pos_att_type"]]
    # In the order of the released files; null for no term.
    changed = {"pos_att_type": [*reversed(terms)] or None, "legacy": values["legacy"] == "legacy"}
    return {**values, **changed}


HF_CODEC = ConfigCodec(
    rows=[
        *bert.ROWS,
        *bert.HF_ROWS,
        ConfigRow("relative_attention"),
        ConfigRow("position_attention", "pos_att_type"),
        ConfigRow("position_biased_input"),
        ConfigRow("mask_decoder", "legacy", optional=True),
        ConfigRow("max_distance", "max_relative_positions", optional=True),
        ConfigRow("classifier_dropout", "cls_dropout", optional=True),
        ConfigRow("pooler_dropout", optional=True),
        ConfigRow("pooler_activation", "pooler_hidden_act", ACTIVATIONS, optional=True),
    ],
    fixed={"talking_head": (False,)},
    ignored=frozenset({"padding_idx"}),
    defaults=DEFAULTS,
    config_class=DebertaConfig,
    prepare=as_said,
    finish=as_written,
)


# -------------------------------------------------------------------------------------------------
# Files of Microsoft's program for DeBERTa: model_config.json and bpe_encoder.bin (microsoft/DeBERTa).
#
# The weights have Hugging Face's names. If today's program fine-tuned a model of version 1, they have version 2's,
# because it splits the fused projections and adds a bias to keys.
# -------------------------------------------------------------------------------------------------

PROJECTIONS_APART = "projections_apart"
BPE_ENCODER = "bpe_encoder.bin"
_ADVICE = (
    "bert_zoo reads only the tables of Microsoft's vocabulary from this file. You can use vocab.json and "
    "merges.txt of the model's Hugging Face repository instead."
)


@dataclass(frozen=True, kw_only=True)
class OriginalDeberta(HuggingFace):
    """A model_config.json with tensors of Hugging Face's names, which show the version."""

    name: ClassVar[str] = "microsoft"
    family_key: ClassVar[str] = ""

    config_file: str = "model_config.json"
    root: str | None = None
    # Whether queries, keys and values have separate projections, as since version 2.
    projections_apart: bool = False

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        from bert_zoo.weights.sources import open_weights

        apart = any("self.query_proj." in key for key in open_weights(path.parent))
        return JsonObject({**read_object(path), PROJECTIONS_APART: apart}, path)

    def is_of_family(self, values: JsonObject) -> bool:
        return values[PROJECTIONS_APART] == self.projections_apart


def with_hugging_faces_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """A model_config.json without the keys that depend on the version, and with the pooler's settings renamed."""
    stated = {key: v for key, v in values.items() if key not in (PROJECTIONS_APART, "model_type")}
    pooling = stated.pop("pooling", None)
    if not isinstance(pooling, Mapping):
        return stated if pooling is None else {**stated, "pooling": pooling}
    names = {"hidden_act": "pooler_hidden_act"}
    return stated | {names.get(key, f"pooler_{key}"): value for key, value in pooling.items()}


def read_bpe_encoder(files: VocabularyFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """The tokens in the order of their ids, and the merges."""
    from bert_zoo.weights import torch_bin

    path = files.path(BPE_ENCODER)
    found = torch_bin.read_object(path, {}, _ADVICE)
    encoder, merges, words = (
        found.get(key) if type(found) is dict else None for key in ("encoder", "vocab", "dict_map")
    )
    is_encoder = type(encoder) is dict and all(type(index) is int for index in encoder.values())
    if not (is_encoder and _are_pairs(merges, str, str) and _are_pairs(words, str, int)):
        raise WeightsError(
            f"{path} holds {shown(found, 200)}; it must be a dict of `encoder`, GPT-2's ids by token, "
            f"`vocab`, a list of merges, and `dict_map`, a list of ids and their counts. {_ADVICE}"
        )
    tokens = {str(index): token for token, index in encoder.items()}
    texts = [tokens.get(word, word) for word, _ in words]
    return ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *texts, "[MASK]"], [tuple(pair) for pair in merges]


def _are_pairs(items: Any, *kinds: type) -> bool:
    return type(items) is list and all(
        type(item) in (list, tuple) and tuple(map(type, item)) == kinds for item in items
    )


# -------------------------------------------------------------------------------------------------
# How DeBERTa's checkpoints are stored.
# -------------------------------------------------------------------------------------------------


def original(codec: ConfigCodec, **options: Any) -> OriginalDeberta:
    """The format of Microsoft's directories, made from Hugging Face's codec."""
    return OriginalDeberta(
        codec=replace(
            codec,
            rows=[row for row in codec.rows if row.field != "position_biased_input"],
            # Its mask decoder adds the positions that other models add in the embeddings.
            fixed={**codec.fixed, "position_biased_input": (False,)},
            prepare=lambda values: as_said(with_hugging_faces_keys(values)),
        ),
        **options,
    )


def decoder_of_masks(keys: Collection[str], config: DebertaConfig) -> dict[str, Any]:
    """The kind of the masked-token head, from the names of tensors. Microsoft's head and transformers' with `legacy:
    false` have the same names. Microsoft's has its own table of positions, which its configuration does not mention.
    """

    def has(name: str) -> bool:
        return any(f".{name}." in f".{key}" for key in keys)

    if has("cls.predictions"):
        return {"mask_decoder": "legacy"}
    if has(LM_HEAD) and (config.position_biased_input or not has("embeddings.position_embeddings")):
        return {"mask_decoder": "direct", "tie_word_embeddings": True}
    return {}


class PortedDeberta(HuggingFace):
    """Directories whose configuration does not name their masked-token head."""

    def inferred_fields(self, source, config, unsaid) -> dict[str, Any]:
        return decoder_of_masks(source, config)


# Not "enhanced": transformers' class for it omits the decoder.
SUPPORTS_IN_HEAD = {
    "masked_lm": {"mask_decoder": lambda config: "legacy" if is_legacy(config) else "direct"}
}


# -------------------------------------------------------------------------------------------------
# DeBERTa's weight rows and heads.
# -------------------------------------------------------------------------------------------------

LM_HEAD = "lm_predictions.lm_head"

SELF = f"{bert.LAYER}attention.self."
SHARED_ROWS = (
    *bert.renamed(
        bert.ENCODER_ROWS,
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
    return bert.with_layer(config, config.pooler_activation, config.pooler_dropout)


SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="pooler.dense"), bert.CLASSIFIER),
    output=after_pooler,
)


def is_legacy(config: DebertaConfig) -> bool:
    return config.mask_decoder == "legacy"


def legacy_copies(config: DebertaConfig) -> tuple[Copy, ...]:
    return bert.MASKED_LM_COPIES["hf"](config) if is_legacy(config) else ()


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
                path,
                hf=f"{LM_HEAD}.{name}",
                when=lambda config: not is_legacy(config),
            )
            for kind, path, name in (
                (DENSE, "masked_lm/transform", "dense"),
                (NORM, "masked_lm/norm", "LayerNorm"),
                (BIAS, "masked_lm", "bias"),
            )
        ),
        *(row.only(is_legacy) for row in bert.MASKED_LM_ROWS),
    ),
    copies={"hf": legacy_copies},
)
HEADS = {
    **bert.TASK_HEADS,
    "masked_lm": MASKED_LM,
    "token_classification": Head((bert.CLASSIFIER,), output=bert.hidden_dropout),
    **dict.fromkeys((*bert.SENTENCE_TASKS, "multiple_choice"), SENTENCE),
}

# Characters that are words by themselves: punctuation and symbols, but not U+FFFD, which is a part of a character.
ALONE = "[^\\w\ufffd]|_"
SPECIAL_TOKENS = special_tokens("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")
LAYOUT = Layout(segments=False)
SEGMENTED = Layout()


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads RoBERTa's byte-level BPE from Hugging Face's files or Microsoft's single file."""
    has_own = files.has(BPE_ENCODER) and not files.has("vocab.json")
    return read_byte_bpe(files, options, read=read_bpe_encoder if has_own else None)


def backbone(config: DebertaConfig, dtype):
    """Token embeddings and a stack of blocks with disentangled attention."""
    from bert_zoo.families.deberta.layers import (
        Convolution,
        DisentangledAttention,
        DisentangledBackbone,
        DisentangledBlock,
        DisentangledStack,
    )
    from bert_zoo.layers import FeedForward, TokenEmbeddings

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    hidden_size, epsilon = config.hidden_size, config.layer_norm_epsilon
    normed = {"epsilon": epsilon, "dropout": config.hidden_dropout}

    def block(i: int) -> DisentangledBlock:
        attention = DisentangledAttention(
            config.num_heads,
            hidden_size,
            dropout=config.attention_dropout,
            position_dropout=config.hidden_dropout,
            terms=POSITION_TERMS[config.position_attention],
            shares_projections=config.shares_projections,
            key_bias=config.key_bias,
            name="attention",
            **options,
        )
        feed_forward = FeedForward(
            config.intermediate_size,
            hidden_size,
            activation=config.activation,
            name="feed_forward",
            **options,
        )
        return DisentangledBlock(attention, feed_forward, dtype=dtype, name=f"layer_{i}", **normed)

    convolution = None
    if config.conv_size:
        convolution = Convolution(
            hidden_size,
            config.conv_size,
            activation=config.conv_activation,
            name="convolution",
            **normed,
            **options,
        )
    return DisentangledBackbone(
        config,
        embeddings=TokenEmbeddings(
            config.vocab_size,
            hidden_size,
            max_positions=config.max_positions if config.position_biased_input else 0,
            longest_input=config.max_positions if config.position_biased_input else None,
            num_segments=config.num_segments,
            name="embeddings",
            **normed,
            **options,
        ),
        stack=DisentangledStack(
            [block(i) for i in range(config.num_blocks)],
            hidden_size,
            max_distance=config.longest_distance if config.relative_attention else None,
            buckets=max(config.position_buckets, 0),
            epsilon=epsilon if config.norm_positions else None,
            convolution=convolution,
            name="stack",
            **options,
        ),
        dtype=dtype,
    )


FAMILY = Family(
    name="deberta",
    backbone=backbone,
    defaults={"vocab_size": 50265, **DEFAULTS},
    formats={
        "hf": PortedDeberta(
            supports_in_head=SUPPORTS_IN_HEAD,
            model_type="deberta",
            codec=HF_CODEC,
            root="deberta.",
            classes={
                task: name
                for task, name in bert.hf_classes("Deberta").items()
                if task != "multiple_choice"  # transformers has no class for it
            },
        ),
        "microsoft": original(HF_CODEC),
    },
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    text=TextFormat(
        read_vocabulary,
        {**SPECIAL_TOKENS, "lstrip_mask": True, "begins_word": f" .*|{ALONE}"},
        LAYOUT,
        segmented=SEGMENTED,
    ),
    checkpoints=CHECKPOINTS,
    pretraining="windowed_ngrams",
    config_class=DebertaConfig,
    presets=PRESETS,
    pretraining_preset=FIRST_PRETRAINING,
)
