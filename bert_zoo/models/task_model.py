"""What models for tasks share: an encoder with a head."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import keras
from keras import ops

from bert_zoo import private
from bert_zoo.config import HeadSpec, Pooling
from bert_zoo.family import Family
from bert_zoo.layers.backbones import FIRST_IS_GLOBAL
from bert_zoo.layers.common import FIRST
from bert_zoo.layers.heads import Features, OutputHead, pool
from bert_zoo.layers.heads.pooling import CONCATENATED_POOLING
from bert_zoo.models.base import ZooModel
from bert_zoo.models.cores import in_shares
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.head_arguments import Asked, Told
from bert_zoo.models.inputs import real_tokens, tokens_of
from bert_zoo.models.labels import (
    NUMBER_OF_LABELS,
    LabelRange,
    label_names,
    one_class_error,
)
from bert_zoo.models.long_texts import are_rows, over_windows
from bert_zoo.registry import registry
from bert_zoo.weights.table import (
    CONCATENATED,
    FEATURES,
    FIRST_TOKEN,
    LAST_REAL_TOKEN,
    LAST_TOKEN,
    MEAN,
    VECTOR,
    Head,
)

log = logging.getLogger("bert_zoo")

Model = TypeVar("Model", bound="TaskModel")

# As in transformers, whose config.json leaves two labels unsaid.
DEFAULT_NUM_CLASSES = 2


@dataclass(frozen=True)
class Use:
    """What model cards say about the models of a task.

    Attributes:
        pipeline: Hugging Face's name of the task.
        purpose: what a model does, as the end of a sentence that begins "This model".
        call: code that uses a loaded `model`, with the placeholder `texts`.
        long_texts: what happens to long texts, with the placeholder `length`, in tokens.
        limits: further sentences for "Limits".
    """

    pipeline: str
    purpose: str
    call: str
    long_texts: str = (
        "It was trained on texts cut to {length} tokens; the rest of longer texts was not read."
    )
    limits: tuple[str, ...] = ()


class TaskModel(ZooModel):
    """An encoder and what stands on it.

    Args:
        encoder: an `Encoder`, or its configuration when Keras rebuilds a saved model.
        head: what stands on it in place of its family's head; of tasks that take one. Features freeze the
            encoder, whose dropout then stays off too.

    Attributes:
        takes_features: whether `head` may be given.
        reads_first_only: whether the head reads nothing of the encoder's but the first token, which
            saves most of the last layer.
        predicts_tokens: whether the head projects onto the vocabulary.
        global_tokens: which tokens see the whole row, where a family has such tokens; see
            `bert_zoo.layers.Backbone`.
        problem_type: what Hugging Face's config.json calls the task, where it does.
        use: what its models are for; None where users do not train them. The head must come from the checkpoint
            then, and where it predicts tokens.
    """

    reads_first_only = False
    predicts_tokens = False
    global_tokens: str | None = None
    problem_type: str | None = None
    use: Use | None = None
    default_optimizer = "bert_adamw"
    prediction_head: keras.layers.Layer | None = None
    takes_features = False
    features: Features | None = None

    def __init__(
        self,
        encoder: Encoder | dict[str, Any],
        *,
        head: HeadSpec | dict[str, Any] | None = None,
        **kwargs,
    ):
        if isinstance(encoder, dict):
            encoder = keras.saving.deserialize_keras_object(encoder)
        kwargs.setdefault("dtype", encoder.dtype_policy)
        self.head = HeadSpec(**head) if isinstance(head, dict) else head
        super().__init__(**kwargs)
        self.encoder = encoder
        if self.head is not None:
            self._add_features(self.head)
        self.add_head(encoder.config)
        with private.declaring():
            self.build(None)
            encoder.config.check_memory(self.count_params())

    def _add_features(self, head: HeadSpec) -> None:
        sizes = [self.encoder.config.hidden_size]
        if head.features is not None:
            self.encoder.trainable = False
            self.default_optimizer = "feature_adam"
            sizes = self.encoder.backbone.hidden_sizes
        self.features = Features(
            head,
            sizes,
            pools=not self.outputs_per_token,
            name="features",
            **self.layer_options,
        )

    def add_head(self, config) -> None:
        """Makes the head's layers, if it has any; called once, before `build`."""

    def build(self, input_shape):
        axes = (None, None) if self.outputs_per_token else (None,)
        for layer in private.children(self):
            if not layer.built:
                layer.build((*axes, self.width_read))
        self.built = True

    @property
    def width_read(self) -> int:
        """The width of what the head reads."""
        return self.encoder.config.hidden_size if self.features is None else self.features.width

    def inner(self) -> Encoder:
        return self.encoder

    def encoder_inputs(self, inputs):
        """What of the model's inputs the encoder reads, in the shapes that it reads."""
        return {name: value for name, value in inputs.items() if name not in self.positions_read}

    def head_outputs(self, encoded, inputs, training=None):
        """The task's outputs, from the model's inputs and what the encoder makes of its own."""
        raise NotImplementedError

    @property
    def reads_windows(self) -> bool:
        """Whether long texts are read in windows whose outputs are pooled."""
        return self.pools_windows and self.encoder.long_texts.in_windows

    @property
    def text_reader(self):
        return self.encoder.window_reader if self.reads_windows else self.preprocessor

    def call(self, inputs, training=None):
        def outputs(inputs):
            if not self.reads_windows or are_rows(inputs):
                return self.outputs_of_rows(inputs, training)
            return over_windows(self, inputs, training)

        # Losses that layers add are means over the whole batch.
        adds_losses = training and self.encoder.backbone.adds_losses
        return outputs(inputs) if adds_losses else in_shares(outputs, inputs)

    def outputs_of_rows(self, inputs, training=None):
        """As `call`, of inputs that are rows of their own and no windows."""
        read = self.encoder_inputs(inputs)
        encoded = self.encoder(
            read,
            positions=self.positions_of(read),
            internals=self.features is not None,
            global_tokens=self.global_tokens,
            training=training and not self.fixes_encoder,
        )
        return self.head_outputs(self.read_by_head(encoded, read, training), inputs, training)

    @property
    def fixes_encoder(self) -> bool:
        return self.head is not None and self.head.features is not None

    def read_by_head(self, encoded, read, training=None) -> dict[str, Any]:
        """What `head_outputs` takes, of an encoder's outputs, with hidden states where `features` read them."""
        if self.features is None:
            return encoded
        states = encoded["hidden_states"]
        states = [*map(ops.stop_gradient, states)] if self.fixes_encoder else states[-1:]
        found = self.features(states, real_tokens(read), training=training)
        return encoded | {"sequence_output" if self.outputs_per_token else "pooled_output": found}

    def positions_of(self, read):
        """Where the head reads the encoder's outputs, as `Encoder` takes them; None for everywhere."""
        return FIRST if self.reads_first_only else None

    def window_outputs(self, inputs, training=None):
        """What is pooled of the windows of long texts: ids [rows, length] to [rows, size]."""
        return self.outputs_of_rows(inputs, training)

    def from_pooled(self, outputs):
        """What the model gives for texts, from the pooled outputs of their windows."""
        return outputs

    @property
    def family(self) -> Family:
        family = registry().families[self.encoder.family]
        if self.head is None:
            return family
        return family.with_own_head(self.task, self.head, not self.outputs_per_token)

    def output_head(self, units: int, name: str, **options) -> OutputHead:
        return OutputHead(units, name=name, **self.layer_options, **options)

    @property
    def layer_options(self) -> dict[str, Any]:
        """What the layers of heads are all made with."""
        initializer_range = self.encoder.config.initializer_range
        return {"initializer_range": initializer_range, "dtype": self.dtype_policy}

    @property
    def stored_head(self) -> Head:
        """What the family's page says of the task's head."""
        return self.family.heads[self.task]

    def tuned_head(self, units: int, name: str) -> OutputHead:
        """A head that is fine-tuned, as the family's page describes it."""
        self.add_prediction_head()
        return self.output_head(units, name, **self.stored_head.output(self.encoder.config))

    def add_prediction_head(self) -> None:
        """Makes the layer below the head, where the family's page has one."""
        make = self.stored_head.prepare
        if make is not None:
            self.prediction_head = make(
                self.encoder.config, name="prediction_head", **self.layer_options
            )

    def prepared(self, x):
        """What the head reads, from the encoder's outputs [..., hidden]."""
        return x if self.prediction_head is None else self.prediction_head(x)

    def get_config(self):
        encoder = keras.saving.serialize_keras_object(self.encoder)
        head = {} if self.head is None else {"head": asdict(self.head)}
        return {**super().get_config(), "encoder": encoder, **head}


