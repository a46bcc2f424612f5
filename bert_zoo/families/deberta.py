"""DeBERTa (He et al. 2020, arXiv:2006.03654): attention by content and by distance apart."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bert_zoo.config import ConfigError, EncoderConfig, is_integer
from bert_zoo.error_text import shown
from bert_zoo.families import bert
from bert_zoo.families.deberta_checkpoints import CHECKPOINTS
from bert_zoo.families.deberta_original import (
    BPE_ENCODER,
    Original,
    read_bpe_encoder,
    with_hugging_faces_keys,
)
from bert_zoo.families.deberta_presets import FIRST_PRETRAINING, PRESETS
from bert_zoo.registry import Family
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.layout import Layout
from bert_zoo.text.vocabulary import special_tokens
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import BIAS, DENSE, EMBED, KERNEL, NORM, Head, Row, Stored


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

    def __post_init__(self):
        super().__post_init__()
        natural = {"conv_size": "no convolution", "generator_layers": "half of num_layers"}
        problems = self.problems_with(natural=natural, rates=("pooler_dropout",))
        for name in ("max_distance", "position_buckets"):
            value = getattr(self, name)
            if not is_integer(value) or (value != -1 and value < 2):
                problems.append(f"{name} is {shown(value)}; it must be at least 2, or -1.")
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

    @property
    def longest_distance(self) -> int:
        return self.max_positions if self.max_distance == -1 else self.max_distance

    @property
    def generator(self) -> "DebertaConfig":
        """The generator's (microsoft/DeBERTa experiments/language_model/rtd_*.json)."""
        return self.replace(num_layers=self.generator_layers or max(1, self.num_layers // 2))


def backbone(config: DebertaConfig, dtype):
    """Token embeddings and a stack of blocks with disentangled attention."""
    from bert_zoo import layers

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    hidden_size, epsilon = config.hidden_size, config.layer_norm_epsilon
    normed = {"epsilon": epsilon, "dropout": config.hidden_dropout}

    def block(i: int) -> layers.DisentangledBlock:
        attention = layers.DisentangledAttention(
            config.num_heads,
            hidden_size,
            dropout=config.attention_dropout,
            position_dropout=config.hidden_dropout,
            shares_projections=config.shares_projections,
            key_bias=config.key_bias,
            name="attention",
            **options,
        )
        feed_forward = layers.FeedForward(
            config.intermediate_size,
            hidden_size,
            activation=config.activation,
            name="feed_forward",
            **options,
        )
        return layers.DisentangledBlock(
            attention, feed_forward, dtype=dtype, name=f"layer_{i}", **normed
        )

    convolution = None
    if config.conv_size:
        convolution = layers.Convolution(
            hidden_size,
            config.conv_size,
            activation=config.conv_activation,
            name="convolution",
            **normed,
            **options,
        )
    return layers.DisentangledBackbone(
        config,
        embeddings=layers.TokenEmbeddings(
            config.vocab_size, hidden_size, name="embeddings", **normed, **options
        ),
        stack=layers.DisentangledStack(
            [block(i) for i in range(config.num_blocks)],
            hidden_size,
            max_distance=config.longest_distance,
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
DISENTANGLED = ("c2p|p2c", "p2c|c2p", ["c2p", "p2c"], ["p2c", "c2p"])


def as_said(values: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json's content with what leaving a key out means, and without sizes said twice."""
    values = {"relative_attention": False, "position_biased_input": True, **values}
    values.setdefault("pos_att_type", None)
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


HF_CODEC = ConfigCodec(
    rows=[
        *(row for row in bert.ROWS if row.field != "num_segments"),
        *bert.HF_ROWS,
        ConfigRow("max_distance", "max_relative_positions", optional=True),
        ConfigRow("classifier_dropout", "cls_dropout", optional=True),
        ConfigRow("pooler_dropout", optional=True),
        ConfigRow("pooler_activation", "pooler_hidden_act", HEAD_ACTIVATIONS, optional=True),
    ],
    fixed={
        "relative_attention": (True,),
        "position_biased_input": (False,),
        "pos_att_type": DISENTANGLED,
        "type_vocab_size": (0,),
        "talking_head": (False,),
    },
    # transformers' own head for masked tokens is another one, and is not read.
    ignored=frozenset({"legacy", "padding_idx"}),
    written={
        "relative_attention": True,
        "position_biased_input": False,
        "pos_att_type": ["p2c", "c2p"],
        "type_vocab_size": 0,
        "legacy": False,
    },
    defaults=DEFAULTS,
    config_class=DebertaConfig,
    prepare=as_said,
)


def original(codec: ConfigCodec, **options: Any) -> Original:
    """The format of Microsoft's directories, by the codec of Hugging Face's."""
    return Original(
        codec=replace(codec, prepare=lambda values: as_said(with_hugging_faces_keys(values))),
        **options,
    )


SELF = f"{bert.LAYER}attention.self."
SHARED_ROWS = (
    *bert.renamed(
        bert.ENCODER_ROWS,
        "hf",
        {},
        lacks="embeddings/position_embedding embeddings/segment_embedding "
        "stack/layer_{i}/attention/qkv pooler/dense",
    ),
    Row(EMBED, "stack/position_embedding", hf="encoder.rel_embeddings"),
)


def part_of_heads(number: int):
    """A kernel whose rows stand among those of the other two, head by head."""
    kernel = Stored(".weight", transposed=True, of_head=(number, 3))
    return {"kernel": {"pytorch": kernel}}


ENCODER_ROWS = (
    *SHARED_ROWS,
    *(
        Row(part_of_heads(number), f"stack/layer_{{i}}/attention/{name}", hf=f"{SELF}in_proj")
        for number, name in enumerate(("query", "key", "value"))
    ),
    Row(BIAS, "stack/layer_{i}/attention/query", hf=f"{SELF}q_bias"),
    Row(BIAS, "stack/layer_{i}/attention/value", hf=f"{SELF}v_bias"),
    Row(KERNEL, "stack/layer_{i}/attention/position_key", hf=f"{SELF}pos_proj"),
    Row(DENSE, "stack/layer_{i}/attention/position_query", hf=f"{SELF}pos_q_proj"),
)
SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="pooler.dense"), bert.CLASSIFIER),
    transform="pooler_activation",
    dropout_first="pooler_dropout",
)
LM_HEAD = "lm_predictions.lm_head"
MASKED_LM = Head(
    (
        Row(EMBED, "masked_lm/position_embedding", hf="deberta.embeddings.position_embeddings"),
        Row(DENSE, "masked_lm/transform", hf=f"{LM_HEAD}.dense"),
        Row(NORM, "masked_lm/norm", hf=f"{LM_HEAD}.LayerNorm"),
        Row(BIAS, "masked_lm", hf=f"{LM_HEAD}.bias"),
    )
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


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """RoBERTa's way to read bytes, from Hugging Face's files or Microsoft's one."""
    has_own = files.has(BPE_ENCODER) and not files.has("vocab.json")
    return read_byte_bpe(files, options, read=read_bpe_encoder if has_own else None)


# Of files that transformers wrote with its own head.
UNREAD = {
    r"^cls\.predictions\.": "masked-language-model head of transformers, which is not that of the authors"
}

FAMILY = Family(
    name="deberta",
    backbone=backbone,
    defaults={"vocab_size": 50265, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="deberta",
            codec=HF_CODEC,
            root="deberta.",
            classes=bert.hf_classes("Deberta"),
            unread=UNREAD,
        ),
        "microsoft": original(HF_CODEC),
    },
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    text=TextFormat(
        read_vocabulary,
        {**SPECIAL_TOKENS, "lstrip_mask": True, "begins_word": f" .*|{ALONE}"},
        LAYOUT,
    ),
    checkpoints=CHECKPOINTS,
    pretraining="windowed_ngrams",
    config_class=DebertaConfig,
    presets=PRESETS,
    pretraining_preset=FIRST_PRETRAINING,
)
