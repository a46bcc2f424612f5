"""Sentence embedding: one vector per text."""

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo import private
from bert_zoo.fields import check
from bert_zoo.models.base import Interface
from bert_zoo.models.data_adapters import (
    DEFAULT_BATCH_SIZE,
    first_batch,
    keras_arguments,
    num_rows,
    with_prompt,
    yields_batches,
)
from bert_zoo.models.gradient_cache import in_groups_by_length, in_mini_batches, traced_once
from bert_zoo.models.inputs import is_of_tensorflow, tokens_of
from bert_zoo.models.labels import LabelRange, LabelScores, has_labels
from bert_zoo.models.replicas import compiles_for_each_shape, in_scope_of, rows_of_all
from bert_zoo.models.task_model import ScoringModel, Use
from bert_zoo.models.text_columns import are_columns, column_arguments, split_element
from bert_zoo.tasks.embedding_losses import (
    CoSENT,
    CosineRegression,
    EmbeddingLoss,
    LossByData,
    MultipleNegativesRanking,
    PairSoftmax,
    SupervisedContrastive,
)
from bert_zoo.text.columns import as_list

# -------------------------------------------------------------------------------------------------
# Chooses losses for data, and checks labels.
# -------------------------------------------------------------------------------------------------

log = logging.getLogger("bert_zoo")


def loss_of_data(columns: int, labels) -> EmbeddingLoss:
    """The default loss for rows of so many columns of texts; ValueError if none fits.

    Of `labels` (an array, a list, a dataset's spec or None), floats are scores, integers and names are classes.
    """
    if labels is None:
        if columns > 1:
            return MultipleNegativesRanking()
        raise ValueError(
            "Single texts without labels cannot train vectors. Pass pairs of texts that belong together, "
            "fit((anchors, positives)); pairs with scores or classes as y; or texts with classes as y."
        )
    are_scores = kind_of(labels) == "f"
    if columns == 2:
        return CoSENT() if are_scores else PairSoftmax()
    if columns == 1 and not are_scores:
        return SupervisedContrastive()
    raise ValueError(
        f"No loss fits rows of {columns} texts with {'scores' if are_scores else 'classes'} as labels. "
        "Use scores or classes with pairs (a, b), classes with single texts, and no labels with rows of anchor, "
        "positive and negatives. For other data, compile with your own loss."
    )


def check_data(loss, columns: int, labels) -> None:
    """Raises ValueError if a loss does not fit the number of columns or the labels (None for none)."""
    if not isinstance(loss, EmbeddingLoss):
        return
    name = type(loss).__name__
    if columns != (loss.columns or max(columns, 2)):
        wanted = {None: "two texts or more", 1: "a single text", 2: "two texts"}[loss.columns]
        raise ValueError(f"{name} needs {wanted} per row, but there are {columns}.")
    if loss.in_batch_negatives and labels is not None:
        raise ValueError(
            f"{name} takes no labels: row i of the other columns belongs to row i of the first. Leave y out, or "
            "compile with a loss that takes them, such as bert_zoo.embeddings.CoSENT()."
        )
    if not loss.in_batch_negatives and labels is None:
        raise ValueError(f"{name} needs labels, but there are none. Pass them as y.")


def check_batches_of_one(loss, columns: int, x, batch_size: int | None) -> None:
    """Refuses batches of one row for a loss that compares rows, and warns of a last one."""
    if not isinstance(loss, EmbeddingLoss) or loss.learns_from_one_row(columns):
        return
    name = type(loss).__name__
    if yields_batches(x):
        first = first_batch(x)
        rows = size = 0 if first is None else num_rows(keras.tree.flatten(first)[0])
    else:
        rows, size = num_rows(x), batch_size or DEFAULT_BATCH_SIZE
    if min(rows, size) == 1:
        raise ValueError(
            f"{name} compares the rows of a batch, and learns nothing from batches of one row (rows: {rows}, "
            f"batch_size: {size}). Pass more rows, and a batch_size of at least 2; more are better."
        )
    if rows > size and rows % size == 1:
        log.warning(
            "%s compares the rows of a batch, and learns nothing from the last batch, as it has one row (rows: %d, "
            "batch_size: %d). Another batch_size, or one row more or less, avoids that.",
            *(name, rows, size),
        )


