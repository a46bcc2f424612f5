"""Natural language inference outside GLUE: SNLI, and XNLI in fifteen languages.

Bowman et al., "A large annotated corpus for learning natural language inference", EMNLP 2015; Conneau et
al., "XNLI: Evaluating Cross-lingual Sentence Representations", EMNLP 2018. Classes and their order are
MNLI's, so a model of one data set can be measured on the others.

Only downloads through `tensorflow_datasets` import TensorFlow.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bert_zoo.data import files
from bert_zoo.data.glue import NLI_LABELS
from bert_zoo.data.tables import LabelledTexts, Table, ids_of, positions
from bert_zoo.metrics.labels import accuracy

log = logging.getLogger("bert_zoo")

LANGUAGES = tuple("ar bg de el en es fr hi ru sw th tr ur vi zh".split())
# Our name of each split -> its name in the files.
SNLI_SPLITS: Mapping[str, str] = {"train": "train", "validation": "dev", "test": "test"}
XNLI_SPLITS = SNLI_SPLITS
# Label in SNLI's files if annotators did not agree; tensorflow_datasets has -1, the last one.
_UNDECIDED = "-"
_DOWNLOADED = (*NLI_LABELS, _UNDECIDED)
# XNLI's translations of MNLI spell this class differently.
_IDS = positions(NLI_LABELS) | {"contradictory": NLI_LABELS.index("contradiction")}


@dataclass(frozen=True)
class XnliSplit(LabelledTexts):
    """Premises and hypotheses in several languages."""

    languages: list[str] = field(default_factory=list)  # code of each row's language, [N]


# The place of a pair, for messages; its language, premise, hypothesis and label.
_Pair = tuple[str, str, str, str, str]


def load_snli(split: str, data_dir: str | Path | None = None) -> LabelledTexts:
    """Reads a split of SNLI.

    Pairs without an agreed label are left out and counted in the log.

    Args:
        split: "train", "validation" or "test".
        data_dir: SNLI's folder `snli_1.0`, or its parent. The folder contains snli_1.0_train.jsonl or .txt,
            and so on. Without it, `tensorflow_datasets` downloads the split.

    Returns:
        Premises and hypotheses with class ids, and the number of pairs left out (`skipped`).

    Raises:
        ValueError: the split is unknown, or a row does not match the file. Names file and line.
        FileNotFoundError: `data_dir` does not contain the file.
        RuntimeError: the download failed.
    """
    files.check_known("SNLI has no split", split, SNLI_SPLITS)
    if data_dir is None:
        place = f"snli, {split}"
        pairs = (
            (place, "en", *files.decoded((e["premise"], e["hypothesis"])), _DOWNLOADED[e["label"]])
            for e in files.download("snli", split, "SNLI's snli_1.0")
        )
    else:
        name = f"snli_1.0_{SNLI_SPLITS[split]}"
        pairs = _rows(_find(data_dir, "snli_1.0", f"{name}.jsonl", f"{name}.txt"))
    data = _split(pairs)
    return LabelledTexts(data.texts, data.labels, data.label_names, skipped=data.skipped)


def load_xnli(
    split: str, data_dir: str | Path | None = None, languages: Sequence[str] = ("en",)
) -> XnliSplit:
    """Reads a split of XNLI.

    The training split is MNLI or translations of it. The other splits have pairs in all fifteen languages.

    Args:
        split: "train", "validation" or "test".
        data_dir: folder that contains XNLI-1.0 (xnli.dev.tsv, xnli.test.tsv) and XNLI-MT-1.0
            (multinli/multinli.train.en.tsv, ...), or these files. Without it, `tensorflow_datasets` downloads
            the split, with XTREME's translations for training.
        languages: languages of the training split, from `LANGUAGES`, one after the other; "en" is MNLI
            itself. The other splits ignore this.

    Returns:
        Premises and hypotheses with class ids and languages.

    Raises:
        ValueError: the split or a language is unknown, or a row does not match the file. Names file and line.
        FileNotFoundError: `data_dir` does not contain the file.
        RuntimeError: the download failed.
    """
    files.check_known("XNLI has no split", split, XNLI_SPLITS)
    for language in languages:
        files.check_known("XNLI has no language", language, LANGUAGES)
    if data_dir is None:
        name = "xtreme_xnli" if split == "train" else "xnli"
        return _split(_downloaded(name, split, languages if split == "train" else LANGUAGES))
    if split == "train":
        return _split(pair for language in languages for pair in _translated(data_dir, language))
    name = f"xnli.{XNLI_SPLITS[split]}"
    return _split(_rows(_find(data_dir, "XNLI-1.0", f"{name}.tsv", f"{name}.jsonl"), "language"))


def accuracies(data: XnliSplit, logits: np.ndarray) -> dict[str, float]:
    """Accuracy of logits [N, classes], over all languages and for each."""
    labels, answers = np.asarray(data.labels), np.asarray(logits).argmax(-1)
    of_row = np.asarray(data.languages)
    by_language = {
        f"accuracy_{language}": accuracy(labels[of_row == language], answers[of_row == language])
        for language in dict.fromkeys(data.languages)
    }
    return {"accuracy": accuracy(labels, answers), **by_language}


def _find(data_dir: str | Path, folder: str, *names: str) -> Path:
    """The first existing file, in the data set's own folder or in `data_dir` itself."""
    path = Path(data_dir)
    candidates = [parent / name for parent in (path / folder, path) for name in names]
    return files.require_file(
        *candidates,
        advice=f"data_dir must be the folder that contains {folder}, as it is distributed.",
    )


