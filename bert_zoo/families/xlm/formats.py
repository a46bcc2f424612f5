"""Files of XLM's original program: a .pth with sizes and words, and merges.

The .pth holds `model`, `params`, `dico_id2word` and the state of training; `codes_*` holds fastBPE's
merges. `vocab_*` repeats the words and is not read.

Source: facebookresearch/XLM xlm/trainer.py, save_checkpoint; xlm/data/dictionary.py.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bert_zoo.config import ConfigError
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import Torch
from bert_zoo.weights.restricted_pickle import UNREAD_ARRAYS

PROGRAM_FILE = "*.pth"

_ADVICE = (
    "bert_zoo reads .pth files of XLM's program. If it is another program's, put Hugging Face's "
    "config.json of the model beside it."
)


@dataclass(frozen=True, kw_only=True)
class ProgramFile(Torch):
    """The program's .pth. The codec reads its `params`."""

    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"^module\.", ""),
    )  # from training on several devices

    config_file: str = PROGRAM_FILE

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        return entries_of(path).section("params")


def entries_of(path: Path) -> JsonObject:
    """The entries of a .pth, without reading its tensors."""
    from bert_zoo.weights.torch_bin import read_object

    found = read_object(path, UNREAD_ARRAYS, _ADVICE)
    if not isinstance(found, dict) or not {"params", "dico_id2word"} <= {*found}:
        raise ConfigError(f"{path} has no entries params and dico_id2word. {_ADVICE}")
    return JsonObject(found, path)