def kind_of(labels) -> str:
    """NumPy's abbreviation for the kind of labels, such as "f" for floats."""
    of_tensorflow = getattr(getattr(labels, "dtype", None), "as_numpy_dtype", None)
    dtype = of_tensorflow or np.asarray(as_list(labels)).dtype
    return np.dtype(dtype).kind


def class_names(labels) -> tuple[str, ...]:
    """The sorted names among labels in memory; empty if labels are not names."""
    if is_of_tensorflow(labels) or kind_of(labels) not in "USOT":
        return ()
    return tuple(map(str, np.unique(np.asarray(as_list(labels)).astype(str))))


def class_numbers(labels):
    """Class names in memory as their numbers; other labels unchanged."""
    names = () if labels is None else class_names(labels)
    return np.searchsorted(names, np.asarray(as_list(labels)).astype(str)) if names else labels


class RowNumbers(LabelScores):
    """Allows labels of any kind with one number per row."""

    def is_read_by(self, loss) -> bool:
        return True

    def numbers(self, labels: Any, title: str):
        shape = getattr(labels, "shape", np.shape(labels))
        if getattr(shape, "rank", 0) is not None and tuple(shape[1:]) not in ((), (1,)):
            raise ValueError(
                f"Pass one {title} per row, of shape [batch]; got the shape {tuple(shape)}."
            )
        return super().numbers(labels, title)


class Cosines(RowNumbers):
    """Allows one number per row, from -1 to 1."""

    def numbers(self, labels: Any, title: str):
        labels = super().numbers(labels, title)
        advice = (
            "CosineRegression needs scores from -1 to 1, as cosines are. Scale them, for example scores / 5 for "
            "STS-B, or use CoSENT, which takes any scale."
        )
        if not is_of_tensorflow(labels):
            if np.any(np.abs(labels) > 1):
                raise ValueError(f"A score is {labels[np.abs(labels).argmax()]:g}, but {advice}")
            return labels
        import tensorflow as tf

        largest = tf.reduce_max(tf.abs(labels))
        with tf.control_dependencies([tf.debugging.Assert(largest <= 1, [advice, largest])]):
            return tf.identity(labels)


class PairClasses(LabelRange):
    """Allows ids or names of the pair classifier's classes."""

    def is_read_by(self, loss) -> bool:
        return True


# Number of groups of rows of similar length, each padded to its longest. A step of MiniLM on 64 questions of SQuAD
# and their paragraphs takes 0.63 times as long with 3 groups as with one; 5 are no faster than 3.
LENGTH_GROUPS = 3


