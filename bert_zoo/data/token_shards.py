"""Text tokenized once: shards of token ids with an index, read at any place.

A directory holds `tokens-*.array_record`, whose records are runs of token ids, in order; the places
where sentences and documents start, how often each token occurs and which tokens begin a word, as
.npy files that are mapped into memory; and index.json. Special tokens are not in the shards: rows get
them when they are composed. Reading needs no TensorFlow.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from filelock import FileLock
from numpy.lib.format import write_array_header_1_0

from bert_zoo.data.corpus import CorpusCounts
from bert_zoo.json_files import read_object
from bert_zoo.text.layout import Layout
from bert_zoo.weights.files import remove_leftovers, replacing, write_json

if TYPE_CHECKING:
    from bert_zoo.text.preprocessor import TextPreprocessor
    from bert_zoo.text.tokenizer import Tokenizer

INDEX = "index.json"
# Tokens that a program holds until it writes them, and that it makes anew when it was stopped.
SHARD_TOKENS = 1 << 23
# Tokens of a record: what is read for a row that needs some of them.
RECORD_TOKENS = 2048
# Records that a reader keeps in memory: 64 MiB where ids take two bytes.
KEPT_RECORDS = 1 << 14
# Characters that are tokenized in one call: enough that what each call costs does not count.
BATCH_CHARACTERS = 1 << 16
_ROLES = ("unk", "pad", "cls", "sep", "mask", "eos")
# Places where something starts: sentences among the tokens, documents among the sentences.
STARTS = ("documents", "sentences")


class Document(NamedTuple):
    """A document of `TokenShards`.

    Attributes:
        token_ids: int32 [tokens].
        sentence_starts: int64 [sentences], the place of each sentence's first token.
        word_starts: bool [tokens], whether a token is the first of a word.
    """

    token_ids: np.ndarray
    sentence_starts: np.ndarray
    word_starts: np.ndarray


# --- Writing ---


def write_token_shards(
    documents: Iterable[Sequence[str]],
    preprocessor: TextPreprocessor,
    directory: str | Path,
    *,
    shard_tokens: int = SHARD_TOKENS,
    batch_characters: int = BATCH_CHARACTERS,
) -> TokenShards:
    """Tokenizes documents and writes them to a directory.

    A program that was stopped goes on with the shards that it had finished: it reads the documents
    from the first one again, and checks that they are the same. On a directory that is complete it
    does no more than that.

    Sentences after a document's first are tokenized as what follows a space, which matters to
    byte-level BPE. Sentences without any token are left out.

    Args:
        documents: lists of sentences, such as a `Corpus`; its `counts`, a `CorpusCounts`, are kept in the
            index.
        preprocessor: what tokenizes, and whose layout the rows will have.
        directory: is made where it does not exist.
        shard_tokens: a shard is finished with the document that fills it.
        batch_characters: how much is tokenized in one call.

    Returns:
        The shards.

    Raises:
        ValueError: no document has a token; or the directory holds other documents, or those of
            another vocabulary.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    lock = directory / ".lock"
    with FileLock(lock):
        remove_leftovers(directory)
        tokenizer, layout = preprocessor.tokenizer, preprocessor.packer.layout
        _note_vocabulary(directory, tokenizer)
        left = iter(documents)
        shards = [*_finished(directory, left)]
        if (directory / INDEX).exists():
            if next(left, None) is not None:
                raise _other_documents(directory)
        else:
            for shard in _shards(
                _tokenized(left, tokenizer, batch_characters), shard_tokens, tokenizer.vocab_size
            ):
                shards.append(shard.write(directory, len(shards)))
            if not any(shard["tokens"] for shard in shards):
                raise ValueError("The documents have no tokens. Check that their files hold text.")
            about = _vocabulary_of(tokenizer)
            about["special_ids"]["pad"] = preprocessor.packer.pad_id
            about["layout"] = layout.get_config()
            counts = getattr(documents, "counts", None)
            if isinstance(counts, CorpusCounts):
                about["corpus"] = asdict(counts)
            _write_index(directory, shards, about)
        # No longer needed: who waits for it, or makes it anew, finds all written.
        lock.unlink(missing_ok=True)
    return TokenShards(directory, tokenizer)


