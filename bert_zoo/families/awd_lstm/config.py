"""AWD-LSTM's configuration."""

from dataclasses import dataclass
from typing import ClassVar

from bert_zoo.config import Config, ConfigError, PlainSoftmax


@dataclass(frozen=True, kw_only=True)
class AwdLstmConfig(PlainSoftmax, Config):
    """The configuration of an AWD-LSTM and its regularisation (Merity et al. 2017).

    The default rates are fast.ai's for fine-tuning a language model.
    """

    on_card: ClassVar[tuple[str, ...]] = ("num_layers", "hidden_size", "lstm_size", "vocab_size")
    # The backbone applies dropout to its outputs itself, with one mask for all tokens of a row.
    output_dropout: ClassVar[float] = 0.0

    vocab_size: int  # rows of the token table
    hidden_size: int = 400  # width of the token table and of the last LSTM
    lstm_size: int = 1152  # width of the other LSTMs
    num_layers: int = 3  # LSTMs
    word_dropout: float = 0.02  # rate on rows of the token table; one mask per call
    input_dropout: float = 0.25  # rate on the first LSTM's inputs; one mask for all tokens of a row
    hidden_dropout: float = 0.15  # rate between LSTMs, with such a mask
    last_dropout: float = 0.1  # rate on the last LSTM's outputs, with such a mask
    recurrent_dropout: float = 0.2  # rate on recurrent weights; one mask per call
    head_dropout: float = 0.4  # rate before a fine-tuning head
    # Factors of two terms of the training loss: the mean square of the outputs after dropout ("AR"), and of the
    # change from one output to the next before dropout ("TAR").
    activation_penalty: float = 2.0
    change_penalty: float = 1.0
    # Tokens that gradients flow back through; 0: the whole row.
    backward_tokens: int = 0
    initializer_range: float = 0.05  # standard deviation of a randomly initialised token table
    tie_word_embeddings: bool = True  # whether predictions project onto the token table
    softmax_bias: bool = True  # whether predictions have a bias; not in fast.ai before version 1

    def __post_init__(self):
        problems = self.problems_with(
            positive=("vocab_size", "hidden_size", "lstm_size", "num_layers"),
            natural={"backward_tokens": "all of a row"},
            amounts=("activation_penalty", "change_penalty"),
        )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """The width of each LSTM."""
        return (*[self.lstm_size] * (self.num_layers - 1), self.hidden_size)