class LabelledModel(TaskModel):
    """A task with named classes.

    Args:
        encoder: as in `TaskModel`.
        num_classes: how many there are; `len(labels)` by default.
        labels: their names, see `bert_zoo.models.labels.label_names`.

    Attributes:
        fixed_labels: of a subclass whose classes are always the same, their names; it takes no others.
        takes_one_class: whether a single class means anything.
    """

    takes_one_class = False
    fixed_labels: tuple[str, ...] | None = None
    output_activation = "softmax"

    def __init__(
        self,
        encoder,
        num_classes: int | None = None,
        labels: Sequence[str] | Mapping | None = None,
        **kwargs,
    ):
        if self.fixed_labels is not None:
            if labels is not None and tuple(labels) != self.fixed_labels:
                raise ValueError(
                    f"labels is {labels!r}; those of task {self.task!r} are {self.fixed_labels}."
                )
            labels = self.fixed_labels
        self.labels = label_names(num_classes, labels)
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, asked: Asked, told: Told) -> dict[str, Any]:
        """`num_classes` and `labels`: the user's, else the checkpoint's."""
        if cls.fixed_labels is not None:
            return super().head_arguments(asked, told)
        asked.refuse_thresholds(cls.task)
        num_classes, labels = asked.num_classes, asked.labels
        if 1 in asked.sizes and not cls.takes_one_class:
            raise one_class_error(f"num_classes is {num_classes}, labels is {labels}")
        if not told.is_trained:
            if not asked.sizes:
                labels = told.labels or None
                num_classes = None if labels else DEFAULT_NUM_CLASSES
            return {"num_classes": num_classes, "labels": labels}
        # Without logits, `load` says later what the file lacks.
        stored = told.num_logits or num_classes or DEFAULT_NUM_CLASSES
        if not {len(labels) if labels is not None else num_classes} <= {None, stored}:
            raise ValueError(
                f"{told.name} has a trained head of {stored} classes and "
                f"{num_classes if labels is None else len(labels)} were asked for. Leave num_classes and "
                "labels out to use it, or have a new one with init=('classifier',)."
            )
        if len(told.labels) == stored:
            if labels is not None and labels != told.labels and set(labels) == set(told.labels):
                log.warning(
                    "The trained head of %s says that its classes are %s, in this order; they are called "
                    "%s now. Leave labels out to keep its names.",
                    told.name,
                    told.labels,
                    labels,
                )
            labels = labels or told.labels
        return {"num_classes": stored, "labels": labels}

    @property
    def labels_to_save(self) -> tuple[str, ...] | None:
        return self.labels if self.fixed_labels is None else None

    @property
    def num_classes(self) -> int:
        return len(self.labels)

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        axes = ("batch", "length") if self.outputs_per_token else ("batch",)
        return {"": LabelRange(self.num_classes, NUMBER_OF_LABELS, axes, self.labels)}

    def default_metrics(self):
        return ["accuracy"]

    def served_answers(self, outputs):
        import tensorflow as tf

        logits = outputs["logits"]
        label = tf.gather(tf.constant(self.labels), tf.argmax(logits, axis=-1))
        return {"probabilities": tf.nn.softmax(logits), "label": label}

    def get_config(self):
        return {**super().get_config(), "labels": list(self.labels)}


