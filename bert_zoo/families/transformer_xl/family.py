"""Transformer-XL (Dai et al. 2019, arXiv:1901.02860): segment recurrence, relative positions."""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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
from bert_zoo.error_text import shown
from bert_zoo.families.transformer_xl.cards import CHECKPOINTS, NANO, PRESETS, WT103_CUTOFFS
from bert_zoo.families.transformer_xl.text import read_vocabulary
from bert_zoo.family import Family
from bert_zoo.fields import setting
from bert_zoo.text.format import TextFormat, rows_of_language_models
from bert_zoo.text.numpy_packing import PLAIN
from bert_zoo.weights.formats import TF1, HuggingFace, Torch
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, EMBED, KERNEL, NORM, Copy, Head, Row, Stored, raw

# Values of `same_length_keys`: the number of keys that each query attends to.
SAME_LENGTH_KEYS = ("mem_len", "mem_len+1")
MEMORY_STARTS = ("zeros", "empty")
# Largest memory allowed, in tokens. No parameter count limits it.
MOST_REMEMBERED = 1 << 20


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Config):
    """A Transformer-XL's configuration (Dai et al. 2019), with names that the original programs and papers share."""

    on_card: ClassVar[tuple[str, ...]] = (
        *("num_layers", "hidden_size", "num_heads", "head_size", "intermediate_size", "vocab_size"),
        *("mem_len", "clamp_len", "same_length", "same_length_keys", "memory_start"),
    )

    vocab_size: int = size()  # tokens; by falling frequency if there are `cutoffs`
    hidden_size: int = size()  # width of the residual stream ("d_model")
    num_layers: int = size(most=MOST_LAYERS)  # blocks
    num_heads: int = size()  # attention heads per block
    # Width of a head; `num_heads * head_size` need not be `hidden_size`.
    head_size: int = size()
    intermediate_size: int = size()  # width of the feed-forward layer ("d_inner")
    # Width of the first cluster's table ("d_embed").
    embedding_size: int = size(0, special=(0, "as hidden_size"))
    cutoffs: tuple[int, ...] = ()  # first ids of the clusters after the first; (): plain softmax
    # Each cluster's table is narrower than the one before by this factor; with 1, all share one table.
    div_val: int = size(1)
    # For each cluster, whether its softmax uses its embedding's projection; () ties all but the first, as most
    # programs do.
    tie_projs: tuple[bool, ...] = ()
    # Whether a table of width `hidden_size` also has a projection (if `div_val` is not 1).
    proj_same_dim: bool = True
    tie_word_embeddings: bool = True  # whether the softmax's tables are the embeddings'
    untie_r: bool = False  # whether each layer has its own biases u and v
    pre_lnorm: bool = False  # whether layer norms come before sublayers
    # Hidden states that a layer keeps of earlier segments.
    mem_len: int = size(0, most=MOST_REMEMBERED, special=(0, "no memory"))
    # Larger distances count as this one; not limited if it is not positive.
    clamp_len: int = size(-1, least=-UNLIMITED)
    same_length: bool = False  # whether all queries attend to the same number of keys
    # That number: "mem_len+1", including the query's own position (TensorFlow original), or "mem_len" (PyTorch
    # original, Hugging Face).
    same_length_keys: str = setting("mem_len+1", choices=SAME_LENGTH_KEYS)
    # The memory before a text: "zeros" are attended to like any memory (TensorFlow original, Hugging Face);
    # "empty" is no memory (PyTorch original).
    memory_start: str = setting("zeros", choices=MEMORY_STARTS)
    # Activation of the feed-forward layer.
    activation: str = activation_name("relu")
    layer_norm_epsilon: float = positive(1e-12, most=MOST_EPSILON)  # added to the variance
    # Rate on embeddings, positions, sublayers' outputs, final output.
    hidden_dropout: float = rate(0.1)
    attention_dropout: float = rate(0.0)  # rate on attention probabilities
    # Standard deviations of randomly initialised weights, and of tables' projections.
    initializer_range: float = deviation(0.02)
    projection_initializer_range: float = deviation(0.01)

    softmax_bias: ClassVar[bool] = True

    def contradictions(self) -> Iterator[str]:
        if [*self.cluster_bounds] != sorted({*self.cluster_bounds}):
            yield (
                f"cutoffs are {shown(self.cutoffs)}; they must be rising integers between 0 and the "
                f"{self.vocab_size} tokens of the vocabulary."
            )
        if not all(self.table_widths):
            yield (
                f"div_val {self.div_val} leaves the last of {len(self.cluster_sizes)} clusters no "
                f"width: {shown(self.table_widths)}."
            )
        if self.tie_projs and len(self.tie_projs) != len(self.cutoffs) + 1:
            yield (
                f"tie_projs are {shown(self.tie_projs)}; there must be True or False for each of the "
                f"{len(self.cutoffs) + 1} clusters of the cutoffs, or nothing."
            )
        if self.hidden_size % 2:
            yield (
                f"hidden_size is {self.hidden_size}; positions are pairs of a sine and a cosine, "
                "so it must be even."
            )
        if self.attention_span == 0:
            yield (
                "same_length with mem_len 0 and same_length_keys 'mem_len' leaves queries no key to "
                "see; set same_length=False, or same_length_keys='mem_len+1'."
            )

    @property
    def output_dropout(self) -> float:
        """The rate before the softmax."""
        return self.hidden_dropout

    @property
    def cluster_bounds(self) -> tuple[int, ...]:
        """First id of each cluster, then the size of the vocabulary."""
        return (0, *self.cutoffs, self.vocab_size)

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """Number of tokens in each cluster."""
        bounds = self.cluster_bounds
        return tuple(end - start for start, end in itertools.pairwise(bounds))

    @property
    def table_sizes(self) -> tuple[int, ...]:
        """Rows of each embedding table; one table per cluster, or one for all."""
        return (self.vocab_size,) if self.div_val == 1 else self.cluster_sizes

    @property
    def table_widths(self) -> tuple[int, ...]:
        """Width of each embedding table."""
        first = self.embedding_size or self.hidden_size
        # Step by step, because a large power of div_val would have more digits than memory holds.
        return tuple(
            itertools.accumulate(
                self.table_sizes, lambda width, _: width // self.div_val, initial=first
            )
        )[:-1]

    @property
    def is_projected(self) -> tuple[bool, ...]:
        """For each table, whether it is projected to `hidden_size`."""
        always = self.div_val > 1 and self.proj_same_dim
        return tuple(always or width != self.hidden_size for width in self.table_widths)

    def table_of(self, cluster: int) -> int:
        """The number of the table that holds a cluster."""
        return 0 if self.div_val == 1 else cluster

    def has_own_projection(self, cluster: int) -> bool:
        """Whether a cluster's softmax has its own projection."""
        return self.is_projected[self.table_of(cluster)] and not self.shares_projection(cluster)

    def shares_projection(self, cluster: int) -> bool:
        """Whether a cluster's softmax uses its embedding's projection."""
        return self.tie_projs[cluster] if self.tie_projs else cluster > 0

    @property
    def attention_span(self) -> int | None:
        """The most keys that a query attends to, including its own position; None: all."""
        if not self.same_length:
            return None
        return self.mem_len + (self.same_length_keys == "mem_len+1")


