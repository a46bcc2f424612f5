"""T5 (Raffel et al. 2020, arXiv:1910.10683): every task as text to text, with an encoder and a decoder."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

from bert_zoo.config import MOST_LAYERS, UNLIMITED, Config, EncoderConfig, deviation, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.t5.cards import (
    BYT5_CHECKPOINTS,
    GATED,
    MT5_CHECKPOINTS,
    PRESETS,
    PRETRAINING,
    T5_CHECKPOINTS,
    UMT5_CHECKPOINTS,
)
from bert_zoo.family import Family
from bert_zoo.fields import setting
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import AddedToken, VocabularyFiles, distinct_tokens, read_named_tokens
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.vocabulary_files import TOKENIZER_FILE, Scheme, read_byte_bpe, read_sentencepiece
from bert_zoo.weights.formats import TF1, Description, HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.format import sizes_in
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import (
    DENSE,
    EMBED,
    KERNEL,
    LAST_REAL_TOKEN,
    MEAN,
    OUTPUT,
    Copy,
    Head,
    Kind,
    Row,
    Stored,
    after_dropout,
)
from bert_zoo.weights.tensor_source import TensorSource

# Limited because the bounds of buckets are computed one by one. Released models have 32, up to a distance of 128.
MOST_BUCKETS, LONGEST_DISTANCE = 512, 65_536


@dataclass(frozen=True, kw_only=True)
class T5Config(EncoderConfig):
    """The configuration of a T5's encoder and decoder. `hidden_dropout` also acts within feed-forward layers. `pooler`
    says whether the outputs are those of the decoder, which reads the same text shifted to the right.
    """

    on_card: ClassVar[tuple[str, ...]] = (*Config.on_card, "head_size", "decoder_layers")
    heads_fill_width: ClassVar[bool] = False

    num_segments: int = 0
    pooler: bool = False
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-6
    # Width of a head ("d_kv"); `num_heads * head_size` need not be `hidden_size`.
    head_size: int = size(64)
    # Blocks in the decoder.
    num_decoder_layers: int = size(0, most=MOST_LAYERS, special=(0, "as num_layers"))
    num_buckets: int = setting(32, least=4, most=MOST_BUCKETS)  # buckets of distances in each stack
    max_distance: int = setting(
        128, least=4, most=LONGEST_DISTANCE
    )  # distances from this on share a bucket
    # Whether heads on whole texts and answers read the decoder, as in transformers' classes.
    heads_read_decoder: bool = False
    bias_per_layer: bool = False  # whether each layer has its own bias by distance (UMT5)
    # Whether feed-forward layers are gated: the activation is multiplied by a second projection (version 1.1).
    gated: bool = False
    # Whether the decoder's outputs are multiplied by `hidden_size` ** -0.5 before the logits (version 1.0).
    scale_logits: bool = True
    # Multiplies the standard deviations of randomly initialised weights.
    initializer_factor: float = deviation(1.0)

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.num_buckets % 2:
            yield f"num_buckets is {self.num_buckets}; it must be even."
        if self.max_distance < self.num_buckets:
            yield f"max_distance is {self.max_distance}; it must be at least num_buckets, {self.num_buckets}."

    @property
    def decoder_layers(self) -> int:
        return self.num_decoder_layers or self.num_layers

    @property
    def longest_input(self) -> int:
        return UNLIMITED

    def with_pooler(self, pooler: bool) -> Self:
        return self.replace(pooler=pooler and self.heads_read_decoder)

    def with_layers(self, layers: Sequence[int]) -> Self:
        return super().with_layers(layers).replace(num_decoder_layers=self.decoder_layers)


DEFAULTS = {"vocab_size": 32128, "classifier_dropout": 0.0}
# In transformers' T5, "gated-gelu" means the tanh approximation.
GATED_ACTIVATIONS = {"gelu": "gelu_new"}

ATTENTION_DROPOUT = (
    "attention_dropout_rate"  # not a key of files, which have one rate for all dropout
)


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a config.json to one key per field. transformers 4 scales logits unless `tie_word_embeddings` is false.
    transformers 5 always writes true there, and has a separate key for the scale.
    """
    values = dict(values)
    if "feed_forward_proj" in values:
        projection = str(values.pop("feed_forward_proj"))
        name = projection.removeprefix("gated-")
        gated = name != projection
        name = GATED_ACTIVATIONS.get(name, name) if gated else name
        values |= {"is_gated_act": gated, "dense_act_fn": name}
    if "dropout_rate" in values:
        values[ATTENTION_DROPOUT] = values["dropout_rate"]
    values.setdefault("scale_decoder_outputs", values.get("tie_word_embeddings") is not False)
    return values


