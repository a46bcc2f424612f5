"""Bidirectional language models with a memory across steps, for pretraining ELMo."""

import math
from typing import Any

import keras
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.layers.common import over_replicas
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.metrics import PredictionQuality, total_and_count
from bert_zoo.tasks.streams import StatefulModel


class SampledSoftmax(keras.layers.Layer):
    """A softmax over `size` words that is trained on `num_samples` sampled words; 0 trains it on all.

    Words are numbered by falling frequency. Word k is drawn with probability
    log((k + 2) / (k + 1)) / log(size + 1), with replacement, and is weighted by the inverse of its expected
    count, so that the expectation of the sum is the sum over all words.

    Source: Jean et al. 2015 (arXiv:1412.2007), section 3. Unlike here, allenai/bilm-tf bilm/training.py draws
    without replacement, and also corrects the label as if it were drawn.
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
        """The labels' log-probabilities, float32 [tokens], for x [tokens, width] and labels int [tokens]."""
        if not (training and self.num_samples):
            logits = self._logits(x, self.kernel, self.bias)
            of_label = ops.take_along_axis(logits, labels[:, None], axis=1)
            return of_label[:, 0] - ops.logsumexp(logits, axis=1)
        of_label = ops.sum(x * ops.cast(ops.take(self.kernel, labels, axis=0), x.dtype), axis=-1)
        of_label = ops.cast(of_label, "float32") + ops.take(self.bias, labels)
        drawn = self._drawn()
        logits = self._logits(x, ops.take(self.kernel, drawn, axis=0), ops.take(self.bias, drawn))
        logits -= ops.log(self._expected(drawn))
        # A label must not compete with itself.
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
    """An encoder with two independent directions, and one softmax for both.

    Data are datasets of dicts from `bert_zoo.pretraining.causal.BidirectionalBatches`: `char_ids`, int
    [batch, 2, words, characters], the words in each direction's reading order; `labels`, int [batch, 2, words],
    the next words, -100 for none; and `starts_stream`, int [batch]. `fit` and `evaluate` report `perplexity` and
    `bits` over both directions, and the loss of each. In `fit` they are computed with sampled words only, so
    they are lower than in `evaluate`. `words`, the preprocessor that numbers them, is not part of the configuration.

    Source: Peters et al. 2018 (arXiv:1802.05365), section 3.1.
    """

    task = Encoder.task
    default_optimizer = "language_model_adam"
    held_as = "encoder"
    reads = ("char_ids", "labels")
    source = "bert_zoo.pretraining.causal.BidirectionalBatches"
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
        """The mean negative log-probability of both directions' labels, in nats."""
        total, count = total_and_count(y_pred, x["labels"], sample_weight)
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
