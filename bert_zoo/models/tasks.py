"""Models for tasks: an encoder with a head."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import keras
from keras import ops

from bert_zoo.heads import MaskedLMHead, OutputHead, pool
from bert_zoo.models.base import ZooModel
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.inputs import check_range, check_rank
from bert_zoo.models.labels import LabelRange


class TaskModel(ZooModel):
    """An encoder and what stands on it.

    Args:
        encoder: an `Encoder`, or its configuration when Keras rebuilds a saved model.
    """

    def __init__(self, encoder: Encoder | dict[str, Any], **kwargs):
        kwargs.setdefault("name", self.task)
        if isinstance(encoder, dict):
            encoder = keras.saving.deserialize_keras_object(encoder)
        kwargs.setdefault("dtype", encoder.dtype_policy)
        super().__init__(**kwargs)
        self.encoder = encoder
        self.add_head(encoder.config)
        self.build(None)

    def add_head(self, config) -> None:
        """Makes the head's layers; called once, before `build`."""
        raise NotImplementedError

    @property
    def preprocessor(self):
        return self.encoder.preprocessor

    @preprocessor.setter
    def preprocessor(self, value) -> None:
        self.encoder.preprocessor = value

    def id_limits(self) -> dict[str, tuple[int, str]]:
        return self.encoder.id_limits()

    def encoder_inputs(self, inputs):
        """What of the model's inputs the encoder reads, in the shapes that it reads."""
        return inputs

    def head_outputs(self, encoded, inputs, training=None):
        """From the encoder's outputs to the task's.

        Args:
            encoded: the encoder's outputs for `encoder_inputs(inputs)`.
            inputs: the model's inputs.
        """
        raise NotImplementedError

    def call(self, inputs, training=None):
        encoded = self.encoder(self.encoder_inputs(inputs), training=training)
        return self.head_outputs(encoded, inputs, training)

    def output_head(self, units: int, name: str, dropout: float) -> OutputHead:
        config = self.encoder.config
        return OutputHead(
            units,
            dropout=dropout,
            initializer_range=config.initializer_range,
            dtype=self.dtype_policy,
            name=name,
        )

    def get_config(self):
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
        }


class LabelledModel(TaskModel):
    """A task with named classes.

    Args:
        encoder: as in `TaskModel`.
        num_classes: how many there are; `len(labels)` by default.
        labels: their names; `LABEL_0`, ... by default.
    """

    def __init__(
        self,
        encoder,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        **kwargs,
    ):
        self.labels = label_names(num_classes, labels)
        super().__init__(encoder, **kwargs)

    @property
    def num_classes(self) -> int:
        return len(self.labels)

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        what = "the number of labels"
        return {"": LabelRange(self.num_classes, what, per_token=self.outputs_per_token)}

    def get_config(self):
        return {**super().get_config(), "labels": list(self.labels)}