SIZES = [
    ConfigRow("hidden_size", "d_model"),
    ConfigRow("num_layers", "n_layer"),
    ConfigRow("num_heads", "n_head"),
    ConfigRow("head_size", "d_head"),
    ConfigRow("embedding_size", "d_embed", optional=True),
]


def with_tie_projs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts `proj_share_all_but_first` of Hugging Face's older files and the TF program's flags."""
    values = dict(values)
    shared = values.pop("proj_share_all_but_first", True)
    cutoffs = values.get("cutoffs", WT103_CUTOFFS)
    # The configuration raises an error for other values.
    clusters = len(cutoffs) if isinstance(cutoffs, list | tuple) else 0
    return {"tie_projs": [False, *[shared] * clusters], **values}


# TransfoXLConfig's defaults for keys that a file lacks: wt103's.
HF_DEFAULTS = {
    "cutoffs": WT103_CUTOFFS,
    "div_val": 4,
    "mem_len": 1600,
    "clamp_len": 1000,
    "same_length": True,
    "same_length_keys": "mem_len",
    "untie_r": True,
    "layer_norm_epsilon": 1e-5,
}
HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        *SIZES,
        ConfigRow("intermediate_size", "d_inner"),
        ConfigRow("layer_norm_epsilon", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
        ConfigRow("attention_dropout", "dropatt", optional=True),
        ConfigRow("initializer_range", "init_std", optional=True),
        ConfigRow("projection_initializer_range", "proj_init_std", optional=True),
        *(
            ConfigRow(name, optional=True)
            for name in (
                *("cutoffs", "div_val", "tie_projs", "tie_word_embeddings", "untie_r"),
                *("pre_lnorm", "mem_len", "clamp_len", "same_length"),
                # Not in Hugging Face's class, which has one choice for each and ignores them.
                *("proj_same_dim", "same_length_keys", "memory_start"),
            )
        ),
    ],
    fixed={"attn_type": (0,), "sample_softmax": (-1, 0)},
    ignored=frozenset({"adaptive", "ext_len", "init", "init_range", "pad_token_id", "tgt_len"}),
    defaults=HF_DEFAULTS,
    config_class=RecurrentConfig,
    prepare=with_tie_projs,
)

PROJECTION = {"kernel": {"pytorch": Stored("", transposed=True), "tensorflow": Stored("")}}
TF1_SOFTMAX = "transformer/adaptive_softmax/"


class Stacked(Stored):
    """One tensor holds a variable of all blocks."""

    def entry(self, block: int, blocks: int) -> tuple[int, int]:
        return block, blocks


class Reversed(Stored):
    """Rows are stored in reverse order."""

    def to_ours(self, tensor, part, config):
        return tensor[::-1]

    def to_stored(self, part, config):
        return part[::-1]


class ByCluster(Stored):
    """A tensor for each cluster of tokens."""

    def sizes(self, size: int, parts: int, config: RecurrentConfig) -> tuple[int, ...]:
        return config.cluster_sizes if parts > 1 else (size,)


def tf1_scope(config: RecurrentConfig, cluster: int) -> str:
    """The TF program's scope of a cluster; empty if all clusters share one table."""
    return "" if config.div_val == 1 else f"cutoff_{cluster}/"