def written_settings(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `settings`."""
    values = dict(values)
    del values[ATTENTION_DROPOUT]
    gated, name = values.pop("is_gated_act"), values.pop("dense_act_fn")
    said = {name: said for said, name in GATED_ACTIVATIONS.items()}
    projection = f"gated-{said.get(name, name)}" if gated else name
    return values | {"feed_forward_proj": projection}


HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        ConfigRow("hidden_size", "d_model"),
        ConfigRow("head_size", "d_kv"),
        ConfigRow("intermediate_size", "d_ff"),
        ConfigRow("num_layers"),
        ConfigRow("num_heads"),
        ConfigRow("num_decoder_layers", optional=True, written="decoder_layers"),
        ConfigRow("num_buckets", "relative_attention_num_buckets", optional=True),
        ConfigRow("max_distance", "relative_attention_max_distance", optional=True),
        ConfigRow("gated", "is_gated_act", optional=True),
        ConfigRow("activation", "dense_act_fn", ACTIVATIONS, optional=True),
        ConfigRow("hidden_dropout", "dropout_rate", optional=True),
        ConfigRow("attention_dropout", ATTENTION_DROPOUT, optional=True),
        ConfigRow("classifier_dropout", optional=True, written="head_dropout"),
        ConfigRow("layer_norm_epsilon", optional=True),
        ConfigRow("initializer_factor", optional=True),
        ConfigRow("tie_word_embeddings", optional=True),
        ConfigRow("scale_logits", "scale_decoder_outputs", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    fixed={"is_encoder_decoder": (True, False)},
    ignored=frozenset({"n_positions"}),  # there is no position table
    written={"decoder_start_token_id": 0},
    defaults=DEFAULTS,
    config_class=T5Config,
    prepare=settings,
    finish=written_settings,
)

ATTENTION, FEED_FORWARD = (
    f"encoder/block_000/{sublayer}"
    for sublayer in ("layer_000/SelfAttention", "layer_001/DenseReluDense")
)
TF1_LOGITS = "decoder/logits/kernel"
TF1_SIZES = {
    "vocab_size": ("shared/embedding", 0),
    "hidden_size": ("shared/embedding", 1),
    "intermediate_size": (f"{FEED_FORWARD}/wo/kernel", 0),
    "num_buckets": (f"{ATTENTION}/relative_attention_bias", 1),
}


def sizes_of_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Reads our fields off the tensors of a checkpoint without a configuration file."""
    sizes = sizes_in(shapes, TF1_SIZES, r"encoder/block_(\d+)/")
    decoder = sizes_in(shapes, {}, r"decoder/block_(\d+)/")
    heads = max(1, shapes.get(f"{ATTENTION}/relative_attention_bias", (1,))[0])
    inner = shapes.get(f"{ATTENTION}/q", (1,))[-1]
    version = GATED if f"{FEED_FORWARD}/wi_0/kernel" in shapes else {}
    return {
        **sizes,
        **version,
        "num_heads": heads,
        "head_size": inner // heads,
        "num_decoder_layers": decoder["num_layers"],
        "tie_word_embeddings": TF1_LOGITS not in shapes,
    }


TF1_CODEC = ConfigCodec(
    rows=[
        *map(ConfigRow, (*TF1_SIZES, "num_layers", "num_decoder_layers", "num_heads", "head_size")),
        *(ConfigRow(name, optional=True) for name in GATED),
    ],
    defaults=DEFAULTS,
    config_class=T5Config,
    prepare=sizes_of_shapes,
)


# -------------------------------------------------------------------------------------------------
# How T5's checkpoints are stored.
# -------------------------------------------------------------------------------------------------

BELOW_HEAD = "transformer."  # before the encoder's names in classes of tasks on texts and tokens
# Tasks whose heads read the decoder in transformers, and names of these heads.
READ_DECODER = (*bert.SENTENCE_TASKS, "question_answering")
DECODER_HEADS = ("classification_head.dense.weight", "qa_outputs.weight")
# In files of version 1.0. The original once had this bias, but no program reads it (transformers#8518).
CROSS_BIAS = r"EncDecAttention[./]relative_attention_bias"


@dataclass(frozen=True, kw_only=True)
class Directory(HuggingFace):
    """Hugging Face's; only tensors show whether logits have their own table and whether heads read the decoder."""

    renames: ClassVar[tuple[tuple[str, str], ...]] = (*HuggingFace.renames, (f"^{BELOW_HEAD}", ""))

    # Whether transformers' classes of the encoder alone write that they are no encoder-decoder.
    marks_encoders: bool = True

    def inferred_fields(
        self, source: TensorSource, config: Config, unsaid: Collection[str]
    ) -> dict[str, Any]:
        fields = super().inferred_fields(source, config, unsaid)
        decodes = any(key.startswith("decoder.") for key in source)
        fields["heads_read_decoder"] = decodes and any(key in source for key in DECODER_HEADS)
        # transformers 5 marks all models as tied.
        if decodes and not fields["heads_read_decoder"] and not config.scale_logits:
            fields["tie_word_embeddings"] = "lm_head.weight" not in source
        return fields

    def class_of(self, task: str, config: Config) -> str | None:
        if task in READ_DECODER and not config.heads_read_decoder:
            return None
        return super().class_of(task, config)

    def root_in(self, task: str) -> str:
        return BELOW_HEAD if task in (*bert.SENTENCE_TASKS, "token_classification") else ""

    def encode(self, config: Config, description: Description) -> dict[str, Any]:
        values = super().encode(config, description)
        encoders = {self.classes[task] for task in ("encoder", "token_classification")}
        is_encoder = {*values["architectures"]} <= encoders
        return values | {"is_encoder_decoder": not (is_encoder and self.marks_encoders)}


def computed_activation(config: T5Config) -> str:
    """The activation that transformers uses for the name that is written."""
    return "gelu_tanh" if config.gated and config.activation == "gelu" else config.activation


def hugging_face(
    model_type: str, prefix: str, codec: ConfigCodec = HF_CODEC, **options
) -> Directory:
    """The format of directories with `model_type` in config.json; `prefix` is of transformers' class names."""
    return Directory(
        model_type=model_type,
        codec=codec,
        classes={
            "encoder": f"{prefix}EncoderModel",
            "text_to_text": f"{prefix}ForConditionalGeneration",
            **dict.fromkeys(bert.SENTENCE_TASKS, f"{prefix}ForSequenceClassification"),
            "token_classification": f"{prefix}ForTokenClassification",
            "question_answering": f"{prefix}ForQuestionAnswering",
        },
        ignorable=(CROSS_BIAS,),
        supports={
            "activation": computed_activation,
            "attention_dropout": lambda config: config.hidden_dropout,
        },
        **options,
    )


@dataclass(frozen=True, kw_only=True)
class OriginalT5(TF1):
    """Checkpoints of google-research/text-to-text-transfer-transformer on Mesh TensorFlow."""

    # Version 1.1 has another name for norms, within the stacks and after them.
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"^(encoder|decoder)/rms_norm/", r"\1/final_layer_norm/"),
        (r"/rms_norm/", "/layer_norm/"),
    )

    config_file: str = "*.index"
    codec: ConfigCodec = TF1_CODEC
    # Adafactor's slots, and a bias that is not read.
    ignorable: tuple[str, ...] = (r"_slot_(m|v|vc|vr)$", CROSS_BIAS)
    rows: int = 0  # rows of the token table, if they distinguish the family from T5; 0: any number

    @property
    def takes_precedence(self) -> bool:
        return bool(self.rows)

    def inferred_fields(
        self, source: TensorSource, config: Config, unsaid: Collection[str]
    ) -> dict[str, Any]:
        is_tied = TF1_LOGITS not in source
        logits = {"tie_word_embeddings": is_tied, "scale_logits": is_tied}
        return {**super().inferred_fields(source, config, unsaid), **logits}

    def is_of_family(self, values: JsonObject) -> bool:
        rows = values.get("shared/embedding", (None,))[0]
        return rows is not None and self.rows in (0, rows)


