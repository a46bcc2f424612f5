"""Base classes of the models of tasks, an encoder with a head."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import keras
from keras import ops

from bert_zoo import private
from bert_zoo.config import HeadSpec, Pooling
from bert_zoo.family import Family
from bert_zoo.generation_config import GenerationConfig
from bert_zoo.layers.backbones import FIRST_IS_GLOBAL
from bert_zoo.layers.common import FIRST
from bert_zoo.layers.heads import CONCATENATED_POOLING, Features, OutputHead, pool
from bert_zoo.models.base import ZooModel
from bert_zoo.models.cores import in_shares
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.inputs import real_tokens, tokens_of, warn_of_padding_first
from bert_zoo.models.labels import (
    NUMBER_OF_LABELS,
    HeadChoice,
    LabelRange,
    label_names,
    one_class_error,
)
from bert_zoo.models.long_texts import are_rows, over_windows
from bert_zoo.registry import registry
from bert_zoo.runtime.answers import ranking
from bert_zoo.weights.table import (
    CONCATENATED,
    FEATURES,
    FIRST_TOKEN,
    LAST_REAL_TOKEN,
    LAST_WITHOUT_PAD_ID,
    MEAN,
    MEAN_OF_LOGITS,
    VECTOR,
    VECTOR_HEAD,
    Head,
    head_of,
)

log = logging.getLogger("bert_zoo")

Model = TypeVar("Model", bound="TaskModel")

# As in transformers, whose config.json does not mention two unnamed labels.
DEFAULT_NUM_CLASSES = 2
MEAN_POOLING = Pooling("mean", normalize=False)


@dataclass(frozen=True)
class Use:
    """What model cards say about the models of a task."""

    pipeline: str  # Hugging Face's name of the task
    purpose: str  # what a model does, as the end of a sentence that begins "This model"
    call: str  # code that uses a loaded `model`, with the placeholder `texts`
    # What happens to long texts, with the placeholder `length`, in tokens.
    long_texts: str = (
        "It was trained on texts cut to {length} tokens; the rest of longer texts was not read."
    )
    limits: tuple[str, ...] = ()  # further sentences for "Limits"


class TaskModel(ZooModel):
    """An encoder with a head.

    Args:
        encoder: an `Encoder`, or its configuration when Keras rebuilds a saved model.
        head: a head to use instead of the family's, for tasks that allow it. A head on features freezes the
            encoder and turns its dropout off.
    """

    # Whether the head reads only the encoder's first token, which saves most of the last layer.
    reads_first_only = False
    predicts_tokens = False  # whether the head projects onto the vocabulary
    # Which tokens see the whole row, in families with global tokens; see `bert_zoo.layers.Backbone`.
    global_tokens: str | None = None
    problem_type: str | None = None  # Hugging Face's name of the task in config.json, if it has one
    # The use of its models; None if users do not train them. The head must then come from the checkpoint, as it must
    # if it predicts tokens.
    use: Use | None = None
    default_optimizer = "bert_adamw"
    prediction_head: keras.layers.Layer | None = None
    takes_features = False  # whether `head` is allowed
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
        """Creates the head's layers, if there are any; called once, before `build`."""

    def build(self, input_shape):
        axes = (None, None) if self.outputs_per_token else (None,)
        for layer in private.children(self):
            if not layer.built:
                layer.build((*axes, self.width_read))
        self.built = True

    @property
    def width_read(self) -> int:
        """The width of the head's input."""
        return self.encoder.config.hidden_size if self.features is None else self.features.width

    def inner(self) -> Encoder:
        return self.encoder

    def encoder_inputs(self, inputs):
        """The encoder's inputs, from the model's inputs, in the encoder's shapes."""
        return {name: value for name, value in inputs.items() if name not in self.positions_read}

    def head_outputs(self, encoded, inputs, training=None):
        """The task's outputs, from the encoder's outputs and the model's inputs."""
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

        # Losses that layers add are means over the whole batch, so the batch is not divided.
        adds_losses = training and self.encoder.backbone.adds_losses
        return outputs(inputs) if adds_losses else in_shares(outputs, inputs)

    def outputs_of_rows(self, inputs, training=None):
        """As `call`, for inputs that are rows and not windows."""
        read = self.encoder_inputs(inputs)
        if self.reads_first_only:
            warn_of_padding_first(read.get("padding_mask"))
        encoded = self.encoder.unmasked(
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
        """The first argument of `head_outputs`: the encoder's outputs, or those of `features` in their place."""
        if self.features is None:
            return encoded
        states = encoded["hidden_states"]
        states = [*map(ops.stop_gradient, states)] if self.fixes_encoder else states[-1:]
        found = self.features(states, real_tokens(read), training=training)
        return encoded | {"sequence_output" if self.outputs_per_token else "pooled_output": found}

    def positions_of(self, read):
        """The positions that the head reads, for `Encoder.call`; None for all."""
        return FIRST if self.reads_first_only else None

    def window_outputs(self, inputs, training=None):
        """Outputs [rows, size] for windows of long texts, ids [rows, length]; they are pooled."""
        return self.outputs_of_rows(inputs, training)

    def from_pooled(self, outputs):
        """The model's outputs for texts, from the pooled outputs of their windows."""
        return outputs

    @property
    def family(self) -> Family:
        family = registry().families[self.encoder.family]
        if self.head is None:
            return family
        return family.with_head(self.task, head_of(self.head, not self.outputs_per_token))

    def output_head(self, units: int, name: str, **options) -> OutputHead:
        return OutputHead(units, name=name, **self.layer_options, **options)

    @property
    def layer_options(self) -> dict[str, Any]:
        """Common options of the head's layers."""
        initializer_range = self.encoder.config.initializer_range
        return {"initializer_range": initializer_range, "dtype": self.dtype_policy}

    @property
    def stored_head(self) -> Head:
        """The family's description of the task's head."""
        return self.family.heads[self.task]

    def tuned_head(self, units: int, name: str) -> OutputHead:
        """A head for fine-tuning, as the family describes it."""
        self.add_prediction_head()
        return self.output_head(units, name, **self.stored_head.output(self.encoder.config))

    def add_prediction_head(self) -> None:
        """Creates the layer below the head, if the family has one."""
        make = self.stored_head.prepare
        if make is not None:
            self.prediction_head = make(
                self.encoder.config, name="prediction_head", **self.layer_options
            )

    def prepared(self, x):
        """The head's input, from the encoder's outputs [..., hidden]."""
        return x if self.prediction_head is None else self.prediction_head(x)

    def get_config(self):
        encoder = keras.saving.serialize_keras_object(self.encoder)
        head = {} if self.head is None else {"head": asdict(self.head)}
        return {**super().get_config(), "encoder": encoder, **head}


class LabelledModel(TaskModel):
    """A task with named classes.

    Args:
        encoder: as in `TaskModel`.
        num_classes: number of classes; by default `len(labels)`.
        labels: names of the classes; see `bert_zoo.models.labels.label_names`.
    """

    takes_one_class = False  # whether a single class makes sense
    fixed_labels: tuple[str, ...] | None = None  # of subclasses whose classes are always the same
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
                    f"labels is {labels!r}; task {self.task!r} has the labels {self.fixed_labels}."
                )
            labels = self.fixed_labels
        self.labels = label_names(num_classes, labels)
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        """`num_classes` and `labels`, from the user, else from the checkpoint."""
        if cls.fixed_labels is not None:
            return super().head_arguments(head)
        head.refuse_thresholds(cls.task)
        num_classes, labels = head.num_classes, head.labels
        if 1 in head.sizes and not cls.takes_one_class:
            raise one_class_error(f"num_classes is {num_classes}, labels is {labels}")
        if not head.is_trained:
            if not head.sizes:
                labels = head.stored_labels or None
                num_classes = None if labels else DEFAULT_NUM_CLASSES
            return {"num_classes": num_classes, "labels": labels}
        # Without logits, `load` later reports what the file lacks.
        stored = head.num_logits or num_classes or DEFAULT_NUM_CLASSES
        if not {len(labels) if labels is not None else num_classes} <= {None, stored}:
            raise ValueError(
                f"{head.checkpoint} has a trained head with {stored} classes, but you asked for "
                f"{num_classes if labels is None else len(labels)}. Leave num_classes and labels out to use "
                "that head, or pass init=('classifier',) for a new one."
            )
        names = head.stored_labels
        if len(names) == stored:
            if labels is not None and labels != names and set(labels) == set(names):
                log.warning(
                    "The trained head of %s has the classes %s, in this order, and they are now called %s. Leave "
                    "labels out to keep its names.",
                    head.checkpoint,
                    names,
                    labels,
                )
            labels = labels or names
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


