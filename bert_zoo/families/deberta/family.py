"""DeBERTa (He et al. 2020, arXiv:2006.03654): attention by content and by distance apart."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bert_zoo.config import MOST_LAYERS, UNLIMITED, ConfigError, EncoderConfig, is_integer
from bert_zoo.error_text import shown
from bert_zoo.families.bert import family as bert
from bert_zoo.families.deberta.checkpoints import CHECKPOINTS
from bert_zoo.families.deberta.original import (
    BPE_ENCODER,
    Original,
    read_bpe_encoder,
    with_hugging_faces_keys,
)
from bert_zoo.families.deberta.presets import FIRST_PRETRAINING, PRESETS
from bert_zoo.family import Family
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.layout import Layout
from bert_zoo.text.vocabulary import special_tokens
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import BIAS, DENSE, EMBED, KERNEL, NORM, Copy, Head, Row, Stored


@dataclass(frozen=True, kw_only=True)
class DebertaConfig(EncoderConfig):
    """What fixes a DeBERTa of any version; the first has the defaults."""

    max_distance: int = -1  # longer distances count as this one; -1 stands for `max_positions`
    position_buckets: int = -1  # rows of distances in each direction; -1 stands for one a distance
    norm_positions: bool = False  # whether the table of distances has a layer norm
    shares_projections: bool = False  # whether tokens and distances are projected by one layer
    key_bias: bool = False  # whether keys have a bias
    conv_size: int = 0  # tokens that a convolution behind the first block sees; 0 for none
    conv_activation: str = "gelu"
    pooler_dropout: float = 0.0  # before the layer over the first token that classifiers have
    pooler_activation: str = "gelu"
    # Of the generator that `pretraining` trains beside a discriminator (version 3); 0: half of that's.
    generator_layers: int = 0
    relative_attention: bool = True  # whether there is a table of distances
    # The terms of attention that read it, a key of `POSITION_TERMS`.
    position_attention: str = "c2p|p2c"
    position_biased_input: bool = False  # whether embeddings add a table of absolute positions
    # What predicts masked tokens: "enhanced", the last block once more, given absolute positions (He et
    # al. 2020, section 3.2); or transformers' heads on the last hidden states, "direct" and "legacy".
    mask_decoder: str = "enhanced"

    def __post_init__(self):
        super().__post_init__()
        natural = {"conv_size": "no convolution", "generator_layers": "half of num_layers"}
        problems = self.problems_with(
            natural=natural,
            rates=("pooler_dropout",),
            flags=("relative_attention", "position_biased_input"),
        )
        choices = {"position_attention": POSITION_TERMS, "mask_decoder": MASK_DECODERS}
        for name, known in choices.items():
            if getattr(self, name) not in [*known]:
                value = shown(getattr(self, name))
                problems.append(f"{name} is {value}; choose one of {[*known]}.")
        if not problems and self.position_attention and not self.relative_attention:
            problems.append(
                f"position_attention is {self.position_attention!r}, which reads a table of distances; "
                "relative_attention says that there is none."
            )
        if not problems and self.position_biased_input and self.enhances_masks:
            problems.append(
                "position_biased_input adds absolute positions to the embeddings already; mask_decoder "
                "must be 'direct' or 'legacy' then."
            )
        for name in ("max_distance", "position_buckets"):
            value = getattr(self, name)
            if not is_integer(value) or (value != -1 and not 2 <= value <= UNLIMITED):
                problems.append(
                    f"{name} is {shown(value)}; it must lie between 2 and {UNLIMITED:,}, or be -1."
                )
        if is_integer(self.generator_layers) and self.generator_layers > MOST_LAYERS:
            problems.append(
                f"generator_layers is {shown(self.generator_layers)}; it must be at most "
                f"{MOST_LAYERS:,}."
            )
        known = set(HEAD_ACTIVATIONS.values())
        for name in ("conv_activation", "pooler_activation"):
            if getattr(self, name) not in known:
                problems.append(
                    f"{name} is {getattr(self, name)!r}; choose one of {sorted(known)}."
                )
        if not problems and self.conv_size and self.conv_size % 2 == 0:
            problems.append(f"conv_size is {self.conv_size}; it must be odd.")
        if problems:
            raise ConfigError(" ".join(problems))

    def rough_parameters(self) -> int:
        parameters = super().rough_parameters() + self.conv_size * self.hidden_size**2
        if not self.relative_attention:
            return parameters
        # A row for each distance or bucket in each direction, and the numbers of those rows, which are
        # worked out in arrays of up to eight bytes a distance.
        span = max(self.position_buckets, 0) or self.longest_distance
        return parameters + 2 * span * self.hidden_size + 8 * self.longest_distance

    @property
    def enhances_masks(self) -> bool:
        return self.mask_decoder == "enhanced"

    @property
    def longest_distance(self) -> int:
        return self.max_positions if self.max_distance == -1 else self.max_distance

    @property
    def generator(self) -> "DebertaConfig":
        """The generator's (microsoft/DeBERTa experiments/language_model/rtd_*.json)."""
        return self.replace(num_layers=self.generator_layers or max(1, self.num_layers // 2))


def backbone(config: DebertaConfig, dtype):
    """Token embeddings and a stack of blocks with disentangled attention."""
    from bert_zoo.families.deberta.attention import DisentangledAttention
    from bert_zoo.families.deberta.backbone import DisentangledBackbone
    from bert_zoo.families.deberta.stack import Convolution, DisentangledBlock, DisentangledStack
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


DEFAULTS = {"num_segments": 0, "pooler": False, "layer_norm_epsilon": 1e-7}
HEAD_ACTIVATIONS = {**ACTIVATIONS, "tanh": "tanh"}
# How a configuration spells the terms of attention that read distances -> those terms.
POSITION_TERMS = {"c2p|p2c": ("c2p", "p2c"), "c2p": ("c2p",), "p2c": ("p2c",), "": ()}
MASK_DECODERS = ("enhanced", "direct", "legacy")


def as_said(values: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json's content with what leaving a key out means, and without sizes said twice."""
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
    """What rows write, as transformers spells it."""
    terms = POSITION_TERMS[values["pos_att_type"]]
    # In the order of the released files, and null for none.
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
        ConfigRow("pooler_activation", "pooler_hidden_act", HEAD_ACTIVATIONS, optional=True),
    ],
    fixed={"talking_head": (False,)},
    ignored=frozenset({"padding_idx"}),
    defaults=DEFAULTS,
    config_class=DebertaConfig,
    prepare=as_said,
    finish=as_written,
)


def original(codec: ConfigCodec, **options: Any) -> Original:
    """The format of Microsoft's directories, by the codec of Hugging Face's."""
    return Original(
        codec=replace(
            codec,
            rows=[row for row in codec.rows if row.field != "position_biased_input"],
            # Its own decoder of masks takes positions that the embeddings have added for others.
            fixed={**codec.fixed, "position_biased_input": (False,)},
            prepare=lambda values: as_said(with_hugging_faces_keys(values)),
        ),
        **options,
    )


LM_HEAD = "lm_predictions.lm_head"


def decoder_of_masks(keys: Collection[str], config: DebertaConfig) -> dict[str, Any]:
    """What the names of tensors tell of the head for masked tokens.

    Microsoft's and transformers' of `legacy: false` have the same names, but Microsoft's has a table of
    positions that is not the embeddings', and is in files whose configuration says nothing of it.
    """

    def has(name: str) -> bool:
        return any(f".{name}." in f".{key}" for key in keys)

    if has("cls.predictions"):
        return {"mask_decoder": "legacy"}
    if has(LM_HEAD) and (config.position_biased_input or not has("embeddings.position_embeddings")):
        return {"mask_decoder": "direct", "tie_word_embeddings": True}
    return {}


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
    """Whether attention has a term of positions; with `own`, and projections of it."""
    return lambda config: (
        term in config.position_attention and not (own and config.shares_projections)
    )


@dataclass(frozen=True)
class PartOfHeads(Stored):
    """Of each head the rows of its query, key and value stand below each other."""

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
    """A kernel whose rows stand among those of the other two, head by head."""
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
SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="pooler.dense"), bert.CLASSIFIER),
    transform="pooler_activation",
    dropout_first="pooler_dropout",
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
        *(row.only(is_legacy) for row in bert.MASKED_LM_ROWS),
    ),
    copies={"hf": legacy_copies},
)
HEADS = {
    **bert.TASK_HEADS,
    "masked_lm": MASKED_LM,
    "token_classification": Head((bert.CLASSIFIER,), dropout="hidden_dropout"),
    **dict.fromkeys((*bert.SENTENCE_TASKS, "multiple_choice"), SENTENCE),
}
# Pattern of the characters that are words by themselves: marks and signs, but no part of another character.
ALONE = "[^\\w\ufffd]|_"
SPECIAL_TOKENS = special_tokens("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")
LAYOUT = Layout(segments=False)
SEGMENTED = Layout()


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """RoBERTa's way to read bytes, from Hugging Face's files or Microsoft's one."""
    has_own = files.has(BPE_ENCODER) and not files.has("vocab.json")
    return read_byte_bpe(files, options, read=read_bpe_encoder if has_own else None)


class Ported(HuggingFace):
    """Directories whose configuration does not say which head for masked tokens they have."""

    def told(self, source, config, unsaid) -> dict[str, Any]:
        return decoder_of_masks(source, config)

    def supports_in_head(self, task: str) -> Mapping[str, Any]:
        # Not "enhanced": its class of that name leaves the decoder out.
        decoder = lambda config: "legacy" if is_legacy(config) else "direct"  # noqa: E731
        return {"mask_decoder": decoder} if task == "masked_lm" else {}


FAMILY = Family(
    name="deberta",
    backbone=backbone,
    defaults={"vocab_size": 50265, **DEFAULTS},
    formats={
        "hf": Ported(
            model_type="deberta",
            codec=HF_CODEC,
            root="deberta.",
            classes={
                task: name
                for task, name in bert.hf_classes("Deberta").items()
                if task != "multiple_choice"  # for which transformers has no class
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
