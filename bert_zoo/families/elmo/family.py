"""ELMo (Peters et al. 2018, arXiv:1802.05365): LSTMs in both directions over character-based words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import (
    MOST_LAYERS,
    Config,
    ConfigError,
    TextSpec,
    amount,
    deviation,
    rate,
    size,
)
from bert_zoo.error_text import shown
from bert_zoo.families.bert import family as bert
from bert_zoo.families.elmo.cards import CHECKPOINTS, LANGUAGE_MODELS, PRESETS
from bert_zoo.family import Family
from bert_zoo.fields import setting
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts, rows_of_language_models
from bert_zoo.text.numpy_packing import PLAIN
from bert_zoo.text.vocabulary_files import read_word_level
from bert_zoo.weights.formats import TF1, Description
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.format import Format
from bert_zoo.weights.table import MEAN, Head, Row, Stored, raw

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

    cell_size: int = size()  # width of the LSTMs' cells
    # Width of a token vector and of one direction's outputs.
    projection_size: int = size()
    num_layers: int = size(2, most=MOST_LAYERS)  # LSTMs per direction
    vocab_size: int = size(793471)  # words of the language model's softmax
    # Rows of the character table: bytes, marks of words and sentences, padding.
    num_characters: int = size(261, special=(0, "words by their numbers"))
    character_size: int = size(16)  # width of that table
    max_characters: int = size(50, most=MOST_CHARACTERS)  # ids per word, including its marks
    # (Width, number) of the convolutions.
    filters: tuple[tuple[int, int], ...] = size(FILTERS)
    # Highway layers over the convolutions' outputs.
    num_highways: int = size(1, least=0, most=MOST_LAYERS)
    # Activation of the convolutions.
    cnn_activation: str = setting("relu", choices=CNN_ACTIVATIONS)
    cell_clip: float = amount(3.0)  # bound on cells; 0: no bound
    projection_clip: float = amount(3.0)  # bound on projected outputs; 0: no bound
    # Whether an LSTM's inputs are added to its outputs, from the second on.
    skip_connections: bool = True
    hidden_dropout: float = rate(0.1)  # rate on inputs of LSTMs and outputs of the last one
    classifier_dropout: float = rate(0.5)  # rate before a head
    initializer_range: float = deviation(0.02)  # standard deviation of a randomly initialised head

    def contradictions(self) -> Iterator[str]:
        if not self.filters or max(self.filters)[0] > self.max_characters:
            yield (
                f"filters are {shown(self.filters)}; they must be a list of pairs, [width, number], none wider than the "
                f"{self.max_characters} characters of a word."
            )

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
    """The keys of options.json without its sections."""
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


# -------------------------------------------------------------------------------------------------
# How ELMo's checkpoints are stored: options.json with HDF5 or with bilm-tf's own checkpoint.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AllenNLP(Format):
    """Directories that bilm-tf exports and allennlp reads."""

    name: ClassVar[str] = "allennlp"
    layout: ClassVar[str] = "tensorflow"

    config_file: str = "*options.json"

    def is_of_family(self, values: JsonObject) -> bool:
        return "lstm" in values

    def names(self, row: Row) -> tuple[str, ...]:
        # For heads, which no file has.
        return row.names.get(self.name) or row.names.get("hf", ())

    def description(self, values: JsonObject, directory: Path) -> Description:
        return Description(text=TextSpec(lowercase=None))


class OriginalElmo(TF1):
    """Checkpoints of bilm-tf's training, which also hold the softmax and the optimizer's slots."""

    # A single LSTM has no wrapper around it.
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        ("/rnn/lstm_cell/", "/rnn/multi_rnn_cell/cell_0/lstm_cell/"),
    )


def same(kind: Mapping, path: str, name: str | tuple[str, ...], **options: Any) -> Row:
    """A row with the same name in both formats."""
    return Row(kind, path, allennlp=name, tf1=name, **options)


def word_rows(config: ElmoConfig) -> Iterator[Row]:
    if not config.num_characters:
        yield same(raw("embeddings"), "embeddings", "embedding")
        return
    yield same(raw("table"), "embeddings", "char_embed")
    for i, (width, number) in enumerate(config.filters):
        shape = (1, width, config.character_size, number)
        kernel = Stored("", shape=lambda config, shape=shape: shape)
        yield same(raw(f"kernel_{i}", tensorflow=kernel), "embeddings", f"CNN/W_cnn_{i}")
        yield same(raw(f"bias_{i}"), "embeddings", f"CNN/b_cnn_{i}")
    for i in range(config.num_highways):
        for variable, letter in (("kernel", "W"), ("bias", "b")):
            names = tuple(f"CNN_high_{i}/{letter}_{part}" for part in ("carry", "transform"))
            yield same(raw(variable), f"embeddings/highway_{i}", names)
    if config.projects_characters:
        for variable, name in (("kernel", "W_proj"), ("bias", "b_proj")):
            yield same(raw(variable), "embeddings/projection", f"CNN_proj/{name}")


def lstm_rows(config: ElmoConfig) -> Iterator[Row]:
    names = {"kernel": ("W_0", "kernel"), "bias": ("B", "bias")}
    if config.projects_cells:
        names["projection"] = ("W_P_0", "projection/kernel")
    for number, direction in enumerate(("forward", "backward")):
        for variable, (allennlp, tf1) in names.items():
            yield Row(
                raw(variable),
                f"stack/layer_{{i}}/{direction}",
                allennlp=f"RNN_{number}/RNN/MultiRNNCell/Cell{{i}}/LSTMCell/{allennlp}",
                tf1=f"RNN_{number}/rnn/multi_rnn_cell/cell_{{i}}/lstm_cell/{tf1}",
            )


ENCODER_ROWS = (word_rows, lstm_rows)
SIZES = {"num_characters": r"(^|/)char_embed$", "vocab_size": r"/softmax/W$|(^|/)embedding$"}
FORMATS = {
    "allennlp": AllenNLP(codec=CODEC, sizes=SIZES),
    "tf1": OriginalElmo(
        root="lm/",
        sizes=SIZES,
        ignorable=(r"/Adagrad(_\d+)?$", r"^(train|lm)?_?perplexity$", r"/softmax/[Wb]$"),
    ),
}


# -------------------------------------------------------------------------------------------------
# Makes ELMo's tokenizers from files.
# -------------------------------------------------------------------------------------------------

# The first words of a vocabulary for models that read word ids.
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")


def read_words(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """A tokenizer into characters, which needs files only for a word size other than 50. For models that read word ids
    it has their vocabulary: vocab.txt, or the only file with "vocab" in its name.
    """
    config = files.json("tokenizer_config.json")
    size = config.take("max_characters", int, least=1, most=MOST_CHARACTERS)
    # The directory may also have the softmax's vocabulary, which spells it differently.
    by_number = config.get("unknown_token") == SPECIAL_WORDS[-1]
    for path in files.directory.glob("*options.json"):
        by_number = "char_cnn" not in files.json(path.name)
        section = files.json(path.name).section("char_cnn")
        size = section.take("max_characters_per_token", int, least=1, most=MOST_CHARACTERS)
    if by_number:
        return _read_numbers(files, overrides)
    options = {} if size is None else {"max_characters": size}
    return TokenizerParts(
        "bert_zoo.families.elmo.text:CharacterTokenizer", {**options, **overrides}, files.directory
    )


def _read_numbers(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    if not files.has("vocab.txt"):
        found = [*files.directory.glob("*vocab*.txt")]
        if len(found) != 1:
            raise FileNotFoundError(
                f"{files.directory} should hold vocab.txt, the words in the order of their ids, one per line; it "
                f"holds {files.names()}."
            )
        files.contents["vocab.txt"] = found[0].read_bytes()
    begin = files.lines("vocab.txt")[: len(SPECIAL_WORDS)]
    if tuple(begin) != SPECIAL_WORDS:
        raise ConfigError(
            f"The vocabulary in {files.directory} begins with {shown(begin)}; it must begin with {SPECIAL_WORDS}."
        )
    options = {"unit": "word", "unknown_token": SPECIAL_WORDS[-1], "eos_token": None}
    return read_word_level(files, {**options, **overrides})


def preprocessor(tokenizer, **options):
    """The preprocessor, in TensorFlow's graph, or in NumPy if TensorFlow is not installed."""
    from bert_zoo.families.elmo import text as elmo_text
    from bert_zoo.graph import has_tensorflow

    if not isinstance(tokenizer, elmo_text.CharacterTokenizer):
        return rows_of_language_models(tokenizer, **options)
    kind = elmo_text.WordPreprocessor if has_tensorflow else elmo_text.NumpyWordPreprocessor
    return kind(tokenizer, **options)