def _rows(path: Path, *language: str) -> Iterator[_Pair]:
    """The pairs of a file with the columns of NYU's and Stanford's files."""
    table = Table(path, format=None if path.suffix == ".jsonl" else "tsv")
    for line, row in table.rows(("sentence1", "sentence2", "gold_label", *language)):
        first, second, label, *languages = row
        yield table.place(line), *(languages or ["en"]), first, second, label


def _translated(data_dir: str | Path, language: str) -> Iterator[_Pair]:
    name = f"multinli.train.{language}.tsv"
    table = Table(_find(data_dir, "XNLI-MT-1.0/multinli", f"multinli/{name}", name))
    for line, row in table.rows(("premise", "hypo", "label")):
        yield table.place(line), language, *row


def _downloaded(name: str, split: str, languages: Iterable[str]) -> Iterator[_Pair]:
    examples = files.download(name, split, "XNLI-1.0 and XNLI-MT-1.0")
    for language in languages:
        for example in examples:
            hypotheses = files.decoded(example["hypothesis"]["translation"])
            spoken = files.decoded(example["hypothesis"]["language"])
            first = example["premise"][language].decode("utf-8")
            second = hypotheses[spoken.index(language)]
            yield f"{name}, {split}", language, first, second, _DOWNLOADED[example["label"]]


def _split(pairs: Iterable[_Pair]) -> XnliSplit:
    first, second, labels, languages, places = [], [], [], [], []
    skipped = 0
    for place, language, premise, hypothesis, label in pairs:
        if label == _UNDECIDED:
            skipped += 1
            continue
        places.append(place)
        languages.append(language)
        first.append(files.string(premise, "premise", place))
        second.append(files.string(hypothesis, "hypothesis", place))
        labels.append(label)
    ids = ids_of(labels, _IDS, places.__getitem__)
    if skipped:
        log.warning(
            "%s: left out %s of %s pairs, as their annotators agreed on no label.",
            places[0].partition(", line")[0],
            f"{skipped:,}",
            f"{skipped + len(ids):,}",
        )
    return XnliSplit((first, second), ids, NLI_LABELS, skipped=skipped, languages=languages)
