"""AWD-LSTM (Merity et al. 2017, arXiv:1708.02182), which ULMFiT fine-tunes (Howard and Ruder 2018)."""

import json
import mmap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import (
    MOST_LAYERS,
    Config,
    ConfigError,
    PlainSoftmax,
    amount,
    deviation,
    rate,
    size,
)
from bert_zoo.error_text import shown
from bert_zoo.families.awd_lstm import NEWLINE
from bert_zoo.families.awd_lstm.cards import CHECKPOINTS, LANGUAGE_MODELS, PRESETS
from bert_zoo.families.bert import family as bert
from bert_zoo.family import Family
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts, rows_of_language_models
from bert_zoo.text.numpy_packing import PLAIN
from bert_zoo.text.vocabulary_files import read_word_level
from bert_zoo.weights.files import WeightsError, refuse_lfs_pointer
from bert_zoo.weights.formats import Torch
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.format import shapes_in, sizes_in
from bert_zoo.weights.restricted_pickle import read_pickle
from bert_zoo.weights.table import CONCATENATED, EMBED, OUTPUT, Copy, Head, Row, Stored, raw
from bert_zoo.weights.tensor_source import TensorSource


@dataclass(frozen=True, kw_only=True)
class AwdLstmConfig(PlainSoftmax, Config):
    """An AWD-LSTM's configuration (Merity et al. 2017); default rates are fast.ai's for fine-tuning one."""

    on_card: ClassVar[tuple[str, ...]] = ("num_layers", "hidden_size", "lstm_size", "vocab_size")
    # The backbone applies dropout to its outputs itself, with one mask for all tokens of a row.
    output_dropout: ClassVar[float] = 0.0

    vocab_size: int = size()  # rows of the token table
    hidden_size: int = size(400)  # width of the token table and of the last LSTM
    lstm_size: int = size(1152)  # width of the other LSTMs
    num_layers: int = size(3, most=MOST_LAYERS)  # LSTMs
    word_dropout: float = rate(0.02)  # rate on rows of the token table; one mask per call
    # Rate on the first LSTM's inputs; one mask for all tokens of a row.
    input_dropout: float = rate(0.25)
    hidden_dropout: float = rate(0.15)  # rate between LSTMs, with such a mask
    last_dropout: float = rate(0.1)  # rate on the last LSTM's outputs, with such a mask
    recurrent_dropout: float = rate(0.2)  # rate on recurrent weights; one mask per call
    head_dropout: float = rate(0.4)  # rate before a fine-tuning head
    # Factors of two terms of the training loss: the mean square of the outputs after dropout ("AR"), and of the
    # change from one output to the next before dropout ("TAR").
    activation_penalty: float = amount(2.0)
    change_penalty: float = amount(1.0)
    # Tokens that gradients flow back through.
    backward_tokens: int = size(0, special=(0, "all of a row"))
    initializer_range: float = deviation(
        0.05
    )  # standard deviation of a randomly initialised token table
    tie_word_embeddings: bool = True  # whether predictions project onto the token table
    softmax_bias: bool = True  # whether predictions have a bias; not in fast.ai before version 1

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """The width of each LSTM."""
        return (*[self.lstm_size] * (self.num_layers - 1), self.hidden_size)


# -------------------------------------------------------------------------------------------------
# fast.ai's files of AWD-LSTMs: a .pth of tensors, which show the sizes, and a pickle with the words.
# -------------------------------------------------------------------------------------------------

# Prefix of the encoder, which files of the encoder alone lack.
TABLE, RECURRENT = "encoder.weight", "rnns.0.weight_hh_l0_raw"
ROOT, DECODER = "0.", "1.decoder"
SIZES = {"vocab_size": (TABLE, 0), "hidden_size": (TABLE, 1), "lstm_size": (RECURRENT, 1)}


def sizes_of_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Reads our fields off a file's tensors, since there is no configuration file."""
    below = {key.removeprefix(ROOT): shape for key, shape in shapes.items()}
    sizes = {name: below[key][axis] for name, (key, axis) in SIZES.items()}
    sizes["num_layers"] = sizes_in(below, {}, r"rnns\.(\d+)\.")["num_layers"]
    if f"{DECODER}.weight" not in shapes:
        return sizes
    return sizes | {"softmax_bias": f"{DECODER}.bias" in shapes}


