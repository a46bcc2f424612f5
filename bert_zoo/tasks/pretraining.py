"""Pretraining: all objectives of a family at once."""

import keras

from bert_zoo.models.inputs import as_ids, check_range
from bert_zoo.models.interface import Interface
from bert_zoo.tasks.masked_lm import FillsMasks
from bert_zoo.tasks.objectives import OBJECTIVES


@keras.saving.register_keras_serializable("bert_zoo")
class Pretraining(FillsMasks):
    """The family's objectives: a dict of their logits.

    `mlm_logits` are those of `MaskedLM`; BERT also gives `nsp_logits` [batch, 2], ALBERT `sop_logits`
    [batch, 2], SpanBERT `sbo_logits` [batch, spans, targets, vocabulary] where `span_boundaries`
    [batch, spans, 2] are given.

    Where the configuration has a `generator`, another configuration, the encoder is a discriminator:
    `discriminator_logits` [batch, length] say whether the tokens that it reads, `replaced_token_ids`
    (default: `token_ids`), were put there by a generator; the generator reads `token_ids` and gives
    `mlm_logits`. Both read the same tables of embeddings.
    """

    task = "pretraining"
    interface = Interface(tuple(objective.output for objective in OBJECTIVES.values()))

    @property
    def objectives(self):
        return {name: OBJECTIVES[name] for name in self.family.objectives}

    def add_head(self, config):
        generator_config = getattr(config, "generator", None)
        if generator_config is not None:
            self.generator = self.family.backbone(generator_config, self.dtype_policy)
            self.generator.name = "generator"
            self.generator.embeddings.share_tables(self.encoder.embeddings)
            self.generator.build((None, None))
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
