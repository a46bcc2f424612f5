"""Writes masked training rows with Apache Beam, for text too large for one machine.

bert_zoo create_pretraining_data --text "my/*.txt" --vocabulary vocabularies/mine --output rows
bert_zoo create_pretraining_data --text "gs://b/*.txt" --vocabulary gs://b/vocabulary --output gs://b/rows \
  --num_shards 1000 -- --runner=DataflowRunner --project=p --region=r --temp_location=gs://b/tmp

Writes TFRecord files of tf.train.Example with the features of BERT's own program: input_ids, input_mask,
segment_ids, masked_lm_positions, masked_lm_ids, masked_lm_weights and, for pairs, next_sentence_labels.
Options after -- go to Beam; without them it runs on this machine. A hash of each document picks its shard,
and equal documents are kept once, so every run writes the same files. Existing files are kept.
To train on one machine you do not need these files: docs/pretraining.md.
"""

import hashlib
import shutil
import tempfile
from collections import namedtuple
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from bert_zoo.cli.program import Program
from bert_zoo.fields import check
from bert_zoo.presets import PAIRS
from bert_zoo.registry import registry

FAMILIES = list(registry().families)
ROWS = ("next_sentence", "sentence_order", "full_sentences", "doc_sentences")
# Rows masked together.
_BATCH = 256

PROGRAM = Program(
    __doc__,
    required=("text", "vocabulary", "output"),
    takes_arguments=True,
    groups={
        "Main flags": (
            *("text", "vocabulary", "family", "output", "num_shards"),
            *("rows", "objective", "length", "epochs"),
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
_ROWS = PROGRAM.enum("rows", ROWS[0], ROWS, "Kind of row.")
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
    8,
    "Number of files to write. A worker holds one file's text in memory; about 100 MB per file works well.",
    lower_bound=1,
)


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
    settings = ShardSettings(*(PROGRAM.flags[name].value for name in ShardSettings._fields))
    files = sorted(
        match.path for matches in FileSystems.match(_TEXT.value) for match in matches.metadata_list
    )
    if not files:
        raise FileNotFoundError(f"No file matches --text {', '.join(_TEXT.value)}. Check the path.")
    _objective(settings)  # raises for wrong settings before the pipeline starts
    # The first file decides the form, so that all are read alike.
    with _local(files[0]) as first:
        form = _FORM.value or _corpus(first, None).form
    print(f"Reading {len(files):,} files as {form}.")

    if not FileSystems.exists(settings.output):
        FileSystems.mkdirs(settings.output)
    pipeline = beam.Pipeline(options=PipelineOptions(arguments))
    _ = (
        pipeline
        | beam.Create(files)
        | beam.Reshuffle()
        | beam.FlatMap(_dealt, form, settings.num_shards, _TEXT_FIELD.value)
        | beam.GroupByKey()
        | beam.Map(_write, settings)
    )
    result = pipeline.run()
    result.wait_until_finish()
    for counter in result.metrics().query()["counters"]:
        if counter.key.metric.namespace == __name__:
            print(f"{counter.key.metric.name}: {counter.result:,}")
    print(f"The rows are in {settings.output}.")


def _corpus(path: str, form: str | None, text_field: str = "text") -> Any:
    from bert_zoo.pretraining.corpus import Corpus

    return Corpus(path, form, text_field=text_field)


def _dealt(
    file: str, form: str, num_shards: int, text_field: str
) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of each document's shard, and the document."""
    with _local(file) as path:
        for document in _corpus(path, form, text_field):
            yield int(_digest(document)[:15], 16) % num_shards, document


def _digest(document: list[str]) -> str:
    return hashlib.blake2b("\n".join(document).encode("utf-8", "surrogatepass")).hexdigest()


def _write(shard: tuple[int, Iterable[list[str]]], settings: ShardSettings) -> None:
    """Writes a shard's file, unless it exists."""
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.metrics import Metrics

    number, documents = shard
    path = f"{settings.output}/rows-{number:05}-of-{settings.num_shards:05}.tfrecord"
    if FileSystems.exists(path):
        Metrics.counter(__name__, "existing files").inc()
        return
    # Independent of the order in which workers read them.
    by_digest = {_digest(document): document for document in documents}
    kept = [by_digest[digest] for digest in sorted(by_digest)]
    with tempfile.TemporaryDirectory(prefix="bert_zoo_") as folder:
        written = Path(folder) / "rows.tfrecord"
        rows = _write_rows(kept, number, settings, Path(folder), written)
        # Write the file whole or not at all.
        partial = f"{path}.partial"
        with written.open("rb") as source, FileSystems.create(partial) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        FileSystems.rename([partial], [path])
    for name, count in (("documents", len(kept)), ("rows", rows), ("files", 1)):
        Metrics.counter(__name__, name).inc(count)


def _write_rows(
    documents: list[list[str]], number: int, settings: ShardSettings, folder: Path, path: Path
) -> int:
    import tensorflow as tf

    from bert_zoo.pretraining.masked import SCHEMES
    from bert_zoo.pretraining.rows import SentencePairs, epoch_rows
    from bert_zoo.pretraining.tokens import write_tokens
    from bert_zoo.tasks.objectives import Draws

    is_paired = settings.rows in PAIRS
    if len(documents) < 2 and is_paired:
        raise ValueError(
            f"Shard {number} has only one document, but pairs need sentences from others. Choose fewer "
            f"shards than num_shards={settings.num_shards}."
        )
    if is_paired:
        scheme = SentencePairs(settings.rows, settings.length, settings.short_rows)
    else:
        scheme = SCHEMES[settings.rows](settings.length)
    preprocessor, objective = _objective(settings)
    shards = write_tokens(documents, preprocessor, folder / "tokens")
    objective = objective.for_tokenizer(preprocessor.tokenizer, shards.counts)
    seed, rows = settings.seed * settings.num_shards + number, 0
    with tf.io.TFRecordWriter(str(path)) as writer:
        for epoch in range(settings.epochs):
            for batch in epoch_rows(shards, scheme, seed, epoch, batch_size=_BATCH):
                inputs, labels = objective(batch, Draws(seed, epoch, batch["row"]))
                for example in _examples(inputs, labels):
                    writer.write(example)
                    rows += 1
    return rows


@cache
def _objective(settings: ShardSettings) -> tuple[Any, Any]:
    """The preprocessor and the objective, made once per worker."""
    from bert_zoo.tasks.objectives import OBJECTIVES, Permutations, Spans
    from bert_zoo.tasks.objectives.masking import Masking
    from bert_zoo.text import preprocessor_from_dir

    # BERT's features cannot hold SpanBERT's boundaries.
    known = [
        name
        for name, value in OBJECTIVES.items()
        if isinstance(value, Masking) and not isinstance(value, Spans | Permutations)
    ]
    check("objective", settings.objective, str, choices=known)
    with _local(settings.vocabulary) as vocabulary:
        preprocessor = preprocessor_from_dir(
            vocabulary, settings.family, sequence_length=settings.length
        )
    objective = OBJECTIVES[settings.objective]
    return preprocessor, replace(objective, max_predictions=settings.max_predictions)


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
