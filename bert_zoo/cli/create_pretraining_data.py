"""Writes text for pretraining with Apache Beam, for text too large for one machine.

bert_zoo create_pretraining_data --rows tokens --text "my/*.txt" --vocabulary vocabularies/mine --output shards
bert_zoo create_pretraining_data --text "gs://b/*.txt" --vocabulary gs://b/vocabulary --output gs://b/rows \
  -- --runner=DataflowRunner --project=p --region=r --temp_location=gs://b/tmp

With --rows tokens, writes tokens, of which bert_zoo pretrain --form tokens makes the rows of any objective.
Otherwise TFRecord files of tf.train.Example with the masked rows of BERT's own program: input_ids, input_mask,
segment_ids, masked_lm_positions, masked_lm_ids, masked_lm_weights and, for pairs, next_sentence_labels.
Options after -- go to Beam; without them it runs on this machine. A hash of each document picks its shard, and
equal documents are kept once, so every run writes the same files. Existing files are kept.
To train on one machine you do not need these files: docs/pretraining.md.
"""

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections import defaultdict, namedtuple
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from bert_zoo.cli.program import Program
from bert_zoo.fields import check
from bert_zoo.presets import PAIRS
from bert_zoo.registry import registry

FAMILIES = list(registry().families)
TOKENS = "tokens"
ROWS = ("next_sentence", "sentence_order", "full_sentences", "doc_sentences", TOKENS)
# Rows masked together.
_BATCH = 256
# Bytes of text in a shard; a gzip file has about three times its size of text.
_SHARD_BYTES, _PACKED = 100 << 20, 3
# Characters of text that a worker divides among shards at a time, in memory.
_PART_CHARACTERS = 1 << 25
# A document is known by the first bytes of its digest.
_ID_BYTES = 16

PROGRAM = Program(
    __doc__,
    required=("text", "vocabulary", "output"),
    takes_arguments=True,
    groups={
        "Main flags": (
            *("text", "vocabulary", "family", "output", "num_shards"),
            *("rows", "near_duplicates", "objective", "length", "epochs"),
        )
    },
)
_TEXT = PROGRAM.list("text", None, "Files or patterns, separated by commas.")
_FORM = PROGRAM.string(
    "form",
    None,
    "What a line of the files holds, see bert_zoo.pretraining.corpus; by default detected.",
)
_TEXT_FIELD = PROGRAM.string("text_field", "text", "The text field, for JSON Lines.")
_VOCABULARY = PROGRAM.string("vocabulary", None, "The vocabulary's directory.")
_FAMILY = PROGRAM.enum(
    "family", FAMILIES[0], FAMILIES, "The family, for its tokenizer and special tokens."
)
_OUTPUT = PROGRAM.string("output", None, "The directory to write.")
_ROWS = PROGRAM.enum("rows", ROWS[0], ROWS, "Kind of row; or tokens.")
_OBJECTIVE = PROGRAM.string(
    "objective", "masked_tokens", "A key of bert_zoo.tasks.objectives.OBJECTIVES."
)
_LENGTH = PROGRAM.integer("length", 128, "Tokens per row, with special tokens.", lower_bound=8)
_MAX_PREDICTIONS = PROGRAM.integer(
    "max_predictions", 20, "Maximum masked tokens per row.", lower_bound=1
)
_SHORT_ROWS = PROGRAM.float("short_rows", 0.1, "For pairs: fraction of documents with short rows.")
_EPOCHS = PROGRAM.integer(
    "epochs", 10, "Passes over the text, each with new rows and masks.", lower_bound=1
)
_SEED = PROGRAM.integer("seed", 12345, "Seed of rows and masks.", lower_bound=0)
_NUM_SHARDS = PROGRAM.integer(
    "num_shards",
    None,
    "Number of files to write; by default one per 100 MB of text.",
    lower_bound=1,
)
_NEAR = PROGRAM.float(
    "near_duplicates",
    None,
    "Also leave out documents that share this fraction of their five-word sequences.",
    lower_bound=0.5,
    upper_bound=1,
)
# What tokens do not depend on.
_OF_ROWS = ("objective", "length", "max_predictions", "short_rows", "epochs", "seed")

# What determines a shard's rows: the values of these flags.
ShardSettings = namedtuple(
    "ShardSettings",
    (
        *("vocabulary", "family", "output", "rows", "objective", "length", "max_predictions"),
        *("short_rows", "epochs", "seed", "num_shards"),
    ),
)


