"""Vectors of texts: what models of sentence, sparse and token vectors share, in training above all."""

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import DOCUMENT, QUERY, ROLES
from bert_zoo.fields import check
from bert_zoo.models.data_adapters import (
    DEFAULT_BATCH_SIZE,
    first_batch,
    keras_arguments,
    num_rows,
    with_prompt,
    yields_batches,
)
from bert_zoo.models.gradient_cache import (
    in_groups_by_length,
    in_mini_batches,
    traced_once,
    widened,
)
from bert_zoo.models.inputs import is_of_tensorflow, tokens_of
from bert_zoo.models.labels import LabelScores, has_labels
from bert_zoo.models.replicas import compiles_for_each_shape, rows_of_all
from bert_zoo.models.task_model import ScoringModel
from bert_zoo.models.text_columns import are_columns, column_arguments, split_element
from bert_zoo.tasks.embedding_losses import (
    Comparison,
    CoSENT,
    CosineRegression,
    EmbeddingLoss,
    LossByData,
    MultipleNegativesRanking,
    PairSoftmax,
    SupervisedContrastive,
    scores_of_rows,
)
from bert_zoo.tasks.list_losses import ListLoss, ListScores, MarginMSE, check_labels
from bert_zoo.text.columns import as_list

log = logging.getLogger("bert_zoo")

# -------------------------------------------------------------------------------------------------
# Checks of data and labels.
# -------------------------------------------------------------------------------------------------


def check_data(loss, columns: int, labels) -> None:
    """Raises ValueError if a loss does not fit the number of columns or the labels (None for none)."""
    if isinstance(loss, ListLoss):
        check_labels(loss, labels)
        if columns < 3:
            raise ValueError(
                f"{type(loss).__name__} compares several documents of a query, but there are {columns} columns. Pass "
                "(queries, positives, negatives, ...)."
            )
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


def roles_of(columns: Sequence[Any]) -> list[str]:
    """The roles of columns of texts: the first has queries, the others documents."""
    return [QUERY, *[DOCUMENT] * (len(columns) - 1)]


# Number of groups of rows of similar length, each padded to its longest. A step of MiniLM on 64 questions of SQuAD
# and their paragraphs takes 0.63 times as long with 3 groups as with one; 5 are no faster than 3.
LENGTH_GROUPS = 3


