"""Tokenized text: token ids in a file with an index, for random access.

A directory has the ids of all tokens (`tokens.bin`), the starts of sentences and documents
(`sentences.bin`, `documents.bin`), how often each token occurs and which tokens begin a word (`counts.npy`,
`begins_word.npy`), and `index.json`. The .bin files are memory-mapped. Special tokens are not included: they
are added when rows are composed. A text of any size can be in several directories, its shards. Reading needs no
TensorFlow.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from filelock import FileLock

from bert_zoo.data.files import check_size, open_array
from bert_zoo.data.rows import ranges
from bert_zoo.json_files import member, read_object
from bert_zoo.pretraining.corpus import CorpusCounts
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.weights.files import naming_full_disk, remove_leftovers, write_json

if TYPE_CHECKING:
    from bert_zoo.text.preprocessor import TextPreprocessor
    from bert_zoo.text.tokenizer import Tokenizer

INDEX = "index.json"
# Characters to tokenize in one call, so that the cost per call does not matter.
BATCH_CHARACTERS = 1 << 16
# Tokens to count at a time: NumPy needs eight bytes for each.
COUNTED_TOKENS = 1 << 20
# Tokens of the shards that are in memory together, with a plan of their shuffled rows.
GROUP_TOKENS = 1 << 27
SUMMARY = ("documents", "sentences", "tokens", "text_sha256")
_ROLES = ("unk", "pad", "cls", "sep", "mask", "eos")


class Document(NamedTuple):
    """A document of a `TokenizedText`."""

    token_ids: np.ndarray  # int32 [tokens]
    sentence_starts: np.ndarray  # int64 [sentences], position of each sentence's first token
    word_starts: np.ndarray  # bool [tokens], whether each token begins a word


def write_tokens(
    documents: Iterable[Sequence[str]],
    preprocessor: TextPreprocessor,
    directory: str | Path,
    *,
    rewritten: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> TokenizedText:
    """Tokenizes documents and writes them to a directory.

    If the directory is complete already, only checks that the documents are the same. An interrupted
    directory is written again.

    Every sentence after a document's first is tokenized with a space before it, which matters for
    byte-level BPE. Sentences without tokens are dropped.

    Args:
        documents: lists of sentences, such as a `Corpus`, whose `counts` are kept in the index.
        preprocessor: has the tokenizer and the layout of the rows, such as `model.preprocessor`.
        directory: directory for the tokens; created if missing.
        rewritten: function from a document's sentences to the texts to tokenize instead; None for the
            sentences themselves.

    Returns:
        The `TokenizedText`: `document(number)` returns a document's tokens, `counts` int64 [vocab_size]
        how often each token occurs, `stream()` all tokens [tokens].

    Raises:
        ValueError: no document has a token, or the directory has other documents or another vocabulary.
    """
    directory, tokenizer = Path(directory), preprocessor.tokenizer
    directory.mkdir(parents=True, exist_ok=True)
    lock = directory / ".lock"
    with FileLock(lock):
        remove_leftovers(directory)
        texts = iter(documents) if rewritten is None else map(rewritten, documents)
        digest = hashlib.sha256()
        if (directory / INDEX).exists():
            written = TokenizedText(directory, tokenizer)
            for document in texts:
                _feed(digest, document)
            if digest.hexdigest() != written.index["text_sha256"]:
                raise ValueError(
                    f"{directory} has the tokens of other documents: the text, or the part that is dropped, "
                    "has changed. Choose another directory, or delete this one to tokenize the text again."
                )
        else:
            tokenized = _tokenized(texts, tokenizer)
            index = _write(tokenized, directory, digest, tokenizer.vocab_size)
            if not index["tokens"]:
                raise ValueError("The documents have no tokens. Check that their files have text.")
            index |= _vocabulary_of(tokenizer)
            index["special_ids"]["pad"] = preprocessor.packer.pad_id
            index["layout"] = preprocessor.packer.layout.get_config()
            counts = getattr(documents, "counts", None)
            if isinstance(counts, CorpusCounts):
                index["corpus"] = asdict(counts)
            np.save(directory / "counts.npy", _counts(directory, tokenizer.vocab_size))
            np.save(directory / "begins_word.npy", tokenizer.word_starts)
            write_json(directory / INDEX, index)
        # No longer needed: a process that waits for it, or makes it again, finds everything written.
        lock.unlink(missing_ok=True)
    return TokenizedText(directory, tokenizer)


def _write(
    tokenized: Iterable[tuple[Sequence[str], list[np.ndarray]]],
    directory: Path,
    digest: Any,
    vocab_size: int,
) -> dict[str, Any]:
    """Writes documents to the files, and returns their `SUMMARY`."""
    dtype, num_documents, num_sentences, num_tokens = _dtype(vocab_size), 0, 0, 0
    with naming_full_disk(directory / "tokens.bin"), ExitStack() as stack:
        files = {
            name: stack.enter_context((directory / f"{name}.bin").open("wb"))
            for name in ("tokens", "sentences", "documents")
        }
        # A 0, then all ends: the starts, and the end of the last one.
        for name in ("sentences", "documents"):
            files[name].write(np.int64(0).tobytes())
        for document, sentences in tokenized:
            _feed(digest, document)
            sentences = [ids for ids in sentences if len(ids)]
            if not sentences:
                continue
            ends = num_tokens + np.cumsum([len(ids) for ids in sentences], dtype=np.int64)
            num_documents += 1
            num_sentences += len(sentences)
            num_tokens = int(ends[-1])
            files["tokens"].write(np.concatenate(sentences).astype(dtype).tobytes())
            files["sentences"].write(ends.tobytes())
            files["documents"].write(np.int64(num_sentences).tobytes())
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    values = (num_documents, num_sentences, num_tokens, digest.hexdigest())
    return dict(zip(SUMMARY, values, strict=True))


def _tokenized(
    documents: Iterator[Sequence[str]], tokenizer: Tokenizer
) -> Iterator[tuple[Sequence[str], list[np.ndarray]]]:
    """Yields documents with the ids of their sentences, tokenized ahead on all cores."""

    def tokenize(batch: list[Sequence[str]]) -> Iterator[tuple[Sequence[str], list[np.ndarray]]]:
        texts = [
            f" {sentence}" if i else sentence
            for document in batch
            for i, sentence in enumerate(document)
        ]
        ids = iter(ids_of(tokenizer, texts))
        return ((document, [next(ids) for _ in document]) for document in batch)

    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        ahead: deque = deque()
        for batch in in_batches(documents, BATCH_CHARACTERS):
            ahead.append(pool.submit(tokenize, batch))
            if len(ahead) > workers:
                yield from ahead.popleft().result()
        for item in ahead:
            yield from item.result()


def ids_of(tokenizer: Tokenizer, texts: Sequence[str | bytes]) -> list[np.ndarray]:
    """The ids of each text, int32 [tokens], without special tokens."""
    from bert_zoo.graph import has_tensorflow

    if has_tensorflow:
        ragged = tokenizer(texts)
        ids, ends = ragged.flat_values.numpy(), ragged.row_splits.numpy()
    else:
        from bert_zoo.text.batches import strings
        from bert_zoo.text.windows import reader_of

        tokens = reader_of(tokenizer).tokenized(strings(texts))
        ids, ends = tokens.ids, np.cumsum([0, *tokens.lengths])
    return np.split(ids, ends[1:-1])


def in_batches(documents: Iterable[Sequence[str]], most: int) -> Iterator[list[Sequence[str]]]:
    """Yields lists of documents with about so many characters."""
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document))
        if size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _feed(digest: Any, document: Sequence[str | bytes]) -> None:
    for text in document:
        digest.update(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    digest.update(b"\n")


def _counts(directory: Path, vocab_size: int) -> np.ndarray:
    tokens = np.memmap(directory / "tokens.bin", _dtype(vocab_size), "r")
    counts = np.zeros(vocab_size, np.int64)
    for start in range(0, len(tokens), COUNTED_TOKENS):
        counts += np.bincount(tokens[start : start + COUNTED_TOKENS], minlength=vocab_size)
    return counts


def _vocabulary_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """Everything that determines the ids of a text."""
    return {
        "tokenizer": type(tokenizer).__name__,
        "vocab_size": tokenizer.vocab_size,
        "sha256": tokenizer.digest(),
        "special_ids": {
            r: getattr(tokenizer, f"{r}_id") for r in _ROLES if hasattr(tokenizer, f"{r}_id")
        },
    }


def _check_vocabulary(stored: dict[str, Any], tokenizer: Tokenizer, directory: Path) -> None:
    given = _vocabulary_of(tokenizer)
    if stored["sha256"] != given["sha256"]:
        have, want = (
            f"{v['tokenizer']} with {v['vocab_size']:,} tokens and the hash {v['sha256'][:12]}"
            for v in (stored, given)
        )
        raise ValueError(
            f"{directory} has tokens of another vocabulary or other options: they are from a {have}, and the model "
            f"has a {want}. Choose another directory, or delete {directory} to tokenize the text again."
        )


class TokenizedText:
    """Tokenized documents in a directory of `write_tokens`, for random access.

    Its files are memory-mapped. Several threads may use it, and it is pickled as its directory.

    Args:
        directory: the directory of `write_tokens`.
        tokenizer: checked to be the one that tokenized the texts; None for no check.

    Attributes:
        directory: the Path.
        num_documents, num_sentences, num_tokens: numbers of documents, sentences and tokens.
        document_starts: int64 [documents + 1], index of each document's first sentence, then the number
            of sentences.
        sentence_starts: int64 [sentences + 1], position of each sentence's first token, then the number
            of tokens.
        counts: int64 [vocab_size], how often each token occurs.
        begins_word: bool [vocab_size], `word_starts` of the tokenizer.
        layout: the `Layout` of rows.
        special_ids: role, such as "cls" or "mask" -> id; always includes "pad".
        index: content of index.json, such as "corpus", the counts of the `Corpus`.

    Raises:
        FileNotFoundError: no such directory, or an incomplete one.
        ValueError: another vocabulary, or a damaged file.
    """

    def __init__(self, directory: str | Path, tokenizer: Tokenizer | None = None):
        self.directory = Path(directory)
        if not (self.directory / INDEX).is_file():
            raise FileNotFoundError(
                f"{self.directory} has no {INDEX}: it has no tokens, or not all of them yet. Write it with "
                "write_tokens."
            )
        remedy = f"Delete the directory {self.directory} to tokenize the text again."
        self.index = read_object(self.directory / INDEX, remedy)
        if tokenizer is not None:
            _check_vocabulary(self.index, tokenizer, self.directory)
        self.num_documents, self.num_sentences, self.num_tokens = (
            member(self.index, name, int, self.directory / INDEX)
            for name in ("documents", "sentences", "tokens")
        )

        def mapped(name: str, size: int, dtype: Any) -> np.memmap:
            path = self.directory / f"{name}.bin"
            check_size(path, size * np.dtype(dtype).itemsize, remedy)
            return np.memmap(path, dtype, "r")

        self.document_starts = mapped("documents", self.num_documents + 1, np.int64)
        self.sentence_starts = mapped("sentences", self.num_sentences + 1, np.int64)
        vocab_size = self.index["vocab_size"]
        self._tokens = mapped("tokens", self.num_tokens, _dtype(vocab_size))
        self.counts, self.begins_word = (
            np.array(open_array(self.directory / f"{name}.npy", (vocab_size,), dtype, remedy))
            for name, dtype in (("counts", np.int64), ("begins_word", bool))
        )
        self.layout = Layout(**self.index["layout"])
        self.special_ids = self.index["special_ids"]

    def __reduce__(self):
        return TokenizedText, (self.directory,)

    def __len__(self) -> int:
        return self.num_documents

    @property
    def summary(self) -> dict[str, Any]:
        """Values that identify the text."""
        return {name: self.index[name] for name in SUMMARY}

    def document(self, number: int) -> Document:
        """Reads a document; IndexError for a number outside [0, num_documents)."""
        if not 0 <= number < self.num_documents:
            raise IndexError(
                f"There is no document {number}; the text has {self.num_documents:,}, from 0."
            )
        first, end = self.document_starts[number : number + 2]
        starts = self.sentence_starts[first : end + 1]
        ids = self._tokens[starts[0] : starts[-1]].astype(np.int32)
        word_starts = self.begins_word[ids]
        word_starts[:1] = True
        return Document(ids, starts[:-1] - starts[0], word_starts)

    def stream(self) -> np.ndarray:
        """The tokens of all documents: uint16 or int32 [tokens], memory-mapped."""
        return self._tokens

    def part(self, number: int, seeds: Sequence[int] = ()) -> TokenizedText:
        """The text to train on in pass `number`: itself, each time; see `TokenShards.part`."""
        return self

    def read(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Concatenated runs of tokens, int32 [sum of lengths]; `starts`, `lengths` (at least 1) are [runs]."""
        starts, lengths = np.asarray(starts, np.int64), np.asarray(lengths, np.int64)
        return self._tokens[np.repeat(starts, lengths) + ranges(lengths)].astype(np.int32)


