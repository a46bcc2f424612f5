"""BERT's weight rows and heads, and helpers for other families'."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_zoo.config import EncoderConfig
from bert_zoo.weights.table import BIAS, DENSE, EMBED, KERNEL, NORM, OUTPUT, Copy, Head, Row

LAYER = "encoder.layer.{i}."
ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", hf="embeddings.word_embeddings"),
    Row(EMBED, "embeddings/position_embedding", hf="embeddings.position_embeddings"),
    Row(EMBED, "embeddings/segment_embedding", hf="embeddings.token_type_embeddings"),
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
    Row(DENSE, "pooler/dense", hf="pooler.dense", when=lambda config: config.pooler),
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


def projecting_head(
    transform: str, norm: str, decoder: str, activation: str | None = None, **bias: str
) -> Head:
    """A masked-language-model head with a named decoder and a bias, tied or not.

    Args:
        transform, norm, decoder: Hugging Face's names.
        activation: see `Head`.
        **bias: names of the bias in other formats.
    """

    def copies(config: EncoderConfig) -> tuple[Copy, ...]:
        table = Copy(f"{decoder}.weight", of="{root}embeddings.word_embeddings.weight")
        return () if untied(config) else (table,)

    return Head(
        (
            Row(DENSE, "masked_lm/transform", hf=transform),
            Row(NORM, "masked_lm/norm", hf=norm),
            Row(EMBED, "masked_lm/decoder", hf=decoder, when=untied),
            Row(BIAS, "masked_lm", hf=f"{decoder}.bias", **bias),
        ),
        activation=activation,
        copies={"hf": copies},
    )


def masked_lm_rows(scope: str, *, dense: str, norm: str) -> tuple[Row, ...]:
    """The rows of a masked-language-model head.

    Args:
        scope: prefix of the head's names in Hugging Face's files.
        dense, norm: the rest of its transform's names.
    """
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
    """The head that predicts an answer's end given its start.

    Args:
        before: prefix of its names in Hugging Face's files.
        **options: other arguments of `Head`.
    """
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
