"""Sentence embedding: a vector for a text."""

import keras

from bert_zoo.layers.heads import pool
from bert_zoo.models.interface import Interface
from bert_zoo.models.task_model import TaskModel


@keras.saving.register_keras_serializable("bert_zoo")
class SentenceEmbedder(TaskModel):
    """Sentence vectors [batch, hidden], pooled and normalised as the checkpoint's card says."""

    task = "embedding"
    peft_task = "FEATURE_EXTRACTION"
    pools_windows = True
    default_optimizer = None
    interface = Interface(("embedding",))

    @property
    def reads_first_only(self) -> bool:
        return self.encoder.pooling.reads_first_only

    def head_outputs(self, encoded, inputs, training=None):
        mask = inputs.get("padding_mask")
        return pool(encoded["sequence_output"], mask, self.encoder.pooling)

    def window_outputs(self, inputs, training=None):
        return self.encoder.window_outputs(inputs, training)

    def from_pooled(self, outputs):
        return self.encoder.from_pooled(outputs)

    def portable_verb(self):
        return {"verb": "embed"}

    def embed(self, texts, batch_size: int = 32):
        """As `Encoder.embed`."""
        return self.encoder.embed(texts, batch_size)
