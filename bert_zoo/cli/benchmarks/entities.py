"""Benchmarks of entities of named types, which a model reads beside each text (GLiNER)."""

from dataclasses import dataclass
from functools import cached_property

from bert_zoo.cli.benchmarks.base import Benchmark, Measurement, own_files
from bert_zoo.cli.benchmarks.tagging import type_table
from bert_zoo.data.entities import AnnotatedText, Entity, entity_types, read_annotated
from bert_zoo.metrics.labels import span_scores
from bert_zoo.tasks import name_of
from bert_zoo.weights.files import write_json


@dataclass(frozen=True)
class EntityTexts:
    """Texts with their entities."""

    texts: list[str]
    labels: list[list[Entity]]

    def __len__(self) -> int:
        return len(self.texts)


class EntityBenchmark(Benchmark):
    """Spans of characters with a type. The data are `EntityTexts`; predictions are those of `tag`."""

    kind = name_of("EntityRecognizer")
    heads = ()

    @cached_property
    def label_names(self):
        """The types of the training data, which are the default of the model's `tag`."""
        return entity_types(_annotated(self.train))

    @property
    def texts(self):
        return None  # `tag`'s answers do not teach

    def batches(self, model, recipe, seed):
        from bert_zoo.tasks.entity_rows import training_rows

        texts = _annotated(self.train)
        return training_rows(model, texts, measures=False).batches(recipe.batching(seed))

    def predict(self, model, data, recipe):
        return model.tag(data.texts, entity_types(_annotated(data)) or self.label_names)

    def measure(self, data, predictions):
        from bert_zoo.tasks.entity_recognition import gold_spans, tagged_spans

        gold = map(gold_spans, _annotated(data))
        types, micro = span_scores(gold, map(tagged_spans, predictions))
        metrics = {name: getattr(micro, name) for name in ("f1", "precision", "recall")}
        return Measurement(metrics, table=type_table(types))

    def write_predictions(self, directory, split, data, predictions, metrics):
        """Writes texts with the spans that were found, in Prodigy's format."""
        path = directory / f"{self.name}-{split}.json"
        rows = [
            {
                "text": row.text,
                "spans": [{"start": s.start, "end": s.end, "label": s.type} for s in row.spans],
            }
            for row in predictions
        ]
        write_json(path, rows)
        return [path]

    def lines(self, model, data, metrics):
        yield f"Some predictions:\n{model.tag(data.texts)}"


def _annotated(data: EntityTexts) -> list[AnnotatedText]:
    rows = zip(data.texts, data.labels, strict=True)
    return [AnnotatedText(text, entities, "") for text, entities in rows]


def entity_benchmark(options) -> EntityBenchmark:
    """The user's own JSON files of texts with entities."""

    def read(path: str, train: EntityTexts | None) -> EntityTexts:
        rows = read_annotated(path, options.encoding)
        return EntityTexts([row.text for row in rows], [row.entities for row in rows])

    return EntityBenchmark(**own_files(options, read))