class ScoringModel(TaskModel):
    """A task with a score for each text or pair: a method `row_scores` of texts, second texts and `batch_size`."""

    scores_pairs = False  # whether there is no score for a single text

    def prediction_rows(self, texts, second=None, *, batch_size=32, **others):
        if self.scores_pairs and second is None:
            return super().prediction_rows(texts)
        return ({"score": float(score)} for score in self.row_scores(texts, second, batch_size))

    def printed_predictions(self, texts, second=None, **others):
        """Scores; without second texts for pairs, the first text is a query, and the others are ranked."""
        if self.scores_pairs and second is None:
            query, *documents = texts
            if not documents:
                raise ValueError(
                    "Give a query and the documents to rank, or a second text with --second."
                )
            scores = self.row_scores([query] * len(documents), documents)
            return ranking(documents, scores, "linear", top_k=None)
        rows = zip(self.row_scores(texts, second), texts, strict=True)
        return "\n".join(f"{score:.3f}  {text}" for score, text in rows)


class GeneratingModel(TaskModel):
    """A task whose models write texts.

    Args:
        encoder, **kwargs: as in `TaskModel`.
        generation_config: how `generate` works by default, or its dict when Keras rebuilds a saved model. It
            can be replaced at any time: `model.generation_config.replace(num_beams=4)`.
    """

    generates = True

    def __init__(
        self,
        encoder,
        *,
        generation_config: GenerationConfig | Mapping[str, Any] | None = None,
        **kwargs,
    ):
        if isinstance(generation_config, Mapping):
            generation_config = GenerationConfig.from_dict(generation_config)
        self.generation_config = generation_config or GenerationConfig()
        super().__init__(encoder, **kwargs)

    def get_config(self):
        generation = self.generation_config.to_dict()
        return {
            **super().get_config(),
            **({"generation_config": generation} if generation else {}),
        }