def last_positions(inputs):
    """Where each row's last token stands, int32 [batch, 1]."""
    mask = real_tokens(inputs)
    mask = ops.ones_like(tokens_of(inputs)) if mask is None else mask
    mask = ops.cast(mask, "int32")
    return ops.max(mask * ops.arange(ops.shape(mask)[1], dtype="int32"), axis=1, keepdims=True)


class SentenceModel(TaskModel):
    """Logits over a whole text, read from its first token; of some families its last, or the mean.

    Args:
        encoder, *args, **kwargs: as in `TaskModel` and, of classes, `LabelledModel`.
        reads_vectors: whether they are read from the text's vector instead, as `embed` makes it of a text
            without a prompt.
    """

    pools_windows = True
    takes_features = True
    global_tokens = FIRST_IS_GLOBAL
    num_outputs: int

    def __init__(self, encoder, *args, reads_vectors: bool = False, **kwargs):
        self.reads_vectors = reads_vectors
        super().__init__(encoder, *args, **kwargs)

    def get_config(self):
        return {**super().get_config(), "reads_vectors": self.reads_vectors}

    @property
    def family(self) -> Family:
        family = super().family
        return family.with_vector_head(self.task) if self.reads_vectors else family

    @property
    def token_read(self) -> str | None:
        """What the head reads, as `Head.summary`; None for the pooler's output."""
        head = self.stored_head
        return None if head.pooler else head.summary(self.encoder.config)

    @property
    def width_read(self) -> int:
        if self.token_read == VECTOR:
            return self.encoder.vector_size
        parts = len(CONCATENATED_POOLING.modes) if self.token_read == CONCATENATED else 1
        return parts * super().width_read

    def positions_of(self, read):
        return (
            last_positions(read)
            if self.token_read == LAST_REAL_TOKEN
            else super().positions_of(read)
        )

    @property
    def reads_first_only(self) -> bool:
        if self.token_read == VECTOR:
            return self.encoder.pooling.reads_first_only
        return self.token_read in (None, FIRST_TOKEN)

    def add_head(self, config):
        self.classifier = self.tuned_head(self.num_outputs, "classifier")

    def summary_of(self, encoded, inputs):
        """What the head reads, [rows, hidden]."""
        summary = self.token_read
        if summary in (None, FEATURES):
            return encoded["pooled_output"]
        if summary == VECTOR:
            return self.encoder.sentence_vectors(encoded["sequence_output"], inputs)
        if summary in (MEAN, CONCATENATED):
            mask = real_tokens(self.encoder_inputs(inputs))
            mean = Pooling("mean", normalize=False)
            pooling = mean if summary == MEAN else CONCATENATED_POOLING
            return pool(encoded["sequence_output"], mask, pooling)
        # The last real token is the only one that was computed.
        return encoded["sequence_output"][:, -1 if summary == LAST_TOKEN else 0]

    def head_outputs(self, encoded, inputs, training=None):
        summary = self.prepared(self.summary_of(encoded, inputs))
        return self.classifier(summary, training=training)


def under_settings(model: Model, **settings: Any) -> Model:
    """A model with the same weights, under other settings that no weight depends on, such as `mem_len`.

    Args:
        model: of a task that needs nothing but an encoder.
        settings: of the encoder's configuration.
    """
    encoder = model.encoder
    config = encoder.get_config()
    config["config"] = encoder.config.replace(**settings).to_dict()
    other = type(model)(Encoder.from_config(config))
    other.set_weights(model.get_weights())
    return other