def embedding_rows(config: RecurrentConfig) -> Iterator[Row]:
    for table, projected in enumerate(config.is_projected):
        scope = f"adaptive_embed/{tf1_scope(config, table)}"
        yield Row(
            EMBED,
            f"embeddings/table_{table}",
            hf=f"word_emb.emb_layers.{table}",
            tf1=f"{scope}lookup_table",
        )
        if projected:
            yield Row(
                PROJECTION,
                f"embeddings/projection_{table}",
                hf=f"word_emb.emb_projs.{table}",
                tf1=f"{scope}proj_W",
            )


def bias_rows(config: RecurrentConfig) -> Iterator[Row]:
    """The biases u and v: one pair, or one pair per layer, which the TF program stores in one tensor."""
    for variable, name in (("content_bias", "r_w_bias"), ("position_bias", "r_r_bias")):
        if config.untie_r:
            path, hf = "stack/layer_{i}/attention", f"layers.{{i}}.dec_attn.{name}"
            yield Row(raw(variable, tf1=Stacked("")), path, hf=hf, tf1=name)
        else:
            yield Row(raw(variable), "stack", hf=name, tf1=name)


def block_row(kind, path: str, hf: str, tf1: str) -> Row:
    return Row(kind, f"stack/layer_{{i}}/{path}", hf=f"layers.{{i}}.{hf}", tf1=f"layer_{{i}}/{tf1}")