# -------------------------------------------------------------------------------------------------
# T5's weight rows and heads.
# -------------------------------------------------------------------------------------------------

# The original's attention kernels have no suffix in their names; all are [in, out].
ATTENTION_KERNEL: Kind = {
    "kernel": {"pytorch": Stored(".weight", transposed=True), "tensorflow": Stored("")}
}
NORM: Kind = {"gamma": {"pytorch": Stored(".weight"), "tensorflow": Stored("/scale")}}
# [heads, buckets] in the original's files.
BIAS: Kind = {
    "embeddings": {"pytorch": Stored(".weight"), "tensorflow": Stored("", transposed=True)}
}
LOGITS: Kind = {
    "embeddings": {"pytorch": Stored(".weight"), "tensorflow": Stored("/kernel", transposed=True)}
}
SELF, CROSS, INNER = "SelfAttention", "EncDecAttention", "DenseReluDense"


def stack_rows(stack: str, prefix: str, layers: int, config: T5Config) -> Iterator[Row]:
    """The rows of a stack by its name in files and the `prefix` of paths; decoder blocks have one sublayer more."""
    decodes = stack == "decoder"

    def row(kind: Kind, path: str, block: int, sublayer: int, *names: str) -> Row:
        tf1 = f"{stack}/block_{block:03d}/layer_{sublayer:03d}/"
        return Row(
            kind,
            prefix + path,
            hf=tuple(f"{stack}.block.{block}.layer.{sublayer}.{name}" for name in names),
            tf1=tuple(tf1 + name.replace(".", "/") for name in names),
        )

    def attention(block: int, sublayer: int, kind: str, name: str) -> Iterator[Row]:
        path = f"layer_{block}/{kind}attention"
        yield row(ATTENTION_KERNEL, f"{path}/query", block, sublayer, f"{name}.q")
        yield row(ATTENTION_KERNEL, f"{path}/key_value", block, sublayer, f"{name}.k", f"{name}.v")
        yield row(ATTENTION_KERNEL, f"{path}/output", block, sublayer, f"{name}.o")
        yield row(NORM, f"layer_{block}/{kind or 'attention_'}norm", block, sublayer, "layer_norm")

    for i in range(layers):
        block = f"layer_{i}/"
        yield from attention(i, 0, "", SELF)
        if config.bias_per_layer or i == 0:
            path = f"{block}attention/relative_bias" if config.bias_per_layer else "relative_bias"
            yield row(BIAS, path, i, 0, f"{SELF}.relative_attention_bias")
        if decodes:
            yield from attention(i, 1, "cross_", CROSS)
        last = 1 + decodes
        first = ("wi_0", "wi_1") if config.gated else ("wi",)
        first = (f"{INNER}.{name}" for name in first)
        yield row(KERNEL, f"{block}feed_forward/intermediate", i, last, *first)
        yield row(KERNEL, f"{block}feed_forward/output", i, last, f"{INNER}.wo")
        yield row(NORM, f"{block}output_norm", i, last, "layer_norm")


