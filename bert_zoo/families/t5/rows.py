"""T5's weight rows and heads."""

from collections.abc import Iterator

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.t5.config import T5Config
from bert_zoo.weights.table import EMBED, KERNEL, MEAN, Copy, Head, Kind, Row, Stored

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
SELF, CROSS, DENSE = "SelfAttention", "EncDecAttention", "DenseReluDense"


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
        first = (f"{DENSE}.{name}" for name in first)
        yield row(KERNEL, f"{block}feed_forward/intermediate", i, last, *first)
        yield row(KERNEL, f"{block}feed_forward/output", i, last, f"{DENSE}.wo")
        yield row(NORM, f"{block}output_norm", i, last, "layer_norm")


def encoder_stack(config: T5Config) -> Iterator[Row]:
    return stack_rows("encoder", "stack/", config.num_layers, config)


def decoder_stack(config: T5Config) -> Iterator[Row]:
    return stack_rows("decoder", "decoder/", config.decoder_layers, config)


def final_norm(stack: str, ours: str) -> Row:
    hf, tf1 = (f"{stack}{separator}final_layer_norm" for separator in "./")
    return Row(NORM, ours, hf=hf, tf1=tf1)


ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", hf="shared", tf1="shared/embedding"),
    encoder_stack,
    final_norm("encoder", "final_norm"),
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


def mean(config: T5Config) -> str:
    return MEAN


# transformers' classifier reads the decoder. These heads read the encoder, which has no first token for the whole
# text.
ENCODER_HEADS = {
    **dict.fromkeys(
        (*bert_rows.SENTENCE_TASKS, "multiple_choice"), Head((bert_rows.CLASSIFIER,), summary=mean)
    ),
    "token_classification": Head((bert_rows.CLASSIFIER,)),
    "question_answering": Head((bert_rows.SPAN,), output=bert_rows.span_dropout),
}
