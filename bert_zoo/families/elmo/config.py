"""ELMo's configuration, and how options.json stores it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bert_zoo.config import MOST_LAYERS, UNLIMITED, Config, ConfigError, is_integer
from bert_zoo.error_text import shown
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow

# The longest word, in characters; it is only limited by the memory of its ids.
MOST_CHARACTERS = 1_000
CNN_ACTIVATIONS = ("relu", "tanh")
# Width and number of the filters in each group; the same in all released models.
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(Config):
    """The configuration of a bidirectional language model (Peters et al. 2018)."""

    on_card: ClassVar[tuple[str, ...]] = (
        *("num_layers", "hidden_size", "cell_size", "projection_size", "filters", "num_highways"),
        "vocab_size",
    )

    cell_size: int  # width of the LSTMs' cells
    projection_size: int  # width of a token vector and of one direction's outputs
    num_layers: int = 2  # LSTMs per direction
    vocab_size: int = 793471  # words of the language model's softmax
    # Rows of the character table: bytes, marks of words and sentences, padding. 0: no characters; the model reads
    # word ids.
    num_characters: int = 261
    character_size: int = 16  # width of that table
    max_characters: int = 50  # ids per word, including its marks
    filters: tuple[tuple[int, int], ...] = FILTERS  # (width, number) of the convolutions
    num_highways: int = 1  # highway layers over the convolutions' outputs
    cnn_activation: str = "relu"  # activation of the convolutions
    cell_clip: float = 3.0  # bound on cells; 0: no bound
    projection_clip: float = 3.0  # bound on projected outputs; 0: no bound
    skip_connections: bool = (
        True  # whether an LSTM's inputs are added to its outputs, from the second on
    )
    hidden_dropout: float = 0.1  # rate on inputs of LSTMs and outputs of the last one
    classifier_dropout: float = 0.5  # rate before a head
    initializer_range: float = 0.02  # standard deviation of a randomly initialised head

    def __post_init__(self):
        if isinstance(self.filters, list | tuple):  # JSON has lists
            pairs = (tuple(f) if isinstance(f, list) else f for f in self.filters)
            object.__setattr__(self, "filters", tuple(pairs))
        problems = self.problems_with(
            positive=(
                *("cell_size", "projection_size", "num_layers", "vocab_size"),
                *("character_size", "max_characters"),
            ),
            natural={"num_characters": "words by their numbers", "num_highways": "none"},
            amounts=("cell_clip", "projection_clip"),
            most={"num_highways": MOST_LAYERS, "max_characters": MOST_CHARACTERS},
        )
        are_filters = isinstance(self.filters, tuple) and all(
            isinstance(f, tuple)
            and len(f) == 2
            and all(is_integer(n) and 0 < n <= UNLIMITED for n in f)
            for f in self.filters
        )
        if not are_filters or not self.filters:
            problems.append(
                f"filters are {shown(self.filters)}; they must be a list of pairs, [width, number]."
            )
        elif is_integer(self.max_characters) and max(self.filters)[0] > self.max_characters:
            problems.append(
                f"filters are {shown(self.filters)}, wider than the {self.max_characters} characters of "
                "a word."
            )
        if self.cnn_activation not in CNN_ACTIVATIONS:
            problems.append(
                f"cnn_activation is {shown(self.cnn_activation)}; choose one of {CNN_ACTIVATIONS}."
            )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    @property
    def hidden_size(self) -> int:
        """Width of an output: both directions concatenated."""
        return 2 * self.projection_size

    @property
    def num_filters(self) -> int:
        return sum(number for _, number in self.filters)

    @property
    def projects_characters(self) -> bool:
        """Whether the filters' outputs are projected to the token vector."""
        return self.num_filters != self.projection_size

    @property
    def projects_cells(self) -> bool:
        """Whether cells are projected to outputs; only projected outputs are clipped."""
        return self.cell_size != self.projection_size

    @property
    def head_dropout(self) -> float:
        """Dropout rate before a fine-tuning head."""
        return self.classifier_dropout


LSTM_KEYS = ("use_skip_connections", "projection_dim", "cell_clip", "proj_clip", "dim", "n_layers")
CNN_KEYS = ("activation", "filters", "n_highway", "max_characters_per_token")
# Keys for training only. n_characters is one larger in use than in training, so it is read off the table
# instead.
UNREAD = frozenset(
    """
    all_clip_norm_val batch_size bidirectional n_batches_per_epoch n_characters n_epochs n_filters n_gpus
    n_negative_samples_batch n_train_tokens sample_softmax share_embedding_softmax unroll_steps
    """.split()
)
# Values in place of char_cnn for models that read word ids.
NO_CHARACTERS = {
    "rows": 0,
    "activation": "relu",
    "filters": FILTERS,
    "max_characters_per_token": 50,
    "embedding": {"dim": 16},
}


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of options.json without its sections.

    Raises:
        ConfigError: a section is not an object.
    """
    sections = [values.get("lstm"), values.get("char_cnn", NO_CHARACTERS)]
    sections.append((sections[1] or {}).get("embedding") if _is_object(sections[1]) else None)
    if not all(map(_is_object, sections)):
        raise ConfigError(
            "lstm, char_cnn and embedding in char_cnn must be objects of options.json; they are "
            f"{shown(sections)}. Files of models that read word ids omit char_cnn."
        )
    lstm, cnn, embedding = sections
    flat = {key: value for key, value in values.items() if key not in ("lstm", "char_cnn")}
    flat |= {key: value for key, value in cnn.items() if key != "embedding"} | lstm
    flat |= {name: flat.get(name) or 0.0 for name in ("cell_clip", "proj_clip")}  # null: no bound
    return flat | {f"character_{key}": value for key, value in embedding.items()}


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def in_sections(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `flattened`."""
    cnn, rows = {key: values.pop(key) for key in CNN_KEYS}, values.pop("rows")
    # Programs that use a model expect one more, for the masked word.
    cnn |= {"embedding": {"dim": values.pop("character_dim")}, "n_characters": 262}
    lstm = {key: values.pop(key) for key in LSTM_KEYS}
    lstm |= {k: lstm[k] or None for k in ("cell_clip", "proj_clip")}
    return {"lstm": lstm, **({"char_cnn": cnn} if rows else {}), **values}


CODEC = ConfigCodec(
    rows=[
        ConfigRow("cell_size", "dim"),
        ConfigRow("projection_size", "projection_dim"),
        ConfigRow("num_layers", "n_layers"),
        ConfigRow("cell_clip"),
        ConfigRow("projection_clip", "proj_clip"),
        ConfigRow("skip_connections", "use_skip_connections", optional=True),
        ConfigRow("num_characters", "rows", optional=True),
        ConfigRow("cnn_activation", "activation"),
        ConfigRow("filters"),
        ConfigRow("num_highways", "n_highway", optional=True),
        ConfigRow("max_characters", "max_characters_per_token"),
        ConfigRow("character_size", "character_dim"),
        ConfigRow("vocab_size", "n_tokens_vocab", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
    ],
    ignored=UNREAD,
    # bilm-tf's defaults for keys that a file lacks.
    defaults={"num_highways": 0, "skip_connections": False},
    config_class=ElmoConfig,
    prepare=flattened,
    finish=in_sections,
)