def encoder_stack(config: T5Config) -> Iterator[Row]:
    return stack_rows("encoder", "stack/", config.num_layers, config)


def decoder_stack(config: T5Config) -> Iterator[Row]:
    return stack_rows("decoder", "decoder/", config.decoder_layers, config)


def final_norm(stack: str, path: str) -> Row:
    hf, tf1 = (f"{stack}{separator}final_layer_norm" for separator in "./")
    return Row(NORM, path, hf=hf, tf1=tf1)


def decoder_within(config: T5Config) -> Iterator[Row]:
    """The decoder of an encoder whose outputs are the decoder's."""
    if config.pooler:
        yield from decoder_stack(config)
        yield final_norm("decoder", "decoder/final_norm")


ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", hf="shared", tf1="shared/embedding"),
    encoder_stack,
    final_norm("encoder", "final_norm"),
    decoder_within,
)


def copies(config: T5Config) -> tuple[Copy, ...]:
    """Files may also hold the token table under the names of the layers that read it."""
    readers = ["encoder.embed_tokens", "decoder.embed_tokens"]
    if config.tie_word_embeddings:
        readers.append("lm_head")
    return tuple(Copy(f"{reader}.weight", of="{root}shared.weight") for reader in readers)


DECODER_ROWS = (
    decoder_stack,
    final_norm("decoder", "decoder/final_norm"),
    Row(LOGITS, "decoder/logits", hf="lm_head", tf1="decoder/logits", when=bert.untied),
)


