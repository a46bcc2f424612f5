"""Pretraining models with all objectives of a family."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from bert_zoo.layers.common import ReplicaSeeds
from bert_zoo.models.base import Interface
from bert_zoo.models.inputs import as_ids, check_range
from bert_zoo.tasks.masked_lm import FillsMasks
from bert_zoo.tasks.objectives.objective import ObjectiveModel
from bert_zoo.tasks.objectives.replaced_tokens import replaced_labels, sampled_tokens, with_tokens
from bert_zoo.tasks.objectives.table import PREDICTIONS
from bert_zoo.tasks.streams import StatefulModel

MASKED_TOKENS, REPLACED_TOKENS = PREDICTIONS["masked_lm"], PREDICTIONS["replaced_token"]
# Samples come from the same noise each time, so that held-out losses can be compared.
EVALUATION_SEED = 0


@keras.saving.register_keras_serializable("bert_zoo")
class Pretraining(FillsMasks):
    """Trains all pretraining objectives of a family at once.

    Returns a dict of their logits:

    * `mlm_logits`, as `MaskedLM` returns them;
    * BERT: `nsp_logits` [batch, 2]; ALBERT: `sop_logits` [batch, 2];
    * SpanBERT: `sbo_logits` [batch, spans, targets, vocabulary], if `span_boundaries` [batch, spans, 2]
      are given; with `span_tokens` [batch, predictions], only the logits of these tokens (see
      `SpanBoundaryHead`);
    * with a generator: `discriminator_logits` [batch, length].

    If the configuration has a `generator` (a configuration, too), the encoder is a discriminator. The
    generator reads `token_ids` and returns `mlm_logits`. The discriminator reads `replaced_token_ids`
    (default: `token_ids`) and predicts which tokens come from the generator. Both share all embedding tables
    (ELECTRA), or the discriminator adds a learned difference to the generator's token table (DeBERTa 3,
    `TokenTable`).

    In `fit` and `evaluate` with `mask_positions` (0 for none) but without `replaced_token_ids`, the model
    samples them from `mlm_logits` and returns them, too. `mlm_logits` are then the only outputs with labels.
    `evaluate` always samples with the same noise.

    Source: Clark et al. 2020 (arXiv:2003.10555), section 2; google-research/electra run_pretraining.py;
    He et al. 2021 (arXiv:2111.09543), section 3.
    """

    task = "pretraining"
    verbs = ("fill_mask", "score")
    is_evaluated = False
    interface = Interface(tuple(objective.output for objective in PREDICTIONS.values()))

    @property
    def objectives(self):
        return {name: PREDICTIONS[name] for name in self.family.objectives}

    def add_head(self, config):
        generator_config = getattr(config, "generator", None)
        if generator_config is not None:
            self.generator = self.family.backbone(generator_config, self.dtype_policy)
            self.generator.name = "generator"
            self.generator.embeddings.share_tables(self.encoder.embeddings)
            self.generator.build((None, None))
            self.samples = ReplicaSeeds()
        super().add_head(config)

    @property
    def second_ids(self) -> tuple[str, ...]:
        return () if self.generator is None else ("replaced_token_ids",)

    def encoder_inputs(self, inputs):
        read = dict(super().encoder_inputs(inputs))
        for name in self.second_ids:
            if name in read:
                read["token_ids"] = ids = as_ids(name, read.pop(name))
                check_range(name, ids, *self.id_limits()[name])
        return read

    def id_limits(self) -> dict[str, tuple[int, str]]:
        limits = super().id_limits()
        return limits | dict.fromkeys(self.second_ids, limits["token_ids"])

    def samples_within(self, inputs) -> bool:
        """Whether the discriminator reads the generator's samples in training."""
        return (
            self.generator is not None
            and isinstance(inputs, Mapping)
            and "mask_positions" in inputs
            and "replaced_token_ids" not in inputs
        )

    def label_ranges(self, inputs):
        ranges = super().label_ranges(inputs)
        if self.samples_within(inputs):
            del ranges[REPLACED_TOKENS.output]
        return ranges

    def outputs_of_rows(self, inputs, training=None):
        if not self.samples_within(inputs) or not (training or self.is_evaluated):
            return super().outputs_of_rows(inputs, training)
        mlm_logits = MASKED_TOKENS.logits(self.masked_lm, self, {}, inputs)
        sampled = sampled_tokens(mlm_logits, self.samples if training else EVALUATION_SEED)
        token_ids = with_tokens(inputs["token_ids"], inputs["mask_positions"], sampled)
        inputs = {**inputs, "replaced_token_ids": token_ids}
        encoded = self.encoder.unmasked(self.encoder_inputs(inputs), training=training)
        logits = REPLACED_TOKENS.logits(self.replaced_token, self, encoded, inputs)
        return {
            REPLACED_TOKENS.output: logits,
            MASKED_TOKENS.output: mlm_logits,
            "replaced_token_ids": token_ids,
        }

    def test_step(self, *args):
        # `call` cannot tell evaluation from prediction, which samples nothing.
        self.is_evaluated = True
        try:
            return super().test_step(*args)
        finally:
            self.is_evaluated = False

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if isinstance(sample_weight, Mapping) and self.samples_within(x):
            given = sample_weight[MASKED_TOKENS.output]
            of_rows = ops.max(ops.reshape(given, (ops.shape(given)[0], -1)), axis=1)
            sample_weight = {**sample_weight, REPLACED_TOKENS.output: of_rows}
        y, y_pred = self._with_sampled_labels(x, y, y_pred)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        y, y_pred = self._with_sampled_labels(x, y, y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _with_sampled_labels(self, x, y, y_pred) -> tuple[Any, dict[str, Any]]:
        """Labels and outputs, with labels for the sampled tokens."""
        if not self.samples_within(x):
            return y, y_pred
        # While Keras only infers shapes, nothing is sampled.
        read = y_pred.get("replaced_token_ids", x["token_ids"])
        original = with_tokens(x["token_ids"], x["mask_positions"], y[MASKED_TOKENS.output])
        labels = replaced_labels(read, original, x.get("padding_mask"))
        return (
            {**y, REPLACED_TOKENS.output: labels},
            {name: value for name, value in y_pred.items() if name != "replaced_token_ids"},
        )


@keras.saving.register_keras_serializable("bert_zoo")
class StatefulObjectives(StatefulModel):
    """Prediction of masked tokens with a memory of the text before each row, as in XLNet.

    Data are (inputs, labels) of rows that continue from batch to batch (`Scheme.in_order`), with
    `starts_stream`. `model`, a `MaskedLM` or `Pretraining` model whose encoder has a memory, holds all trained weights.

    Source: zihangdai/xlnet function_builder.py, two_stream_loss.
    """

    task = Pretraining.task
    default_optimizer = Pretraining.default_optimizer
    held_as = "model"
    reads = ("token_ids",)
    source = "bert_zoo.pretraining.batches.PretrainingBatches, with rows in order,"

    def __init__(self, model: ObjectiveModel | dict[str, Any], batch_size: int, *sizes, **kwargs):
        if isinstance(model, dict):
            model = keras.saving.deserialize_keras_object(model)
        if not model.encoder.state:
            raise ValueError(
                f"The encoder has no memory: its mem_len is {getattr(model.encoder.config, 'mem_len', 0)}. "
                "Load a model of a family that has one, with mem_len=384."
            )
        super().__init__(model, batch_size, *sizes, **kwargs)
        self.built = True

    def step(self, inputs, training):
        encoded = self.model.encoder.unmasked(self.model.encoder_inputs(inputs), training=training)
        return self.model.head_outputs(encoded, inputs, training), encoded

    @property
    def positions_read(self):
        return self.model.positions_read

    def label_ranges(self, inputs):
        return self.model.label_ranges(inputs)

    def default_loss(self):
        return self.model.default_loss()

    @property
    def default_loss_weights(self):
        return self.model.default_loss_weights
