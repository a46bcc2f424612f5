"""Sentence embedding: a vector for a text."""

import keras

from bert_zoo.models.base import Interface
from bert_zoo.models.data_adapters import with_prompt
from bert_zoo.models.task_model import TaskModel


@keras.saving.register_keras_serializable("bert_zoo")
class SentenceEmbedder(TaskModel):
    """Sentence vectors [batch, hidden], pooled and normalised as the checkpoint's card says."""

    task = "embedding"
    peft_task = "FEATURE_EXTRACTION"
    pools_windows = True
    default_optimizer = None
    if_untrained = (
        "was not trained to make sentence vectors: texts of like meaning may have unlike vectors"
    )
    interface = Interface(("embedding",))

    @property
    def reads_first_only(self) -> bool:
        return self.encoder.pooling.reads_first_only

    def head_outputs(self, encoded, inputs, training=None):
        return self.encoder.sentence_vectors(encoded["sequence_output"], inputs)

    def window_outputs(self, inputs, training=None):
        return self.encoder.window_outputs(inputs, training)

    def from_pooled(self, outputs):
        return self.encoder.from_pooled(outputs)

    def prompted(self, texts):
        return with_prompt(self.encoder.prompts.text(), texts)

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
        """As `Encoder.embed`."""
        return self.encoder.embed(texts, batch_size, prompt, truncate_dim)
