"""How ELMo's checkpoints are stored: options.json with HDF5 or with bilm-tf's own checkpoint."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import TextSpec
from bert_zoo.families.elmo.config import CODEC, ElmoConfig
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import TF1, Description
from bert_zoo.weights.formats.format import Format
from bert_zoo.weights.table import Row, Stored, raw


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


class Original(TF1):
    """Checkpoints of bilm-tf's training, which also hold the softmax and the optimizer's slots."""

    # A single LSTM has no wrapper around it.
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        ("/rnn/lstm_cell/", "/rnn/multi_rnn_cell/cell_0/lstm_cell/"),
    )


def same(kind: Mapping, ours: str, name: str | tuple[str, ...], **options: Any) -> Row:
    """A row with the same name in both formats."""
    return Row(kind, ours, allennlp=name, tf1=name, **options)


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
    "tf1": Original(
        root="lm/",
        sizes=SIZES,
        ignorable=(r"/Adagrad(_\d+)?$", r"^(train|lm)?_?perplexity$", r"/softmax/[Wb]$"),
    ),
}
