"""Sentences with a label and a split: the probing files of SentEval.

Conneau et al., "What you can cram into a single $&!#* vector: Probing sentence embeddings for linguistic
properties", ACL 2018 (arXiv:1805.01070). Nothing here imports TensorFlow.
"""

from dataclasses import dataclass
from pathlib import Path

from bert_zoo.data.tables import Table
from bert_zoo.fields import check

# A split's name in the files -> our name of it.
SPLITS = {"tr": "train", "va": "validation", "te": "test"}


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences in the order of their file."""

    words: list[list[str]]  # strings [N][words]
    labels: list[str]  # strings [N]
    splits: list[str]  # "train", "validation" or "test" [N]

    def __len__(self) -> int:
        return len(self.words)


def read_senteval(path: str | Path) -> LabelledSentences:
    """Reads a probing file of SentEval, such as past_present.txt.

    Each line has a split ("tr", "va" or "te"), a label and a tokenized text, separated by tabs. Spaces
    separate the words.

    Args:
        path: the file.

    Returns:
        The sentences, in the order of the file.

    Raises:
        ValueError: a line has another number of columns, an unknown split, or no words. Names file and line.
        FileNotFoundError: the file does not exist.
    """
    table = Table(path, format="tsv", header=False)
    words, labels, splits = [], [], []
    for line, (split, label, text) in table.rows((0, 1, 2)):
        place = table.place(line)
        check(f"{place}: the split", split, str, choices=SPLITS)
        if not text.split():
            raise ValueError(f"{place}: the text has no words. Remove the line.")
        words.append(text.split())
        labels.append(label)
        splits.append(SPLITS[split])
    return LabelledSentences(words, labels, splits)
