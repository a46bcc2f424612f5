"""Language models of both directions, between the steps of `fit` and `evaluate`: how ELMo is pretrained."""

import math
from typing import Any

import keras
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.layers.replicas import over_replicas
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.metrics import PredictionQuality, total_and_count
from bert_zoo.tasks.streams import StatefulModel


class SampledSoftmax(keras.layers.Layer):
    """Log-probabilities of words; in training with a sum over words that are drawn, in place of all.

    Words are numbered by falling frequency. Word k is drawn with the probability
    log((k + 2) / (k + 1)) / log(size + 1), several times if it comes so, and counts as much less as it is drawn
    more often on average: the sum's expectation is that over all words.

    Args:
        size: number of words.
        num_samples: words that are drawn in each call; 0 trains the whole softmax.

    Source: Jean et al. 2015 (arXiv:1412.2007), section 3. allenai/bilm-tf bilm/training.py draws no word twice,
    and corrects the label as if it were drawn, too.
    """

    def __init__(self, size: int, *, num_samples: int, **kwargs):
        super().__init__(**kwargs)
        self.size, self.num_samples = size, num_samples
        self.seeds = keras.random.SeedGenerator()

    def build(self, input_shape):
        width = input_shape[-1]
        initializer = keras.initializers.RandomNormal(stddev=width**-0.5)
        self.kernel = self.add_weight(
            shape=(self.size, width), initializer=initializer, name="kernel"
        )
        self.bias = self.add_weight(shape=(self.size,), initializer="zeros", name="bias")
        self.built = True

    def call(self, x, labels, training=None):
        """[tokens, width] and int [tokens] to the labels' log-probabilities, float32 [tokens]."""
        if not (training and self.num_samples):
            logits = self._logits(x, self.kernel, self.bias)
            of_label = ops.take_along_axis(logits, labels[:, None], axis=1)
            return of_label[:, 0] - ops.logsumexp(logits, axis=1)
        of_label = ops.sum(x * ops.cast(ops.take(self.kernel, labels, axis=0), x.dtype), axis=-1)
        of_label = ops.cast(of_label, "float32") + ops.take(self.bias, labels)
        drawn = self._drawn()
        logits = self._logits(x, ops.take(self.kernel, drawn, axis=0), ops.take(self.bias, drawn))
        logits -= ops.log(self._expected(drawn))
        # A label does not compete with itself.
        logits = ops.where(ops.equal(labels[:, None], drawn[None]), -math.inf, logits)
        return of_label - ops.logsumexp(ops.concatenate([of_label[:, None], logits], 1), axis=1)

    def _logits(self, x, kernel, bias):
        return ops.cast(ops.matmul(x, ops.transpose(ops.cast(kernel, x.dtype))), "float32") + bias

    def _drawn(self):
        uniform = keras.random.uniform((self.num_samples,), seed=self.seeds)
        drawn = ops.cast(ops.exp(uniform * math.log(self.size + 1)), "int32") - 1
        return ops.clip(drawn, 0, self.size - 1)

    def _expected(self, words):
        """How often words are drawn on average."""
        k = ops.cast(words, "float32")
        return self.num_samples * ops.log((k + 2) / (k + 1)) / math.log(self.size + 1)


@keras.saving.register_keras_serializable("bert_zoo")
class BidirectionalLM(StatefulModel):
    """An encoder of two directions that know nothing of each other, and one softmax for both.

    Data are datasets of dicts as `bert_zoo.pretraining.bidirectional.BidirectionalBatches` makes them:
    `char_ids` int [batch, 2, words, characters], what each direction reads, in the order in which it reads;
    `labels` int [batch, 2, words], the words that come next, -100 where none does; and `starts_stream` int
    [batch]. Both report `perplexity` and `bits` over both directions, and the losses of each. Those of `fit` are
    beside the words that are drawn, and lower than those of `evaluate`.

    Args:
        encoder: what is trained.
        batch_size, evaluation_batch_size: as of `StatefulModel`.
        num_words: how many words the softmax has.
        num_samples: as of `SampledSoftmax`.
        words: the preprocessor by whose numbers of words texts are read, no part of the configuration.

    Source: Peters et al. 2018 (arXiv:1802.05365), section 3.1.
    """

    task = Encoder.task
    default_optimizer = "language_model_adam"
    held_as = "encoder"
    reads = ("char_ids", "labels")
    source = "bert_zoo.pretraining.bidirectional.BidirectionalBatches"
    untracked = ("words",)

    def __init__(
        self,
        encoder: Encoder | dict[str, Any],
        batch_size: int,
        evaluation_batch_size: int | None = None,
        *,
        num_words: int,
        num_samples: int = 0,
        words: Any = None,
        **kwargs,
    ):
        if isinstance(encoder, dict):
            encoder = keras.saving.deserialize_keras_object(encoder)
        super().__init__(encoder, batch_size, evaluation_batch_size, **kwargs)
        self.words = words
        self.softmax = SampledSoftmax(
            num_words, num_samples=num_samples, dtype=self.dtype_policy, name="softmax"
        )
        self.softmax.build((None, encoder.config.projection_size))
        self.quality = PredictionQuality()
        self.losses_of = [keras.metrics.Mean(f"{name}_loss") for name in ("forward", "backward")]
        self.built = True

    @property
    def preprocessor(self):
        return self.words

    def step(self, inputs, training):
        outputs, memory = self.encoder.backbone.directions(
            inputs["char_ids"], inputs["memory"], training=training
        )
        labels = inputs["labels"]
        found = self.softmax(
            ops.reshape(outputs, (-1, outputs.shape[-1])),
            ops.reshape(ops.maximum(labels, 0), (-1,)),
            training=training,
        )
        found = ops.reshape(found, ops.shape(labels))
        return ops.where(ops.equal(labels, IGNORED_LABEL), 0.0, found), {"memory": memory}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Mean negative log-probability of the labels of both directions, in nats."""
        total, count = total_and_count(y_pred, x["labels"])
        return -total / ops.maximum(over_replicas(count, "SUM"), 1.0)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.quality.update_state(*total_and_count(y_pred, x["labels"]))
        is_word = ops.not_equal(x["labels"], IGNORED_LABEL)
        for direction, metric in enumerate(self.losses_of):
            metric.update_state(-y_pred[:, direction], is_word[:, direction])
        return self.get_metrics_result()

    def get_config(self):
        softmax = {"num_words": self.softmax.size, "num_samples": self.softmax.num_samples}
        return {**super().get_config(), **softmax}
