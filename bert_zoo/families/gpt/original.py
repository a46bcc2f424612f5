"""GPT's files as OpenAI released them, openai/finetune-transformer-lm: arrays without names."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bert_zoo.families.gpt.config import CausalConfig
from bert_zoo.families.gpt.formats import BLOCK_ROWS
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import TF1
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.tf1 import shapes_in, sizes_in
from bert_zoo.weights.parameter_files import SHAPES_FILE

# Two tables, then the variables of each block in the order in which train.py makes them, which is that
# of our rows.
TABLES = ("wpe", "wte")
OF_BLOCK = [
    row.names["tf1"][0] + form["tensorflow"].suffix
    for row in BLOCK_ROWS
    for form in row.kind.values()
]


def variable_name(number: int) -> str:
    """What GPT-2's program, which keeps names, calls the variable in an array."""
    if number < len(TABLES):
        return f"model/{TABLES[number]}"
    block, place = divmod(number - len(TABLES), len(OF_BLOCK))
    return "model/" + OF_BLOCK[place].replace("{i}", str(block))


SIZES = {
    "max_positions": ("model/wpe", 0),
    "vocab_size": ("model/wte", 0),
    "hidden_size": ("model/wte", 1),
    "intermediate_size": ("model/h0/mlp/c_fc/w", 2),
}


@dataclass(frozen=True, kw_only=True)
class ParameterFiles(TF1):
    """Arrays by number, under the names of GPT-2's program."""

    config_file: str = SHAPES_FILE

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        shapes = shapes_in(path)
        return JsonObject({variable_name(int(n)): shape for n, shape in shapes.items()}, path)

    def renamed(self, key: str) -> str:
        return variable_name(int(key)) if key.isdecimal() else key


ORIGINAL = ParameterFiles(
    codec=ConfigCodec(
        rows=[ConfigRow(name) for name in (*SIZES, "num_layers", "num_heads")],
        defaults={"pad_id": None},
        config_class=CausalConfig,
        prepare=partial(sizes_in, places=SIZES, layer="model/(h[^/]*)/"),
    ),
    root="model/",
)
