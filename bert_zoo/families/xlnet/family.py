"""XLNet (Yang et al. 2019, arXiv:1906.08237): a permutation language model with two-stream attention."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from bert_zoo.config import (
    MOST_EPSILON,
    MOST_LAYERS,
    UNLIMITED,
    Config,
    activation_name,
    deviation,
    positive,
    rate,
    size,
)
from bert_zoo.families.bert import family as bert
from bert_zoo.families.transformer_xl import family as transformer_xl
from bert_zoo.families.transformer_xl.family import MOST_REMEMBERED, Stacked
from bert_zoo.families.xlnet.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.family import Family
from bert_zoo.text.files import special_tokens
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.vocabulary_files import PLAIN, Scheme, read_sentencepiece
from bert_zoo.weights.formats import TF1, HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import (
    BIAS,
    DENSE,
    EMBED,
    LAST_REAL_TOKEN,
    NORM,
    Copy,
    Head,
    Row,
    Stored,
    raw,
)


@dataclass(frozen=True, kw_only=True)
class XLNetConfig(Config):
    """The configuration of an XLNet (Yang et al. 2019)."""

    on_card: ClassVar[tuple[str, ...]] = (*Config.on_card, "mem_len")
    # There is no memory before a text. Segments are only compared, so any numbers are allowed.
    memory_start: ClassVar[str] = "empty"
    most_segments: ClassVar[int] = UNLIMITED
    # Before a head over tokens there is only the encoder's own final dropout.
    span_dropout: ClassVar[float] = 0.0

    vocab_size: int = size()  # rows of the token table
    hidden_size: int = size(768)  # width of the residual stream ("d_model")
    num_layers: int = size(12, most=MOST_LAYERS)  # blocks
    num_heads: int = size(12)  # attention heads a block
    head_size: int = size(0, special=(0, "hidden_size / num_heads"))  # width of a head
    intermediate_size: int = size(3072)  # width of the feed-forward layer ("d_inner")
    # Hidden states that a layer keeps of earlier segments.
    mem_len: int = size(0, most=MOST_REMEMBERED, special=(0, "no memory"))
    # First tokens of a segment that are kept.
    reuse_len: int = size(0, special=(0, "all of a segment"))
    # Larger distances count as this one; not limited if it is not positive.
    clamp_len: int = size(-1, least=-UNLIMITED)
    # Activation of the feed-forward layer; Google's "gelu" is "gelu_tanh" here.
    activation: str = activation_name("gelu")
    layer_norm_epsilon: float = positive(1e-12, most=MOST_EPSILON)  # added to the variance
    # Rate on embeddings, positions, within and after sublayers, on the output.
    hidden_dropout: float = rate(0.1)
    attention_dropout: float = rate(0.1)  # rate on attention probabilities
    summary_dropout: float = rate(0.1)  # rate after the layer over the last token, for whole texts
    initializer_range: float = deviation(0.02)  # standard deviation of randomly initialised weights
    tie_word_embeddings: bool = True  # whether predictions project onto the token table

    def contradictions(self) -> Iterator[str]:
        if not self.head_size and self.hidden_size % self.num_heads:
            yield f"hidden_size {self.hidden_size} is not a multiple of num_heads {self.num_heads}."
        if self.hidden_size % 2:
            yield (
                f"hidden_size is {self.hidden_size}; positions are pairs of a sine and a cosine, "
                "so it must be even."
            )

    @property
    def size_of_head(self) -> int:
        return self.head_size or self.hidden_size // self.num_heads

    @property
    def head_dropout(self) -> float:
        """Dropout rate before a head over whole texts."""
        return self.summary_dropout


SIZES = [
    ConfigRow("hidden_size", "d_model"),
    ConfigRow("num_layers", "n_layer"),
    ConfigRow("num_heads", "n_head"),
    ConfigRow("head_size", "d_head", optional=True),
    ConfigRow("intermediate_size", "d_inner"),
]


def with_todays_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts Hugging Face's keys: one rate for all dropout, and `n_token` in its first files."""
    values = dict(values)
    if "n_token" in values:
        values.setdefault("vocab_size", values.pop("n_token"))
    return {"dropatt": values.get("dropout"), **values}


MEMORY = ("mem_len", "reuse_len")


def with_null_for_zero(values: dict[str, Any]) -> dict[str, Any]:
    """Writes null for no memory, as Hugging Face's class does."""
    return values | {name: values[name] or None for name in MEMORY}


HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        *SIZES,
        ConfigRow("activation", "ff_activation", ACTIVATIONS, optional=True),
        ConfigRow("layer_norm_epsilon", "layer_norm_eps", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
        ConfigRow("attention_dropout", "dropatt", optional=True),
        ConfigRow("summary_dropout", "summary_last_dropout", optional=True),
        ConfigRow("initializer_range", optional=True),
        *(ConfigRow(name, optional=True) for name in (*MEMORY, "clamp_len", "tie_word_embeddings")),
    ],
    fixed={
        "attn_type": ("bi",),
        "bi_data": (False,),
        "untie_r": (True,),
        "summary_type": ("last",),
        "summary_use_proj": (True,),
        "summary_activation": ("tanh",),
    },
    written={"attn_type": "bi", "untie_r": True},
    # Keys of one-sided attention, of programs, and of position tables, which do not exist.
    ignored=frozenset(
        "same_length start_n_top end_n_top use_mems_eval use_mems_train pad_token_id init init_range "
        "init_std max_position_embeddings".split()
    ),
    config_class=XLNetConfig,
    prepare=with_todays_keys,
    finish=with_null_for_zero,
)
TF1_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size", "n_token"),
        *SIZES,
        ConfigRow("activation", "ff_activation", {"gelu": "gelu_tanh", "relu": "relu"}),
    ],
    fixed={"untie_r": (True,)},
    config_class=XLNetConfig,
)


def by_head(config: XLNetConfig) -> tuple[int, ...]:
    return (config.hidden_size, config.num_heads, config.size_of_head)


def kernel(transposed: bool = False):
    """A kernel [hidden, heads, head_size]."""
    return {
        "kernel": {
            "pytorch": Stored("", transposed, shape=by_head),
            "tensorflow": Stored("/kernel", transposed, shape=by_head),
        }
    }


def one_vector(config: XLNetConfig) -> tuple[int, ...]:
    return (1, 1, config.hidden_size)


MASK = {
    "mask_embedding": {layout: Stored("", shape=one_vector) for layout in ("pytorch", "tensorflow")}
}
LAYER, ATTENTION = "layer.{i}.", "stack/layer_{i}/attention"
BIASES = {
    "content_bias": "r_w_bias",
    "position_bias": "r_r_bias",
    "segment_bias": "r_s_bias",
    "segment_embedding": "seg_embed",
}
ENCODER_ROWS = (
    Row(
        EMBED,
        "embeddings/token_embedding",
        hf="word_embedding",
        tf1="word_embedding/lookup_table",
    ),
    Row(MASK, "embeddings", hf="mask_emb", tf1="mask_emb/mask_emb"),
    *(
        Row(raw(variable, tf1=Stacked("")), ATTENTION, hf=f"{LAYER}rel_attn.{name}", tf1=name)
        for variable, name in BIASES.items()
    ),
    Row(kernel(), f"{ATTENTION}/qkv", hf=tuple(f"{LAYER}rel_attn.{p}" for p in "qkv")),
    Row(kernel(), f"{ATTENTION}/position", hf=f"{LAYER}rel_attn.r"),
    Row(kernel(transposed=True), f"{ATTENTION}/output", hf=f"{LAYER}rel_attn.o"),
    Row(
        NORM,
        "stack/layer_{i}/attention_norm",
        hf=f"{LAYER}rel_attn.layer_norm",
        tf1="layer_{i}/rel_attn/LayerNorm",
    ),
    Row(DENSE, "stack/layer_{i}/feed_forward/intermediate", hf=f"{LAYER}ff.layer_1"),
    Row(DENSE, "stack/layer_{i}/feed_forward/output", hf=f"{LAYER}ff.layer_2"),
    Row(
        NORM,
        "stack/layer_{i}/output_norm",
        hf=f"{LAYER}ff.layer_norm",
        tf1="layer_{i}/ff/LayerNorm",
    ),
)


def tied_copies(config: XLNetConfig) -> tuple[Copy, ...]:
    table = Copy("lm_loss.weight", of="{root}word_embedding.weight")
    return () if bert.untied(config) else (table,)


def last_real_token(config: XLNetConfig) -> str:
    return LAST_REAL_TOKEN