def main(arguments: list[str]) -> None:
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise ImportError(
            f'Apache Beam cannot be imported ({error}): pip install "bert_zoo[beam]".'
        ) from error
    from apache_beam.io.filesystems import FileSystems

    from bert_zoo.graph import MISSING, has_tensorflow

    if not has_tensorflow:
        raise ImportError(MISSING.format("create_pretraining_data, which writes TFRecord files,"))
    given = [f"--{name}" for name in _OF_ROWS if PROGRAM.flags[name].present]
    if _ROWS.value == TOKENS and given:
        raise ValueError(
            f"--rows {TOKENS} does not depend on {', '.join(given)}: rows are made and masked while training. Leave "
            "that out."
        )
    sizes = {
        match.path: match.size_in_bytes * (_PACKED if match.path.endswith(".gz") else 1)
        for matches in FileSystems.match(_TEXT.value)
        for match in matches.metadata_list
    }
    if not sizes:
        raise FileNotFoundError(f"No file matches --text {', '.join(_TEXT.value)}. Check the path.")
    files = sorted(sizes)
    shards = _NUM_SHARDS.value or max(1, math.ceil(sum(sizes.values()) / _SHARD_BYTES))
    settings = ShardSettings(
        *(PROGRAM.flags[name].value for name in ShardSettings._fields[:-1]), shards
    )
    # Raises for wrong settings before the pipeline starts.
    _reader(settings)
    if settings.rows != TOKENS:
        _objective(settings)
    # The first file decides the form, so that all are read alike.
    with _local(files[0]) as first:
        form = _FORM.value or _corpus(first, None).form
    print(f"Reading {len(files):,} files as {form}, and writing {shards:,}.")

    (found,) = FileSystems.match([_whole(settings, "*")])
    existing = {int(re.findall(r"-(\d+)-of-", match.path)[-1]) for match in found.metadata_list}
    print(f"existing files: {len(existing):,}")
    threshold = _NEAR.value
    # A document's near duplicate may be in another shard.
    read = frozenset(range(shards)) - (existing if threshold is None else set())
    # Beam's own choice would download a runner.
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *arguments]))
    written = (
        pipeline
        | beam.Create(files)
        | beam.Reshuffle()
        | beam.FlatMap(_dealt, form, _TEXT_FIELD.value, settings, read)
    )
    by_shard = {"parts": written}
    if threshold is not None:
        by_shard["near"] = (
            written
            | beam.FlatMap(_bands, threshold)
            | beam.GroupByKey()
            | beam.FlatMap(_near, threshold, shards)
        )
    _ = by_shard | beam.CoGroupByKey() | beam.Map(_write, settings)
    result = pipeline.run()
    result.wait_until_finish()
    (parts,) = FileSystems.match([f"{settings.output}/part-*"])
    FileSystems.delete([match.path for match in parts.metadata_list])
    for counter in result.metrics().query()["counters"]:
        if counter.key.metric.namespace == __name__:
            # Not every runner has a result for counts of 0.
            print(f"{counter.key.metric.name}: {counter.result or 0:,}")
    print(f"The {TOKENS if settings.rows == TOKENS else 'rows'} are in {settings.output}.")


def _corpus(path: str, form: str | None, text_field: str = "text") -> Any:
    from bert_zoo.pretraining.corpus import Corpus

    return Corpus(path, form, text_field=text_field)


# --- Documents by shard, in the order of their digests ---

Place = tuple[
    str, int, int
]  # where lines of documents are in a file: its path, their start and end


def _dealt(
    file: str, form: str, text_field: str, settings: ShardSettings, read: frozenset[int]
) -> Iterator[tuple[int, Place]]:
    """Writes the documents of a file by shard, of shards that are read, and yields each shard and its place."""
    from bert_zoo.pretraining.tokens import in_batches

    name = hashlib.blake2b(file.encode(), digest_size=8).hexdigest()
    with _local(file) as path:
        documents = _corpus(path, form, text_field).documents()
        for number, batch in enumerate(in_batches(documents, _PART_CHARACTERS)):
            lines: dict[int, list[bytes]] = defaultdict(list)
            for document in batch:
                digest = _digest(document)
                shard = _shard_of(digest, settings.num_shards)
                if shard in read:
                    line = f"{digest}\t{json.dumps(document, ensure_ascii=False)}\n"
                    lines[shard].append(line.encode("utf-8", "surrogatepass"))
            part, places, end = f"{settings.output}/part-{name}-{number}", [], 0
            with _created(part) as target:
                for shard, some in lines.items():
                    start, end = end, end + target.write(b"".join(some))
                    places.append((shard, (part, start, end)))
            yield from places


def _digest(document: list[str]) -> str:
    return hashlib.blake2b("\n".join(document).encode("utf-8", "surrogatepass")).hexdigest()