class VectorModel(ScoringModel):
    """A task whose models turn texts into vectors that are compared.

    Called with an input dict it returns the vectors of a batch of texts. Called with a tuple of input dicts,
    one for each column of texts, it returns one float tensor [batch, columns, ...], which the losses read.
    The texts of the first column have the role "query", all others "document".

    A subclass sets `similarity` and may replace `read_column`, `stacked`, `column_inputs` and `loss_for`.

    Attributes:
        mini_batch_size: number of rows of a column to compute at a time in training. Saves memory and takes
            up to 50% longer; see `bert_zoo.models.gradient_cache`. None computes all rows at once.
    """

    verbs = ("embed",)
    runtime_verb = "embed"  # of `bert_zoo.runtime`
    scores_pairs = True
    reads_columns = True
    reads_roles = False  # whether queries are computed differently from documents
    roles_of_pairs: tuple[str | None, str | None] = ROLES  # of texts that `row_scores` compares

    def __init__(self, encoder, **kwargs):
        super().__init__(encoder, **kwargs)
        self._mini_batch_size: int | None = None
        self._column_prompts: tuple[str | None, ...] | None = None
        self._loss_fitted: EmbeddingLoss | None = None

    @property
    def similarity(self) -> str:
        """How two texts' vectors are compared: one of `bert_zoo.config.SIMILARITIES`, or "maxsim"."""
        raise NotImplementedError

    @property
    def ranked_by(self) -> str:
        """The similarity that `MultipleNegativesRanking` uses by default."""
        return self.similarity

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

    # --- Columns of texts ---

    def call(self, inputs, training=None):
        if isinstance(inputs, Mapping):
            return super().call(inputs, training)
        roles = roles_of(inputs) if self.reads_roles else [DOCUMENT] * len(inputs)
        readers = {role: self._column_reader(role, training) for role in {*roles}}
        return self.stacked([readers[role](rows) for role, rows in zip(roles, inputs, strict=True)])

    def read_column(self, role: str, rows, training=None):
        """The vectors of an input dict of texts of a role: [rows, size], or [rows, tokens, size] for token vectors."""
        return super().call(rows, training)

    def stacked(self, columns: Sequence[Any]):
        """Results of `read_column` as one tensor [rows, columns, ...]; token vectors are padded with zeros."""
        if len(columns[0].shape) > 2:
            lengths = [ops.shape(column)[1] for column in columns]
            are_known = all(isinstance(length, int) for length in lengths)
            longest = max(lengths) if are_known else functools.reduce(ops.maximum, lengths)
            columns = [
                widened(column, longest - length)
                for column, length in zip(columns, lengths, strict=True)
            ]
        return ops.stack(columns, axis=1)

    @property
    def has_static_shapes(self) -> bool:
        """Whether the sizes of tensors must be known when a step is traced."""
        return (
            keras.backend.backend() != "tensorflow"
            or bool(self.jit_compile)
            or compiles_for_each_shape(self.distribute_strategy)
        )

    def _column_reader(self, role: str, training):
        """The function that turns a column's input dict into vectors.

        In training on TensorFlow it groups rows of similar length, which saves padding; the loss still
        reads the vectors of the whole batch.
        """
        read = functools.partial(self.read_column, role, training=training)
        if not training or self.reads_windows:
            return read
        if self.mini_batch_size:
            size, trims = self.mini_batch_size, not self.has_static_shapes
            return lambda rows: in_mini_batches(self, read, rows, size, trims=trims)
        if self.has_static_shapes:
            return read
        read = traced_once(read)
        return lambda rows: in_groups_by_length(read, rows, LENGTH_GROUPS)

    def prompted(self, texts):
        return with_prompt(self.prompts_in_use[0], texts)

    @property
    def prompts_in_use(self):
        return tuple(map(self.encoder.prompts.text, self._column_prompts or (None,)))

    @property
    def groups_rows(self):
        # Other losses compare the rows of a batch, which would then be of one length.
        return isinstance(self.loss_in_use, CosineRegression | PairSoftmax | ListLoss)

    def texts_to_inputs(self, texts, preprocessor):
        return self.column_inputs(DOCUMENT, self.prompted(texts), preprocessor)

    def columns_to_inputs(self, columns, preprocessor):
        """An input dict for each column of texts, with its prompt; traceable."""
        prompts = self.prompts_in_use * (1 if self._column_prompts else len(columns))
        rows = zip(roles_of(columns), prompts, columns, strict=True)
        return tuple(
            self.column_inputs(role, with_prompt(prompt, column), preprocessor)
            for role, prompt, column in rows
        )

    def column_inputs(self, role: str, texts, preprocessor):
        """The input dict of texts of a role that have their prompt; traceable."""
        return self.reader_of_role(role, preprocessor)(texts)

    def reader_of_role(self, role: str, preprocessor):
        """The preprocessor of texts of a role."""
        return preprocessor

    def row_scores(self, texts, second, batch_size: int = 32, prompts=(None, None)) -> np.ndarray:
        """The score of each query with its document, [N]. Where there is a prompt, it replaces that of the role."""
        rows = zip((texts, second), prompts, self.roles_of_pairs, strict=True)
        queries, documents = (
            self.embed(column, batch_size, prompt, role=role if prompt is None else None)
            for column, prompt, role in rows
        )
        return self.scores_of_pairs(queries, documents)

    def scores_of_pairs(self, queries, documents) -> np.ndarray:
        """The score of each of `embed`'s queries with its document, [N]."""
        raise NotImplementedError

    def portable_verb(self):
        prompts = self.encoder.prompts
        texts = {"texts": dict(prompts.texts), "default": prompts.default}
        return {"verb": self.runtime_verb, "prompts": texts}

    @property
    def served_roles(self):
        return (QUERY,) if self.reads_roles else ()

    def served_of_role(self, role: str, texts, run, preprocessor) -> dict[str, Any]:
        """As `served_of_texts`, for a string tensor of texts of a role."""
        texts = with_prompt(self.encoder.prompts.text(role=role), texts)
        return self.served_of_ids(self.column_inputs(role, texts, preprocessor), run)

    # --- Training ---

    def loss_for(self, columns: int, labels) -> EmbeddingLoss:
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
        if columns == 2 and are_scores:
            return CoSENT()
        if columns > 2 and are_scores:
            return MarginMSE()
        if columns == 1 and not are_scores:
            return SupervisedContrastive()
        raise ValueError(
            f"No loss fits rows of {columns} texts with {'scores' if are_scores else 'classes'} as labels. "
            "Use scores or classes with pairs (a, b), classes with single texts, and no labels or a teacher's scores "
            "with rows of anchor, positive and negatives. For other data, compile with your own loss."
        )

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
        | the same with a teacher's scores [batch, documents] or margins [batch, documents - 1] | `MarginMSE` |
        | `(a, b)`, floats | `CoSENT` |
        | texts, classes | `SupervisedContrastive` |
        | `(premises, hypotheses)`, classes | `PairSoftmax`, for sentence vectors only |

        To use another loss, pass it to `compile`: a loss of `bert_zoo.embeddings`, or any Keras loss of
        vectors [batch, columns, size]. `ListwiseSoftmax`, `MarginMSE` and `DistillKL` read the similarity of each
        row's first text with its others. If other rows' texts serve as negatives, strings in memory are
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
            with self.prompting(prompts):
                return super().fit(x, y, *args, **kwargs)
        finally:
            self._loss_fitted = None

    def evaluate(self, *args, prompts: Sequence[str | None] | None = None, **kwargs):
        """Computes the loss of data; arguments as in `fit`."""
        fitted = self._loss_fitted
        try:
            with self.prompting(prompts):
                return super().evaluate(*args, **kwargs)
        finally:
            self._loss_fitted = fitted

    @contextmanager
    def prompting(self, prompts: Sequence[str | None] | None):
        """Within it, these prompts go before the columns of texts, as for `fit`."""
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
        y = self.labels_for_loss(y, labels)
        if not are_pairs:
            return keras_arguments(self, x, y, sample_weight, labelled=True, **options)
        distinct = getattr(self.loss_in_use, "in_batch_negatives", False)
        return column_arguments(self, x, y, sample_weight, distinct=distinct, **options)

    def labels_for_loss(self, y, labels):
        """The labels `y` as the loss takes them; `labels` are these or a dataset's spec of them."""
        if isinstance(self.loss_in_use, PairSoftmax):
            raise ValueError(
                f"PairSoftmax classifies pairs of sentence vectors, which a {type(self).__name__} does not make. "
                "Compile with another loss."
            )
        return class_numbers(y)

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
        if isinstance(loss, CosineRegression):
            return {"": Cosines()}
        if isinstance(loss, ListLoss):
            return {"": ListScores(documents=len(inputs) - 1)}
        return {"": RowNumbers()} if isinstance(loss, EmbeddingLoss) else {}

    @property
    def loss_in_use(self):
        """The loss that was passed to `compile` or chosen by the data."""
        return self.loss.chosen if isinstance(self.loss, LossByData) else self.loss

    def _choose_loss(self, columns: int, labels) -> None:
        if not isinstance(self.loss, LossByData):
            return
        chosen = self.loss_for(columns, labels)
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
        return super().compute_loss(x, y, self.read_by_loss(vectors), sample_weight, training)

    def read_by_loss(self, vectors):
        """What the loss reads, from the float32 vectors [batch, columns, ...] of the whole batch."""
        loss = self.loss_in_use
        if isinstance(loss, ListLoss):
            return scores_of_rows(vectors, Comparison(self.similarity, self.has_static_shapes))
        if isinstance(loss, EmbeddingLoss):
            if len(vectors.shape) > 3 and not loss.takes_token_vectors:
                raise ValueError(
                    f"{type(loss).__name__} compares texts by one vector, but the model has one for each token. "
                    "Compile with MultipleNegativesRanking, ListwiseSoftmax, MarginMSE or DistillKL."
                )
            loss.comparison = Comparison(self.ranked_by, self.has_static_shapes)
        return vectors


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