ENCODER_ROWS = (
    embedding_rows,
    bias_rows,
    block_row(KERNEL, "attention/qkv", "dec_attn.qkv_net", "rel_attn/qkv"),
    block_row(KERNEL, "attention/position", "dec_attn.r_net", "rel_attn/r"),
    block_row(KERNEL, "attention/output", "dec_attn.o_net", "rel_attn/o"),
    block_row(NORM, "attention_norm", "dec_attn.layer_norm", "rel_attn/LayerNorm"),
    block_row(DENSE, "feed_forward/intermediate", "pos_ff.CoreNet.0", "ff/layer_1"),
    block_row(DENSE, "feed_forward/output", "pos_ff.CoreNet.3", "ff/layer_2"),
    block_row(NORM, "output_norm", "pos_ff.layer_norm", "ff/LayerNorm"),
)


def softmax_rows(config: RecurrentConfig) -> Iterator[Row]:
    if config.cutoffs:
        # The PyTorch original stores the head's cluster rows in reverse order.
        for variable, tf1 in (("cluster_weight", "cluster_W"), ("cluster_bias", "cluster_b")):
            yield Row(
                raw(variable, torch=Reversed("")),
                "softmax",
                hf=f"crit.{variable}",
                tf1=f"{TF1_SOFTMAX}cutoff_0/{tf1}",
            )
    clusters = range(len(config.cluster_sizes))
    for table in range(len(config.table_sizes)):
        scoped = [table] if config.div_val > 1 else clusters
        biases = tuple(f"{TF1_SOFTMAX}cutoff_{cluster}/b" for cluster in scoped)
        yield Row(
            raw(f"bias_{table}", tf1=ByCluster("")),
            "softmax",
            hf=f"crit.out_layers.{table}.bias",
            tf1=biases if config.cutoffs else f"{TF1_SOFTMAX}bias",
        )
        if not config.tie_word_embeddings:
            yield Row(EMBED, f"softmax/table_{table}", hf=f"crit.out_layers.{table}")
    for cluster in clusters:
        if config.has_own_projection(cluster):
            yield Row(
                raw(f"projection_{cluster}", pytorch=Stored("", transposed=True)),
                "softmax",
                hf=f"crit.out_projs.{cluster}",
                tf1=f"{TF1_SOFTMAX}cutoff_{cluster}/proj",
            )


def softmax_copies(config: RecurrentConfig) -> tuple[Copy, ...]:
    """PyTorch's files may hold tied tensors under both names."""
    tables = range(len(config.table_sizes)) if config.tie_word_embeddings else ()
    layer, projection = "{root}word_emb.emb_layers.", "{root}word_emb.emb_projs."
    copies = [Copy(f"crit.out_layers.{i}.weight", of=f"{layer}{i}.weight") for i in tables]
    for cluster in range(len(config.cluster_sizes)):
        table = config.table_of(cluster)
        if config.is_projected[table] and config.shares_projection(cluster):
            copies.append(Copy(f"crit.out_projs.{cluster}", of=f"{projection}{table}"))
    return tuple(copies)


def hf_copies(config: RecurrentConfig) -> tuple[Copy, ...]:
    """Hugging Face's layers also hold the shared biases."""
    biases = (
        Copy(f"{{root}}layers.{layer}.dec_attn.{name}", of=f"{{root}}{name}")
        for layer in range(config.num_layers)
        for name in ("r_w_bias", "r_r_bias")
    )
    return (*softmax_copies(config), *(() if config.untie_r else biases))


def frequencies(config: RecurrentConfig) -> dict[str, Any]:
    """The sinusoids' frequencies, which Hugging Face's class expects in files."""
    import numpy as np

    evens = np.arange(0, config.hidden_size, 2, dtype=np.float32)
    return {"pos_emb.inv_freq": 1 / (np.float32(10000) ** (evens / config.hidden_size))}


def unless_said(values: Mapping[str, Any], unsaid: Collection[str]) -> dict[str, Any]:
    """A program's defaults for the fields that another program's configuration file lacks."""
    return {name: value for name, value in values.items() if name in unsaid}