def _shard_of(digest: str, num_shards: int) -> int:
    """The shard of a document, of its digest or the beginning of that."""
    return int(digest[:15], 16) % num_shards


def _lines(place: Place) -> list[bytes]:
    from apache_beam.io.filesystems import FileSystems

    path, start, end = place
    with FileSystems.open(path) as file:
        file.seek(start)
        return file.read(end - start).splitlines(keepends=True)


def _document(line: bytes) -> tuple[bytes, list[str]]:
    """The id of a line's document, and its sentences."""
    digest, _, sentences = line.decode("utf-8", "surrogatepass").partition("\t")
    return bytes.fromhex(digest)[:_ID_BYTES], json.loads(sentences)


def _in_order(places: Iterable[Place], path: Path) -> Iterator[tuple[bytes, list[str]]]:
    """Yields documents in the order of digests, each once; they are in a new file, and memory has where each is."""
    index, end, duplicates = [], 0, 0
    with path.open("w+b") as file:
        for line in chain.from_iterable(map(_lines, places)):
            index.append((line.partition(b"\t")[0], end, len(line)))
            end += file.write(line)
        file.flush()
        for _, group in groupby(sorted(index), itemgetter(0)):
            same = [os.pread(file.fileno(), size, start) for _, start, size in group]
            duplicates += len(same) - 1
            yield _document(min(same))
    _count({"duplicate documents": duplicates})


def _bands(part: tuple[int, Place], threshold: float) -> Iterator[tuple[bytes, bytes]]:
    from bert_zoo.pretraining.near_duplicates import bands

    yield from bands(map(_document, _lines(part[1])), threshold)


def _near(group: Any, threshold: float, num_shards: int) -> Iterator[tuple[int, bytes]]:
    """Yields shard and id of the near duplicates in a band's key and members."""
    from bert_zoo.pretraining.near_duplicates import near_duplicates

    for name in near_duplicates(group[1], threshold):
        yield _shard_of(name.hex(), num_shards), name


# --- Shards ---


def _write(shard: tuple[int, dict[str, Iterable[Any]]], settings: ShardSettings) -> None:
    """Writes a shard, unless it exists; from the places of its lines, and the ids of near duplicates."""
    from apache_beam.io.filesystems import FileSystems

    from bert_zoo.pretraining.tokens import INDEX, write_tokens
    from bert_zoo.weights.files import write_json

    number, found = shard
    whole, near = _whole(settings, f"{number:05}"), set(found.get("near", ()))
    if FileSystems.exists(whole):
        return
    _count({"near duplicates": len(near)} if "near" in found else {})
    preprocessor, training = _reader(settings)
    rewritten = partial(training.as_tokenized, tokenizer=preprocessor.tokenizer)
    with tempfile.TemporaryDirectory(prefix="bert_zoo_") as folder:
        documents = _in_order(found["parts"], Path(folder) / "documents")
        documents = (sentences for name, sentences in documents if name not in near)
        if (first := next(documents, None)) is None:
            return
        directory = Path(folder) / TOKENS
        documents = chain([first], documents)
        tokens = write_tokens(documents, preprocessor, directory, rewritten=rewritten)
        counts = {"documents": tokens.num_documents, "tokens": tokens.num_tokens}
        if settings.rows == TOKENS:
            write_json(directory / INDEX, {**tokens.index, "reads": training.reads})
            target = whole.rpartition("/")[0]
            files = {path: f"{target}/{path.name}" for path in directory.iterdir()}
        else:
            path = Path(folder) / "rows.tfrecord"
            counts["rows"] = _write_rows(tokens, number, settings, path)
            files = {path: whole}
        # The file with which a shard is complete comes last.
        for path in sorted(files, key=lambda path: files[path] == whole):
            with path.open("rb") as source, _created(files[path]) as file:
                shutil.copyfileobj(source, file, 1 << 20)
    _count({**counts, "files": 1})


def _whole(settings: ShardSettings, number: str) -> str:
    """The path of the file with which a shard is complete."""
    is_tokens, name = settings.rows == TOKENS, f"{number}-of-{settings.num_shards:05}"
    file = f"{TOKENS}-{name}/index.json" if is_tokens else f"rows-{name}.tfrecord"
    return f"{settings.output}/{file}"


def _count(counts: dict[str, int]) -> None:
    from apache_beam.metrics import Metrics

    for name, count in counts.items():
        Metrics.counter(__name__, name).inc(count)