def reads_decoder(config: T5Config) -> bool:
    return config.heads_read_decoder


def summary(config: T5Config) -> str:
    """The decoder has read the whole text at its last token; the encoder has no token for it."""
    return LAST_REAL_TOKEN if config.pooler else MEAN


def output(config: T5Config) -> dict[str, Any]:
    read_by = bert.with_layer if reads_decoder(config) else after_dropout
    return read_by(config)


# transformers' classifier reads the decoder. Without its weights, these heads read the encoder.
SENTENCE = Head(
    (
        Row(DENSE, "classifier/transform", hf="classification_head.dense", when=reads_decoder),
        Row(OUTPUT, "classifier/dense", hf="classification_head.out_proj", when=reads_decoder),
        bert.CLASSIFIER.only(lambda config: not reads_decoder(config)),
    ),
    reads_decoder=True,
    summary=summary,
    output=output,
)
ENCODER_HEADS = {
    **dict.fromkeys(bert.SENTENCE_TASKS, SENTENCE),
    "multiple_choice": Head((bert.CLASSIFIER,), summary=lambda config: MEAN),
    "token_classification": Head((bert.CLASSIFIER,)),
    "question_answering": Head((bert.SPAN,), reads_decoder=True, output=bert.span_dropout),
}


# -------------------------------------------------------------------------------------------------
# Reads T5's vocabularies.
# -------------------------------------------------------------------------------------------------

LAYOUT = Layout(single="A sep", pair="A sep B sep", segments=False)
SPECIAL_TOKENS = {
    "unknown_token": "<unk>",
    "padding_token": "<pad>",
    **dict.fromkeys(("sep_token", "eos_token"), "</s>"),
}
SCHEME = Scheme(
    name="t5",
    model_file="spiece.model",
    tokenizer_class="T5Tokenizer",
    special_tokens=SPECIAL_TOKENS,
    begins_word="▁.*",
)
SENTINELS, MOST_SENTINELS = 100, 10_000  # the number if no file states it, and the largest allowed
SENTINEL = "<extra_id_{}>"


