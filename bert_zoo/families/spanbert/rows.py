"""SpanBERT's weight rows."""

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.weights.table import BIAS, DENSE, EMBED, NORM, Copy, Row

# The original has the names of pytorch_pretrained_bert under fairseq's prefix `decoder.`.
SPANS = "cls.pair_target_predictions"
SPAN_BOUNDARY_ROWS = (
    Row(EMBED, "span_boundary/target_position", hf=f"{SPANS}.position_embeddings"),
    Row(DENSE, "span_boundary/first", hf=f"{SPANS}.mlp_layer_norm.linear1"),
    Row(NORM, "span_boundary/first_norm", hf=f"{SPANS}.mlp_layer_norm.layer_norm1"),
    Row(DENSE, "span_boundary/second", hf=f"{SPANS}.mlp_layer_norm.linear2"),
    Row(NORM, "span_boundary/second_norm", hf=f"{SPANS}.mlp_layer_norm.layer_norm2"),
    Row(BIAS, "span_boundary", hf=f"{SPANS}.bias"),
)


def copies(config) -> tuple[Copy, ...]:
    table = Copy(f"{SPANS}.decoder.weight", of="{root}embeddings.word_embeddings.weight")
    return (*bert_rows.MASKED_LM_COPIES["hf"](config), table)
