"""Vectors of texts in an Apache Beam pipeline, for Dataflow, Flink or Spark."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.parquetio import WriteToParquetBatched
from apache_beam.ml.inference.base import ModelHandler

from bert_zoo.embeddings.stages import is_hybrid, is_sparse
from bert_zoo.embeddings.stored_vectors import VectorForm
from bert_zoo.embeddings.text_files import TEXTS_AT_ONCE


class EmbeddingHandler(ModelHandler[str, Any, Any]):
    """Embeds texts with `RunInference`: one model per worker process. Use `KeyedModelHandler` for texts with ids.

    A text's vector is float32 [size], a SciPy CSR array [1, vocabulary], or token vectors [tokens, size], by the model.

    Args:
        model: a name or directory, for `bert_zoo.load`; every worker has to find the weights.
        texts_at_once: how many texts Beam hands over at most. They are sorted by length into steps of `batch_size`.
        options: arguments of the model's `embed`, such as `role` or `batch_size`.
    """

    def __init__(self, model: str, *, texts_at_once: int = TEXTS_AT_ONCE, **options: Any):
        super().__init__()
        self.model, self.texts_at_once, self.options = model, texts_at_once, options

    def load_model(self) -> Any:
        import bert_zoo

        return bert_zoo.load(self.model)

    def run_inference(
        self, batch: Sequence[str], model: Any, inference_args: Mapping[str, Any] | None = None
    ) -> Iterator[Any]:
        vectors = model.embed([*batch], **self.options, **(inference_args or {}))
        in_slices = is_sparse(vectors) or is_hybrid(vectors)
        for row in range(len(batch)):
            yield vectors[row : row + 1] if in_slices else vectors[row]

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        # Fewer texts would be padded more: Beam begins with the least number.
        return {"min_batch_size": self.texts_at_once // 4, "max_batch_size": self.texts_at_once}


class WriteVectors(beam.PTransform):
    """Writes pairs of an id, a string or an integer, and a vector of `EmbeddingHandler` to numbered Parquet files, which
    `read_vectors` reads. Which rows a file has, and in which order, is Beam's choice.

    Args:
        directory: in any of Beam's file systems; empty.
        form: of the vectors: `VectorForm.of(model.embed(texts), dtype)`.
        num_parts: number of files; by default the runner's choice.
        ids: type of the ids, "string" or "int64".
    """

    def __init__(
        self, directory: str, form: VectorForm, *, num_parts: int = 0, ids: str = "string"
    ):
        super().__init__()
        self.directory, self.form, self.num_parts, self.ids = directory, form, num_parts, ids

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        write = WriteToParquetBatched(
            f"{self.directory.rstrip('/')}/part",
            self.form.schema(self.ids),
            codec="zstd",
            file_name_suffix=".parquet",
            num_shards=self.num_parts,
        )
        in_batches = beam.BatchElements(TEXTS_AT_ONCE // 4, TEXTS_AT_ONCE)
        return pairs | in_batches | beam.Map(_table, self.form, self.ids) | write


def _table(pairs: Iterable[tuple[Any, Any]], form: VectorForm, ids: str) -> Any:
    names, vectors = zip(*pairs, strict=True)
    if form.kind == "sparse":
        from scipy.sparse import vstack

        return form.table(names, vstack(vectors, format="csr"), ids)
    return form.table(names, np.stack(vectors) if form.kind == "dense" else vectors, ids)
