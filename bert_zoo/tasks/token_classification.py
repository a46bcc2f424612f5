"""Token classification: one label per word."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.entities import (
    annotated_columns,
    annotated_texts,
    are_entities,
    entity_types,
    is_annotated,
    words_and_tags,
)
from bert_zoo.data.tagging import scheme_names
from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import check
from bert_zoo.graph import has_tensorflow
from bert_zoo.models.data_adapters import yields_batches
from bert_zoo.models.direct import for_this_device
from bert_zoo.models.graphs import in_graph
from bert_zoo.models.labels import checked_labels, class_indices, finite_numbers, labels_of_table
from bert_zoo.models.losses import token_loss
from bert_zoo.models.metrics import SpanF1
from bert_zoo.models.task_model import LabelledModel, Use
from bert_zoo.models.text_rows import NAME, checked_sample_weight
from bert_zoo.models.word_outputs import outputs_of_words, pieces_of_words, sentences_of
from bert_zoo.runtime.answers import (
    FIRST_PIECE,
    check_strategy,
    marks_spans,
    softmax,
    taggings,
)
from bert_zoo.runtime.answers import word_probabilities as probabilities_of_words
from bert_zoo.text.columns import as_list, column_names
from bert_zoo.text.preprocessor import (
    NO_WORD,
    has_rows_of_words,
    pack_pieces,
    pack_words,
    token_labels,
    word_batch,
)

# -------------------------------------------------------------------------------------------------
# Tags for words: from texts or lists of words to labels and spans.
# -------------------------------------------------------------------------------------------------


def word_probabilities(
    model, words, batch_size: int = 32, strategy: str = FIRST_PIECE
) -> list[np.ndarray]:
    """The label probabilities of every word, float32 [words, labels] for each sentence.

    A sentence that is too long for the model is read in several rows, split between words, so every word gets
    a label. `strategy` combines a word's pieces, see `bert_zoo.runtime.answers.word_probabilities`.
    """
    if not len(words):
        return []
    sentences, preprocessor = word_batch(words), model.preprocessor
    budget = preprocessor.sequence_length - preprocessor.packer.layout.specials(1)
    if keras.backend.backend() == "tensorflow" and sentences.nrows() <= batch_size:
        reading = {"preprocessor": preprocessor, "budget": budget}
        do_fit, *found = in_graph(model, _sentence_probabilities, sentences, **reading)
        if do_fit:
            pieces, starts = map(ops.convert_to_numpy, found)
            of_words = np.float32(probabilities_of_words(pieces, starts, strategy))
            return np.split(of_words, sentences.row_splits.numpy()[1:-1])

    def pooled(logits, starts):
        return probabilities_of_words(softmax(logits), starts, strategy)

    return outputs_of_words(model, sentences, batch_size, _logits, pooled)


def _logits(model, inputs):
    return ops.cast(model(inputs, training=False), "float32")


def _sentence_probabilities(model, words, *, preprocessor, budget: int):
    """Whether each sentence fits into a row and, if so, all pieces' probabilities [pieces, labels] and words' starts.

    This is a single TensorFlow call. Sentences in several rows need two, with their pieces as arrays.
    """
    import tensorflow as tf

    pieces = words.with_values(pieces_of_words(model, words, preprocessor=preprocessor))
    do_fit = tf.reduce_all(pieces.merge_dims(1, 2).row_lengths() <= budget)

    def probabilities():
        packed = pack_pieces(pieces, for_this_device(preprocessor))
        of_words = packed.word_ids != NO_WORD
        found = tf.boolean_mask(ops.softmax(_logits(model, packed.inputs)), of_words)
        return found, tf.where(tf.boolean_mask(packed.first_pieces, of_words))[:, 0]

    nothing = tf.zeros([0, len(model.labels)], tf.float32), tf.zeros([0], tf.int64)
    return do_fit, *tf.cond(do_fit, probabilities, lambda: nothing)


# --- Texts with entities, and words with labels, in `fit` and `evaluate` ---

LABELS = "y"


def with_words(model, x, y):
    """Texts with entities as words with tags; other data unchanged.

    Entities are those of each text in y or, without y, of the records in x, as for `bert_zoo.data.entities`.
    """
    if yields_batches(x) or isinstance(x, Mapping):
        return x, y
    if y is None:
        records = as_list(x)
        is_column = isinstance(records, list | np.ndarray) and len(records) > 0
        if not is_column or not is_annotated(records[0]):
            return x, y
        texts = annotated_texts((f"x[{i}]", record) for i, record in enumerate(records))
    else:
        rows = as_list(y)
        if not isinstance(rows, list | tuple | np.ndarray) or not are_entities([*rows]):
            return x, y
        texts = annotated_columns(x, rows)
    scheme = "IOBES" if any(label.startswith("E-") for label in model.labels) else "IOB2"
    words, tags = words_and_tags(texts, scheme)
    if not {*chain.from_iterable(tags)} <= {*model.labels}:
        types = entity_types(texts)
        raise ValueError(
            f"The entities are {quoted(types)}, whose words have the tags {[*scheme_names(types, scheme)]}, but the labels of "
            f"this model are {quoted(model.labels)}. Load it with labels={[*scheme_names(types, scheme)]}."
        )
    return words, tags


def _rows_of_words(texts, values, numbers: Callable[[Any, str], np.ndarray], title: str):
    """Values of words in memory, ragged [batch, (words)]; without TensorFlow an array of arrays.

    `numbers` checks and converts a row, given its name in messages; `title` names the values there.
    """
    words = word_batch(texts)
    rows = [*values]
    lengths = words.row_lengths().numpy() if has_tensorflow else [*map(len, words)]
    what, one, or_string = "weights", "one weight", ""
    if title == LABELS:
        what, one = "labels", f"one label, or {IGNORED_LABEL} to ignore it"
        or_string = ", or a string of their names separated by spaces"
    if len(rows) != len(lengths):
        raise ValueError(
            f"{title} has {len(rows)} rows, but x has {len(lengths)}. Pass a list of {what} for each sentence."
        )
    found = []
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        if isinstance(row, str | bytes):
            row = row.split()
        if not hasattr(row, "__len__"):
            raise TypeError(
                f"{title}[{i}] is {shown(row)}; it must be a list of {what}, one per word{or_string}."
            )
        if len(row) != length:
            raise ValueError(
                f"Row {i} has {length} words, but {len(row)} {what}. Give each word {one}. Its first words: "
                f"{_first_words(words[i])}."
            )
        found.append(numbers(row, f"{title}[{i}]"))
    if has_tensorflow:
        return words.with_values(np.concatenate(found))
    of_rows = np.empty(len(found), object)
    of_rows[:] = found
    return of_rows


def _first_words(words, number: int = 5) -> list[str]:
    some = words[:number]
    return [word.decode("utf-8", "replace") for word in some.numpy()] if has_tensorflow else some


@keras.saving.register_keras_serializable("bert_zoo")
class TokenClassifier(LabelledModel):
    """Gives each token or word of a text a label.

    Returns logits [batch, length, classes], one row per token.

    Besides texts, `fit`, `evaluate` and `predict` take sentences of words: a list of lists of strings or a
    ragged tensor [batch, (words)]. Labels are a list for each sentence with the number or name of each
    word's class. In raw texts, white space separates words; in tf.data, labels are ragged rows. For dicts
    of ids, there is a label for each token, -100 for tokens that are not trained. `sample_weight` has a number
    for each sentence, or a list for each with the weight of each word, as labels are given.

    The labels of texts may also be entities, spans of characters such as `[(0, 12, "PER")]` for each text,
    and x a list of texts with their entities, as spaCy, Prodigy, doccano and Label Studio have them; see
    `bert_zoo.data.entities`.

    If labels mark spans, such as "B-PER" and "I-PER", `fit` and `evaluate` also report the spans'
    `precision`, `recall` and `f1`; see `bert_zoo.training.SpanF1`.

    Args:
        encoder, num_classes, labels: as in `LabelledModel`.
    """

    task = "token_classification"
    verbs = ("tag",)
    peft_task = "TOKEN_CLS"
    taught_by = "cross_entropy"
    use = Use("token-classification", "assigns a tag to each word of a text", "model.tag({texts})")
    outputs_per_token = True
    reads_labels_of_words = True
    takes_features = True

    def add_head(self, config):
        self.classifier = self.tuned_head(self.num_classes, "classifier")

    def head_outputs(self, encoded, inputs, training=None):
        return self.classifier(self.prepared(encoded["sequence_output"]), training=training)

    def default_loss(self):
        return token_loss()

    def default_metrics(self):
        of_spans = [SpanF1(self.labels)] if marks_spans(self.labels) else []
        return [*super().default_metrics(), *of_spans]

    def prediction_rows(self, texts, second=None, *, batch_size=32, **others):
        if second is not None:
            super().prediction_rows(texts, second)
        for row in self.tag(texts, batch_size=batch_size):
            spans = [asdict(span) for span in row.spans or ()]
            yield {"words": [word.text for word in row.words], "tags": row.labels, "spans": spans}

    def printed_predictions(self, texts, second=None, **others):
        return self.tag(texts)

    def answers_as_teacher(self, texts, batch_size: int = 32):
        """As `ZooModel.answers_as_teacher`, one row per word: logarithms of `tag`'s probabilities."""
        rows = word_probabilities(self, texts, batch_size)
        return np.log(np.maximum(np.concatenate(rows), np.finfo(np.float32).tiny))

    def training_arguments(self, x, y=None, sample_weight=None, **options):
        x, y = with_words(self, x, y)
        return super().training_arguments(x, y, sample_weight, **options)

    def as_text_rows(self, x):
        return word_batch(x) if has_rows_of_words(x) else super().as_text_rows(x)

    def labels_in_memory(self, x, y):
        return super().labels_in_memory(*with_words(self, x, y))

    def as_text_labels(self, texts, y):
        """Label ids of words in memory, ragged int64 [batch, (words)]; without TensorFlow an array of arrays.

        Labels are names or ids, -100 to ignore a word: for each sentence a sequence, or a string of names separated by
        spaces; an array, a column or a ragged tensor. `texts` come from `as_text_rows`.
        """
        if isinstance(texts, tuple):
            raise ValueError(
                "Labels of words need single texts, but x is a pair of texts. Pass a list of sentences, each a list of "
                "words, or dicts of ids with a label for each token."
            )
        if column_names(y) is not None:
            y = labels_of_table(y, LABELS)
        y = y.numpy() if hasattr(y, "numpy") else as_list(y)
        of_sentence = replace(self.label_ranges(texts)[""], axes=("words",))
        return _rows_of_words(
            texts,
            y,
            lambda row, title: of_sentence.numbers(np.array([*row], object), title),
            LABELS,
        )

    def as_text_weights(self, texts, sample_weight):
        """As `as_text_labels`, for weights: one number per sentence, or a row with one per word."""
        if column_names(sample_weight) is not None:
            sample_weight = labels_of_table(sample_weight, NAME)
        rows = sample_weight.numpy() if hasattr(sample_weight, "numpy") else as_list(sample_weight)
        if all(np.size(row) == 1 for row in rows):
            return checked_sample_weight(sample_weight)
        return _rows_of_words(
            texts, rows, lambda row, title: np.float32(finite_numbers(row, title)), NAME
        )

    def weights_of_text_labels(self, texts, weights, preprocessor):
        """Gives the weights of words to the tokens that have their labels, 0 to others; traceable.

        Weights of sentences, [batch] or [batch, 1], are returned; those of words are [batch, (words)].
        """
        are_rows = isinstance(weights, np.ndarray) and weights.dtype == object
        if not are_rows and (len(weights.shape) == 1 or weights.shape[1] == 1):
            return checked_sample_weight(weights)
        if not are_rows:
            import tensorflow as tf

            weights = tf.cast(tf.ragged.map_flat_values(finite_numbers, weights, NAME), tf.float32)
        words = word_batch(texts)
        return token_labels(weights, pack_words(words, preprocessor), words, otherwise=0.0)

    def texts_to_inputs(self, texts, preprocessor):
        if has_rows_of_words(texts):
            return pack_words(texts, preprocessor).inputs
        return super().texts_to_inputs(texts, preprocessor)

    def labelled_texts_to_inputs(self, texts, labels, preprocessor):
        """A batch of words and labels as model inputs and labels of tokens; traceable."""
        from bert_zoo.text.batches import split_at_white_space

        words = word_batch(texts)
        packed = pack_words(words, preprocessor)
        if labels.dtype == "string":  # from tf.data
            import tensorflow as tf

            if labels.shape.rank == 1:
                labels = split_at_white_space(labels)
            names = self.label_ranges(texts)[""].names
            labels = tf.ragged.map_flat_values(class_indices, labels, names)
        labels = token_labels(labels, packed, words)
        return packed.inputs, checked_labels(self, packed.inputs, labels)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """As in Keras; metrics ignore the labels of padding."""
        if "padding_mask" in x and len(y.shape) == 2:  # a teacher's outputs have three axes
            y = ops.where(ops.equal(x["padding_mask"], 0), IGNORED_LABEL, y)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def portable_verb(self):
        return {"verb": "tag", "labels": list(self.labels)}

    def tag(
        self,
        texts,
        aggregate: bool = True,
        batch_size: int = 32,
        *,
        aggregation_strategy: str = FIRST_PIECE,
    ):
        """Finds the likeliest label of each word, and the spans that labels such as "B-LOC" mark.

        Texts that are too long for the model are read in parts, split between words.

        Args:
            texts: a text or several, split at white space and around punctuation (each mark is a word);
                or lists of words, as in the training data.
            aggregate: whether to read spans from labels of a tag scheme.
            batch_size: number of rows per step.
            aggregation_strategy: how a word of several pieces gets its label, by Hugging Face's names:
                "first" uses the first piece (the one that is trained), "average" the mean of all pieces'
                probabilities, "max" the piece with the highest probability.

        Returns:
            A list of `Tagging(text, words, spans)`. It prints texts with marked spans, "[Berlin]LOC 0.99", or
            tables of words if there are no spans.

        Raises:
            ValueError: the batch size or strategy is invalid.
        """
        check("batch_size", batch_size, int, least=1)
        check_strategy(aggregation_strategy)
        sentences = sentences_of(texts)
        words = [list(s.words) for s in sentences]
        probabilities = word_probabilities(self, words, batch_size, aggregation_strategy)
        return taggings(sentences, probabilities, self.labels, aggregate)
