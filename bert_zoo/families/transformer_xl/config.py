"""Transformer-XL's configuration."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

from bert_zoo.config import UNLIMITED, Config, ConfigError, is_integer
from bert_zoo.error_text import shown

# Values of `same_length_keys`: the number of keys that each query attends to.
SAME_LENGTH_KEYS = ("mem_len", "mem_len+1")
MEMORY_STARTS = ("zeros", "empty")
# Largest memory allowed, in tokens. No parameter count limits it.
MOST_REMEMBERED = 1 << 20


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Config):
    """The configuration of a Transformer-XL (Dai et al. 2019).

    Fields keep the names that the original programs and papers share.
    """

    on_card: ClassVar[tuple[str, ...]] = (
        *("num_layers", "hidden_size", "num_heads", "head_size", "intermediate_size", "vocab_size"),
        *("mem_len", "clamp_len", "same_length", "same_length_keys", "memory_start"),
    )

    vocab_size: int  # tokens; by falling frequency if there are `cutoffs`
    hidden_size: int  # width of the residual stream ("d_model")
    num_layers: int  # blocks
    num_heads: int  # attention heads per block
    head_size: int  # width of a head; `num_heads * head_size` need not be `hidden_size`
    intermediate_size: int  # width of the feed-forward layer ("d_inner")
    embedding_size: int = 0  # width of the first cluster's table ("d_embed"); 0: `hidden_size`
    cutoffs: tuple[int, ...] = ()  # first ids of the clusters after the first; (): plain softmax
    # Each cluster's table is narrower than the one before by this factor; with 1, all share one table.
    div_val: int = 1
    # For each cluster, whether its softmax uses its embedding's projection; () ties all but the first, as most
    # programs do.
    tie_projs: tuple[bool, ...] = ()
    # Whether a table of width `hidden_size` also has a projection (if `div_val` is not 1).
    proj_same_dim: bool = True
    tie_word_embeddings: bool = True  # whether the softmax's tables are the embeddings'
    untie_r: bool = False  # whether each layer has its own biases u and v
    pre_lnorm: bool = False  # whether layer norms come before sublayers
    mem_len: int = 0  # hidden states that a layer keeps of earlier segments
    clamp_len: int = -1  # larger distances count as this one; -1: no limit
    same_length: bool = False  # whether all queries attend to the same number of keys
    # That number: "mem_len+1", including the query's own position (TensorFlow original), or "mem_len" (PyTorch
    # original, Hugging Face).
    same_length_keys: str = "mem_len+1"
    # The memory before a text: "zeros" are attended to like any memory (TensorFlow original, Hugging Face);
    # "empty" is no memory (PyTorch original).
    memory_start: str = "zeros"
    activation: str = "relu"  # activation of the feed-forward layer
    layer_norm_epsilon: float = 1e-12  # added to the variance
    hidden_dropout: float = 0.1  # rate on embeddings, positions, sublayers' outputs, final output
    attention_dropout: float = 0.0  # rate on attention probabilities
    initializer_range: float = 0.02  # standard deviation of randomly initialised weights
    projection_initializer_range: float = 0.01  # the same for tables' projections

    softmax_bias: ClassVar[bool] = True

    def __post_init__(self):
        for name in ("cutoffs", "tie_projs"):  # JSON has lists
            if not isinstance(getattr(self, name), list | tuple):
                raise ConfigError(
                    f"This encoder cannot be built: {name} is {shown(getattr(self, name))}; it must be "
                    "a list."
                )
            object.__setattr__(self, name, tuple(getattr(self, name)))
        sizes = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size")
        problems = self.problems_with(
            positive=(*sizes, "head_size", "div_val"),
            natural={"embedding_size": "as hidden_size", "mem_len": "no memory"},
            deviations=("initializer_range", "projection_initializer_range"),
            most={"mem_len": MOST_REMEMBERED},
        )
        if not all(map(is_integer, self.cutoffs)) or (
            is_integer(self.vocab_size)
            and list(self.cluster_bounds) != sorted(set(self.cluster_bounds))
        ):
            problems.append(
                f"cutoffs are {shown(self.cutoffs)}; they must be rising integers between 0 and the "
                f"{shown(self.vocab_size)} tokens of the vocabulary."
            )
        if (self.tie_projs and len(self.tie_projs) != len(self.cutoffs) + 1) or not all(
            isinstance(tied, bool) for tied in self.tie_projs
        ):
            problems.append(
                f"tie_projs are {shown(self.tie_projs)}; there must be True or False for each of the "
                f"{len(self.cutoffs) + 1} clusters of the cutoffs, or nothing."
            )
        if not problems and not all(self.table_widths):
            problems.append(
                f"div_val {self.div_val} leaves the last of {len(self.cluster_sizes)} clusters no "
                f"width: {shown(self.table_widths)}."
            )
        if not problems and self.hidden_size % 2:
            problems.append(
                f"hidden_size is {self.hidden_size}; positions are pairs of a sine and a cosine, "
                "so it must be even."
            )
        if not is_integer(self.clamp_len) or abs(self.clamp_len) > UNLIMITED:
            problems.append(
                f"clamp_len is {shown(self.clamp_len)}; it must be a number of tokens of at most "
                f"{UNLIMITED:,}, or -1 for none."
            )
        if not problems and self.attention_span == 0:
            problems.append(
                "same_length with mem_len 0 and same_length_keys 'mem_len' leaves queries no key to "
                "see; set same_length=False, or same_length_keys='mem_len+1'."
            )
        choices = {"same_length_keys": SAME_LENGTH_KEYS, "memory_start": MEMORY_STARTS}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                problems.append(f"{name} is {shown(getattr(self, name))}; it is one of {known}.")
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

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
