"""Entity recognition with types that are named with each text (GLiNER)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

import keras
from keras import ops

from bert_zoo.config import IGNORED_LABEL, EntityHead
from bert_zoo.data.buckets import Batches, Batching
from bert_zoo.data.entities import AnnotatedText, annotated_columns, annotated_texts
from bert_zoo.error_text import listing, quoted, shown
from bert_zoo.fields import check
from bert_zoo.layers.entities import EntityScores
from bert_zoo.metrics.labels import span_scores
from bert_zoo.models.data_adapters import DEFAULT_BATCH_SIZE, yields_batches
from bert_zoo.models.direct import on_rows
from bert_zoo.models.labels import HeadChoice
from bert_zoo.models.task_model import TaskModel, Use
from bert_zoo.runtime.answers import Tagging, Taggings, sigmoid
from bert_zoo.tasks.entity_rows import (
    TYPE_POSITIONS,
    WORD_POSITIONS,
    Candidate,
    Prompt,
    budget_of,
    candidates,
    chosen,
    inputs_of,
    span_of,
    tokens_of,
    training_rows,
    types_of,
    windows_of,
    word_ranges,
)
from bert_zoo.text.batches import strings
from bert_zoo.text.columns import as_list
from bert_zoo.weights.table import entity_head as entity_table


@keras.saving.register_keras_serializable("bert_zoo")
class EntityLoss(keras.losses.Loss):
    """The sum of the binary cross-entropies of logits over the spans and types whose label is 0 or 1 and not -100.

    Source: gliner 0.2.29, modeling/base.py, UniEncoderSpanModel.loss, with its defaults.
    """

    def __init__(self, reduction: str = "sum", **kwargs):
        super().__init__(reduction=reduction, **kwargs)

    def call(self, y_true, y_pred):
        y_true, logits = ops.convert_to_tensor(y_true), ops.cast(y_pred, "float32")
        losses = ops.softplus(logits) - logits * ops.cast(y_true, "float32")
        return ops.where(ops.equal(y_true, IGNORED_LABEL), 0.0, losses)


@keras.saving.register_keras_serializable("bert_zoo")
class EntityRecognizer(TaskModel):
    """Finds the entities of texts whose types are named by words, also types that it was never trained on.

    Returns logits [batch, words, max_width, types]: of the span from each word to itself, to the next word, and so on,
    and each type. It takes the encoder's inputs of rows that begin with the types, `<<ENT>> person <<ENT>> city
    <<SEP>>`; `word_positions` int32 [batch, words], the first token of each word, 0 for padding; and `type_positions`
    int32 [batch, types], the markers. `tag` makes them from texts.

    `fit` and `evaluate` take texts with entities, as `bert_zoo.data.entities` reads them: records in x, or texts in x
    and a list of (start, end, type) for each in y. `evaluate` also measures `precision`, `recall` and `f1` of `tag`
    with all types of its data.

    Source: Zaratiana et al. 2023 (arXiv:2311.08526).

    Args:
        encoder: as in `TaskModel`.
        entity_head: a `bert_zoo.config.EntityHead`, or a dict of its fields.
        types: the types that `tag` looks for by default; `fit` sets those of its data if there are none.
    """

    task = "entity_recognition"
    verbs = ("tag",)
    use = Use(
        "token-classification",
        "finds entities of the types that are named with a text",
        'model.tag({texts}, ["person", "place"])',
    )
    hf_format = "gliner"
    outputs_per_token = True
    positions_read: Mapping[str, tuple[int, ...]] = {WORD_POSITIONS: (), TYPE_POSITIONS: ()}
    why_no_export = "They read types and words of their own beside a text, which no signature has."

    def __init__(
        self,
        encoder,
        entity_head: EntityHead | dict[str, Any] = EntityHead(),  # noqa: B008 (frozen)
        types: Sequence[str] = (),
        **kwargs,
    ):
        is_dict = isinstance(entity_head, dict)
        self.entity_head = EntityHead(**entity_head) if is_dict else entity_head
        self.types = (*types,)
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        head.refuse_thresholds(cls.task)
        types = head.labels or head.stored_labels
        return {"entity_head": head.entity_head or EntityHead(), "types": types}

    @property
    def family(self):
        return super().family.with_head(self.task, entity_table(self.entity_head))

    @property
    def own_tokens(self) -> tuple[str, ...]:
        return self.entity_head.type_marker, self.entity_head.end_marker

    @property
    def labels_to_save(self) -> tuple[str, ...] | None:
        return self.types or None

    def add_head(self, config):
        width = config.hidden_size
        self.entities = EntityScores(
            self.entity_head, width, name="entities", dtype=self.dtype_policy
        )

    def encoder_inputs(self, inputs):
        if missing := [name for name in self.positions_read if name not in inputs]:
            raise ValueError(
                f"The inputs lack {listing(missing)}, which a model of entities reads besides its encoder's. Use tag() "
                "for texts."
            )
        return super().encoder_inputs(inputs)

    def head_outputs(self, encoded, inputs, training=None):
        words, types = inputs[WORD_POSITIONS], inputs[TYPE_POSITIONS]
        is_word = ops.greater(words, 0)  # a row begins with types
        return self.entities(encoded["sequence_output"], words, is_word, types, training=training)

    def default_loss(self):
        return EntityLoss()

    def training_arguments(self, x, y=None, sample_weight=None, **options):
        if isinstance(x, Mapping | Batches) or yields_batches(x):
            return super().training_arguments(x, y, sample_weight, **options)
        if sample_weight is not None or options.get("class_weights") is not None:
            raise ValueError(
                "Texts with entities take no weights: the loss is a sum over spans and types. Leave sample_weight and "
                "class_weight out."
            )
        texts, shuffle = annotated(x, y), options.get("shuffle")
        rows = training_rows(self, texts, measures=shuffle is None)
        if shuffle is not None:
            self.types = self.types or (*types_of(texts),)
        size = options.get("batch_size") or DEFAULT_BATCH_SIZE
        batching = Batching(size, group_by_length=shuffle is not False, shuffle=bool(shuffle))
        return {"x": rows.batches(batching)}

    def evaluate(self, x=None, y=None, batch_size=None, *, return_dict: bool = False, **kwargs):
        """Measures the loss as in Keras and, of texts with entities, `precision`, `recall` and `f1` of the spans that
        `tag` finds with all types of the data."""
        logs = super().evaluate(x, y, batch_size, return_dict=True, **kwargs)
        texts = getattr(x, "source", None)  # when `fit` validates
        if texts is None and not (isinstance(x, Mapping) or yields_batches(x)):
            texts = annotated(x, y)
        if texts is not None:
            found = self.tag([text.text for text in texts], types_of(texts))
            _, score = span_scores(map(gold_spans, texts), map(tagged_spans, found))
            logs |= {name: getattr(score, name) for name in ("precision", "recall", "f1")}
        return logs if return_dict else [*logs.values()]

    def prediction_rows(self, texts, second=None, *, batch_size=32, **others):
        if second is not None:
            super().prediction_rows(texts, second)
        for row in self.tag(texts, batch_size=batch_size):
            yield {"spans": [asdict(span) for span in row.spans]}

    def printed_predictions(self, texts, second=None, **others):
        return self.tag(texts)

    def tag(
        self,
        texts,
        labels: Sequence[str] | None = None,
        threshold: float = 0.5,
        flat: bool = True,
        batch_size: int = 8,
    ) -> Taggings:
        """Finds the entities of some types.

        The model reads all types together before each text, so that the scores of one depend on the others, on their
        number and their order. Texts of more than `entity_head.max_words` words, or with more tokens than fit beside
        the types, are read in windows that share `entity_head.max_width` words. Of a span in two windows, the higher
        score counts.

        Args:
            texts: a text or several.
            labels: types in words, such as ["person", "drug"]; by default those of the last training.
            threshold: the probability above which a span is an entity.
            flat: whether entities may not overlap: of those that do, the likeliest stays. If not, one may lie within
                another.
            batch_size: number of rows per step.

        Returns:
            A list of `Tagging(text, words, spans)`, without words. The spans have offsets in characters and their
            probability as `score`, in the order of their starts. It prints texts with marked spans.

        Raises:
            TypeError: labels are no list of strings.
            ValueError: there are no labels, the same twice, or too many for a row; or a threshold outside of 0 to 1.
        """
        check("threshold", threshold, float, least=0, most=1)
        check("batch_size", batch_size, int, least=1)
        types, texts = self._types(labels), strings(texts)
        ranges = [*map(word_ranges, texts)]
        words = [
            [text[start:end] for start, end in row] for text, row in zip(texts, ranges, strict=True)
        ]
        tokens = tokens_of(self, chain(types, *words))
        prompt = Prompt.of(self, types, tokens)
        room = budget_of(self) - len(prompt.ids)
        if room < budget_of(self) // 4:
            raise ValueError(
                f"The {len(types)} labels have {len(prompt.ids)} of the {budget_of(self)} tokens of a row, which leaves too "
                "few for the text. Pass fewer labels at a time, or load the model with a larger max_length."
            )
        windows = [*windows_of(self, words, tokens, room)]
        found: list[list[Candidate]] = [[] for _ in texts]
        order = sorted(range(len(windows)), key=lambda number: windows[number].length)
        for start in range(0, len(order), batch_size):
            batch = [windows[number] for number in order[start : start + batch_size]]
            inputs = inputs_of(self, batch, [prompt] * len(batch))
            size = batch_size if len(order) > batch_size else len(batch)
            logits = ops.convert_to_numpy(on_rows(self, _logits, inputs, size))
            for window, row in zip(batch, logits, strict=False):
                given = sigmoid(row), len(window.words), window.first, threshold
                found[window.text] += candidates(*given)
        rows = zip(texts, ranges, found, strict=True)
        return Taggings(
            Tagging(text, (), tuple(span_of(text, row, one, types) for one in chosen(own, flat)))
            for text, row, own in rows
        )

    def _types(self, labels: Sequence[str] | None) -> list[str]:
        if labels is None:
            labels = self.types
        if isinstance(labels, str) or not all(isinstance(name, str) for name in labels):
            raise TypeError(
                f"labels is {shown(labels)}; pass a list of types in words, such as ['person', 'drug']."
            )
        labels = [*labels]
        if not labels or not all(name.strip() for name in labels):
            raise ValueError(
                f"labels is {shown(labels)}; name at least one type, each by a word or more."
            )
        if repeated := sorted({name for name in labels if labels.count(name) > 1}):
            raise ValueError(
                f"labels names {quoted(repeated)} more than once. Name each type once."
            )
        return labels

    def get_config(self):
        own = {"entity_head": asdict(self.entity_head), "types": list(self.types)}
        return {**super().get_config(), **own}


def gold_spans(text: AnnotatedText) -> set[tuple[str, int, int]]:
    """Type, start and end of a text's entities."""
    return {(entity.label, entity.start, entity.end) for entity in text.entities}


def tagged_spans(row: Tagging) -> set[tuple[str, int, int]]:
    """The same of the spans that `tag` found."""
    return {(span.type, span.start, span.end) for span in row.spans}


def _logits(model, inputs):
    return model(inputs, training=False)


def annotated(x, y) -> list[AnnotatedText]:
    """Texts with entities from the data of `fit`: records in x, or texts in x and their entities in y."""
    if y is not None:
        return annotated_columns(x, as_list(y))
    records = [*as_list(x)]
    return annotated_texts((f"x[{i}]", record) for i, record in enumerate(records))
