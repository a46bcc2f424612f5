"""BigBird's configuration, and how configuration files store it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bert_zoo.config import ConfigError, EncoderConfig
from bert_zoo.error_text import shown
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bigbird.random_blocks import fewest_blocks
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.tf1 import sizes_in

SPARSE = "block_sparse"
ATTENTION_TYPES = (SPARSE, "original_full")
# The random blocks of the released models, or block 0 in place of each, as in transformers' evaluation mode.
DRAWN, BLOCK_0 = "original", "hf_evaluation"
RANDOM_BLOCKS = (DRAWN, BLOCK_0)


@dataclass(frozen=True, kw_only=True)
class BigBirdConfig(EncoderConfig):
    """The configuration of a BigBird.

    `hidden_dropout` acts before the norm of the embeddings. `attention_dropout` acts only in rows with full
    attention.
    """

    attention_type: str = SPARSE  # one of `ATTENTION_TYPES`
    block_size: int = 64  # tokens per block
    num_random_blocks: int = 3  # random blocks that each block attends to
    random_blocks: str = DRAWN  # one of `RANDOM_BLOCKS`
    use_bias: bool = True  # whether queries, keys and values have biases
    rescale_embeddings: bool = (
        False  # whether tokens' vectors are multiplied by the root of their width
    )
    # Of the layer before a classifier's logits; None: the same as `activation`. With "tanh", the layer is the pooler.
    classifier_activation: str | None = None
    sep_id: int = 66  # id of the separator, which ends a question

    def __post_init__(self):
        super().__post_init__()
        problems = self.problems_with(
            positive=("block_size",),
            natural={"num_random_blocks": "none", "sep_id": "the first one"},
        )
        choices = {"attention_type": ATTENTION_TYPES, "random_blocks": RANDOM_BLOCKS}
        choices["classifier_activation"] = (None, "tanh")
        problems += [
            f"{name} is {shown(getattr(self, name))}; choose one of {values}."
            for name, values in choices.items()
            if getattr(self, name) not in values
        ]
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    @property
    def most_seen_by_all(self) -> int:
        """The largest number of tokens in a row with full attention."""
        is_sparse = self.attention_type == SPARSE
        fewest = fewest_blocks(self.num_random_blocks)
        return (fewest - 1) * self.block_size if is_sparse else self.longest_input

    @property
    def has_random_blocks(self) -> bool:
        """Whether random blocks are drawn."""
        return self.random_blocks == DRAWN


DEFAULTS = {"vocab_size": 50358, "max_positions": 4096, "activation": "gelu_tanh"}
HF_CODEC = replace(
    bert_formats.HF_CODEC,
    rows=[
        *bert_formats.HF_CODEC.rows,
        *(
            ConfigRow(name, optional=True)
            for name in ("attention_type", "block_size", "num_random_blocks", "random_blocks")
        ),
        *(ConfigRow(name, optional=True) for name in ("use_bias", "rescale_embeddings")),
        ConfigRow("classifier_activation", optional=True),
        ConfigRow("sep_id", "sep_token_id", optional=True),
    ],
    defaults=DEFAULTS,
    config_class=BigBirdConfig,
)

# Google's classifier reads the pooler (see `rows.py`).
TF1_HEAD = {"classifier_activation": "tanh"}
TF1_DEFAULTS = DEFAULTS | TF1_HEAD
TABLES, FIRST_LAYER = "bert/embeddings/", "bert/encoder/layer_0/"
TF1_SIZES = {
    "vocab_size": (f"{TABLES}word_embeddings", 0),
    "hidden_size": (f"{TABLES}word_embeddings", 1),
    "max_positions": (f"{TABLES}position_embeddings", 0),
    "num_segments": (f"{TABLES}token_type_embeddings", 0),
    "intermediate_size": (f"{FIRST_LAYER}intermediate/dense/kernel", 1),
}
# A tensor that only Google's BigBird checkpoints have.
TF1_SIGN = "bert/encoder/LayerNorm/gamma"


def sizes_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Reads the sizes off the shapes of Google's tensors; returns {} for another program's."""
    if TF1_SIGN not in shapes:
        return {}
    sizes = sizes_in(shapes, TF1_SIZES, layer="bert/encoder/layer_([^/]*)")
    query = f"{FIRST_LAYER}attention/self/query/"
    kernel = shapes.get(f"{query}kernel", ())
    heads = {"num_heads": kernel[1]} if len(kernel) == 3 else {}
    return {**sizes, **heads, "use_bias": f"{query}bias" in shapes}


TF1_CODEC = ConfigCodec(
    rows=[ConfigRow(name) for name in (*TF1_SIZES, "num_layers", "num_heads", "use_bias")],
    defaults=TF1_DEFAULTS,
    config_class=BigBirdConfig,
    prepare=sizes_of,
)
# The settings of a run, which Google's programs save with its checkpoints.
FLAGS_CODEC = ConfigCodec(
    rows=[
        *bert_formats.TF1_CODEC.rows,
        *map(ConfigRow, ("attention_type", "block_size")),
        ConfigRow("num_random_blocks", "num_rand_blocks"),
        ConfigRow("use_bias"),
        ConfigRow("rescale_embeddings", "rescale_embedding"),
    ],
    fixed={"norm_type": ("postnorm",), "scope": ("bert",)},
    ignored=None,
    defaults=TF1_DEFAULTS,
    config_class=BigBirdConfig,
)
