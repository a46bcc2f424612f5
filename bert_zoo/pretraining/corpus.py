"""Text to pretrain on: documents from files of several kinds, in one pass and constant memory.

TensorFlow is imported only for `tensorflow_datasets`.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import logging
import math
import re
import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice, pairwise, zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tqdm import tqdm

from bert_zoo.data.files import (
    examples_of,
    is_gzip,
    json_lines,
    lines,
    string,
    text_member,
)
from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import check
from bert_zoo.json_files import utf8_text

# -------------------------------------------------------------------------------------------------
# Splits texts into sentences by punctuation, and keeps every character.
#
# One rule for all languages. Alternatives have problems: sentencex 1.0.32 panics on characters such as U+2028
# and takes quadratic time on long paragraphs, pysbd has had no release since 2021, tensorflow_text's
# StateBasedSentenceBreaker splits "p.m." and "3.50", and NLTK's punkt needs a download.
# -------------------------------------------------------------------------------------------------

# The most characters of a piece, about 2,000 tokens. Longer texts without sentence ends are cut at white
# space or, if there is none, anywhere.
LONGEST = 10_000

_CLOSING = "\"'”’)\\]}»›」』）】"
_ENDS = re.compile(
    # Full stops that need no following space.
    rf"[。！？｡][。！？｡{_CLOSING}]*\s*"
    # Others, with closing quotes and brackets; "''" is the Penn Treebank's. The bounds keep the time linear.
    rf"|(?<![.!?…।۔؟])[.!?…।۔؟]++(?:\s?(?:''|[{_CLOSING}]){{1,4}}){{0,3}}(?:\s+|$)"
)
_OPENING = "\"'“‘`([{«‹「『（【¿¡-–— \t"
_LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\.$")
# More often followed by names or numbers than by a new sentence.
_ABBREVIATIONS = frozenset(
    "adm al approx art asst bros ca capt cf ch co col corp dept dr ed eds e.g eq esp est etc ex fig figs "
    "gen gov hon i.e inc jr lt ltd maj messrs mr mrs ms mt no nos op p pp pres prof rep rev sec sen sgt "
    "sr st supt u.s u.k v viz vol vols vs jan feb mar apr jun jul aug sep sept oct nov dec".split()
)


def split_sentences(text: str) -> list[str]:
    """Splits a text into sentences of at most `LONGEST` characters, whose concatenation is the text.

    A sentence ends at a full stop, question mark or exclamation mark (or several, with closing quotes or
    brackets), if white space follows, which it keeps, and then no lower-case letter. It does not end after an
    initial or an abbreviation such as "Dr.". A Chinese or Japanese full stop needs no white space.
    """
    starts = [0, *(end.end() for end in _ENDS.finditer(text) if _is_end(text, end)), len(text)]
    return [piece for start, end in pairwise(starts) for piece in _cut(text[start:end])]


def _is_end(text: str, found: re.Match) -> bool:
    place = found.end()
    if place == len(text):
        return False
    mark = found[0][0]
    if mark in "。！？｡":
        return True
    follows = text[place : place + 20].lstrip(_OPENING)[:1]
    if follows.islower():
        return False
    if mark != "." or found[0][1:2] == ".":
        return True
    word = _LAST_WORD.search(text, max(0, found.start() - 20), found.start() + 1)
    if word is None:
        return True
    word = word[0][:-1]
    # A single capital other than "I" is an initial.
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return not is_initial and word.lower() not in _ABBREVIATIONS


def _cut(piece: str) -> Iterator[str]:
    while len(piece) > LONGEST:
        space = re.search(r"\s(?=\S*$)", piece[:LONGEST])
        end = space.end() if space else LONGEST
        yield piece[:end]
        piece = piece[end:]
    if piece:
        yield piece


class ParallelLines:
    """Documents with one sentence in each language, from one file per language, translations line by line.

    A line that is blank in one language is left out in all.
    """

    def __init__(self, paths: Sequence[str | Path], languages: Sequence[str]):
        if len(paths) != len(languages) or len(languages) < 2:
            raise ValueError(
                f"There are {len(paths)} files and {len(languages)} languages ({', '.join(languages)}). "
                "Give one file per language, in the same order, for at least two languages."
            )
        self.paths, self.languages = tuple(map(Path, paths)), tuple(languages)

    def __iter__(self) -> Iterator[list[str]]:
        for number, row in enumerate(zip_longest(*map(lines, self.paths))):
            if None in row:
                ended = self.languages[row.index(None)]
                raise ValueError(
                    f"The file of {ended} ends after {number:,} lines, but another has more. The files must "
                    "be translations line by line; check that they belong together."
                )
            sentences = [text.strip() for _, text in row]
            if all(sentences):
                yield sentences


class InTurn:
    """A tokenizer of sentences whose languages repeat in a fixed order; made from one that has `in_language`."""

    def __init__(self, tokenizer: Any, languages: Sequence[str]):
        self._tokenizers = [tokenizer.in_language(language) for language in languages]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizers[0], name)

    def __call__(self, texts: Sequence[str]) -> Any:
        """Tokenizes the sentences of whole documents: int32 [texts, (tokens)]."""
        number = len(self._tokenizers)
        by_language = [
            tokenizer(list(texts[place::number]))
            for place, tokenizer in enumerate(self._tokenizers)
        ]
        rows = len(texts) // number
        order = [place * rows + row for row in range(rows) for place in range(number)]
        import tensorflow as tf

        return tf.gather(tf.concat(by_language, 0), order)


def reading_in_turn(preprocessor: Any, languages: Sequence[str]) -> SimpleNamespace:
    """A preprocessor's attributes that `write_tokens` uses, for documents of `ParallelLines`."""
    tokenizer = InTurn(preprocessor.tokenizer, languages)
    return SimpleNamespace(tokenizer=tokenizer, packer=preprocessor.packer)