@keras.saving.register_keras_serializable("bert_zoo")
class SentenceEmbedder(ScoringModel):
    """Turns texts into sentence vectors, pooled and normalised as the checkpoint's card says.

    Returns vectors [batch, size]. Called with a tuple of input dicts, one for each column of texts, it
    returns [batch, columns, size], which the losses read.

    Args:
        encoder: as in `TaskModel`.
        pair_classes: number or names of the classes of the pair classifier, which the loss `PairSoftmax`
            trains; 0 for no classifier.

    Attributes:
        mini_batch_size: number of rows of a column to compute at a time in training. Saves memory and takes
            up to 50% longer; see `bert_zoo.models.gradient_cache`. None computes all rows at once.
    """

    task = "embedding"
    verbs = ("embed",)
    peft_task = "FEATURE_EXTRACTION"
    taught_by = "vectors"
    use = Use(
        "sentence-similarity",
        "turns texts into vectors whose cosine similarity shows how similar their meanings are",
        "model.embed({texts})",
    )
    scores_pairs = True
    pools_windows = True
    reads_columns = True
    if_untrained = "was not trained for sentence vectors: texts with similar meanings may have different vectors"
    interface = Interface(("embedding",))

    def __init__(self, encoder, pair_classes: int | Sequence[str] = 0, **kwargs):
        super().__init__(encoder, **kwargs)
        self.pair_classifier: keras.layers.Layer | None = None
        self._pair_names: tuple[str, ...] = ()
        self._mini_batch_size: int | None = None
        self._column_prompts: tuple[str | None, ...] | None = None
        self._loss_fitted: EmbeddingLoss | None = None
        if pair_classes:
            are_named = not isinstance(pair_classes, int)
            names = tuple(pair_classes) if are_named else ()
            self._add_pair_classifier(len(names) or pair_classes, names)

    @property
    def mini_batch_size(self) -> int | None:
        return self._mini_batch_size

    @mini_batch_size.setter
    def mini_batch_size(self, value: int | None) -> None:
        if value is not None:
            check("mini_batch_size", value, int, least=1)
            if self.reads_windows:
                raise ValueError(
                    f"mini_batch_size is {value}, but mini-batches do not work with long texts in windows. "
                    "Leave it out, or load the model with long_texts='cut'."
                )
        if value != self._mini_batch_size:
            self.train_function = None
        self._mini_batch_size = value

    @property
    def reads_first_only(self) -> bool:
        return self.encoder.pooling.reads_first_only

    def call(self, inputs, training=None):
        if isinstance(inputs, Mapping):
            return super().call(inputs, training)
        read = self._column_reader(training)
        return ops.stack([read(rows) for rows in inputs], axis=1)

    def _column_reader(self, training):
        """The function that turns a column's input dict into vectors.

        In training on TensorFlow it groups rows of similar length, which saves padding; the loss still
        reads the vectors of the whole batch.
        """
        read = functools.partial(super().call, training=training)
        if not training or self.reads_windows:
            return read
        has_static_shapes = (
            keras.backend.backend() != "tensorflow"
            or self.jit_compile
            or compiles_for_each_shape(self.distribute_strategy)
        )
        if self.mini_batch_size:
            options = {"trims": not has_static_shapes, "training": training}
            return lambda rows: in_mini_batches(self, rows, self.mini_batch_size, **options)
        if has_static_shapes:
            return read
        read = traced_once(read)
        return lambda rows: in_groups_by_length(read, rows, LENGTH_GROUPS)

    def head_outputs(self, encoded, inputs, training=None):
        return self.encoder.sentence_vectors(encoded["sequence_output"], inputs)

    def window_outputs(self, inputs, training=None):
        return self.encoder.window_outputs(inputs, training)

    def from_pooled(self, outputs):
        return self.encoder.from_pooled(outputs)

    def prompted(self, texts):
        prompts = self._column_prompts or (None,)
        return with_prompt(self.encoder.prompts.text(prompts[0]), texts)

    @property
    def prompts_in_use(self):
        return tuple(map(self.encoder.prompts.text, self._column_prompts or (None,)))

    @property
    def groups_rows(self):
        # Other losses compare the rows of a batch, which would then be of one length.
        return isinstance(self.loss_in_use, CosineRegression | PairSoftmax)

    def columns_to_inputs(self, columns, preprocessor):
        """An input dict for each column of texts, with its prompt; traceable."""
        prompts = self._column_prompts or (None,) * len(columns)
        return tuple(
            preprocessor(with_prompt(self.encoder.prompts.text(prompt), column))
            for prompt, column in zip(prompts, columns, strict=True)
        )

    # --- Training ---

    def default_loss(self):
        return LossByData()

    def fit(
        self,
        x=None,
        y=None,
        *args,
        prompts: Sequence[str | None] | None = None,
        mini_batch_size: int | None = None,
        **kwargs,
    ):
        """Trains with a loss that depends on the data; other arguments are as in Keras.

        | data | default loss |
        |---|---|
        | `(anchors, positives)`, `(anchors, positives, negatives, ...)` | `MultipleNegativesRanking` |
        | `(a, b)`, floats | `CoSENT` |
        | texts, classes | `SupervisedContrastive` |
        | `(premises, hypotheses)`, classes | `PairSoftmax` |

        To use another loss, pass it to `compile`: a loss of `bert_zoo.embeddings`, or any Keras loss of
        vectors [batch, columns, size]. If other rows' texts serve as negatives, strings in memory are
        shuffled into batches without duplicates; in other data, equal texts do not count as negatives.

        Names of pair classes are numbered in sorted order, and the model keeps them.

        Args:
            x: strings, dicts of ids, or a tf.data.Dataset of batches of these; several columns form a tuple.
                A PyDataset may yield batches of ids.
            y: scores (floats) or classes (integers or names; integers in a dataset of pairs).
            prompts: for each column a text to put before its texts, or the name of one of the model's
                prompts; by default the model's default prompt.
            mini_batch_size: sets the attribute of that name.
            *args, **kwargs: as in Keras.

        Returns:
            Keras's `History`.

        Raises:
            TypeError: `x` is not texts, dicts of ids or a dataset, or `prompts` is a string.
            ValueError: no loss fits the data, or an option does not fit.
        """
        if mini_batch_size is not None:
            self.mini_batch_size = mini_batch_size
        validation = kwargs.get("validation_data")
        if are_columns(validation) and split_element(x, y)[1] is None:
            kwargs["validation_data"] = (validation,)
        try:
            with self._prompting(prompts):
                return super().fit(x, y, *args, **kwargs)
        finally:
            self._loss_fitted = None

    def evaluate(self, *args, prompts: Sequence[str | None] | None = None, **kwargs):
        """Computes the loss of data; arguments as in `fit`."""
        fitted = self._loss_fitted
        try:
            with self._prompting(prompts):
                return super().evaluate(*args, **kwargs)
        finally:
            self._loss_fitted = fitted

    @contextmanager
    def _prompting(self, prompts: Sequence[str | None] | None):
        if isinstance(prompts, str):
            raise TypeError(f"prompts is {prompts!r}; it must be a list with one for each column.")
        self._column_prompts = None if prompts is None else tuple(prompts)
        try:
            yield
        finally:
            self._column_prompts = None

    def training_arguments(self, x, y=None, sample_weight=None, **options):
        if x is None or isinstance(x, Iterator):
            raise TypeError(
                f"x is {type(x).__name__}. Pass texts, dicts of ids, or a tf.data.Dataset of batches of them."
            )
        columns, labels, _ = split_element(x, y, sample_weight)
        are_pairs = are_columns(columns)
        number = len(columns) if are_pairs else 1
        self._check_prompts(columns[0] if are_pairs else columns, number)
        self._choose_loss(number, labels)
        check_data(self.loss_in_use, number, labels)
        check_batches_of_one(self.loss_in_use, number, x, options.get("batch_size"))
        if isinstance(self.loss_in_use, PairSoftmax):
            self._prepare_pair_classifier(labels)
        else:
            y = class_numbers(y)
        if not are_pairs:
            return keras_arguments(self, x, y, sample_weight, labelled=True, **options)
        distinct = getattr(self.loss_in_use, "in_batch_negatives", False)
        return column_arguments(self, x, y, sample_weight, distinct=distinct, **options)

    def _check_prompts(self, column, number: int) -> None:
        if self._column_prompts is None:
            return
        if isinstance(column, Mapping):
            raise ValueError("prompts go before texts, but the data are ids. Leave prompts out.")
        if len(self._column_prompts) != number:
            raise ValueError(
                f"There are {len(self._column_prompts)} prompts and {number} columns of texts. Pass one prompt for "
                "each column."
            )

    def label_ranges(self, inputs):
        loss = self.loss_in_use if self.compiled else None
        if isinstance(loss, PairSoftmax) and self.pair_classifier is not None:
            units = self.pair_classifier.units
            return {
                "": PairClasses(units, "the number of classes of pairs", names=self._pair_names)
            }
        if isinstance(loss, CosineRegression):
            return {"": Cosines()}
        return {"": RowNumbers()} if isinstance(loss, EmbeddingLoss) else {}

    @property
    def loss_in_use(self):
        """The loss that was passed to `compile` or chosen by the data."""
        return self.loss.chosen if isinstance(self.loss, LossByData) else self.loss

    def _choose_loss(self, columns: int, labels) -> None:
        if not isinstance(self.loss, LossByData):
            return
        chosen = loss_of_data(columns, labels)
        if self._loss_fitted is not None and type(chosen) is not type(self._loss_fitted):
            raise ValueError(
                f"The training data are for {type(self._loss_fitted).__name__}, but validation_data for "
                f"{type(chosen).__name__}. Both need the same number of columns and the same kind of labels."
            )
        self._loss_fitted = chosen
        if type(chosen) is type(self.loss.chosen):
            return
        log.info("The data choose the loss %s.", type(chosen).__name__)
        self.loss.chosen = chosen
        self.train_function = self.test_function = None

    def _prepare_pair_classifier(self, labels) -> None:
        if self.pair_classifier is not None:
            return
        number, names = self.loss_in_use.num_classes, ()
        if is_of_tensorflow(labels) and number is None:
            raise ValueError(
                "The number of classes of pairs cannot be read from a tf.data.Dataset. Compile with "
                "loss=bert_zoo.embeddings.PairSoftmax(num_classes=3)."
            )
        if not is_of_tensorflow(labels):
            names = class_names(labels)
            if names and number not in (None, len(names)):
                raise ValueError(
                    f"num_classes is {number}, but the labels have the classes {names}."
                )
            number = number or len(names) or max(2, int(np.max(labels)) + 1)
        if self.optimizer.built:
            raise ValueError(
                "The optimizer was built for a model without a pair classifier. Compile the model again before "
                "you train it on classes of pairs."
            )
        log.info(
            "A pair classifier, %d classes from (u, v, abs(u - v)), is randomly initialised for the training. "
            "Saved and exported models leave it out.",
            number,
        )
        self._add_pair_classifier(number, names)

    def _add_pair_classifier(self, classes: int, names: tuple[str, ...] = ()) -> None:
        width = 3 * self.encoder.vector_size
        with private.adding_layers(self), in_scope_of(self):
            self.pair_classifier = keras.layers.Dense(
                classes, name="pair_classifier", dtype=self.dtype_policy
            )
            self.pair_classifier.build((None, width))
        self._pair_names = names

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        vectors = rows_of_all(ops.cast(y_pred, "float32"))
        if not has_labels(y):
            y = ops.stack([fingerprints(rows) for rows in x], axis=1)
        y = rows_of_all(ops.convert_to_tensor(y))
        if sample_weight is not None:
            if not getattr(self.loss_in_use, "takes_weights", True):
                raise ValueError(
                    f"{type(self.loss_in_use).__name__} compares the rows of a batch, so rows cannot have weights. "
                    "Leave sample_weight and class_weight out."
                )
            sample_weight = rows_of_all(ops.convert_to_tensor(sample_weight))
        if isinstance(self.loss_in_use, PairSoftmax):
            u, v = vectors[:, 0], vectors[:, 1]
            features = ops.concatenate([u, v, ops.abs(u - v)], axis=-1)
            vectors = ops.cast(self.pair_classifier(features), "float32")
        return super().compute_loss(x, y, vectors, sample_weight, training)

    def get_config(self):
        classifier = self.pair_classifier
        classes = list(self._pair_names) or (0 if classifier is None else classifier.units)
        return {**super().get_config(), "pair_classes": classes}

    # --- Use ---

    def served_variables(self):
        classifier = self.pair_classifier
        left_out = set() if classifier is None else {id(v) for v in classifier.variables}
        return [v for v in super().served_variables() if id(v) not in left_out]

    def portable_verb(self):
        prompts, pooling = self.encoder.prompts, self.encoder.pooling
        return {
            "verb": "embed",
            "prompts": {"texts": dict(prompts.texts), "default": prompts.default},
            "include_prompt": pooling.include_prompt,
        }

    def embed(
        self,
        texts,
        batch_size: int = 32,
        prompt: str | None = None,
        truncate_dim: int | None = None,
    ):
        """Computes sentence vectors, NumPy float32 [texts, size]; see `Encoder.embed`."""
        return self.encoder.embed(texts, batch_size, prompt, truncate_dim)

    def row_scores(self, texts, second, batch_size: int = 32, prompts=(None, None)) -> np.ndarray:
        """The cosine of each row's two texts, [N]; zero vectors are similar to nothing."""
        vectors = [
            self.embed(column, batch_size, prompt)
            for column, prompt in zip((texts, second), prompts, strict=True)
        ]
        lengths = np.prod([np.linalg.norm(each, axis=1) for each in vectors], axis=0)
        return np.einsum("ij,ij->i", *vectors) / np.where(lengths == 0, 1, lengths)

    def answers_as_teacher(self, texts, batch_size: int = 32):
        return self.embed(texts, batch_size)


# Odd, so that its powers are too.
_FACTOR = 0x01000193


def fingerprints(rows):
    """Two numbers for each row of ids, float32 [rows, 2], equal for equal texts.

    They are the halves of a polynomial of the unpadded ids modulo 2^32, which float32 holds exactly.
    """
    ids = ops.cast(tokens_of(rows), "int32")
    mask = rows.get("padding_mask")
    mask = ops.ones_like(ids) if mask is None else ops.cast(mask, "int32")
    ids, mask = (ops.reshape(part, (ops.shape(ids)[0], -1)) for part in (ids, mask))
    powers = ops.cumprod(ops.where(mask > 0, _FACTOR, 1), axis=1)
    total = ops.sum(mask * (ids + 1) * powers, axis=1)
    halves = [ops.bitwise_and(total, 0xFFFF), ops.bitwise_and(ops.right_shift(total, 16), 0xFFFF)]
    return ops.cast(ops.stack(halves, axis=1), "float32")
