"""Files of Microsoft's program for DeBERTa: model_config.json and bpe_encoder.bin (microsoft/DeBERTa).

The weights have Hugging Face's names. If today's program fine-tuned a model of version 1, they have version 2's,
because it splits the fused projections and adds a bias to keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.formats import HuggingFace

PROJECTIONS_APART = "projections_apart"
BPE_ENCODER = "bpe_encoder.bin"
_ADVICE = (
    "bert_zoo reads only the tables of Microsoft's vocabulary from this file. You can use vocab.json and "
    "merges.txt of the model's Hugging Face repository instead."
)


@dataclass(frozen=True, kw_only=True)
class Original(HuggingFace):
    """A model_config.json with tensors of Hugging Face's names, which show the version."""

    name: ClassVar[str] = "microsoft"
    family_key: ClassVar[str] = ""

    config_file: str = "model_config.json"
    root: str | None = None
    # Whether queries, keys and values have separate projections, as since version 2.
    projections_apart: bool = False

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        from bert_zoo.weights.sources import open_weights

        apart = any("self.query_proj." in key for key in open_weights(path.parent))
        return JsonObject({**read_object(path), PROJECTIONS_APART: apart}, path)

    def is_of_family(self, values: JsonObject) -> bool:
        return values[PROJECTIONS_APART] == self.projections_apart


def with_hugging_faces_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """A model_config.json without the keys that depend on the version, and with the pooler's settings renamed."""
    told = {key: v for key, v in values.items() if key not in (PROJECTIONS_APART, "model_type")}
    pooling = told.pop("pooling", None)
    if not isinstance(pooling, Mapping):
        return told if pooling is None else {**told, "pooling": pooling}
    names = {"hidden_act": "pooler_hidden_act"}
    return told | {names.get(key, f"pooler_{key}"): value for key, value in pooling.items()}


def read_bpe_encoder(files: VocabularyFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """Reads the tokens in the order of their ids, and the merges.

    Raises:
        WeightsError: the file is damaged, or holds anything else.
    """
    from bert_zoo.weights import torch_bin

    path = files.path(BPE_ENCODER)
    found = torch_bin.read_object(path, {}, _ADVICE)
    encoder, merges, words = (
        found.get(key) if type(found) is dict else None for key in ("encoder", "vocab", "dict_map")
    )
    is_encoder = type(encoder) is dict and all(type(index) is int for index in encoder.values())
    if not (is_encoder and _are_pairs(merges, str, str) and _are_pairs(words, str, int)):
        raise WeightsError(
            f"{path} holds {shown(found, 200)}; it must be a dict of `encoder`, GPT-2's ids by token, "
            f"`vocab`, a list of merges, and `dict_map`, a list of ids and their counts. {_ADVICE}"
        )
    tokens = {str(index): token for token, index in encoder.items()}
    texts = [tokens.get(word, word) for word, _ in words]
    return ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *texts, "[MASK]"], [tuple(pair) for pair in merges]


def _are_pairs(items: Any, *kinds: type) -> bool:
    return type(items) is list and all(
        type(item) in (list, tuple) and tuple(map(type, item)) == kinds for item in items
    )