def label_names(num_classes: int | None, labels: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the classes, from either or both of their number and names.

    Raises:
        ValueError: neither is given, they disagree, or names repeat.
    """
    if num_classes is not None and (
        not isinstance(num_classes, Integral) or isinstance(num_classes, bool) or num_classes < 1
    ):
        raise ValueError(f"num_classes is {num_classes!r}; it must be a positive integer.")
    if isinstance(labels, str):
        raise ValueError(f"labels is the string {labels!r}; it must be a sequence of names.")
    if labels is None:
        if num_classes is None:
            raise ValueError("Say how many classes there are: num_classes=2, or labels=[...].")
        return tuple(f"LABEL_{i}" for i in range(num_classes))
    labels = tuple(labels)
    if any(not isinstance(label, str) for label in labels) or len(set(labels)) != len(labels):
        raise ValueError(f"labels must be different strings; got {labels}.")
    if not labels or num_classes not in (None, len(labels)):
        raise ValueError(
            f"num_classes is {num_classes} and there are {len(labels)} labels: {labels}."
        )
    return labels


@keras.saving.register_keras_serializable("bert_zoo")
class Classifier(LabelledModel):
    """Logits [batch, classes] over the pooled first token."""

    task = "classification"

    def add_head(self, config):
        self.classifier = self.output_head(self.num_classes, "classifier", config.head_dropout)

    def build(self, input_shape):
        self.classifier.build((None, self.encoder.config.hidden_size))
        self.built = True

    def head_outputs(self, encoded, inputs, training=None):
        return self.classifier(encoded["pooled_output"], training=training)

    def classify(self, texts, batch_size: int = 32):
        """The likeliest label of each text, with its probability.

        Args:
            texts: strings, or a pair of string batches.
            batch_size: texts a step.

        Returns:
            A list of `Classification(text, label, score, scores)` that prints as a table.
        """
        from bert_zoo.models.verbs import classify

        return classify(self, texts, batch_size)


@keras.saving.register_keras_serializable("bert_zoo")
class Regressor(TaskModel):
    """One number a text, [batch, 1], over the pooled first token."""

    task = "regression"

    def add_head(self, config):
        self.classifier = self.output_head(1, "classifier", config.head_dropout)

    build = Classifier.build
    head_outputs = Classifier.head_outputs


@keras.saving.register_keras_serializable("bert_zoo")
class TokenClassifier(LabelledModel):
    """Logits [batch, length, classes], one row a token."""

    task = "token_classification"
    outputs_per_token = True

    def add_head(self, config):
        self.classifier = self.output_head(self.num_classes, "classifier", config.head_dropout)

    def build(self, input_shape):
        self.classifier.build((None, None, self.encoder.config.hidden_size))
        self.built = True

    def head_outputs(self, encoded, inputs, training=None):
        return self.classifier(encoded["sequence_output"], training=training)


@keras.saving.register_keras_serializable("bert_zoo")
class QuestionAnswerer(TaskModel):
    """Where an answer starts and ends: a dict of logits [batch, length].

    Source: google-research/bert run_squad.py, create_model.
    """

    task = "question_answering"
    outputs_per_token = True
    truncation = "only_second"

    def add_head(self, config):
        # The original has no dropout before this layer.
        self.span = self.output_head(2, "span", dropout=0.0)

    def build(self, input_shape):
        self.span.build((None, None, self.encoder.config.hidden_size))
        self.built = True

    def head_outputs(self, encoded, inputs, training=None):
        logits = self.span(encoded["sequence_output"])
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        length = inputs["token_ids"].shape[1] if isinstance(inputs, Mapping) else None
        length = length or self.encoder.config.max_positions
        return dict.fromkeys(
            ("start_logits", "end_logits"), LabelRange(length, "the length of the input")
        )


@keras.saving.register_keras_serializable("bert_zoo")
class MultipleChoice(TaskModel):
    """Logits [batch, choices]; inputs are [batch, choices, length].

    As text: a pair of the prompts [batch] and the choices [batch, choices].
    Source: Hugging Face BertForMultipleChoice (Google's repository has no such program).
    """

    task = "multiple_choice"

    def add_head(self, config):
        self.classifier = self.output_head(1, "classifier", config.head_dropout)

    build = Classifier.build

    def encoder_inputs(self, inputs):
        token_ids = ops.convert_to_tensor(inputs["token_ids"])
        check_rank(token_ids, 3, "[batch, choices, length]")
        shape = ops.shape(token_ids)
        return {name: ops.reshape(value, (-1, shape[2])) for name, value in inputs.items()}

    def head_outputs(self, encoded, inputs, training=None):
        logits = self.classifier(encoded["pooled_output"], training=training)
        return ops.reshape(logits, (-1, ops.shape(inputs["token_ids"])[1]))

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        choices = inputs["token_ids"] if isinstance(inputs, Mapping) else inputs[1]
        number = choices.shape[1]
        return {} if number is None else {"": LabelRange(number, "the number of choices")}

    def as_text_rows(self, x):
        import tensorflow as tf

        from bert_zoo.text.batches import text_batch

        if not isinstance(x, tuple) or len(x) != 2:
            raise TypeError(
                "Multiple choice takes a pair (prompts, choices): [batch] strings, and for each the "
                "same number of choices, [batch, choices]."
            )
        choices = [text_batch(row, "choices") for row in x[1]]
        if len({len(row) for row in choices}) != 1:
            raise ValueError("Every prompt needs the same number of choices.")
        return text_batch(x[0], "prompts"), tf.stack(choices)

    def texts_to_inputs(self, texts, preprocessor):
        import tensorflow as tf

        prompts, choices = texts
        number = tf.shape(choices)[1]
        first = tf.repeat(prompts, number)
        flat = preprocessor((first, tf.reshape(choices, [-1])))
        return {name: tf.reshape(ids, [-1, number, tf.shape(ids)[1]]) for name, ids in flat.items()}


@keras.saving.register_keras_serializable("bert_zoo")
class MaskedLM(TaskModel):
    """Logits [batch, length, vocabulary]; at `mask_positions` [batch, predictions] only, if given."""

    task = "masked_lm"
    outputs_per_token = True

    def add_head(self, config):
        self.masked_lm = MaskedLMHead(
            config.vocab_size,
            config.table_width,
            activation=config.activation,
            epsilon=config.layer_norm_epsilon,
            tied=config.tie_word_embeddings,
            initializer_range=config.initializer_range,
            dtype=self.dtype_policy,
            name="masked_lm",
        )

    def build(self, input_shape):
        self.masked_lm.build((None, None, self.encoder.config.hidden_size))
        self.built = True

    def encoder_inputs(self, inputs):
        return {name: value for name, value in inputs.items() if name != "mask_positions"}

    def head_outputs(self, encoded, inputs, training=None):
        positions = inputs.get("mask_positions")
        if positions is not None:
            length = inputs["token_ids"].shape[1]
            if length is not None:
                check_range("mask_positions", positions, length, "the length of the input")
        table = self.encoder.embeddings.token_embedding.embeddings
        return self.masked_lm(encoded["sequence_output"], table, positions)

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        return {"": self.token_label_range}

    @property
    def token_label_range(self) -> LabelRange:
        size = self.encoder.config.vocab_size
        return LabelRange(size, "the size of the vocabulary", per_token=True)


@keras.saving.register_keras_serializable("bert_zoo")
class Pretraining(MaskedLM):
    """BERT's two objectives: a dict of `mlm_logits` (as `MaskedLM`) and `nsp_logits` [batch, 2]."""

    task = "pretraining"

    def add_head(self, config):
        super().add_head(config)
        # The original has no dropout before this layer.
        self.next_sentence = self.output_head(2, "next_sentence", dropout=0.0)

    def build(self, input_shape):
        super().build(input_shape)
        self.next_sentence.build((None, self.encoder.config.hidden_size))

    def head_outputs(self, encoded, inputs, training=None):
        return {
            "mlm_logits": super().head_outputs(encoded, inputs, training),
            "nsp_logits": self.next_sentence(encoded["pooled_output"]),
        }

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        order = LabelRange(2, "0 where the second text follows the first, 1 where it does not")
        return {"mlm_logits": self.token_label_range, "nsp_logits": order}


@keras.saving.register_keras_serializable("bert_zoo")
class SentenceEmbedder(TaskModel):
    """Sentence vectors [batch, hidden], pooled and normalised as the checkpoint's card says."""

    task = "embedding"

    def add_head(self, config):
        pass

    def build(self, input_shape):
        self.built = True

    def head_outputs(self, encoded, inputs, training=None):
        mask = inputs.get("padding_mask")
        return pool(encoded["sequence_output"], mask, self.encoder.pooling)

    def embed(self, texts, batch_size: int = 32):
        """As `Encoder.embed`."""
        return self.encoder.embed(texts, batch_size)


TASKS: dict[str, type[ZooModel]] = {
    model.task: model
    for model in (
        Encoder,
        Classifier,
        Regressor,
        TokenClassifier,
        QuestionAnswerer,
        MultipleChoice,
        MaskedLM,
        Pretraining,
        SentenceEmbedder,
    )
}