logger = logging.getLogger(__name__)

JSON_LINES = "json_lines"
FORMS = ("sentences", "paragraphs", "documents", JSON_LINES)
# Forms without documents: whole files as a language model's stream, and what `bert_zoo create_pretraining_data`
# writes.
STREAM, MASKED_ROWS, TOKEN_SHARDS = "stream", "masked_rows", "tokens"
PARTS = ("train", "held_out")
DUPLICATES = ("documents", "sentences")

# Characters of the longest document. Longer ones are divided into several documents, so that a file
# without blank lines needs no more memory than others.
_LONGEST_DOCUMENT = 1 << 20
# A line may be a whole document, such as a book.
_MAX_LINE_BYTES = 1 << 26
# Documents of which some are surely in both parts, unless a part is tiny.
_MANY_DOCUMENTS = 1_000
# Documents of each part, which pairs of sentences of different documents need.
_LEAST = 2
# Documents into which a text with fewer is divided.
_PARTS_OF_A_TEXT = 20
# Lines that are read to detect the form.
_SAMPLED_LINES = 2_000
# The most sentences per line, on average, in files with one sentence per line.
_MOST_SENTENCES_A_LINE = 1.5
DATA_SET = "tfds:"

Document = list[str]


@dataclass
class CorpusCounts:
    """Counts of the documents that a pass over a corpus yielded, and of what it left out."""

    documents: int = 0
    sentences: int = 0
    characters: int = 0
    duplicate_documents: int = 0  # equal to an earlier one
    duplicate_sentences: int = 0  # equal to an earlier one anywhere, not in duplicate documents
    cut_documents: int = 0  # cuts of long documents, whose rest became another document
    other_part: int = 0  # documents of the other part, held out or not
    form: str = ""  # of the files

    def __str__(self) -> str:
        more = {
            f"read as {self.form}": self.form,
            f"{self.duplicate_documents:,} duplicate documents": self.duplicate_documents,
            f"{self.duplicate_sentences:,} duplicate sentences": self.duplicate_sentences,
            f"{self.cut_documents:,} cuts of long documents": self.cut_documents,
            f"{self.other_part:,} documents set aside": self.other_part,
        }
        return ", ".join(
            (
                f"{self.documents:,} documents",
                f"{self.sentences:,} sentences",
                f"{self.characters:,} characters",
                *(text for text, value in more.items() if value),
            )
        )


