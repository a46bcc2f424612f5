"""Longformer's configuration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from bert_zoo.config import ConfigError, is_integer
from bert_zoo.error_text import shown
from bert_zoo.families.albert.config import AlbertConfig


@dataclass(frozen=True, kw_only=True)
class LongformerConfig(AlbertConfig):
    """The configuration of a Longformer.

    One that was made from an ALBERT has narrow tables and layers that share blocks.
    """

    # Tokens that a token attends to besides itself, half on each side: for all layers, or one number per layer.
    attention_window: int | Sequence[int] = 512
    sep_id: int = 2  # id of the separators between the texts of a pair
    # Largest number of global tokens in a row.
    max_global_tokens: int = 128

    # Rows of more half windows than this are computed block by block.
    fewest_blocks: ClassVar[int] = 4
    # A window that models for shorter rows may have, too.
    wide_window: ClassVar[int] = 4096

    def __post_init__(self):
        super().__post_init__()
        # JSON has lists. The dataclass is frozen, so this sets the attribute directly.
        if isinstance(self.attention_window, Sequence) and not isinstance(
            self.attention_window, str
        ):
            self.__dict__["attention_window"] = tuple(self.attention_window)
        problems = self.problems_with(
            positive=("max_global_tokens",), natural={"sep_id": "the first row"}
        )
        windows, widest = self.windows, max(2 * self.longest_input, self.wide_window)
        if len(windows) != self.num_layers or not all(
            is_integer(window) and 2 <= window <= widest and window % 2 == 0 for window in windows
        ):
            problems.append(
                f"attention_window is {shown(self.attention_window)}; it must be an even number, from 2 to {widest:,}, "
                f"or one such number for each of the {self.num_layers} layers."
            )
        elif self.num_blocks < self.num_layers and len({*windows}) > 1:
            problems.append(
                f"attention_window is {shown(self.attention_window)}, but layers share their blocks; give one number "
                "for all layers."
            )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    def with_layers(self, layers: Sequence[int]) -> Self:
        window = self.attention_window
        windows = tuple(window[i] for i in layers) if isinstance(window, tuple) else window
        return self.replace(num_layers=len(layers), attention_window=windows)

    @property
    def windows(self) -> tuple[int, ...]:
        """The window of each layer."""
        window = self.attention_window
        return window if isinstance(window, tuple) else (window,) * self.num_layers

    @property
    def reaches(self) -> tuple[int, ...]:
        """The largest distance between tokens that attend to each other, for each layer."""
        return tuple(window // 2 for window in self.windows)

    def attends_in_blocks(self, length: int | None, reach: int) -> bool:
        """Whether rows of `length` tokens are computed in blocks; None means an unknown length."""
        return length is None or length > self.fewest_blocks * reach