def last_positions(inputs, pad_id: int | None = None):
    """The position of each row's last token, int32 [batch, 1]; tokens with the id `pad_id` do not count."""
    mask = real_tokens(inputs)
    mask = ops.ones_like(tokens_of(inputs)) if mask is None else mask
    mask = ops.cast(mask, "int32")
    if pad_id is not None:
        mask = mask * ops.cast(ops.not_equal(inputs["token_ids"], pad_id), "int32")
    return ops.max(mask * ops.arange(ops.shape(mask)[1], dtype="int32"), axis=1, keepdims=True)


class SentenceModel(TaskModel):
    """A head over a whole text. It reads the first token, or the last or the mean in some families.

    Args:
        encoder, *args, **kwargs: as in `TaskModel` and, with classes, `LabelledModel`.
        reads_vectors: whether the head reads the text's sentence vector instead, as `embed` computes it
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
        return family.with_head(self.task, VECTOR_HEAD) if self.reads_vectors else family

    @property
    def token_read(self) -> str | None:
        """What the head reads, see `Head.summary`; None for the pooler's output."""
        head = self.stored_head
        return None if head.pooler else head.summary(self.encoder.config)

    @property
    def width_read(self) -> int:
        if self.token_read == VECTOR:
            return self.encoder.vector_size
        parts = len(CONCATENATED_POOLING.modes) if self.token_read == CONCATENATED else 1
        return parts * super().width_read

    def positions_of(self, read):
        if self.token_read == LAST_REAL_TOKEN:
            return last_positions(read)
        if self.token_read == LAST_WITHOUT_PAD_ID:
            return last_positions(read, self.encoder.config.pad_id)
        return super().positions_of(read)

    @property
    def reads_first_only(self) -> bool:
        if self.token_read == VECTOR:
            return self.encoder.pooling.reads_first_only
        return self.token_read in (None, FIRST_TOKEN)

    def add_head(self, config):
        self.classifier = self.tuned_head(self.num_outputs, "classifier")

    def summary_of(self, encoded, inputs):
        """The head's input, [rows, hidden], or [rows, length, hidden] if its logits are pooled."""
        summary = self.token_read
        if summary in (None, FEATURES):
            return encoded["pooled_output"]
        if summary == VECTOR:
            return self.encoder.sentence_vectors(encoded["sequence_output"], inputs)
        if summary == MEAN_OF_LOGITS:
            return encoded["sequence_output"]
        if summary in (MEAN, CONCATENATED):
            pooling = MEAN_POOLING if summary == MEAN else CONCATENATED_POOLING
            return self.pooled(encoded["sequence_output"], inputs, pooling)
        # If a last token is read, it is the only one that was computed.
        return encoded["sequence_output"][:, 0]

    def head_outputs(self, encoded, inputs, training=None):
        summary = self.prepared(self.summary_of(encoded, inputs))
        logits = self.classifier(summary, training=training)
        if self.token_read == MEAN_OF_LOGITS:
            return self.pooled(logits, inputs, MEAN_POOLING)
        return logits

    def pooled(self, x, inputs, pooling: Pooling):
        """Values of tokens [rows, length, size] pooled to [rows, size]."""
        return pool(x, real_tokens(self.encoder_inputs(inputs)), pooling)


def under_settings(model: Model, **settings: Any) -> Model:
    """A model with the same weights and other settings that no weight depends on, such as `mem_len`."""
    encoder = model.encoder
    config = encoder.get_config()
    config["config"] = encoder.config.replace(**settings).to_dict()
    other = type(model)(Encoder.from_config(config))
    other.set_weights(model.get_weights())
    if model.generates:
        other.generation_config = model.generation_config
    return other
