"""XLM's files as its authors' program writes them: a .pth with sizes and words, and merges beside it.

The .pth holds `model`, `params`, `dico_id2word` and what the training left; `codes_*` has fastBPE's
merges. `vocab_*` repeats the words, and is not read.

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
    "bert_zoo reads .pth files of XLM's program. Where it is another program's, put Hugging Face's "
    "config.json of the model beside it."
)


@dataclass(frozen=True, kw_only=True)
class ProgramFile(Torch):
    """The program's .pth; the codec is given its `params`."""

    renames: ClassVar[tuple[tuple[str, str], ...]] = ((r"^module\.", ""),)  # of several devices

    config_file: str = PROGRAM_FILE

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        return entries_of(path).section("params")


def entries_of(path: Path) -> JsonObject:
    """What a .pth holds; its tensors stay unread."""
    from bert_zoo.weights.torch_bin import read_object

    found = read_object(path, UNREAD_ARRAYS, _ADVICE)
    if not isinstance(found, dict) or not {"params", "dico_id2word"} <= {*found}:
        raise ConfigError(f"{path} has no entries params and dico_id2word. {_ADVICE}")
    return JsonObject(found, path)