@dataclass(frozen=True, kw_only=True)
class FastAI(Torch):
    """Files of fast.ai's library, versions 1 and 2, and of the earlier program. They also hold a copy of the recurrent
    weights with the last training step's dropout mask applied, which is not read.
    """

    # The program before version 1.
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"\.module\.weight_hh_l0_raw$", ".weight_hh_l0_raw"),
        (r"encoder_with_dropout\.embed\.", "encoder_dp.emb."),
    )

    config_file: str = "*.pth"

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        renamed = {cls().renamed(key): shape for key, shape in shapes_in(path).items()}
        if not {TABLE, RECURRENT} <= {key.removeprefix(ROOT) for key in renamed}:
            raise ConfigError(f"{path} has no tensors of an AWD-LSTM of fast.ai.")
        return JsonObject(renamed, path)

    def inferred_fields(
        self, source: TensorSource, config: AwdLstmConfig, unsaid: Collection[str]
    ) -> dict[str, Any]:
        return sizes_of_shapes({key: source.shape(key) for key in source})


CODEC = ConfigCodec(
    rows=[
        *map(ConfigRow, (*SIZES, "num_layers")),
        ConfigRow("softmax_bias", optional=True),
    ],
    config_class=AwdLstmConfig,
    prepare=sizes_of_shapes,
)


def lstm_rows(config: AwdLstmConfig) -> Iterator[Row]:
    for variable, name, is_kernel in (
        ("kernel", "module.weight_ih_l0", True),
        ("recurrent_kernel", "weight_hh_l0_raw", True),
        ("input_bias", "module.bias_ih_l0", False),
        ("recurrent_bias", "module.bias_hh_l0", False),
    ):
        kind = raw(variable, torch=Stored("", transposed=is_kernel))
        yield Row(kind, "stack/layer_{i}", torch=f"rnns.{{i}}.{name}")


def table_copies(config: AwdLstmConfig) -> tuple[Copy, ...]:
    """The token table is stored three times."""
    table = f"{{root}}{TABLE}"
    tied = (Copy(f"{DECODER}.weight", of=table),) if config.tie_word_embeddings else ()
    return (Copy("{root}encoder_dp.emb.weight", of=table), *tied)


ENCODER_ROWS = (Row(EMBED, "embeddings/token_embedding", torch="encoder"), lstm_rows)
SOFTMAX = Head(
    (
        Row(
            raw("bias_0"),
            "softmax",
            torch=f"{DECODER}.bias",
            when=lambda config: config.softmax_bias,
        ),
        Row(
            EMBED,
            "softmax/table_0",
            torch=DECODER,
            when=lambda config: not config.tie_word_embeddings,
        ),
    ),
    copies={"torch": table_copies},
)
FORMATS = {
    "torch": FastAI(codec=CODEC, root=ROOT, ignorable=(r"\.module\.weight_hh_l0$",)),
}


# -------------------------------------------------------------------------------------------------
# Vocabularies of AWD-LSTMs: fast.ai's pickled lists of words, and this package's vocab.txt.
# -------------------------------------------------------------------------------------------------

_ESCAPES = str.maketrans({blank: f"\\x{ord(blank):02x}" for blank in " \t\n\r\v\f"})
# Words of the largest vocabulary that is read; fast.ai's have 60,000.
MOST_WORDS = 1_000_000
CLASS = "FastAITokenizer"
_ADVICE = (
    "bert_zoo reads only a list of words from it. If you trust the file, load it with Python and write "
    "the words to vocab.txt, one per line."
)


