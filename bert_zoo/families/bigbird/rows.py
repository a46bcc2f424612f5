"""BigBird's weight rows and heads."""

from collections.abc import Mapping
from typing import Any

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.bigbird.config import BigBirdConfig
from bert_zoo.weights.table import BIAS, DENSE, KERNEL, NORM, Head, Row

LAYER = "encoder.layer.{i}.attention."
QKV = tuple(f"{LAYER}self.{part}" for part in ("query", "key", "value"))
OUTPUT, TF1_OUTPUT = f"{LAYER}output.dense", "encoder/layer_{i}/attention/output/dense"


def has_biases(config: BigBirdConfig) -> bool:
    return config.use_bias


def lacks_biases(config: BigBirdConfig) -> bool:
    return not config.use_bias


ENCODER_ROWS = (
    *bert_rows.renamed(
        bert_rows.ENCODER_ROWS,
        "tf1",
        {"embeddings/norm": "encoder/LayerNorm"},
        lacks="stack/layer_{i}/attention/qkv stack/layer_{i}/attention/output pooler/dense",
    ),
    Row(DENSE, "stack/layer_{i}/attention/qkv", hf=QKV, when=has_biases),
    Row(KERNEL, "stack/layer_{i}/attention/qkv", hf=QKV, when=lacks_biases),
    Row(DENSE, "stack/layer_{i}/attention/output", hf=OUTPUT, when=has_biases),
    Row(KERNEL, "stack/layer_{i}/attention/output", hf=OUTPUT, when=lacks_biases),
    # Google's models without query biases have no bias here either.
    Row(BIAS, "stack/layer_{i}/attention/output", hf=f"{OUTPUT}.bias", tf1=(), when=lacks_biases),
    Row(DENSE, "pooler/dense", hf="pooler", tf1="pooler/dense", when=lambda config: config.pooler),
)


# --- Heads ---------------------------------------------------------------------------------------

# Google's program stores the transform of the masked-token head at the root.
MASKED_LM_ROWS = bert_rows.renamed(
    bert_rows.MASKED_LM_ROWS,
    "tf1",
    {"masked_lm/transform": "transform", "masked_lm/norm": "transform"},
)


def dense_layer(config: BigBirdConfig, **options):
    """The dense layer before a classifier's logits; in Google's models it is the pooler."""
    from bert_zoo.families.bigbird.sparse_attention import DenseLayer

    is_pooler = config.classifier_activation is not None
    return DenseLayer(
        config.hidden_size,
        activation=config.classifier_activation or config.activation,
        dropout=0.0 if is_pooler else config.head_dropout,
        **options,
    )


def answer_block(config: BigBirdConfig, **options):
    """The block before the logits of answers."""
    from bert_zoo.families.bigbird.sparse_attention import FeedForwardBlock

    return FeedForwardBlock(
        config.intermediate_size,
        config.hidden_size,
        activation=config.activation,
        epsilon=config.layer_norm_epsilon,
        dropout=config.hidden_dropout,
        **options,
    )


def in_question(config: BigBirdConfig, inputs: Mapping[str, Any]):
    """Marks the tokens up to the first separator, except the row's first token: bool [batch, length]."""
    from keras import ops

    is_separator = ops.cast(ops.equal(inputs["token_ids"], config.sep_id), "int32")
    so_far = ops.cumsum(is_separator, axis=1)
    is_text = ops.arange(ops.shape(so_far)[1]) > 0
    has_question = ops.logical_and(so_far[:, -1:] > 0, ops.equal(so_far, is_separator))
    return ops.logical_and(has_question, is_text)


# Hugging Face's head has its own layer over the first token. Google's head reads the pooler, the same layer with
# another activation, so fine-tuning Google's files starts from the pooler's weights.
CLASSIFICATION = Head(
    (
        Row(DENSE, "prediction_head/dense", hf="classifier.dense", tf1="bert/pooler/dense"),
        Row(DENSE, "classifier/dense", hf="classifier.out_proj", tf1="bert/classifier"),
    ),
    prepare=dense_layer,
)
CLASSIFIER = bert_rows.CLASSIFIER.named(tf1=())
QA = "qa_classifier."
HEADS = {
    "masked_lm": Head(MASKED_LM_ROWS, copies=bert_rows.MASKED_LM_COPIES),
    "pretraining": Head(
        (*MASKED_LM_ROWS, bert_rows.NEXT_SENTENCE), pooler=True, copies=bert_rows.MASKED_LM_COPIES
    ),
    **dict.fromkeys(bert_rows.SENTENCE_TASKS, CLASSIFICATION),
    "multiple_choice": Head((CLASSIFIER,), pooler=True, output=bert_rows.hidden_dropout),
    "token_classification": Head((CLASSIFIER,)),
    "question_answering": Head(
        (
            Row(DENSE, "prediction_head/intermediate", hf=f"{QA}intermediate.dense", tf1=()),
            Row(DENSE, "prediction_head/output", hf=f"{QA}output.dense", tf1=()),
            Row(NORM, "prediction_head/norm", hf=f"{QA}output.LayerNorm", tf1=()),
            Row(DENSE, "span/dense", hf=f"{QA}qa_outputs", tf1=()),
        ),
        output=bert_rows.span_dropout,
        prepare=answer_block,
        no_answer=in_question,
    ),
}