def _write_rows(tokens: Any, number: int, settings: ShardSettings, path: Path) -> int:
    """Writes the rows of a shard's `TokenizedText`, and returns their number."""
    import tensorflow as tf

    from bert_zoo.pretraining.masked import SCHEMES
    from bert_zoo.pretraining.rows import SentencePairs, epoch_rows
    from bert_zoo.tasks.objectives import Draws

    is_paired = settings.rows in PAIRS
    if tokens.num_documents < 2 and is_paired:
        raise ValueError(
            f"Shard {number} has only one document, but pairs need sentences from others. Choose fewer "
            f"shards than num_shards={settings.num_shards}."
        )
    if is_paired:
        scheme = SentencePairs(settings.rows, settings.length, settings.short_rows)
    else:
        scheme = SCHEMES[settings.rows](settings.length)
    preprocessor, _ = _reader(settings)
    objective = _objective(settings).for_tokenizer(preprocessor.tokenizer, tokens.counts)
    seed, rows = settings.seed * settings.num_shards + number, 0
    with tf.io.TFRecordWriter(str(path)) as writer:
        for epoch in range(settings.epochs):
            for batch in epoch_rows(tokens, scheme, seed, epoch, batch_size=_BATCH):
                inputs, labels = objective(batch, Draws(seed, epoch, batch["row"]))
                for example in _examples(inputs, labels):
                    writer.write(example)
                    rows += 1
    return rows


@cache
def _reader(settings: ShardSettings) -> tuple[Any, Any]:
    """The preprocessor, and the class that trains models of the family; made once per worker."""
    from bert_zoo.models import CausalLM
    from bert_zoo.pretraining.causal import WORDS, RowTraining, StreamTraining
    from bert_zoo.pretraining.masked import MaskedTraining
    from bert_zoo.text.format import DeferredPreprocessor

    family = registry().families[settings.family]
    presets = family.language_model_presets
    text = WORDS if any(preset.bidirectional for preset in presets) else family.text
    with _local(settings.vocabulary) as vocabulary:
        deferred = DeferredPreprocessor(vocabulary, text, sequence_length=settings.length)
    preprocessor = deferred.make()
    if presets:
        return preprocessor, StreamTraining
    return preprocessor, RowTraining if CausalLM.task in family.heads else MaskedTraining


def _objective(settings: ShardSettings) -> Any:
    from bert_zoo.tasks.objectives import OBJECTIVES, Permutations, Spans
    from bert_zoo.tasks.objectives.masking import Masking

    # BERT's features cannot hold SpanBERT's boundaries.
    known = [
        name
        for name, value in OBJECTIVES.items()
        if isinstance(value, Masking) and not isinstance(value, Spans | Permutations)
    ]
    check("objective", settings.objective, str, choices=known, note="rows=tokens suits others")
    return replace(OBJECTIVES[settings.objective], max_predictions=settings.max_predictions)


def _examples(inputs: dict[str, Any], labels: dict[str, Any]) -> Iterator[bytes]:
    """Rows as serialized tf.train.Example protos with BERT's features."""
    import numpy as np
    import tensorflow as tf

    from bert_zoo.config import IGNORED_LABEL

    asked = labels["mlm_logits"]
    is_asked = asked != IGNORED_LABEL
    columns = {
        "input_ids": inputs["token_ids"],
        "input_mask": inputs["padding_mask"],
        "segment_ids": inputs.get("segment_ids", np.zeros_like(inputs["token_ids"])),
        "masked_lm_positions": inputs["mask_positions"],
        "masked_lm_ids": np.where(is_asked, asked, 0),
        "masked_lm_weights": is_asked.astype(np.float32),
    }
    for name in ("nsp_logits", "sop_logits"):
        if name in labels:
            columns["next_sentence_labels"] = labels[name][:, None]
    for row in range(len(asked)):
        feature = {}
        for name, values in columns.items():
            if values.dtype == np.float32:
                feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values[row]))
            else:
                feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values[row]))
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        yield example.SerializeToString(deterministic=True)


@contextmanager
def _created(path: str) -> Iterator[BinaryIO]:
    """Writes a file of any of Beam's file systems whole or not at all."""
    from apache_beam.io.filesystems import FileSystems

    partial_path = f"{path}.partial"
    with FileSystems.create(partial_path) as file:
        yield file
    FileSystems.rename([partial_path], [path])


@contextmanager
def _local(path: str) -> Iterator[str]:
    """Provides a local copy of a file or folder from any of Beam's file systems."""
    if Path(path).exists():
        yield path
        return
    from apache_beam.io.filesystems import FileSystems

    with tempfile.TemporaryDirectory(prefix="bert_zoo_") as folder:
        whole, inside = FileSystems.match([path, f"{path}/*"])
        for match in (*whole.metadata_list, *inside.metadata_list):
            copy = Path(folder) / match.path.rpartition("/")[2]
            with FileSystems.open(match.path) as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        yield folder if inside.metadata_list else str(copy)
