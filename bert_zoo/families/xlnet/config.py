"""XLNet's configuration."""

from dataclasses import dataclass
from typing import ClassVar

from bert_zoo.config import UNLIMITED, Config, ConfigError, is_integer
from bert_zoo.error_text import shown
from bert_zoo.families.transformer_xl.config import MOST_REMEMBERED


@dataclass(frozen=True, kw_only=True)
class XLNetConfig(Config):
    """The configuration of an XLNet (Yang et al. 2019)."""

    on_card: ClassVar[tuple[str, ...]] = (*Config.on_card, "mem_len")
    # There is no memory before a text. Segments are only compared, so any numbers are allowed.
    memory_start: ClassVar[str] = "empty"
    most_segments: ClassVar[int] = UNLIMITED
    # Before a head over tokens there is only the encoder's own final dropout.
    span_dropout: ClassVar[float] = 0.0

    vocab_size: int  # rows of the token table
    hidden_size: int = 768  # width of the residual stream ("d_model")
    num_layers: int = 12  # blocks
    num_heads: int = 12  # attention heads a block
    head_size: int = 0  # width of a head; 0: `hidden_size / num_heads`
    intermediate_size: int = 3072  # width of the feed-forward layer ("d_inner")
    mem_len: int = 0  # hidden states that a layer keeps of earlier segments; 0: no memory
    reuse_len: int = 0  # first tokens of a segment that are kept; 0: all
    clamp_len: int = -1  # larger distances count as this one; -1: no limit
    activation: str = (
        "gelu"  # activation of the feed-forward layer; Google's "gelu" is "gelu_tanh" here
    )
    layer_norm_epsilon: float = 1e-12  # added to the variance
    hidden_dropout: float = (
        0.1  # rate on embeddings, positions, within and after sublayers, on the output
    )
    attention_dropout: float = 0.1  # rate on attention probabilities
    summary_dropout: float = 0.1  # rate after the layer over the last token, for whole texts
    initializer_range: float = 0.02  # standard deviation of randomly initialised weights
    tie_word_embeddings: bool = True  # whether predictions project onto the token table

    def __post_init__(self):
        problems = self.problems_with(
            positive=("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size"),
            natural={
                "head_size": "hidden_size / num_heads",
                "mem_len": "no memory",
                "reuse_len": "all of a segment",
            },
            most={"mem_len": MOST_REMEMBERED},
        )
        if not problems and not self.head_size and self.hidden_size % self.num_heads:
            problems.append(
                f"hidden_size {self.hidden_size} is not a multiple of num_heads {self.num_heads}."
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
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    @property
    def size_of_head(self) -> int:
        """Width of a head."""
        return self.head_size or self.hidden_size // self.num_heads

    @property
    def head_dropout(self) -> float:
        """Dropout rate before a head over whole texts."""
        return self.summary_dropout
