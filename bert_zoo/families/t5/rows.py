"""T5's weight rows and heads."""

from collections.abc import Iterator
from typing import Any

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.t5.config import T5Config
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


def stack_rows(stack: str, ours: str, layers: int, config: T5Config) -> Iterator[Row]:
    """The rows of the encoder's or the decoder's stack; decoder blocks have one sublayer more.

    Args:
        stack: its name in files.
        ours: prefix of our names of its blocks and bias.
        layers: the number of its blocks.
    """
    decodes = stack == "decoder"

    def row(kind: Kind, path: str, block: int, sublayer: int, *names: str) -> Row:
        tf1 = f"{stack}/block_{block:03d}/layer_{sublayer:03d}/"
        return Row(
            kind,
            ours + path,
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


def final_norm(stack: str, ours: str) -> Row:
    hf, tf1 = (f"{stack}{separator}final_layer_norm" for separator in "./")
    return Row(NORM, ours, hf=hf, tf1=tf1)


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
    Row(LOGITS, "decoder/logits", hf="lm_head", tf1="decoder/logits", when=bert_rows.untied),
)


def reads_decoder(config: T5Config) -> bool:
    return config.heads_read_decoder


def summary(config: T5Config) -> str:
    """The decoder has read the whole text at its last token; the encoder has no token for it."""
    return LAST_REAL_TOKEN if config.pooler else MEAN


def output(config: T5Config) -> dict[str, Any]:
    read_by = bert_rows.with_layer if reads_decoder(config) else after_dropout
    return read_by(config)


# transformers' classifier reads the decoder. Without its weights, these heads read the encoder.
SENTENCE = Head(
    (
        Row(DENSE, "classifier/transform", hf="classification_head.dense", when=reads_decoder),
        Row(OUTPUT, "classifier/dense", hf="classification_head.out_proj", when=reads_decoder),
        bert_rows.CLASSIFIER.only(lambda config: not reads_decoder(config)),
    ),
    reads_decoder=True,
    summary=summary,
    output=output,
)
ENCODER_HEADS = {
    **dict.fromkeys(bert_rows.SENTENCE_TASKS, SENTENCE),
    "multiple_choice": Head((bert_rows.CLASSIFIER,), summary=lambda config: MEAN),
    "token_classification": Head((bert_rows.CLASSIFIER,)),
    "question_answering": Head(
        (bert_rows.SPAN,), reads_decoder=True, output=bert_rows.span_dropout
    ),
}