class JoinedText(TokenizedText):
    """Several texts of one vocabulary, one after another, in memory. It has no `directory` and no `index`."""

    def __init__(self, texts: Sequence[TokenizedText]):
        def joined(starts: list[np.ndarray]) -> np.ndarray:
            before = np.cumsum([0, *(each[-1] for each in starts)])
            moved = [each[:-1] + first for each, first in zip(starts, before, strict=False)]
            return np.concatenate([*moved, before[-1:]])

        self.document_starts = joined([text.document_starts for text in texts])
        self.sentence_starts = joined([text.sentence_starts for text in texts])
        self.num_documents = len(self.document_starts) - 1
        self.num_sentences = len(self.sentence_starts) - 1
        self._tokens = np.concatenate([text.stream() for text in texts])
        self.num_tokens = len(self._tokens)
        self.counts = np.sum([text.counts for text in texts], axis=0)
        for name in ("begins_word", "layout", "special_ids"):
            setattr(self, name, getattr(texts[0], name))


class TokenShards:
    """A text in several directories of `write_tokens`, its shards; `counts` and `summary` as for `TokenizedText`.

    A pass over it has several parts, each of a group of shards with up to `GROUP_TOKENS` tokens, or of a single larger
    shard. `reads` is what the model reads of each document, see `MaskedTraining.reads`. Errors are those of
    `TokenizedText`, and ValueError for shards that do not belong together or to the model.
    """

    def __init__(self, directories: Sequence[Path], tokenizer: Tokenizer, reads: str):
        def kind(text: TokenizedText) -> tuple[Any, ...]:
            return text.index["sha256"], text.index["layout"], text.index.get("reads", reads)

        self.directories = sorted(directories)
        first, digest = TokenizedText(self.directories[0], tokenizer), hashlib.sha256()
        wanted, self.counts = (*kind(first)[:2], reads), np.zeros_like(first.counts)
        self.summary = dict.fromkeys(SUMMARY[:-1], 0)
        for directory in self.directories:
            shard = TokenizedText(directory)
            if (found := kind(shard)) != wanted:
                raise ValueError(
                    f"{directory} has tokens of another vocabulary, or the {found[-1]} of documents, of which the "
                    f"model reads the {reads}. Pass shards of a single call of create_pretraining_data, with the "
                    "model's --family."
                )
            self.counts += shard.counts
            for name in self.summary:
                self.summary[name] += shard.index[name]
            digest.update(shard.index["text_sha256"].encode())
        self._groups = min(-(-self.summary["tokens"] // GROUP_TOKENS), len(self.directories))
        self.summary["text_sha256"] = digest.hexdigest()
        self._joined = functools.lru_cache(maxsize=2)(self._join)

    def _join(self, shards: tuple[int, ...]) -> TokenizedText:
        texts = [TokenizedText(self.directories[shard]) for shard in shards]
        return texts[0] if len(texts) == 1 else JoinedText(texts)

    def part(self, number: int, seeds: Sequence[int] = ()) -> TokenizedText:
        """The shards of a part, as one text. In each pass, all shards are divided anew, at random by seeds and pass."""
        epoch, group = divmod(number, self._groups)
        rng = np.random.default_rng([*seeds, epoch, 1])
        shards = np.array_split(rng.permutation(len(self.directories)), self._groups)[group]
        # In their own order, so that a single part is the text as one machine writes it.
        return self._joined(tuple(np.sort(shards).tolist()))


AnyText = TokenizedText | TokenShards


def shards_of(files: Iterable[Path]) -> list[Path]:
    """The directories of `write_tokens` among files; `FileNotFoundError` if there are none."""
    found = sorted(path.parent for path in files if path.name == INDEX)
    if not found:
        raise FileNotFoundError(
            f"There are no tokens: no folder has a file {INDEX}. Pass the folder that `bert_zoo "
            "create_pretraining_data --rows tokens` wrote."
        )
    return found


def _dtype(vocab_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.int32)
