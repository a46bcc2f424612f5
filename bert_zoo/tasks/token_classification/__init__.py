"""Token classification: one label per word."""

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.models.losses import token_loss
from bert_zoo.models.metrics import SpanF1
from bert_zoo.models.task_model import LabelledModel, Use
from bert_zoo.runtime.taggings import FIRST_PIECE, marks_spans
from bert_zoo.tasks.token_classification import tagging


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

    def answers_as_teacher(self, texts, batch_size: int = 32):
        """As `ZooModel.answers_as_teacher`, one row per word: logarithms of `tag`'s probabilities."""
        rows = tagging.word_probabilities(self, texts, batch_size)
        return np.log(np.maximum(np.concatenate(rows), np.finfo(np.float32).tiny))

    def training_arguments(self, x, y=None, sample_weight=None, **options):
        x, y = tagging.with_words(self, x, y)
        return super().training_arguments(x, y, sample_weight, **options)

    def as_text_rows(self, x):
        from bert_zoo.text.words import has_rows_of_words, word_batch

        return word_batch(x) if has_rows_of_words(x) else super().as_text_rows(x)

    def labels_in_memory(self, x, y):
        return super().labels_in_memory(*tagging.with_words(self, x, y))

    def as_text_labels(self, texts, y):
        return tagging.label_rows(self, texts, y)

    def as_text_weights(self, texts, sample_weight):
        return tagging.weight_rows(texts, sample_weight)

    def weights_of_text_labels(self, texts, weights, preprocessor):
        return tagging.weights_of_tokens(texts, weights, preprocessor)

    def texts_to_inputs(self, texts, preprocessor):
        from bert_zoo.text.words import has_rows_of_words, pack_words

        if has_rows_of_words(texts):
            return pack_words(texts, preprocessor).inputs
        return super().texts_to_inputs(texts, preprocessor)

    def labelled_texts_to_inputs(self, texts, labels, preprocessor):
        return tagging.labelled_words_to_inputs(self, texts, labels, preprocessor)

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
        return tagging.tag(self, texts, aggregate, batch_size, aggregation_strategy)
