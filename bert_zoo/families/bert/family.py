"""BERT (Devlin et al. 2018, arXiv:1810.04805)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_zoo.config import EncoderConfig
from bert_zoo.families.bert.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.family import Family
from bert_zoo.json_files import JsonObject
from bert_zoo.text.format import TextFormat
from bert_zoo.text.vocabulary_files import read_wordpiece
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import BIAS, DENSE, EMBED, KERNEL, NORM, OUTPUT, Copy, Head, Row

LAYER = "encoder.layer.{i}."
TOKENS = Row(EMBED, "embeddings/token_embedding", hf="embeddings.word_embeddings")
SEGMENTS = Row(
    EMBED,
    "embeddings/segment_embedding",
    hf="embeddings.token_type_embeddings",
    when=lambda config: config.num_segments > 0,
)
POOLER = Row(DENSE, "pooler/dense", hf="pooler.dense", when=lambda config: config.pooler)
ENCODER_ROWS = (
    TOKENS,
    Row(EMBED, "embeddings/position_embedding", hf="embeddings.position_embeddings"),
    SEGMENTS,
    Row(NORM, "embeddings/norm", hf="embeddings.LayerNorm"),
    Row(
        DENSE,
        "stack/layer_{i}/attention/qkv",
        hf=tuple(f"{LAYER}attention.self.{part}" for part in ("query", "key", "value")),
    ),
    Row(DENSE, "stack/layer_{i}/attention/output", hf=LAYER + "attention.output.dense"),
    Row(NORM, "stack/layer_{i}/attention_norm", hf=LAYER + "attention.output.LayerNorm"),
    Row(DENSE, "stack/layer_{i}/feed_forward/intermediate", hf=LAYER + "intermediate.dense"),
    Row(DENSE, "stack/layer_{i}/feed_forward/output", hf=LAYER + "output.dense"),
    Row(NORM, "stack/layer_{i}/output_norm", hf=LAYER + "output.LayerNorm"),
    POOLER,
)


def renamed(
    rows: Sequence[Row], fmt: str, names: Mapping[str, str | tuple[str, ...]], lacks: str = ""
) -> tuple[Row, ...]:
    """Returns rows with new names in one format, by our path, without the rows whose path is in `lacks`."""
    return tuple(
        row.named(**{fmt: names[row.ours]}) if row.ours in names else row
        for row in rows
        if row.ours not in lacks.split()
    )


def projection_row(hf: str) -> Row:
    """The row of the projection between tables and blocks of different widths."""
    return Row(
        DENSE,
        "embeddings/projection",
        hf=hf,
        when=lambda config: config.table_width != config.hidden_size,
    )


def untied(config: EncoderConfig) -> bool:
    return not config.tie_word_embeddings


def decoding_head(
    decoder: str,
    *rows: Row,
    table: str = "embeddings.word_embeddings",
    bias: Mapping[str, str] | None = None,
    **options: Any,
) -> Head:
    """A masked-language-model head, tied or not, of Hugging Face's names.

    Args:
        decoder, table: names of the layer for the logits, and of the table of tokens, which may be that layer.
        rows: the layers before it.
        bias: format -> name of the logits' bias, if it is not "<decoder>.bias" of Hugging Face.
        **options: of `Head`.
    """

    def copies(config: EncoderConfig) -> tuple[Copy, ...]:
        copy = Copy(f"{decoder}.weight", of=f"{{root}}{table}.weight")
        return () if untied(config) else (copy,)

    names = {"hf": f"{decoder}.bias", **(bias or {})}
    last = (
        Row(EMBED, "masked_lm/decoder", hf=decoder, when=untied),
        Row(BIAS, "masked_lm", when=lambda config: config.decoder_bias, **names),
    )
    return Head((*rows, *last), copies={"hf": copies}, **options)


def projecting_head(
    transform: str, norm: str, decoder: str, activation: str | None = None, **bias: str
) -> Head:
    """A `decoding_head` with a transform; `bias` has names by format."""
    return decoding_head(
        decoder,
        Row(DENSE, "masked_lm/transform", hf=transform),
        Row(NORM, "masked_lm/norm", hf=norm),
        bias=bias,
        activation=activation,
    )


def masked_lm_rows(scope: str, *, dense: str, norm: str) -> tuple[Row, ...]:
    """The rows of a masked-language-model head: prefix of Hugging Face's names, and the rest of its transform's."""
    tf1 = "cls/predictions/"
    return (
        Row(DENSE, "masked_lm/transform", hf=f"{scope}.{dense}", tf1=f"{tf1}transform/dense"),
        Row(NORM, "masked_lm/norm", hf=f"{scope}.{norm}", tf1=f"{tf1}transform/LayerNorm"),
        Row(
            BIAS,
            "masked_lm",
            hf=f"{scope}.bias",
            tf1=f"{tf1}output_bias",
            when=lambda config: config.tie_word_embeddings,
        ),
        Row(EMBED, "masked_lm/decoder", hf=f"{scope}.decoder", tf1=f"{tf1}decoder", when=untied),
        Row(BIAS, "masked_lm", hf=f"{scope}.decoder.bias", tf1=f"{tf1}decoder/bias", when=untied),
    )


def masked_lm_copies(scope: str) -> dict[str, Callable[[EncoderConfig], tuple[Copy, ...]]]:
    """transformers ties both the table and the bias, or neither; if untied, it reads the decoder's."""
    bias, decoder = f"{scope}.bias", f"{scope}.decoder"

    def copies(config: EncoderConfig) -> tuple[Copy, ...]:
        if untied(config):
            return (Copy(bias, of=f"{decoder}.bias", equal=False),)
        return (
            Copy(f"{decoder}.weight", of="{root}embeddings.word_embeddings.weight"),
            Copy(f"{decoder}.bias", of=bias),
        )

    return {"hf": copies}


