"""Models that read one text and write another."""

from typing import Any

import keras

from bert_zoo.layers.backbones import PADDING
from bert_zoo.models.base import Interface
from bert_zoo.models.inputs import as_ids, check_range, check_rank
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import token_loss
from bert_zoo.models.task_model import TaskModel

# What the decoder reads.
TOKENS, MASK, DOCUMENTS = "decoder_token_ids", "decoder_padding_mask", "decoder_document_ids"
PREFIX = "decoder_"


@keras.saving.register_keras_serializable("bert_zoo")
class TextToText(TaskModel):
    """Logits of the tokens that follow each token of a target, given a source.

    Called with a dict of what the encoder reads of the source and of `decoder_token_ids` int [batch, target
    length]: the target's tokens shifted to the right, after the id of padding, with which every target
    begins; perhaps with `decoder_padding_mask` (1 = real token; default all real) and, of rows of several
    sources and targets, with `decoder_document_ids` beside `document_ids`. Returns float32 logits [batch,
    target length, vocabulary].

    `fit` and `evaluate` take such dicts with the targets' tokens as labels, int [batch, target length], and
    -100 where none is to be learned.

    Attributes:
        decoder: the layer that reads the target, with an interface for generation; see the family's.
    """

    task = "text_to_text"
    peft_task = "SEQ_2_SEQ_LM"
    outputs_per_token = True
    predicts_tokens = True
    interface = Interface(texts=(), pairs=False, labels=(TOKENS, MASK))

    def add_head(self, config):
        self.decoder = self.stored_head.decoder(config, name="decoder", dtype=self.dtype_policy)

    @property
    def stacks(self):
        return (*super().stacks, self.decoder)

    def id_limits(self) -> dict[str, tuple[int, str]]:
        limits = super().id_limits()
        ids, documents = limits["token_ids"], limits["document_ids"]
        return {**limits, TOKENS: ids, MASK: (2, PADDING), DOCUMENTS: documents}

    def encoder_inputs(self, inputs):
        return {name: value for name, value in inputs.items() if not name.startswith(PREFIX)}

    def head_outputs(self, encoded, inputs, training=None):
        target = self._target(inputs)
        backbone = self.encoder.backbone
        return self.decoder(
            backbone.embeddings(target[TOKENS], training=training),
            encoded["sequence_output"],
            backbone.token_table,
            padding_mask=target.get(MASK),
            source_mask=inputs.get("padding_mask"),
            document_ids=target.get(DOCUMENTS),
            source_document_ids=inputs.get("document_ids"),
            training=training,
        )

    def _target(self, inputs) -> dict[str, Any]:
        """The decoder's inputs as int32 tensors, checked."""
        if TOKENS not in inputs:
            raise ValueError(
                f"{TOKENS} is missing: the target's tokens shifted to the right, after the id of padding. The "
                "encoder alone is model.encoder."
            )
        if ("document_ids" in inputs) != (DOCUMENTS in inputs):
            raise ValueError(
                f"document_ids and {DOCUMENTS} go together: pass both for rows of several sources and targets, "
                "or neither."
            )
        limits = self.id_limits()
        target = {n: as_ids(n, value) for n, value in inputs.items() if n.startswith(PREFIX)}
        if unknown := sorted(set(target) - {TOKENS, MASK, DOCUMENTS}):
            raise ValueError(
                f"The decoder takes {[TOKENS, MASK, DOCUMENTS]}; unknown here: {unknown}."
            )
        check_rank(target[TOKENS], 2, "[batch, target length]")
        for name, value in target.items():
            if tuple(value.shape) != tuple(target[TOKENS].shape):
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)} and {TOKENS} {tuple(target[TOKENS].shape)}; "
                    "they must be the same."
                )
            check_range(name, value, *limits[name])
        return target

    def label_ranges(self, inputs):
        limit, what = self.id_limits()["token_ids"]
        return {"": LabelRange(limit, what, ("batch", "target length"))}

    def default_loss(self):
        return token_loss()

    def default_metrics(self):
        return ["accuracy"]
