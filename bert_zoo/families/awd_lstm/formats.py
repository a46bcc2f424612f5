"""fast.ai's files of AWD-LSTMs: a .pth of tensors, which show the sizes, and a pickle with the words."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import ConfigError
from bert_zoo.families.awd_lstm.config import AwdLstmConfig
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import Torch
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.tf1 import shapes_in, sizes_in
from bert_zoo.weights.table import EMBED, Copy, Head, Row, Stored, raw
from bert_zoo.weights.tensor_source import TensorSource

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
    """Files of fast.ai's library, versions 1 and 2, and of the earlier program.

    They also hold a copy of the recurrent weights with the last training step's dropout mask applied, which is
    not read.
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

    def told(
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