CLASSIFIER = Row(OUTPUT, "classifier/dense", hf="classifier", tf1="")
SPAN = Row(OUTPUT, "span/dense", hf="qa_outputs", tf1="cls/squad/")


def beam_span_head(before: str = "", **options) -> Head:
    """The head that predicts an answer's end given its start; `before` is the prefix of Hugging Face's names."""
    rows = (
        Row(DENSE, "span/start", hf=f"{before}start_logits.dense"),
        Row(DENSE, "span/end_transform", hf=f"{before}end_logits.dense_0"),
        Row(NORM, "span/end_norm", hf=f"{before}end_logits.LayerNorm"),
        Row(DENSE, "span/end", hf=f"{before}end_logits.dense_1"),
        Row(DENSE, "span/no_answer_transform", hf=f"{before}answer_class.dense_0"),
        Row(KERNEL, "span/no_answer", hf=f"{before}answer_class.dense_1"),
    )
    return Head(rows, **options)


def without_dropout(config: EncoderConfig) -> dict[str, Any]:
    """Options of a head's output (see `Head`), as are those below."""
    return {"dropout": 0.0}


def hidden_dropout(config: EncoderConfig) -> dict[str, Any]:
    return {"dropout": config.hidden_dropout}


def span_dropout(config: EncoderConfig) -> dict[str, Any]:
    return {"dropout": config.span_dropout}


def with_layer(
    config: EncoderConfig, activation: str = "tanh", dropout_first: float | None = None
) -> dict[str, Any]:
    """Logits after a dense layer, with dropout before and after it."""
    rate = config.head_dropout
    return {
        "dropout": rate,
        "dropout_first": rate if dropout_first is None else dropout_first,
        "transform": activation,
        "transform_size": config.hidden_size,
    }


# Tasks whose heads differ only in the meaning of their logits.
SENTENCE_TASKS = ("classification", "multi_label_classification", "regression", "reranking")
# Heads for fine-tuning, with the same names in most families.
TASK_HEADS = {
    **dict.fromkeys((*SENTENCE_TASKS, "multiple_choice"), Head((CLASSIFIER,), pooler=True)),
    "token_classification": Head((CLASSIFIER,)),
    "question_answering": Head((SPAN,), output=span_dropout),
}