def embeddings(config: ElmoConfig, **options):
    """Convolutions over characters, or a table of words."""
    from bert_zoo.families.elmo.layers import CharacterEncoder
    from bert_zoo.layers.common import table

    width = config.projection_size
    if not config.num_characters:
        return table(config.vocab_size, width, stddev=config.initializer_range, **options)
    return CharacterEncoder(
        config.num_characters,
        config.character_size,
        filters=config.filters,
        num_highways=config.num_highways,
        output_size=width,
        projects=config.projects_characters,
        activation=config.cnn_activation,
        **options,
    )


def backbone(config: ElmoConfig, dtype):
    """Word vectors and a stack of LSTMs in both directions."""
    from bert_zoo.families.elmo.layers import BidirectionalLSTM, BidirectionalStack, ElmoBackbone

    blocks = [
        BidirectionalLSTM(
            config.cell_size,
            config.projection_size,
            projects=config.projects_cells,
            cell_clip=config.cell_clip,
            projection_clip=config.projection_clip,
            skips=config.skip_connections and i > 0,
            dropout=config.hidden_dropout,
            dtype=dtype,
            name=f"layer_{i}",
        )
        for i in range(config.num_layers)
    ]
    return ElmoBackbone(
        config,
        embeddings=embeddings(config, dtype=dtype, name="embeddings"),
        stack=BidirectionalStack(
            blocks, config.projection_size, dropout=config.hidden_dropout, dtype=dtype, name="stack"
        ),
        dtype=dtype,
    )


def mean(config: ElmoConfig) -> str:
    return MEAN


FAMILY = Family(
    name="elmo",
    backbone=backbone,
    defaults={},
    formats=FORMATS,
    encoder_rows=ENCODER_ROWS,
    heads={
        **dict.fromkeys(
            ("classification", "multi_label_classification", "regression"),
            Head((bert.CLASSIFIER,), summary=mean),
        ),
        "token_classification": Head((bert.CLASSIFIER,)),
    },
    text=TextFormat(read_words, layout=PLAIN, preprocessor=preprocessor),
    checkpoints=CHECKPOINTS,
    config_class=ElmoConfig,
    presets=PRESETS,
    language_model_presets=LANGUAGE_MODELS,
)