def read_vocabulary(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads a SentencePiece model, and appends sentinels unless it has them (mT5): `<extra_id_0>` is the last token."""
    named = [token for token in read_named_tokens(files).tokens if token.startswith("<extra_id_")]
    config = files.json("tokenizer_config.json")
    number = len(named) or config.take("extra_ids", int, SENTINELS, least=0, most=MOST_SENTINELS)
    sentinels = () if _has_sentinels(files) else [*map(SENTINEL.format, reversed(range(number)))]
    scheme = replace(SCHEME, last_tokens=tuple(sentinels))
    parts = read_sentencepiece(files, {"scheme": scheme, **overrides})
    added = [AddedToken(sentinel, special=True) for sentinel in sentinels]
    added = distinct_tokens([*added, *parts.arguments["added_tokens"]]).values()
    added = [token.as_config() for token in added]
    return parts._replace(arguments={**parts.arguments, "added_tokens": added})


def _has_sentinels(files: VocabularyFiles) -> bool:
    """Whether a directory's model includes sentinels."""
    models = [path.name for path in files.directory.glob("*.model")] or [TOKENIZER_FILE]
    sentinel = f"▁{SENTINEL.format(0)}".encode()
    return any(files.has(name) and sentinel in files.content(name) for name in models)


def parts(config: T5Config, dtype):
    """Makers of both stacks' layers: attention (its own bias, or see `biases`), feed-forward, final norm."""
    from bert_zoo.families.t5.layers import Attention
    from bert_zoo.layers import FeedForward
    from bert_zoo.layers.common import RMSNorm

    hidden_size, inner = config.hidden_size, config.num_heads * config.head_size

    def deviation(inputs: int) -> float:
        return config.initializer_factor * inputs**-0.5

    attention = partial(
        Attention,
        config.num_heads,
        hidden_size,
        head_size=config.head_size,
        dropout=config.attention_dropout,
        initializer_range=deviation(hidden_size),
        output_range=deviation(inner),
        use_bias=False,
        dtype=dtype,
        name="attention",
    )
    feed_forward = partial(
        FeedForward,
        config.intermediate_size,
        hidden_size,
        activation=config.activation,
        gated=config.gated,
        inner_dropout=config.hidden_dropout,
        initializer_range=deviation(hidden_size),
        output_range=deviation(config.intermediate_size),
        use_bias=False,
        dtype=dtype,
        name="feed_forward",
    )
    epsilon, dropout = config.layer_norm_epsilon, config.hidden_dropout
    final_norm = partial(RMSNorm, epsilon, dropout, dtype=dtype, name="final_norm")
    return attention, feed_forward, final_norm


def biases(config: T5Config, dtype, *, causal: bool):
    """A function that makes a layer's own bias by distance, and the one that all layers share; one is None."""
    from bert_zoo.layers.attention import RelativeBias

    make = partial(
        RelativeBias,
        config.num_heads,
        initializer_range=config.initializer_factor * config.hidden_size**-0.5,
        num_buckets=config.num_buckets,
        max_distance=config.max_distance,
        causal=causal,
        dtype=dtype,
        name="relative_bias",
    )
    return (make, None) if config.bias_per_layer else (lambda: None, make())


def backbone(config: T5Config, dtype):
    """The encoder: pre-norm blocks, which add a bias by distance to their attention scores."""
    from bert_zoo.families.t5.layers import T5Backbone
    from bert_zoo.layers import PreNormBlock, Stack, TokenEmbeddings
    from bert_zoo.layers.attention import BiasedStack
    from bert_zoo.layers.common import rms_norm

    attention, feed_forward, final_norm = parts(config, dtype)
    own_bias, bias = biases(config, dtype, causal=False)
    blocks = [
        PreNormBlock(
            attention(relative_bias=own_bias()),
            feed_forward(),
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            norm_bias=False,
            make_norm=rms_norm,
            dtype=dtype,
            name=f"layer_{i}",
        )
        for i in range(config.num_layers)
    ]
    embeddings = TokenEmbeddings(
        config.vocab_size,
        config.hidden_size,
        epsilon=None,
        dropout=config.hidden_dropout,
        initializer_range=config.initializer_factor,
        dtype=dtype,
        name="embeddings",
    )
    options = {"dtype": dtype, "name": "stack"}
    if bias is None:
        stack = Stack(blocks, config.hidden_size, **options)
    else:
        stack = BiasedStack(blocks, config.hidden_size, bias, **options)
    within = None
    if config.pooler:
        # Without a table for logits.
        within = decoder(config.replace(tie_word_embeddings=True), name="decoder", dtype=dtype)
    return T5Backbone(
        config,
        embeddings=embeddings,
        stack=stack,
        final_norm=final_norm(),
        decoder=within,
        dtype=dtype,
    )


def decoder(config: T5Config, *, name: str, dtype):
    """The decoder, including the projection to logits."""
    from bert_zoo.families.t5.layers import Decoder, DecoderBlock

    attention, feed_forward, final_norm = parts(config, dtype)
    own_bias, bias = biases(config, dtype, causal=True)
    blocks = [
        DecoderBlock(
            attention(relative_bias=own_bias()),
            feed_forward(),
            attention(name="cross_attention"),
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            dtype=dtype,
            name=f"layer_{i}",
        )
        for i in range(config.decoder_layers)
    ]
    return Decoder(
        blocks,
        bias,
        final_norm(),
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        tied=config.tie_word_embeddings,
        scale=config.hidden_size**-0.5 if config.scale_logits else 1.0,
        # As in t5x, which keeps logits as small as with a scaled tied table; transformers has 1.
        initializer_range=config.initializer_factor * config.hidden_size**-0.5,
        dtype=dtype,
        name=name,
    )


FAMILY = Family(
    name="t5",
    backbone=backbone,
    defaults=DEFAULTS,
    formats={"hf": hugging_face("t5", "T5"), "tf1": OriginalT5()},
    encoder_rows=ENCODER_ROWS,
    heads={
        "text_to_text": Head(DECODER_ROWS, decoder=decoder, copies={"hf": copies}),
        **ENCODER_HEADS,
    },
    text=TextFormat(read_vocabulary, layout=LAYOUT),
    checkpoints=T5_CHECKPOINTS,
    config_class=T5Config,
    params_task="text_to_text",
    pretraining="span_corruption",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)


# mT5 (Xue et al. 2021, arXiv:2010.11934): T5 1.1 in 101 languages.


def without_scale(values: Mapping[str, Any]) -> dict[str, Any]:
    """Like `settings`, for a class that does not scale logits."""
    return settings({"feed_forward_proj": "gated-gelu", **values, "scale_decoder_outputs": False})


MT5_FAMILY = replace(
    FAMILY,
    name="mt5",
    defaults=FAMILY.defaults | GATED | {"vocab_size": 250112},
    formats={
        "hf": hugging_face("mt5", "MT5", replace(HF_CODEC, prepare=without_scale)),
        "tf1": OriginalT5(),
    },
    checkpoints=MT5_CHECKPOINTS,
)

# UMT5 (Chung et al. 2023, arXiv:2304.09151): mT5 in 107 languages, with a bias by distance in every layer.

BIASED = {"bias_per_layer": True}

UMT5_FAMILY = replace(
    MT5_FAMILY,
    name="umt5",
    defaults=MT5_FAMILY.defaults | BIASED | {"vocab_size": 256384},
    formats={
        "hf": hugging_face(
            "umt5",
            "UMT5",
            replace(
                HF_CODEC,
                defaults=HF_CODEC.defaults | BIASED,
                # Released files have it, and nothing reads it.
                ignored=HF_CODEC.ignored | {"scalable_attention"},
                prepare=lambda values: settings({"feed_forward_proj": "gated-gelu", **values}),
            ),
            marks_encoders=False,
        )
    },
    checkpoints=UMT5_CHECKPOINTS,
    pretraining="",
    pretraining_preset=None,
)

# ByT5 (Xue et al. 2022, arXiv:2105.13626): T5 on bytes, with an encoder three times as deep as its decoder.

ROWS = 384  # rows of the token table: three special tokens, bytes, sentinels
BYT5_SENTINELS = [f"<extra_id_{i}>" for i in range(125)]
ADDED_TOKENS = [
    *(
        AddedToken(t, lstrip=True, rstrip=True, special=True).as_dict()
        for t in ("<pad>", "</s>", "<unk>")
    ),
    *(AddedToken(sentinel, special=True).as_dict() for sentinel in BYT5_SENTINELS),
]


def bytes_as_tokens(files: VocabularyFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """Returns the vocabulary, which needs no file: a byte's id is the byte + 3, and there are no merges."""
    from bert_zoo.text.byte_bpe import ALPHABET

    return ["<pad>", "</s>", "<unk>", *sorted(ALPHABET, key=ALPHABET.get), *BYT5_SENTINELS], []


def read_bytes(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Makes a byte tokenizer, which needs no file."""
    absent = dict.fromkeys(("cls_token", "mask_token"))
    options = {"added_tokens": ADDED_TOKENS, **SPECIAL_TOKENS, **absent, **overrides}
    return read_byte_bpe(files, options, read=bytes_as_tokens)


BYT5_FAMILY = replace(
    FAMILY,
    name="byt5",
    defaults=FAMILY.defaults | GATED | {"vocab_size": ROWS},
    formats={
        "hf": hugging_face("t5", "T5", tokenizer_class="ByT5Tokenizer"),
        "tf1": OriginalT5(rows=ROWS),
    },
    text=TextFormat(read_bytes, layout=LAYOUT),
    checkpoints=BYT5_CHECKPOINTS,
    # Its sentinels are the ids 258, 257 and so on, of bytes that no UTF-8 text has.
    pretraining="",
    pretraining_preset=None,
)