MASKED_LM_ROWS = masked_lm_rows(
    "cls.predictions", dense="transform.dense", norm="transform.LayerNorm"
)
MASKED_LM_COPIES = masked_lm_copies("cls.predictions")
NEXT_SENTENCE = Row(
    OUTPUT, "next_sentence/dense", hf="cls.seq_relationship", tf1="cls/seq_relationship/"
)
HEADS = {
    "masked_lm": Head(MASKED_LM_ROWS, copies=MASKED_LM_COPIES),
    "pretraining": Head((*MASKED_LM_ROWS, NEXT_SENTENCE), pooler=True, copies=MASKED_LM_COPIES),
    **TASK_HEADS,
    "next_sentence_prediction": Head((NEXT_SENTENCE,), pooler=True, output=without_dropout),
}

SIZES = [
    *map(ConfigRow, ("vocab_size", "hidden_size", "intermediate_size")),
    ConfigRow("num_layers", "num_hidden_layers"),
    ConfigRow("num_heads", "num_attention_heads"),
]
ROWS = [
    *SIZES,
    ConfigRow("max_positions", "max_position_embeddings", optional=True),
    ConfigRow("num_segments", "type_vocab_size", optional=True),
    ConfigRow("hidden_dropout", "hidden_dropout_prob", optional=True),
    ConfigRow("attention_dropout", "attention_probs_dropout_prob", optional=True),
    ConfigRow("initializer_range", optional=True),
]
HF_ROWS = [
    ConfigRow("activation", "hidden_act", ACTIVATIONS, optional=True),
    ConfigRow("layer_norm_epsilon", "layer_norm_eps", optional=True),
    ConfigRow("tie_word_embeddings", optional=True),
    ConfigRow("pad_id", "pad_token_id", optional=True),
]
# Unused keys in configurations converted from Google's multilingual and Chinese files.
POOLER_KEYS = frozenset(
    """
    directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type
    """.split()
)
# TinyBERT's settings of distillation, which no weight depends on.
TINYBERT_KEYS = frozenset("cell emb_size pre_trained structure training".split())
HF_CODEC = ConfigCodec(
    rows=[*ROWS, *HF_ROWS, ConfigRow("classifier_dropout", optional=True)],
    ignored=POOLER_KEYS | TINYBERT_KEYS,
    fixed={"position_embedding_type": ("absolute",)},
    written={"position_embedding_type": "absolute"},
)
TF1_CODEC = ConfigCodec(
    rows=[
        *ROWS,
        ConfigRow("activation", "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"}, optional=True),
    ],
    ignored=POOLER_KEYS,
)


def hf_classes(prefix: str, lacks: str = "") -> dict[str, str]:
    """Hugging Face's classes of a family by task, but for those of tasks in `lacks`; their names begin with `prefix`."""
    classes = {
        "encoder": f"{prefix}Model",
        "masked_lm": f"{prefix}ForMaskedLM",
        **dict.fromkeys(SENTENCE_TASKS, f"{prefix}ForSequenceClassification"),
        "multiple_choice": f"{prefix}ForMultipleChoice",
        "token_classification": f"{prefix}ForTokenClassification",
        "question_answering": f"{prefix}ForQuestionAnswering",
    }
    return {task: name for task, name in classes.items() if task not in lacks.split()}


def heads_of(classes: Mapping[str, str], **own: Head) -> dict[str, Head]:
    """The heads of tasks that have one of these classes of transformers: BERT's, but for the family's `own`."""
    return {task: head for task, head in (HEADS | own).items() if task in classes}


MODEL_GARDEN_HEAD = {
    "masked_lm/transform": "cls/predictions/transform/dense",
    "masked_lm/norm": "cls/predictions/transform/LayerNorm",
    "masked_lm": "cls/predictions/output_bias",
}


class Untyped(HuggingFace):
    """Also reads a config.json from before the key `model_type` existed."""

    def is_of_family(self, values: JsonObject) -> bool:
        if "model_type" in values or self.tokenizer_class:
            return super().is_of_family(values)
        # A configuration that names a Keras class comes from another program.
        return "class_name" not in values