def _tokenized(
    documents: Iterator[Sequence[str]], tokenizer: Tokenizer, batch_characters: int
) -> Iterator[tuple[Sequence[str], list[np.ndarray]]]:
    """Documents with the ids of their sentences, tokenized ahead on all cores."""

    def tokenize(texts: list[str]) -> list[np.ndarray]:
        ragged = tokenizer(texts)
        return np.split(ragged.flat_values.numpy(), ragged.row_splits.numpy()[1:-1])

    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        ahead: deque = deque()
        for batch in _batches(documents, batch_characters):
            texts = [
                f" {sentence}" if i else sentence
                for document in batch
                for i, sentence in enumerate(document)
            ]
            ahead.append((batch, pool.submit(tokenize, texts)))
            if len(ahead) > workers:
                yield from _by_document(*ahead.popleft())
        for item in ahead:
            yield from _by_document(*item)


def _batches(
    documents: Iterator[Sequence[str]], batch_characters: int
) -> Iterator[list[Sequence[str]]]:
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document))
        if size >= batch_characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _by_document(batch, tokenized) -> Iterator[tuple[Sequence[str], list[np.ndarray]]]:
    sentences = iter(tokenized.result())
    for document in batch:
        yield document, [next(sentences) for _ in document]


class _Shard:
    """What a shard is to hold."""

    def __init__(self, vocab_size: int):
        self.dtype = _dtype(vocab_size)
        self.vocab_size = vocab_size
        self.ids: list[np.ndarray] = []
        self.tokens = 0
        self.sentences = array("q")  # tokens of each
        self.documents = array("q")  # sentences of each
        self.read = 0  # documents, also those without tokens
        self.digest = hashlib.sha256()

    def add(self, document: Sequence[str], sentences: list[np.ndarray]) -> None:
        self.read += 1
        _feed(self.digest, document)
        sentences = [ids for ids in sentences if len(ids)]
        if sentences:
            self.ids.append(np.concatenate(sentences).astype(self.dtype))
            self.tokens += len(self.ids[-1])
            self.sentences.extend(map(len, sentences))
            self.documents.append(len(sentences))

    def write(self, directory: Path, number: int) -> dict[str, Any]:
        """Writes the shard's files, the second one when the first is whole; returns their summary."""
        ids = np.concatenate([*self.ids, np.zeros(0, self.dtype)])
        name = f"tokens-{number:05}.array_record"
        partial = directory / f"{name}.partial"
        # One record a chunk, as it is, reads fastest at random places.
        writer = ArrayRecordWriter(str(partial), "group_size:1,uncompressed")
        for start in range(0, len(ids), RECORD_TOKENS):
            writer.write(ids[start : start + RECORD_TOKENS].tobytes())
        writer.close()
        counts = np.zeros(self.vocab_size, np.int64)
        for start in range(0, len(ids), 1 << 20):  # bincount makes eight bytes of each id
            counts += np.bincount(ids[start : start + (1 << 20)], minlength=self.vocab_size)
        partial.replace(directory / name)
        about = {
            "file": name,
            "read": self.read,
            "documents": len(self.documents),
            "sentences": len(self.sentences),
            "tokens": self.tokens,
            "text_sha256": self.digest.hexdigest(),
        }
        arrays = {
            "about": np.array(json.dumps(about)),
            "sentences": np.asarray(self.sentences, np.int64),
            "documents": np.asarray(self.documents, np.int64),
            "counts": counts,
        }
        with replacing(_part(directory, number)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
        return about


def _shards(tokenized: Iterable, shard_tokens: int, vocab_size: int) -> Iterator[_Shard]:
    shard = _Shard(vocab_size)
    for document, sentences in tokenized:
        shard.add(document, sentences)
        if shard.tokens >= shard_tokens:
            yield shard
            shard = _Shard(vocab_size)
    if shard.read:
        yield shard


def _finished(directory: Path, documents: Iterator[Sequence[str]]) -> Iterator[dict[str, Any]]:
    """The summaries of the shards that are there, whose documents are read and compared."""
    number = 0
    while (part := _part(directory, number)).exists():
        with np.load(part) as stored:
            about = json.loads(str(stored["about"]))
        digest = hashlib.sha256()
        for document in islice(documents, about["read"]):
            _feed(digest, document)
        if digest.hexdigest() != about["text_sha256"]:
            raise _other_documents(directory)
        yield about
        number += 1


def _part(directory: Path, number: int) -> Path:
    return directory / f"tokens-{number:05}.npz"


def _feed(digest: Any, document: Sequence[str]) -> None:
    digest.update("\n".join([*document, "\n"]).encode("utf-8", "surrogatepass"))


def _other_documents(directory: Path) -> ValueError:
    return ValueError(
        f"{directory} holds the tokens of other documents than these: the text, or what is left out of "
        "it, has changed. Choose another directory, or delete this one to have it written anew."
    )


def _write_index(directory: Path, shards: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Writes what is known of all shards together; index.json last, which makes them complete."""
    totals = {n: sum(shard[n] for shard in shards) for n in ("documents", "sentences", "tokens")}
    for name in STARTS:
        # As many as there are sentences; in memory for one shard at a time.
        with (directory / f"{name}.npy").open("wb") as file:
            shape = (totals[name] + 1,)
            write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": shape})
            file.write(np.int64(0).tobytes())
            place = 0
            for number in range(len(shards)):
                with np.load(_part(directory, number)) as part:
                    starts = place + np.cumsum(part[name])
                file.write(starts.tobytes())
                place = int(starts[-1]) if len(starts) else place
    counts = 0
    for number in range(len(shards)):
        with np.load(_part(directory, number)) as part:
            counts = counts + part["counts"]
    np.save(directory / "counts.npy", counts)
    write_json(directory / INDEX, {**totals, **about, "shards": shards})


# --- Vocabularies ---


def _vocabulary_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """What decides the ids of a text."""
    options = {n: v for n, v in tokenizer.get_config().items() if n != "vocabulary"}
    content = json.dumps(
        [options, tokenizer.vocabulary], ensure_ascii=False, sort_keys=True, default=str
    )
    return {
        "tokenizer": type(tokenizer).__name__,
        "vocab_size": tokenizer.vocab_size,
        "sha256": hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest(),
        "special_ids": {
            r: getattr(tokenizer, f"{r}_id") for r in _ROLES if hasattr(tokenizer, f"{r}_id")
        },
    }


def _note_vocabulary(directory: Path, tokenizer: Tokenizer) -> None:
    """Writes which tokenizer the directory is for, or checks that it is this one."""
    note = directory / "vocabulary.json"
    if note.exists():
        _check_vocabulary(read_object(note), tokenizer, directory)
        return
    np.save(directory / "begins_word.npy", tokenizer.word_starts)
    write_json(note, _vocabulary_of(tokenizer))


def _check_vocabulary(stored: dict[str, Any], tokenizer: Tokenizer, directory: Path) -> None:
    given = _vocabulary_of(tokenizer)
    if stored["sha256"] != given["sha256"]:
        have, want = (
            f"{v['tokenizer']} with {v['vocab_size']:,} tokens and the hash {v['sha256'][:12]}"
            for v in (stored, given)
        )
        raise ValueError(
            f"{directory} was tokenized by another vocabulary or with other options: by a {have}. The "
            f"model's is a {want}. Tokenize the text again, into another directory."
        )


# --- Reading ---


class TokenShards:
    """Tokenized documents in a directory that `write_token_shards` wrote, read at any place.

    It holds some 64 MiB in memory at most, may be used by several threads, and is pickled as its
    directory.

    Args:
        directory: as it was written.
        tokenizer: checked to be what the texts were tokenized with, where it is given.

    Attributes:
        directory: the Path.
        num_documents, num_sentences, num_tokens: how many there are.
        document_starts: int64 [documents + 1], each document's first sentence; at the end their number.
        sentence_starts: int64 [sentences + 1], each sentence's first token among all tokens; the same.
        counts: int64 [vocab_size], how often each token occurs.
        begins_word: bool [vocab_size], `word_starts` of the tokenizer.
        layout: the `Layout` of rows.
        special_ids: role, such as "cls" or "mask" -> id; "pad" among them in any case.
        index: what index.json says, such as "corpus", the counts of the `Corpus`.

    Raises:
        FileNotFoundError: no such directory, or one whose writing was stopped.
        ValueError: another vocabulary.
    """

    def __init__(self, directory: str | Path, tokenizer: Tokenizer | None = None):
        self.directory = Path(directory)
        if not (self.directory / INDEX).is_file():
            raise FileNotFoundError(
                f"{self.directory} has no {INDEX}: it holds no tokens, or not all of them yet. "
                "write_token_shards makes it, and goes on where it was stopped."
            )
        self.index = read_object(self.directory / INDEX)
        if tokenizer is not None:
            _check_vocabulary(self.index, tokenizer, self.directory)
        self.num_documents, self.num_sentences, self.num_tokens = (
            self.index[name] for name in ("documents", "sentences", "tokens")
        )
        self.document_starts, self.sentence_starts = (
            np.load(self.directory / f"{name}.npy", mmap_mode="r") for name in STARTS
        )
        self.counts = np.load(self.directory / "counts.npy")
        self.begins_word = np.load(self.directory / "begins_word.npy")
        self.layout = Layout(**self.index["layout"])
        self.special_ids = self.index["special_ids"]
        self._dtype = _dtype(self.index["vocab_size"])
        tokens = np.array([shard["tokens"] for shard in self.index["shards"]])
        # Of each shard: its first token, and its first record where all records are counted.
        self._first_token = np.cumsum(tokens) - tokens
        records = -(-tokens // RECORD_TOKENS)
        self._first_record = np.cumsum(records) - records
        # By number, the first ones that were read: a small text is read from memory after an epoch.
        self._kept: dict[int, bytes] = {}
        # Made when they are needed, as a process that is forked must not share them.
        self._readers: dict[tuple[int, int], ArrayRecordReader] = {}

    def __reduce__(self):
        return TokenShards, (self.directory,)

    def __len__(self) -> int:
        return self.num_documents

    def document(self, number: int) -> Document:
        """Reads a document; IndexError for one that is not there."""
        if not 0 <= number < self.num_documents:
            raise IndexError(f"There is no document {number}; there are {self.num_documents:,}.")
        first, end = self.document_starts[number : number + 2]
        starts = self.sentence_starts[first : end + 1]
        ids = self.read(starts[:1], starts[-1:] - starts[:1])
        word_starts = self.begins_word[ids]
        word_starts[:1] = True
        return Document(ids, starts[:-1] - starts[0], word_starts)

    def stream(self) -> np.ndarray:
        """Reads all tokens, one document behind the other: int32 [tokens]."""
        lengths = [shard["tokens"] for shard in self.index["shards"] if shard["tokens"]]
        starts = np.cumsum(lengths) - lengths
        runs = (self.read([a], [n]) for a, n in zip(starts, lengths, strict=True))
        return np.concatenate([*runs])

    def _cut(self, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Runs that are the given ones together, of which none reaches past the end of its shard."""
        ends = starts + lengths
        first = np.searchsorted(self._first_token, starts, side="right") - 1
        counts = np.searchsorted(self._first_token, ends, side="left") - first
        if (counts == 1).all():
            return starts, lengths
        shard = np.repeat(first, counts) + ranges(counts)
        shard_ends = np.append(self._first_token[1:], ends.max())[shard]
        cut = np.maximum(np.repeat(starts, counts), self._first_token[shard])
        return cut, np.minimum(np.repeat(ends, counts), shard_ends) - cut

    def read(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Reads runs of tokens.

        Args:
            starts: integers [runs], the place of each run's first token among all tokens.
            lengths: integers [runs], at least 1.

        Returns:
            int32 [sum of lengths], the runs one behind the other.
        """
        starts, lengths = self._cut(np.asarray(starts, np.int64), np.asarray(lengths, np.int64))
        shard = np.searchsorted(self._first_token, starts, side="right") - 1
        place = starts - self._first_token[shard]
        first = self._first_record[shard] + place // RECORD_TOKENS
        count = (place + lengths - 1) // RECORD_TOKENS - place // RECORD_TOKENS + 1
        records = np.unique(np.repeat(first, count) + ranges(count))
        contents = self._records(records)
        # Tokens before each record among those that were read. A run's records lie side by side.
        sizes = np.array([len(content) // self._dtype.itemsize for content in contents], np.int64)
        before = np.cumsum(sizes) - sizes
        source = before[np.searchsorted(records, first)] + place % RECORD_TOKENS
        tokens = np.frombuffer(b"".join(contents), self._dtype)
        return tokens[np.repeat(source, lengths) + ranges(lengths)].astype(np.int32)

    def _records(self, records: np.ndarray) -> list[bytes]:
        """The records of these numbers, which rise."""
        new = np.array([number for number in records.tolist() if number not in self._kept], int)
        shards = np.searchsorted(self._first_record, new, side="right") - 1
        read: dict[int, bytes] = {}
        for shard in np.unique(shards):
            numbers = new[shards == shard]
            contents = self._reader(int(shard)).read((numbers - self._first_record[shard]).tolist())
            read |= zip(numbers.tolist(), contents, strict=True)
        if len(self._kept) < KEPT_RECORDS:
            self._kept |= read
        return [self._kept[n] if n in self._kept else read[n] for n in records.tolist()]

    def _reader(self, shard: int) -> ArrayRecordReader:
        key = (os.getpid(), shard)
        if key not in self._readers:
            self._readers[key] = ArrayRecordReader(
                str(self.directory / self.index["shards"][shard]["file"]),
                "readahead_buffer_size:0,max_parallelism:0",
                file_reader_buffer_size=1 << 15,
            )
        return self._readers[key]


def _dtype(vocab_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.int32)


def ranges(lengths: np.ndarray) -> np.ndarray:
    """0, 1, ... for each length, one behind the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