class OriginalTorch(Torch):
    def inferred_fields(self, source, config, unsaid) -> dict[str, Any]:
        return unless_said({"memory_start": "empty"}, unsaid)


class OriginalTF1(TF1):
    def inferred_fields(self, source, config, unsaid) -> dict[str, Any]:
        usual = {"same_length_keys": "mem_len+1", "layer_norm_epsilon": 1e-12}
        return unless_said(usual, unsaid)


FORMATS = {
    "hf": HuggingFace(
        buffers=frequencies,
        model_type="transfo-xl",
        codec=HF_CODEC,
        root="transformer.",
        classes={"encoder": "TransfoXLModel", "causal_lm": "TransfoXLLMHeadModel"},
        supports={"proj_same_dim": True, "same_length_keys": "mem_len", "memory_start": "zeros"},
    ),
    # A bare Hugging Face encoder has no softmax and no prefix; the original always has a softmax.
    "torch": OriginalTorch(required_key=r"(^|\.)crit\."),
    "tf1": OriginalTF1(root="transformer/"),
}


def block(i: int, attention, config, dtype, pre_lnorm: bool):
    """A block with attention to a memory and a feed-forward layer; also XLNet's."""
    from bert_zoo.families.transformer_xl.layers import RecurrentBlock
    from bert_zoo.layers import FeedForward

    return RecurrentBlock(
        attention,
        FeedForward(
            config.intermediate_size,
            config.hidden_size,
            activation=config.activation,
            inner_dropout=config.hidden_dropout,
            name="feed_forward",
            initializer_range=config.initializer_range,
            dtype=dtype,
        ),
        epsilon=config.layer_norm_epsilon,
        dropout=config.hidden_dropout,
        pre_lnorm=pre_lnorm,
        dtype=dtype,
        name=f"layer_{i}",
    )


def backbone(config: RecurrentConfig, dtype):
    """Adaptive embeddings and a stack of blocks with a memory."""
    from bert_zoo.families.transformer_xl.layers import (
        AdaptiveEmbedding,
        RecurrentBackbone,
        RecurrentStack,
        RelativeAttention,
    )

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    heads = {"num_heads": config.num_heads, "head_size": config.head_size}

    def attention() -> RelativeAttention:
        return RelativeAttention(
            hidden_size=config.hidden_size,
            dropout=config.attention_dropout,
            has_biases=config.untie_r,
            name="attention",
            **heads,
            **options,
        )

    return RecurrentBackbone(
        config,
        embeddings=AdaptiveEmbedding(
            config.table_sizes,
            config.table_widths,
            config.is_projected,
            config.hidden_size,
            dropout=config.hidden_dropout,
            projection_initializer_range=config.projection_initializer_range,
            name="embeddings",
            **options,
        ),
        stack=RecurrentStack(
            [
                block(i, attention(), config, dtype, config.pre_lnorm)
                for i in range(config.num_layers)
            ],
            config.hidden_size,
            has_biases=not config.untie_r,
            clamp_len=config.clamp_len,
            span=config.attention_span,
            dropout=config.hidden_dropout,
            name="stack",
            **heads,
            **options,
        ),
        dtype=dtype,
    )


FAMILY = Family(
    name="transformer_xl",
    backbone=backbone,
    defaults={},
    formats=FORMATS,
    encoder_rows=ENCODER_ROWS,
    heads={
        "causal_lm": Head(
            (softmax_rows,),
            copies={"hf": hf_copies, "torch": softmax_copies},
        )
    },
    text=TextFormat(read_vocabulary, layout=PLAIN, preprocessor=rows_of_language_models),
    checkpoints=[*CHECKPOINTS, NANO],
    config_class=RecurrentConfig,
    tasks_without_head=("encoder",),
    params_task="causal_lm",
    settings=("mem_len", "clamp_len", "same_length", "same_length_keys", "memory_start"),
    language_model_presets=PRESETS,
)