LANGUAGE_MODEL = Head(
    (
        Row(BIAS, "masked_lm", hf="lm_loss.bias", tf1="model/lm_loss/bias"),
        Row(
            EMBED,
            "masked_lm/decoder",
            hf="lm_loss",
            tf1="model/lm_loss/weight",
            when=bert.untied,
        ),
    ),
    copies={"hf": tied_copies},
)
SUMMARY = Head(
    (
        Row(
            DENSE,
            "classifier/transform",
            hf="sequence_summary.summary",
            tf1="model/sequnece_summary/summary",
        ),
        Row(DENSE, "classifier/dense", hf="logits_proj"),
    ),
    summary=last_real_token,
    output=partial(bert.with_layer, dropout_first=0.0),
)
HF_CLASSES = bert.hf_classes("XLNet") | {
    **dict.fromkeys(("masked_lm", "pretraining"), "XLNetLMHeadModel"),
    "question_answering": "XLNetForQuestionAnsweringSimple",
    "beam_question_answering": "XLNetForQuestionAnswering",
}


@dataclass(frozen=True, kw_only=True)
class OriginalXLNet(TF1):
    """Checkpoints of zihangdai/xlnet, including fine-tuned ones (function_builder.py)."""

    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        # A classifier's layer has the task in its name; RACE's has not.
        (r"^model/(classification|regression)_[^/]+/logit/", "logits_proj/"),
        (r"^logits/dense/", "logits_proj/"),
    )


FORMATS = {
    "hf": HuggingFace(model_type="xlnet", codec=HF_CODEC, root="transformer.", classes=HF_CLASSES),
    "tf1": OriginalXLNet(
        optional={r"/mask_emb$": "embedding of tokens to predict"},
        codec=TF1_CODEC,
        config_file="xlnet_config.json",
        root="model/transformer/",
    ),
}


def backbone(config: XLNetConfig, dtype):
    """A stack of two-stream blocks with a memory."""
    from bert_zoo.families.xlnet.layers import (
        StreamEmbeddings,
        TwoStreamAttention,
        TwoStreamBackbone,
        TwoStreamStack,
    )

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    heads = {"num_heads": config.num_heads, "head_size": config.size_of_head}

    def attention() -> TwoStreamAttention:
        return TwoStreamAttention(
            hidden_size=config.hidden_size,
            dropout=config.attention_dropout,
            name="attention",
            **heads,
            **options,
        )

    return TwoStreamBackbone(
        config,
        embeddings=StreamEmbeddings(
            config.vocab_size,
            config.hidden_size,
            dropout=config.hidden_dropout,
            name="embeddings",
            **options,
        ),
        stack=TwoStreamStack(
            [
                transformer_xl.block(i, attention(), config, dtype, pre_lnorm=False)
                for i in range(config.num_layers)
            ],
            config.hidden_size,
            clamp_len=config.clamp_len,
            dropout=config.hidden_dropout,
            name="stack",
            **heads,
            **options,
        ),
        dtype=dtype,
    )


SCHEME = Scheme(
    name="xlnet",
    model_file="spiece.model",
    tokenizer_class="XLNetTokenizer",
    special_tokens=special_tokens("<unk>", "<pad>", "<cls>", "<sep>", "<mask>"),
    options=PLAIN
    | {
        "remove_space": True,
        "keep_accents": False,
        "rewrite_quotes": True,
        "special_tokens_in_text": False,
    },
    splits_number_commas=True,
    begins_word=r"[▁<].*|[!-&(-/:;?-@\[-`{-~]",  # data_utils.py, _is_start_piece
)

FAMILY = Family(
    name="xlnet",
    backbone=backbone,
    defaults={"vocab_size": 32000},
    formats=FORMATS,
    encoder_rows=ENCODER_ROWS,
    heads={
        **dict.fromkeys(("masked_lm", "pretraining"), LANGUAGE_MODEL),
        **dict.fromkeys((*bert.SENTENCE_TASKS, "multiple_choice"), SUMMARY),
        "token_classification": Head((bert.CLASSIFIER,), output=bert.span_dropout),
        "question_answering": Head((bert.SPAN,), output=bert.span_dropout),
        "beam_question_answering": bert.beam_span_head(
            summary=last_real_token, output=bert.hidden_dropout
        ),
    },
    text=TextFormat(
        read_sentencepiece,
        {"scheme": SCHEME},
        Layout("A sep cls:2", "A sep B:1 sep:1 cls:2", padding_side="left", padding_segment=3),
    ),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm",),
    pretraining="permutations",
    config_class=XLNetConfig,
    settings=("mem_len", "reuse_len", "clamp_len"),
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