HF = Untyped(
    model_type="bert",
    codec=HF_CODEC,
    root="bert.",
    classes={
        **hf_classes("Bert"),
        "pretraining": "BertForPreTraining",
        "next_sentence_prediction": "BertForNextSentencePrediction",
    },
    # Version 1 has one for all layers; version 2, on the hub, has one for each layer
    # (huawei-noah/Pretrained-Language-Model, TinyBERT/transformer/modeling.py, and its issue #124).
    unread={r"^fit_dense(s\.\d+)?\.": "head that TinyBERT was distilled with"},
)


# -------------------------------------------------------------------------------------------------
# Assembles BERT's layers.
# -------------------------------------------------------------------------------------------------


def blocks(
    config: EncoderConfig,
    dtype,
    block_class: type | None = None,
    attention: Callable[..., Any] | None = None,
) -> list:
    """Blocks of `block_class` with attention (number, layer options) -> layer; `SelfAttention` by default."""
    from bert_zoo.layers import FeedForward, PostNormBlock, SelfAttention

    options = {"initializer_range": config.initializer_range, "dtype": dtype}

    def self_attention(i: int, **options) -> SelfAttention:
        return SelfAttention(
            config.num_heads, config.hidden_size, dropout=config.attention_dropout, **options
        )

    def block(i: int):
        return (block_class or PostNormBlock)(
            (attention or self_attention)(i, name="attention", **options),
            FeedForward(
                config.intermediate_size,
                config.hidden_size,
                activation=config.activation,
                name="feed_forward",
                **options,
            ),
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            dtype=dtype,
            name=f"layer_{i}",
        )

    return [block(i) for i in range(config.num_blocks)]


def embedding_options(config: EncoderConfig, dtype) -> dict[str, Any]:
    """The arguments of `bert_zoo.layers.Embeddings`."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "embedding_size": config.table_width,
        "max_positions": config.max_positions,
        "num_segments": config.num_segments,
        "position_offset": config.position_offset,
        "pad_id": config.pad_id,
        "epsilon": config.layer_norm_epsilon,
        "dropout": config.hidden_dropout,
        "initializer_range": config.initializer_range,
        "dtype": dtype,
        "name": "embeddings",
    }


def backbone(
    config: EncoderConfig,
    dtype,
    stack: Any = None,
    embeddings: Any = None,
    backbone_class: type | None = None,
):
    """Embeddings, a stack and a pooler if the configuration has one. Without `stack`, `embeddings` and `backbone_class`,
    a stack of post-norm blocks, `Embeddings` and `TransformerBackbone`.
    """
    from bert_zoo.layers import Embeddings, Pooler, Stack, TransformerBackbone

    hidden_size, pooler = config.hidden_size, None
    if config.pooler:
        initializer_range = config.initializer_range
        pooler = Pooler(
            hidden_size, initializer_range=initializer_range, dtype=dtype, name="pooler"
        )
    return (backbone_class or TransformerBackbone)(
        config,
        embeddings=embeddings or Embeddings(**embedding_options(config, dtype)),
        stack=stack
        or Stack(
            blocks(config, dtype),
            hidden_size,
            blocks_of_layers=config.blocks_of_layers,
            dtype=dtype,
            name="stack",
        ),
        pooler=pooler,
        dtype=dtype,
    )


FAMILY = Family(
    name="bert",
    backbone=backbone,
    defaults={"vocab_size": 30522},
    formats={
        "hf": HF,
        "tf1": TF1(codec=TF1_CODEC, config_file="bert_config.json", root="bert/"),
        "keras_hub": keras_hub.KerasHub(
            class_name="BertBackbone",
            codec=keras_hub.codec(keras_hub.SEGMENTS, defaults={"activation": "gelu_tanh"}),
            layers={
                **keras_hub.TABLES,
                **keras_hub.ENCODER,
                **keras_hub.CLASSIFIER,
                "pooler/dense": "layers/dense",
            },
            classes={"BertTextClassifier": "BertForSequenceClassification"},
        ),
        **model_garden.formats(
            {**model_garden.LAYERS, **model_garden.BLOCKS, **MODEL_GARDEN_HEAD},
            defaults={"activation": "gelu_tanh"},
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    text=TextFormat(read_wordpiece, transformers_class="BertTokenizer"),
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm", "next_sentence"),
    pretraining="masked_tokens",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