class Corpus:
    """Documents to pretrain on, each a list of sentences. Every pass reads the source again.

    The forms of text files; by default the first lines decide:

    - "sentences": one sentence per line; a blank line or the end of a file ends a document (the input of
      BERT's original program);
    - "paragraphs": the same with several sentences per line, which are split by `split_sentences`;
    - "documents": one document per line, which is split by `split_sentences`.

    Files ending in ".jsonl" or ".ndjson" have one JSON object per line ("json_lines"), whose text is a
    document or a list of sentences. Files that also end in ".gz" are unpacked while they are read.

    Args:
        source: a file, a folder (all files in it, by name), a pattern such as "my/*.txt", or a list of
            these; "tfds:" and the name of a data set of `tensorflow_datasets`; or an iterable of
            documents, which are strings or lists of sentences.
        form: form of the files: "sentences", "paragraphs", "documents" or "json_lines"; by default as
            above.
        text_field: field of JSON objects and data sets with the text.
        split: split of a data set.
        encoding: encoding of text files; UTF-8 by default.
        drop_duplicates: duplicates to drop: any of "documents" and "sentences". The others are only
            counted. The first of equal documents or sentences is kept.
        held_out: share of the documents to set aside, from 0 to below 1. They are chosen by a hash of
            their content, so they are the same in every pass and order, and include all duplicates.
        part: "train" for the other documents, or "held_out".

    Each part gets at least two documents, as pairs of sentences need, if there are four. A few lines at a time are
    read as a document if files have fewer.

    Attributes:
        counts: `CorpusCounts` of the latest pass, up to date while it runs.
        division: a sentence on what was done so that both parts have text; "" if nothing was needed.

    Raises:
        ValueError: an unknown value of an option, or a source of another type.
        FileNotFoundError: no such file.
    """

    def __init__(
        self,
        source: Any,
        form: str | None = None,
        *,
        text_field: str = "text",
        split: str = "train",
        encoding: str | None = None,
        drop_duplicates: Collection[str] = (),
        held_out: float = 0.0,
        part: str = "train",
    ):
        check("form", form, str | None, choices=FORMS)
        check("part", part, str, choices=PARTS)
        if isinstance(drop_duplicates, str) or not set(drop_duplicates) <= set(DUPLICATES):
            raise ValueError(
                f"drop_duplicates is {drop_duplicates!r}; it must be a list of any of {DUPLICATES}."
            )
        check("held_out", held_out, float, least=0, below=1)
        self.source = source
        self.text_field, self.split, self.encoding = text_field, split, encoding
        self.drop_duplicates = frozenset(drop_duplicates)
        self.held_out, self.part = held_out, part
        self.counts = CorpusCounts()
        self.division = ""
        self._is_data_set = isinstance(source, str) and source.startswith(DATA_SET)
        self.files = [] if self._is_data_set else files_of(source)
        self.form = form
        if self.files and form is None:
            self.form = self._detected()
            logger.info("%s is read as %s.", shown(source), self.form)

    def __iter__(self) -> Iterator[Document]:
        """Yields the documents, without dropped duplicates and without the other part.

        Raises:
            ValueError: a line that is not UTF-8 (or `encoding`), not JSON, or lacks the field. Names file
                and line.
        """
        share, sentences = self._division
        self.counts = counts = CorpusCounts(form=self.form or "")
        with _Seen() as seen:
            # Progress is shown in a terminal only.
            for document in tqdm(
                self._divided(sentences), "Reading", unit=" documents", disable=None
            ):
                digest = _hash("\n".join(document))
                if (_share(digest) < share) != (self.part == "held_out"):
                    counts.other_part += 1
                    continue
                if not seen.is_new("documents", digest):
                    counts.duplicate_documents += 1
                    if "documents" in self.drop_duplicates:
                        continue
                elif new := [seen.is_new("sentences", _hash(text)) for text in document]:
                    counts.duplicate_sentences += new.count(False)
                    if "sentences" in self.drop_duplicates:
                        document = [
                            text for text, is_new in zip(document, new, strict=True) if is_new
                        ]
                if not document:
                    continue
                counts.documents += 1
                counts.sentences += len(document)
                counts.characters += sum(map(len, document))
                yield document

    def documents(self) -> Iterator[Document]:
        """Yields all documents of both parts, duplicates too, without counting them."""
        return self._bounded(self._raw())

    @functools.cached_property
    def _division(self) -> tuple[float, int]:
        """Share of hashes whose documents are held out; sentences read as one document, 0 for the source's own."""
        is_read_once = not self.files and not self._is_data_set and iter(self.source) is self.source
        if not self.held_out or is_read_once:
            return self.held_out, 0
        found = [*islice(self._hashes(0), _MANY_DOCUMENTS)]
        if len(found) == _MANY_DOCUMENTS:
            return self.held_out, 0
        number, sentences, remarks = len(found), 0, []
        total = sum(size for _, size in found)
        # The documents of other sources need not be texts that go on.
        if number < 2 * _LEAST <= total and (self.files or self._is_data_set):
            sentences = max(1, total // _PARTS_OF_A_TEXT)
            found = [*self._hashes(sentences)]
            remarks.append(
                f"The text has too few documents to hold some out, {number}, so every {sentences:,} lines or sentences "
                "of it are read as one. Blank lines separate documents."
            )
        shares = sorted({share for share, _ in found})
        usual, least = sum(share < self.held_out for share in shares), min(_LEAST, len(shares) // 2)
        number = min(max(usual, least), len(shares) - least)
        if number == usual:
            share = self.held_out
        else:
            share = math.nextafter(shares[number - 1], 1.0)
            remarks.append(
                f"Of {len(shares):,} documents {number} are held out; a share of {self.held_out} would be {usual}."
            )
        self.division = " ".join(remarks)
        return share, sentences

    def _hashes(self, sentences: int) -> Iterator[tuple[float, int]]:
        """The share of hashes below each document's, and its number of sentences; documents as in `_divided`."""
        for document in self._divided(sentences):
            yield _share(_hash("\n".join(document))), len(document)

    def _divided(self, sentences: int) -> Iterator[Document]:
        """The source's documents, or so many sentences as one each."""
        for document in self.documents():
            size = sentences or len(document)
            for start in range(0, len(document), size):
                yield document[start : start + size]

    def _bounded(self, documents: Iterable[Iterable[str]]) -> Iterator[Document]:
        """Strips sentences, drops blank ones, and divides huge documents."""
        for document in documents:
            kept, size = [], 0
            for sentence in document:
                # A line may be longer than the pieces of split_sentences.
                for piece in split_sentences(sentence) if len(sentence) > LONGEST else (sentence,):
                    if not (piece := piece.strip()):
                        continue
                    if kept and size + len(piece) > _LONGEST_DOCUMENT:
                        self.counts.cut_documents += 1
                        yield kept
                        kept, size = [], 0
                    kept.append(piece)
                    size += len(piece)
            if kept:
                yield kept

    def _raw(self) -> Iterator[Iterable[str]]:
        if self._is_data_set:
            yield from self._of_data_set()
        elif not self.files:
            yield from map(_sentences_of, self.source)
        for path in self.files:
            is_json = (_kind(path) or self.form) == JSON_LINES
            yield from self._of_json(path) if is_json else self._of_text(path)

    # --- Kinds of sources ---

    def _of_text(self, path: Path) -> Iterator[Iterable[str]]:
        texts = (line for _, line in self._lines(path))
        if self.form == "documents":
            yield from (split_sentences(line) for line in texts)
            return
        for is_text, block in groupby(texts, key=lambda line: bool(line.strip())):
            if is_text and self.form == "paragraphs":
                yield chain.from_iterable(map(split_sentences, block))
            elif is_text:
                yield block

    def _of_json(self, path: Path) -> Iterator[Iterable[str]]:
        for where, value in json_lines(path, self.encoding, max_line_bytes=_MAX_LINE_BYTES):
            if isinstance(value, dict) and isinstance(value.get(self.text_field), list):
                yield [string(text, self.text_field, where) for text in value[self.text_field]]
            else:
                yield _sentences_of(text_member(value, self.text_field, where))

    def _lines(self, path: Path) -> Iterator[tuple[int, str]]:
        return lines(path, self.encoding, max_line_bytes=_MAX_LINE_BYTES)

    def _of_data_set(self) -> Iterator[Iterable[str]]:
        name = self.source.removeprefix(DATA_SET)
        instead = "Check its name, or download the text by other means and pass its files."
        for number, example in enumerate(examples_of(name, self.split, instead)):
            where = f"{name}, example {number}"
            if self.text_field not in example:
                raise ValueError(
                    f"{where}: there is no {self.text_field!r}; the fields are {quoted(sorted(example))}. "
                    "Pass the name of the text's field as text_field."
                )
            yield _sentences_of(utf8_text(example[self.text_field], where))

    def _detected(self) -> str:
        """The form, from the first lines of the files."""
        texts = [path for path in self.files if _kind(path) is None]
        if not texts:
            return _kind(self.files[0])
        read = (line.strip() for path in texts for _, line in self._lines(path))
        found = [*islice(read, _SAMPLED_LINES)]
        full = [line for line in found if line]
        if not full:
            return "sentences"
        several = sum(len(split_sentences(line)) for line in full) > _MOST_SENTENCES_A_LINE * len(
            full
        )
        # Number of lines that directly follow another line.
        follow = sum(bool(a and b) for a, b in pairwise(found))
        if len(full) == len(found):
            return "documents" if several else "sentences"
        if follow < len(full) / 4:
            return "documents"
        return "paragraphs" if several else "sentences"


def _kind(path: Path) -> str | None:
    """The form of a file by its name; None for text files."""
    if is_gzip(path):
        path = path.with_suffix("")
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return JSON_LINES
    if ".tfrecord" in path.name.lower():
        raise ValueError(
            f"{path} is a TFRecord file. Read masked rows of `bert_zoo create_pretraining_data` with "
            "--form masked_rows. Write texts as JSON Lines (.jsonl)."
        )
    return None


def files_of(source: Any) -> list[Path]:
    """The files of a source; none for an iterable of documents."""
    if isinstance(source, str | Path):
        sources = [source]
    elif (
        isinstance(source, list | tuple)
        and source
        and all(isinstance(item, str | Path) for item in source)
    ):
        sources = source
    elif isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        return []
    else:
        raise ValueError(
            f"The source is {shown(source)}; it must be a file, a folder, a pattern such as 'my/*.txt', a "
            "list of these, or an iterable of documents."
        )
    return [path for item in sources for path in _named_by(item)]


def _named_by(source: str | Path) -> list[Path]:
    path = Path(source)
    if path.is_file():
        return [path]
    found = map(Path, glob.glob(str(source), recursive=True))
    if path.is_dir():
        # Without hidden files.
        found = (
            file
            for file in path.rglob("*")
            if not any(part.startswith(".") for part in file.relative_to(path).parts)
        )
    found = sorted(file for file in found if file.is_file())
    if not found:
        raise FileNotFoundError(
            f"There is no file {shown(str(source))}. Pass a text file, a folder with text files, or a "
            "pattern such as 'my/*.txt'. Pass texts that are not in files as an iterator, iter(texts)."
        )
    return found


def _sentences_of(document: Any) -> Iterable[str]:
    """The sentences of a document that is a text or a list of sentences."""
    if isinstance(document, str):
        return (piece for line in document.split("\n") for piece in split_sentences(line))
    if isinstance(document, list | tuple) and all(isinstance(text, str) for text in document):
        return document
    raise TypeError(
        f"A document is {shown(document)}; it must be a string, or a list of sentences as strings."
    )


def _share(digest: int) -> float:
    """The share of all hashes that are smaller."""
    return digest / 2**64


def _hash(text: str) -> int:
    """A 64-bit hash of a text: among a billion texts, two agree with a probability of 3%."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


class _Seen:
    """The set of hashes seen so far; on disk, in a temporary folder, so that memory is bounded."""

    def __enter__(self) -> _Seen:
        self._folder = tempfile.TemporaryDirectory(prefix="bert_zoo_")
        # A library may iterate over the texts in a thread of its own.
        self._base = sqlite3.connect(
            Path(self._folder.name) / "seen.sqlite", isolation_level=None, check_same_thread=False
        )
        # 16 MiB in memory. Nothing needs to survive the process.
        for setting in ("cache_size=-16384", "journal_mode=OFF", "synchronous=OFF"):
            self._base.execute(f"PRAGMA {setting}")
        for table in DUPLICATES:
            self._base.execute(f"CREATE TABLE {table} (hash INTEGER PRIMARY KEY)")
        self._base.execute("BEGIN")
        return self

    def is_new(self, table: str, digest: int) -> bool:
        """Adds a hash, and returns whether it is new."""
        # SQLite's integers are signed.
        row = self._base.execute(f"INSERT OR IGNORE INTO {table} VALUES (?)", (digest - 2**63,))
        return row.rowcount == 1

    def __exit__(self, *exception: Any) -> None:
        self._base.close()
        self._folder.cleanup()
