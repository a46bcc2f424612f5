"""What the files of GPT and GPT-2 share: rows, configuration keys, heads."""

from collections.abc import Callable, Mapping
from typing import Any

from bert_zoo.config import UNLIMITED, is_integer
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.gpt.config import CausalConfig
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import EMBED, LAST_WITHOUT_PAD_ID, OUTPUT, Copy, Head, Kind, Row, Stored


# Conv1D's kernels are [in, out] in all programs; the original's have a first axis for a window of one token.
def conv1d(rows: Callable[[Any], int], columns: Callable[[Any], int]) -> Kind:
    """The kind of a dense layer with sizes from the configuration."""
    with_window = Stored("/w", shape=lambda config: (1, rows(config), columns(config)))
    return {
        "kernel": {"pytorch": Stored(".weight"), "tensorflow": with_window},
        "bias": {"pytorch": Stored(".bias"), "tensorflow": Stored("/b")},
    }


NORM: Kind = {
    "gamma": {"pytorch": Stored(".weight"), "tensorflow": Stored("/g")},
    "beta": {"pytorch": Stored(".bias"), "tensorflow": Stored("/b")},
}


def hidden(config: CausalConfig) -> int:
    return config.hidden_size


def inner(config: CausalConfig) -> int:
    return config.intermediate_size


def block_row(kind: Kind, ours: str, theirs: str) -> Row:
    names = {"hf": f"h.{{i}}.{theirs}", "tf1": "h{i}/" + theirs.replace(".", "/")}
    return Row(kind, f"stack/layer_{{i}}/{ours}", **names)


BLOCK_ROWS = (
    # Fused as ours: queries, keys, values.
    block_row(conv1d(hidden, lambda c: 3 * c.hidden_size), "attention/qkv", "attn.c_attn"),
    block_row(conv1d(hidden, hidden), "attention/output", "attn.c_proj"),
    block_row(NORM, "attention_norm", "ln_1"),
    block_row(conv1d(hidden, inner), "feed_forward/intermediate", "mlp.c_fc"),
    block_row(conv1d(inner, hidden), "feed_forward/output", "mlp.c_proj"),
    block_row(NORM, "output_norm", "ln_2"),
)


def with_inner_size(values: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the default width of the feed-forward layer to a configuration without one."""
    told = {key: value for key, value in values.items() if value is not None}
    width = told.get("n_embd")
    usual = {"n_inner": min(4 * width, UNLIMITED)} if is_integer(width) else {"n_inner": width}
    return usual | told if "n_embd" in told else told


def without_inner_size(values: dict[str, Any]) -> dict[str, Any]:
    """Removes that width where it is the default."""
    is_usual = values["n_inner"] == 4 * values["n_embd"]
    return {key: value for key, value in values.items() if key != "n_inner" or not is_usual}


SIZES = [
    ConfigRow("hidden_size", "n_embd"),
    ConfigRow("num_layers", "n_layer"),
    ConfigRow("num_heads", "n_head"),
    ConfigRow("intermediate_size", "n_inner"),
]
ROWS = [
    *SIZES,
    ConfigRow("vocab_size"),
    ConfigRow("max_positions", "n_positions", optional=True),
    ConfigRow("hidden_dropout", "resid_pdrop", optional=True),
    ConfigRow("embedding_dropout", "embd_pdrop", optional=True),
    ConfigRow("attention_dropout", "attn_pdrop", optional=True),
    ConfigRow("layer_norm_epsilon", optional=True),
    ConfigRow("initializer_range", optional=True),
    ConfigRow("tie_word_embeddings", optional=True),
    ConfigRow("pad_id", "pad_token_id", optional=True),
]
# Keys of a multiple-choice head that no released file has. n_ctx repeats n_positions.
IGNORED = frozenset(
    """
    n_ctx n_special predict_special_tokens summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj
    """.split()
)


def table_copies(table: str) -> dict[str, Callable[[CausalConfig], tuple[Copy, ...]]]:
    """Files may also hold the tied table under the head's name."""
    copy = Copy("lm_head.weight", of=f"{{root}}{table}.weight")
    return {"hf": lambda config: () if bert_rows.untied(config) else (copy,)}


def last_token(config: CausalConfig) -> str:
    return LAST_WITHOUT_PAD_ID


def without_bias(config: CausalConfig) -> dict[str, Any]:
    return {"dropout": config.output_dropout, "use_bias": False}


LOGITS = Row(EMBED, "softmax/table_0", hf="lm_head", when=bert_rows.untied)
SCORE = Head(
    (Row({"kernel": OUTPUT["kernel"]}, "classifier/dense", hf="score"),),
    summary=last_token,
    output=without_bias,
)
SENTENCE_HEADS = dict.fromkeys(bert_rows.SENTENCE_TASKS, SCORE)


def hf_classes(prefix: str) -> dict[str, str]:
    return {
        "encoder": f"{prefix}Model",
        "causal_lm": f"{prefix}LMHeadModel",
        **dict.fromkeys(bert_rows.SENTENCE_TASKS, f"{prefix}ForSequenceClassification"),
    }
