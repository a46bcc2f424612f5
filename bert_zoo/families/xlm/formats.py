"""XLM's files as its authors' program writes them: a .pth with sizes and words, and merges beside it.

The .pth holds `model`, `params`, `dico_id2word` and what the training left; `codes_*` has fastBPE's
merges. `vocab_*` repeats the words, and is not read.

Source: facebookresearch/XLM xlm/trainer.py, save_checkpoint; xlm/data/dictionary.py.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import ConfigError
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.word_bpe_files import found_in_texts, read_merges, read_word_bpe
from bert_zoo.weights.formats import Torch
from bert_zoo.weights.restricted_pickle import UNREAD_ARRAYS

PROGRAM_FILE, MERGES_FILE = "*.pth", "codes*"
NUM_SPECIAL = 14  # words before those of the corpus: <s>, </s>, <pad>, <unk>, <special0>, ...
CONTINUED = "@@"  # ends what does not end a word

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


def read_vocabulary(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads Hugging Face's files, or the program's.

    Nothing in the latter tells whether texts were lower-cased: they were where no word has a capital
    letter.
    """
    programs = sorted(files.directory.glob(PROGRAM_FILE))
    if files.has("vocab.json") or not programs:
        return read_word_bpe(files, overrides)
    merges = sorted(file.name for file in files.directory.glob(MERGES_FILE))
    if len(merges) != 1:
        raise FileNotFoundError(
            f"{files.directory} should hold the merges of {programs[0].name} in one file {MERGES_FILE}, "
            f"such as codes_en; it holds {files.names()}."
        )
    entries = entries_of(programs[0])
    tokens = tokens_in(entries)
    languages = dict(entries.section("params").section("lang2id").values_of(int))
    arguments = {
        "vocabulary": tokens,
        # Not through `files`, which writes again what it has read.
        "merges": read_merges(VocabularyFiles(files.directory).lines(merges[0])),
        "lowercase": all(token == token.lower() for token in tokens),
        "added_tokens": found_in_texts(tokens),
        # Of one language, the model reads no number.
        **({"languages": languages} if len(languages) > 1 else {"language": next(iter(languages))}),
        **overrides,
    }
    return TokenizerParts("WordBpeTokenizer", arguments, programs[0])


def tokens_in(entries: JsonObject) -> list[str]:
    """The words in the order of their ids, those of the corpus with "</w>" where they end a word."""
    words = entries.section("dico_id2word")
    if {*words} != {*range(len(words))}:
        raise ConfigError(f"{words.where} does not number its words from 0 to {len(words) - 1}.")
    words.values_of(str)
    return [
        words[i].removesuffix(CONTINUED)
        if i < NUM_SPECIAL or words[i].endswith(CONTINUED)
        else f"{words[i]}</w>"
        for i in range(len(words))
    ]