def read_vocabulary(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.txt, as this package writes it, or the pickle beside fast.ai's weights."""
    if files.has("vocab.txt"):
        if files.json("tokenizer_config.json").get("tokenizer_class") != CLASS:
            return read_word_level(files, overrides)
        backwards = files.json("tokenizer_config.json").take("backwards", bool, False)
        tokens, path = files.lines("vocab.txt"), files.path("vocab.txt")
    else:
        found = sorted(files.directory.glob("*.pkl"))
        if len(found) != 1:
            raise FileNotFoundError(
                f"{files.directory} should hold vocab.txt or one .pkl with the words; it holds {files.names()}."
            )
        (path,) = found
        tokens = read_words(path)
        # fast.ai uses the same words for both directions.
        backwards = any("bwd" in name for name in files.names() if name.endswith(".pth"))
        # Spelled as the tokenizer writes them, so that they can be saved without making one.
        files.contents["vocab.txt"] = "".join(f"{word}\n" for word in tokens).encode()
        config = {"tokenizer_class": CLASS, "backwards": backwards}
        files.contents["tokenizer_config.json"] = json.dumps(config).encode()
    arguments = {"vocabulary": tokens, "backwards": backwards, **overrides}
    return TokenizerParts("bert_zoo.families.awd_lstm.text:FastAITokenizer", arguments, path)


def read_words(path: Path) -> list[str]:
    """Reads the words of a pickled list, in the order of their ids, without running the pickle. Words of white space
    are spelled with escapes, and a single line end as `NEWLINE`.
    """
    refuse_lfs_pointer(path)
    if path.stat().st_size == 0:
        raise WeightsError(f"{path} is empty. Download it again.")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stream:
        words = read_pickle(stream, str(path), {}, advice=_ADVICE)
    if type(words) is not list or not words or {*map(type, words)} != {str}:
        raise WeightsError(f"{path} holds {shown(words, 60)} instead of a list of words. {_ADVICE}")
    if len(words) > MOST_WORDS:
        raise WeightsError(
            f"{path} lists {len(words):,} words; at most {MOST_WORDS:,} are read. Check that it is a vocabulary."
        )
    # A padding word, which makes their number a multiple of 8, occurs several times.
    tokens = [NEWLINE if word == "\n" else word.translate(_ESCAPES) for word in words]
    seen: set[str] = set()
    for index in range(len(tokens)):
        while tokens[index] in seen:
            tokens[index] += f"_{index}"
        seen.add(tokens[index])
    return tokens


def backbone(config: AwdLstmConfig, dtype):
    """A token table and a stack of LSTMs."""
    from bert_zoo.families.awd_lstm.layers import (
        DroppedLSTM,
        LSTMBackbone,
        LSTMStack,
        WordEmbeddings,
    )

    return LSTMBackbone(
        config,
        embeddings=WordEmbeddings(
            config.vocab_size,
            config.hidden_size,
            word_dropout=config.word_dropout,
            input_dropout=config.input_dropout,
            initializer_range=config.initializer_range,
            dtype=dtype,
            name="embeddings",
        ),
        stack=LSTMStack(
            [
                DroppedLSTM(
                    units,
                    recurrent_dropout=config.recurrent_dropout,
                    backward_tokens=config.backward_tokens,
                    dtype=dtype,
                    name=f"layer_{number}",
                )
                for number, units in enumerate(config.layer_sizes)
            ],
            config,
            dtype=dtype,
            name="stack",
        ),
        dtype=dtype,
    )


def hidden_layer(config: AwdLstmConfig) -> dict:
    """Options of fast.ai's head without batch norms: a hidden layer of 50 units, dropout before both layers."""
    return {
        "transform": "relu",
        "transform_size": 50,
        "dropout_first": config.head_dropout,
        "dropout": config.head_dropout / 4,
    }


SENTENCE = Head(
    (Row(OUTPUT, "classifier/transform"), Row(OUTPUT, "classifier/dense")),
    summary=lambda config: CONCATENATED,
    output=hidden_layer,
)

FAMILY = Family(
    name="awd_lstm",
    backbone=backbone,
    defaults={},
    formats=FORMATS,
    encoder_rows=ENCODER_ROWS,
    heads={
        "causal_lm": SOFTMAX,
        **dict.fromkeys(bert.SENTENCE_TASKS, SENTENCE),
        "token_classification": Head((Row(OUTPUT, "classifier/dense"),)),
    },
    text=TextFormat(read_vocabulary, layout=PLAIN, preprocessor=rows_of_language_models),
    checkpoints=CHECKPOINTS,
    config_class=AwdLstmConfig,
    tasks_without_head=("encoder", "embedding"),
    params_task="causal_lm",
    settings=(
        *("word_dropout", "input_dropout", "hidden_dropout", "last_dropout", "recurrent_dropout"),
        *("head_dropout", "activation_penalty", "change_penalty", "backward_tokens"),
    ),
    presets=PRESETS,
    language_model_presets=LANGUAGE_MODELS,
)
