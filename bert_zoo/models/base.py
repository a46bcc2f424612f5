"""The base class of all models, whose `fit`, `evaluate`, `predict` and saved files handle text."""

import contextlib
import ctypes
import functools
import gc
import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
from keras import ops

from bert_zoo import private
from bert_zoo.data.buckets import Batches, Rows
from bert_zoo.fields import check
from bert_zoo.forks import refuse_fork
from bert_zoo.models.compiling import (
    reads_class_numbers,
    sum_slices,
    warn_of_probabilities,
    with_probabilities,
    with_token_accuracy,
)
from bert_zoo.models.data_adapters import (
    BALANCED,
    balanced_class_weight,
    for_keras,
    has_no_rows,
    is_text,
    is_tf_dataset,
    keras_arguments,
    split_rows,
    warn_of_untrained_classes,
    with_whole_batches,
)
from bert_zoo.models.direct import predict_texts, runs_alone
from bert_zoo.models.graphs import Graphs
from bert_zoo.models.inputs import (
    check_is_dict,
    check_is_integer,
    outside,
    tokens_of,
)
from bert_zoo.models.labels import (
    HeadChoice,
    LabelRange,
    checked_labels,
    label_arrays,
    read_class_weight,
)
from bert_zoo.models.long_texts import ended_after_an_epoch, warning_of_cut_texts, with_callback
from bert_zoo.models.onnx_conversion import converting
from bert_zoo.models.replicas import (
    LossScaling,
    LossTracker,
    check_several_steps,
    compiles_for_each_shape,
    counting_rows,
    divided_rows,
    in_scope_of,
    is_on_tpu,
    replicated_outputs,
    warn_of_clipping,
    with_one_row,
)
from bert_zoo.models.text_rows import aligned_weights, checked_sample_weight, rows_of_texts
from bert_zoo.registry import registry
from bert_zoo.weights.bind import named_variables, set_trained_layers, step_to, trained_layers

_DELETED: list[int] = []  # ids of models that the collection in progress deletes


def release_memory_after(model) -> None:
    """Has the memory of a model given back at the end of the garbage collection that deletes it.

    glibc keeps freed memory: 300 MiB after a step of training of minilm_l6, and more with each such model.
    """
    if _malloc_trim() is not None:
        weakref.finalize(model, _DELETED.append, id(model)).atexit = False


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; None on other systems."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        gc.callbacks.append(_trim_after_collection)
    return trim


def _trim_after_collection(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and _DELETED:
        _DELETED.clear()
        _malloc_trim()(0)


# The inputs that Keras's own export takes, if the model has them.
EXPORTED_IDS = ("token_ids", "char_ids", "segment_ids", "padding_mask")


@dataclass(frozen=True)
class Interface:
    """The names of a SavedModel's signatures; `bert_zoo.serving` traces them."""

    # What signatures return, if the model has it; a model that returns a tensor has one output.
    outputs: tuple[str, ...] = ("logits",)
    # Outputs with one vector per row where the others are per token.
    row_outputs: tuple[str, ...] = ()
    # Names and ranks of the inputs of the signature that takes texts.
    texts: tuple[tuple[str, int], ...] = (("text", 1),)
    pairs: bool = True  # whether the model reads either one text or two
    # Inputs int [batch, length] that the model reads besides its encoder's inputs.
    labels: tuple[str, ...] = ()
    # Whether they are required; they may then differ in length from the other inputs.
    needs_labels: bool = False
    # Further inputs int [batch, length] that say something about each token.
    marks: tuple[str, ...] = ()
    # With a state: signatures that take it, and whether they return only the next token's log-probabilities.
    steps: tuple[tuple[str, bool], ...] = (("step", False),)
    text_name: str | None = None  # besides `serving_default`, for the signature that takes texts


# Verb -> the tasks whose models have it, in the order in which their classes are made.
TASKS_OF_VERBS: dict[str, list[str]] = {}


class ZooModel(keras.Model):
    """A Keras model that also takes raw text as data."""

    task: str  # name of the task for `load`
    verbs: tuple[str, ...] = ()  # names of the methods for what the task is there for
    labels: tuple[str, ...] = ()  # names of the classes by number; empty without classes
    own_tokens: tuple[str, ...] = ()  # which its vocabulary needs
    hf_format = "hf"  # of what `save(format="hf")` writes
    labels_are_texts = False  # of the same kind as the inputs
    ids_rank = 2  # number of axes of the ids that it is called with
    # "softmax" or "sigmoid", which turns outputs into probabilities; None if they are not logits of classes.
    output_activation: str | None = None
    # Whether labels of texts become labels of tokens where texts are read.
    reads_labels_of_words = False
    # Whether it can be called with a tuple of input dicts, for rows of several texts.
    reads_columns = False
    shared_columns = 0  # number of columns that are read together with each of the other columns
    reads_windows = False  # whether it reads long texts in windows
    # Whether rows of similar length may share a batch in training: its loss compares no rows of a batch.
    groups_rows = True
    prompts_in_use: tuple[str, ...] = ()  # which `texts_to_inputs` and the like put before texts
    labels_to_save: tuple[str, ...] | None = (
        None  # which a saved model keeps; None without any of its own
    )
    fixes_encoder = False  # whether its encoder is frozen and runs without dropout
    # Whether outputs have the length of the input, so that `predict` must pad all batches to the same length.
    outputs_per_token = False
    generates = False  # whether it writes texts, with a `generation_config`
    peft_task: str | None = None  # the `task_type` of peft adapters for such models
    pools_windows = False  # whether outputs for the windows of a long text can be pooled
    # Further integer inputs holding positions in the text, shape [batch, n, ...] -> the sizes of their trailing axes.
    positions_read: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    # Ids for another part of the model, which reads `token_ids` by default.
    second_ids: tuple[str, ...] = ()
    # Names of inputs that the previous call returned; see `bert_zoo.layers.Backbone`.
    state: tuple[str, ...] = ()
    # How a student is compared with a teacher of the task, a key of `bert_zoo.distillation.losses.MATCHES`; None if
    # the task cannot be distilled.
    taught_by: str | None = None
    # Which text of a pair is cut if they are too long together; None leaves it to the preprocessor.
    truncation: str | None = None
    untracked: tuple[str, ...] = ("preprocessor",)  # attributes set without Keras's tracking
    traced_settings: tuple[str, ...] = ()  # what `call` and verbs read besides layers and weights
    # The task in whose place this one is loaded if a checkpoint was trained for it.
    replaces: str | None = None
    least_logits = 1  # of a trained head
    # A warning for checkpoints that were not trained for the task, if their weights do not show that.
    if_untrained: str | None = None
    # The function of `bert_zoo.training.optimizers` that makes the task's optimizer; None if there is nothing to train.
    default_optimizer: str | None = None
    # Roles of texts for which a SavedModel has a signature each; see `served_of_role` of vector models.
    served_roles: tuple[str, ...] = ()
    default_loss_weights: Mapping[str, float] | None = None  # by output; None for 1 each
    interface = Interface()  # inputs and outputs of its SavedModel
    why_no_export = ""  # a sentence, of a task whose models cannot be exported

    def __init__(self, *args, name: str | None = None, **kwargs):
        refuse_fork()
        super().__init__(*args, name=name or self._free_name(), **kwargs)
        release_memory_after(self)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for verb in cls.verbs if "task" in vars(cls) else ():
            TASKS_OF_VERBS.setdefault(verb, []).append(cls.task)

    def __getattr__(self, name):
        # Called for attributes that do not exist.
        if name in TASKS_OF_VERBS:
            raise AttributeError(self._tasks_with(name))
        parent = getattr(super(), "__getattr__", super().__getattribute__)
        return parent(name)

    def _tasks_with(self, verb: str) -> str:
        """A message that says which tasks have a verb."""
        family, tasks = registry().families[encoder_of(self).family], TASKS_OF_VERBS[verb]
        here = [f"task={task!r}" for task in tasks if task in family.tasks]
        return f"A model of task {self.task!r} has no {verb}(). " + (
            f"To have it, load the checkpoint with {' or '.join(here)}."
            if here
            else f"It is for {' and '.join(map(repr, tasks))}, which the family {family.name} does not have."
        )

    @classmethod
    def _free_name(cls) -> str:
        """The task, with a number from the second model on, as Keras names layers by their classes."""
        number = keras.backend.get_uid(cls.task) - 1
        return f"{cls.task}_{number}" if number else cls.task

    def __setattr__(self, name, value):
        # Keras 3.15 reads an attribute before it sets it, which would look for a vocabulary here.
        if name in self.untracked:
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def inner(self) -> "ZooModel | None":
        """The model inside this one, or None. (Not a property: Keras would save its weights by that name.)"""
        return None

    @property
    def preprocessor(self):
        """Turns text into the input dict; a `bert_zoo.text.Preprocessor`."""
        return self.inner().preprocessor

    @preprocessor.setter
    def preprocessor(self, value) -> None:
        self.inner().preprocessor = value

    @property
    def has_preprocessor(self) -> bool:
        return self.inner().has_preprocessor

    @property
    def always_gives_state(self) -> bool:
        """Whether every call returns the state, not only calls that are given one."""
        return bool(self.state) and not encoder_of(self).backbone.state_is_optional

    @functools.cached_property
    def graphs(self) -> Graphs:
        """The graphs that verbs have traced; see `bert_zoo.models.graphs`."""
        return Graphs()

    @property
    def text_reader(self):
        """The preprocessor for `texts_to_inputs` in `fit`, `evaluate` and `predict`."""
        return self.preprocessor

    def id_limits(self) -> dict[str, tuple[int, str]]:
        """For each input of ids, the limit below which ids lie and what the limit is."""
        return self.inner().id_limits()

    def head_limits(self, inputs) -> dict[str, tuple[Any, str]]:
        """As `id_limits`, for inputs of the head, whose limits depend on other inputs."""
        length = ops.shape(tokens_of(inputs))[-1]
        return dict.fromkeys(self.positions_read, (length, "the length of the input"))

    @property
    def longest_input(self) -> int:
        """Maximum number of tokens per row."""
        return self.inner().longest_input

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        """The valid labels of each output by name ("" for a single output); outputs without limits are left out.

        Limits may depend on the shapes of inputs: ids or texts, arrays or tensors.
        """
        return {}

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        """The model's arguments besides its encoder: from the user, else from the checkpoint."""
        head.refuse_classes(cls.task)
        head.refuse_thresholds(cls.task)
        return {}

    def default_loss(self) -> Any:
        """The task's loss, or losses by output; None for a model that computes its own."""
        return None

    def default_metrics(self) -> list[Any] | None:
        """The metrics that `fit` and `evaluate` report besides the loss."""
        return None

    def answers_as_teacher(self, texts, batch_size: int = 32):
        """The outputs that a student learns from this model, float32 [rows, size], for lists of texts or of pairs."""
        return self.predict(texts, batch_size=batch_size, verbose=0)

    def prediction_rows(self, texts, second=None, **options) -> Iterable[dict[str, Any]]:
        """The predictions that `bert_zoo predict` writes beside texts, or pairs of texts: column -> value.

        Options are `batch_size`, `all_scores` and `no_answer_threshold`; a task reads only some.
        """
        which = "single texts" if second is None else "pairs of texts"
        raise ValueError(
            f"A model of task {self.task!r} cannot predict a table of {which}. Check --text_pair."
        )

    def printed_predictions(self, texts, second=None, **options) -> Any:
        """What `bert_zoo predict` prints for texts, or pairs of texts; options are `context` and `no_answer_threshold`."""
        raise ValueError(
            f"The run's task is {self.task!r}, which `bert_zoo predict` does not support. Use bert_zoo.load in Python."
        )

    def served_answers(self, outputs: dict[str, Any]) -> dict[str, Any]:
        """Results that a SavedModel computes from the outputs of `interface`; on TensorFlow."""
        return {}

    def served_of_texts(
        self, texts: tuple, run: Callable[[dict[str, Any]], dict[str, Any]], preprocessor
    ) -> dict[str, Any]:
        """A SavedModel's results for the tensors of `interface.texts`, or of a pair; traceable, on TensorFlow.

        `run` is a function from ids to the served results.
        """
        return self.served_of_ids(
            self.texts_to_inputs(texts if len(texts) > 1 else texts[0], preprocessor), run
        )

    def served_of_ids(self, ids, run) -> dict[str, Any]:
        """A SavedModel's results for the inputs of texts."""
        outputs = run(ids)
        # With the ids, clients can tell which token each vector belongs to.
        return outputs | ids if self.outputs_per_token else outputs

    @property
    def inputs_apart(self) -> dict[str, tuple[int | None, ...]]:
        """Shapes of the inputs that have a SavedModel signature of their own; None for free axes."""
        ids = encoder_of(self).backbone.inputs
        more = [*self.second_ids, *(name for name in ids if ids[name].is_apart)]
        positions = {name: (None, None, *axes) for name, axes in self.positions_read.items()}
        return positions | dict.fromkeys(more, (None,) * self.ids_rank)

    def portable_verb(self) -> dict[str, Any]:
        """Settings with which `bert_zoo.runtime` can run the model's verb: its name as `verb`, and the
        attributes that it reads. Empty if there is no verb."""
        return {}

    def served_variables(self) -> list[keras.Variable]:
        """The variables that exports contain, without those that only a loss reads."""
        return self.variables

    @property
    def stacks(self) -> tuple[keras.layers.Layer, ...]:
        """The layers with `blocks`, for LoRA and `rematerialize`: the encoder's stack, and a decoder."""
        return (encoder_of(self).backbone.groups().stack,)

    def levels_below_head(self) -> dict[int, int]:
        """The number of layers between each of the encoder's variables (by id) and the head; see `Groups`."""
        return encoder_of(self).backbone.groups().levels_below_head()

    def __call__(self, inputs, *args, **kwargs):
        refuse_fork()
        # Checked before Keras does, which only says that strings are not tensors.
        are_columns = self.reads_columns and isinstance(inputs, tuple)
        for part in inputs if are_columns else (inputs,):
            check_is_dict(part)
            for name in self.id_limits():
                if isinstance(part.get(name), keras.KerasTensor):
                    check_is_integer(name, part[name])
        return super().__call__(divided_rows(inputs), *args, **kwargs)

    def as_text_rows(self, x):
        """The user's strings, checked, as a string tensor or a tuple of two."""
        from bert_zoo.text.batches import text_batch

        if isinstance(x, tuple):
            if len(x) != 2:
                raise ValueError(f"A pair of texts is (first, second); got {len(x)} parts.")
            return text_batch(x[0], "first texts"), text_batch(x[1], "second texts")
        return text_batch(x)

    def texts_to_inputs(self, texts, preprocessor):
        """The input dict for a batch of texts or a pair of batches; traceable."""
        return preprocessor(self.prompted(texts))

    def prompted(self, texts):
        """Texts with the model's prompt before them; traceable."""
        return texts

    def as_text_labels(self, texts, y):
        """The user's labels as numbers, in the order of the rows of `as_text_rows`."""
        return label_arrays(self, texts, y)

    def labels_in_memory(self, x, y):
        """The labels of texts or ids in memory as numbers; None if there are none."""
        if y is not None and is_text(x):
            return self.as_text_labels(self.as_text_rows(x), y)
        return label_arrays(self, x, y)

    def as_text_weights(self, texts, sample_weight):
        """The user's weights as numbers, in the order of the rows of `as_text_rows`."""
        return checked_sample_weight(sample_weight)

    def weights_of_text_labels(self, texts, weights, preprocessor):
        """Weights of rows, or of the labels of `labelled_texts_to_inputs`; traceable."""
        return checked_sample_weight(weights)

    def labelled_texts_to_inputs(self, texts, labels, preprocessor):
        """As `texts_to_inputs`, with the labels as the loss reads them; traceable."""
        return self.texts_to_inputs(texts, preprocessor), checked_labels(self, texts, labels)

    def training_arguments(self, x, y=None, sample_weight=None, **options) -> dict[str, Any]:
        """Keras's data arguments of `fit` and `evaluate`; `options` are those of `keras_arguments`."""
        return keras_arguments(self, x, y, sample_weight, labelled=True, **options)

    def own_rows(self, x, y, sample_weight) -> Rows | None:
        """Data in memory as rows, for tasks that divide texts into several; None if each text is a row."""
        return None

    def text_rows(self, texts, labels=None, weights=None, **options) -> Rows:
        return rows_of_texts(self, texts, labels, weights, **options)

    def check_in_graph(self, inputs):
        """The inputs, with checks that run in the TensorFlow graph.

        Without checks, GPUs silently read zeros for ids outside of a table.
        """
        import tensorflow as tf

        main = encoder_of(self).backbone.main_input
        if main not in inputs:  # `call` says which names there are
            return inputs
        shape = inputs[main].shape
        if shape.rank is not None and shape.rank < 2:
            raise ValueError(
                f"The dataset yields single rows, {main} of shape {tuple(shape)}. Batch it first: "
                "dataset.batch(32)."
            )
        length = tf.shape(tokens_of(inputs))[-1]
        message = [f"A row has more tokens than the {self.longest_input} positions of this model:"]
        checks = [tf.debugging.Assert(length <= self.longest_input, [*message, length])]
        for name, (limit, what) in (self.id_limits() | self.head_limits(inputs)).items():
            if name in inputs:
                wrong = outside(name, inputs[name], tf.cast(limit, inputs[name].dtype))
                message = [f"{name} must lie in [0,", limit, f"), {what}. These do not:"]
                message.append(tf.boolean_mask(inputs[name], wrong))
                checks.append(tf.debugging.Assert(~tf.reduce_any(wrong), message))
        with tf.control_dependencies(checks):
            return tf.nest.map_structure(tf.identity, dict(inputs))

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        loss_weights=None,
        metrics=None,
        weighted_metrics=None,
        *args,
        jit_compile: bool | str | None = None,
        steps_per_execution: int = 1,
        **kwargs,
    ):
        """As in Keras, with XLA off by default on TensorFlow.

        Keras's "auto" turns XLA on there. XLA would compile again for every length of a batch, fuses less
        than oneDNN on CPUs, and breaks TPUStrategy (keras#19448).

        Outputs are logits, so losses need `from_logits=True`. Keras's metrics that read probabilities get
        probabilities (`bert_zoo.models.metrics.OfLogits`). If outputs are per token, the metric "accuracy"
        ignores labels of -100, as `bert_zoo.training.TokenAccuracy` does; Keras's own metric objects count
        them as wrong.
        """
        warn_of_probabilities(loss, self.task)
        both_metrics = [
            with_probabilities(given, self.output_activation)
            for given in (metrics, weighted_metrics)
        ]
        if self.outputs_per_token and any(map(reads_class_numbers, keras.tree.flatten(loss))):
            both_metrics = map(with_token_accuracy, both_metrics)
        on_tensorflow = keras.backend.backend() == "tensorflow"
        if jit_compile is None:
            jit_compile = False if on_tensorflow else "auto"
        if jit_compile is True and on_tensorflow and is_on_tpu(self.distribute_strategy):
            raise ValueError(
                "jit_compile=True does not work under TPUStrategy (keras#19448), which compiles with "
                "XLA by itself. Leave jit_compile out."
            )
        if steps_per_execution > 1 and on_tensorflow:
            check_several_steps(self.distribute_strategy)
        kwargs |= {"jit_compile": jit_compile, "steps_per_execution": steps_per_execution}
        super().compile(optimizer, loss, loss_weights, *both_metrics, *args, **kwargs)
        # The optimizer itself, if Keras has wrapped it to scale losses for float16.
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        with in_scope_of(self):
            private.set_loss_tracker(self, LossTracker(name="loss"))
            if on_tensorflow and type(self.optimizer) is keras.optimizers.LossScaleOptimizer:
                self.optimizer = LossScaling.around(self.optimizer)
        if on_tensorflow:
            warn_of_clipping(optimizer, self.distribute_strategy)
            if isinstance(optimizer, keras.optimizers.Optimizer):
                sum_slices(optimizer)
        if hasattr(optimizer, "use_levels"):
            optimizer.use_levels(self.levels_below_head)

    def get_config(self):
        config = {**super().get_config(), "trained_layers": trained_layers(self)}
        quantized = quantized_layers(self)
        return config | {"quantized_layers": quantized} if quantized else config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        # Keras 3.15 passes a custom model its `trainable` as an argument, which is then False without
        # freezing anything, and loses the settings of inner layers.
        config = dict(config)
        trained = config.pop("trained_layers", {})
        quantized = config.pop("quantized_layers", {})
        config.pop("trainable", None)
        model = super().from_config(config, custom_objects)
        quantize_layers(model, quantized)
        set_trained_layers(model, trained)
        return model

    def quantize(self, mode: str | None = None, **options) -> None:
        """As in Keras, to "int8"; `.keras` files and exports contain the quantized model.

        Raises:
            ValueError: the mode is not "int8".
        """
        # int4 rounds too coarsely: its vectors of minilm_l6 have a cosine of 0.93 with the original ones, and 0.98 with
        # a scale for each 16 weights.
        if mode != "int8":
            raise ValueError(
                f"mode is {mode!r}; bert_zoo's models can only be quantized to 'int8'. int4 changes their outputs "
                "too much (cosines of 0.93 to 0.98 between sentence vectors), and Keras's other modes need "
                "training or calibration that exists only for Keras's own models."
            )
        # Keras 3.10 has no such argument.
        if "filters" in inspect.signature(keras.Model.quantize).parameters:
            options = {"filters": _can_be_quantized, **options}
        super().quantize(mode, **options)

    def get_compile_config(self):
        config = super().get_compile_config()
        return config and {**config, "optimizer_built": self.optimizer.built}

    def compile_from_config(self, config):
        # Keras 3.15 does not compile loaded models whose class overrides `compile`.
        config = keras.saving.deserialize_keras_object(config)
        # Files of earlier versions do not say whether the model was trained.
        is_built = config.pop("optimizer_built", True)
        self.compile(**config)
        # An optimizer that was never used has no states in the file, which Keras 3.15 would say in a warning.
        if is_built:
            self.optimizer.build(self.trainable_variables)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs):
        # For tf.train.Checkpoint. Keras 3.15's version has neither layers in lists, such as blocks, nor
        # the states of dropout.
        children = super()._trackable_children(save_type, **kwargs)
        is_checkpoint = save_type == "checkpoint"
        return children | named_variables(self, "variables") if is_checkpoint else children

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Keras 3.15 creates the variables of optimizer and metrics in the first trace of a step, and
        # TensorFlow traces functions that create variables twice. Under a tf.distribute strategy it creates
        # them before, but from the mean of the replicas' first batches, which turns ids into floats, and
        # across workers from nothing usable (keras#20585).
        spec = iterator and private.spec_for_one_replica(iterator)
        if spec is None:
            super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)
            return
        with self.distribute_strategy.scope():
            private.build_for(self, spec)

    def _make_function(self, step_function, **kwargs):
        on_tensorflow = keras.backend.backend() == "tensorflow"
        if on_tensorflow and private.is_multi_worker(private.strategy_of(self)):
            step_function = with_one_row(step_function)
        function = super()._make_function(step_function, **kwargs)
        return private.count_traces_alone(function) if on_tensorflow else function

    def make_train_function(self, force=False):
        if keras.backend.backend() == "torch":
            raise ValueError(
                "Training is not supported on Keras's torch backend, because the models' gradients are written "
                "for TensorFlow and JAX; only calls and predict work. Set KERAS_BACKEND to 'tensorflow' or "
                "'jax' before Keras is imported."
            )
        return super().make_train_function(force)

    def train_step(self, *args):
        counting = counting_rows(keras.utils.unpack_x_y_sample_weight(args[-1])[2])
        with counting, private.gradients_of_graph():
            return super().train_step(*args)

    def test_step(self, *args):
        with counting_rows(keras.utils.unpack_x_y_sample_weight(args[-1])[2]):
            return super().test_step(*args)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """As in Keras; a row's weight, [rows] or [rows, 1], belongs to all of its labels."""
        if sample_weight is not None:
            sample_weight = aligned_weights(y, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def predict_step(self, *args):
        return replicated_outputs(super().predict_step(*args))

    def _trace_prediction_for(self, data) -> None:
        """Traces `predict` once for batches of every length.

        Keras 3.15 passes the batches themselves to `predict` (and to `evaluate` an iterator, which has no
        lengths). TensorFlow would trace the first length, then another with the length left open, and then
        the last batch, which has fewer rows.
        """
        if keras.backend.backend() != "tensorflow" or self.run_eagerly or not is_tf_dataset(data):
            return
        if private.strategy_of(self) is None and self.steps_per_execution == 1:
            self.make_predict_function()
            self.predict_function.get_concrete_function([data.element_spec])

    def save(self, filepath, *args, **kwargs):
        """As in Keras, as a `.keras` file.

        Raises:
            ValueError: the file is HDF5, from which Keras cannot load the model again.
        """
        if str(filepath).lower().endswith((".h5", ".hdf5")):
            raise ValueError(
                f"filepath is {str(filepath)!r}, but Keras cannot load models of this kind from HDF5 files. Save as "
                "'model.keras', use bert_zoo.save(model, directory), or save_weights('model.weights.h5') for the "
                "weights alone."
            )
        super().save(filepath, *args, **kwargs)

    def export(self, filepath, format: str = "tf_saved_model", *, input_signature=None, **kwargs):
        """As in Keras, on ids of any batch and length: `token_ids`, `segment_ids`, `padding_mask`.

        `bert_zoo.export` writes SavedModels that take text, and ONNX files with named axes.

        Raises:
            ValueError: the model has a memory, whose outputs Keras cannot export.
        """
        if self.always_gives_state:
            raise ValueError(
                "Keras cannot export a model that returns a memory, which is a list of tensors. Use "
                "bert_zoo.export(model, directory), whose signatures take and return it."
            )
        if input_signature is None:
            input_signature = [self._specs_of_ids(keras.InputSpec)]
        converts = format == "onnx" and keras.backend.backend() == "tensorflow"
        with converting() if converts else contextlib.nullcontext():
            super().export(filepath, format=format, input_signature=input_signature, **kwargs)

    @property
    def _default_save_signature(self):
        # tf.saved_model.save traces this; Keras's own version calls every model with one tensor.
        import tensorflow as tf

        @tf.function(input_signature=(self._specs_of_ids(tf.TensorSpec),), autograph=False)
        def serving_default(inputs):
            return self(inputs, training=False)

        return serving_default

    def _specs_of_ids(self, spec: type) -> dict[str, Any]:
        names = [name for name in EXPORTED_IDS if name in self.id_limits()]
        return {n: spec(dtype="int32", shape=self.ids_shape(n), name=n) for n in names}

    def ids_shape(self, name: str) -> tuple[None, ...]:
        """The shape of an input of ids, with all axes free."""
        ids = encoder_of(self).backbone.inputs.get(name)
        return (None,) * (self.ids_rank + (0 if ids is None else len(ids.axes) - 2))

    @contextlib.contextmanager
    def _fresh_functions_after_errors(self):
        """Lets users correct a mistake and call `fit` again.

        Keras 3.15 keeps a function whose first trace failed, and TensorFlow then refuses the variables of
        optimizer and metrics in later traces.
        """
        try:
            yield
        except Exception:
            self.train_function = self.test_function = None
            raise

    def fit(
        self,
        x=None,
        y=None,
        batch_size: int | None = None,
        epochs: int = 1,
        *,
        validation_split: float = 0.0,
        validation_data=None,
        validation_batch_size: int | None = None,
        shuffle: bool = True,
        sample_weight=None,
        class_weight=None,
        **kwargs,
    ):
        """Trains as in Keras; `x` may also be strings, a pair of string batches, or a tf.data of these.

        Labels may be names of classes. The keys of `class_weight` are names or numbers; "balanced" gives every
        class the same total weight, as in scikit-learn, for data in memory. `validation_split` takes the last
        rows.

        `sample_weight` has a number for each row, [rows] or [rows, 1], which multiplies the losses of all of
        its labels, or one for each label. The loss is the mean over all labels of the batch whose weight is
        not 0: a weight of 0 leaves a row out.
        """
        if not self.compiled:
            raise ValueError(
                f"This model, of task {self.task!r}, has no loss yet, so fit() cannot train it. Compile it "
                "with a loss for its outputs: model.compile(optimizer, loss); or load the checkpoint for a "
                "task that has one, such as load(name, task='classification')."
            )
        if validation_batch_size is not None:
            check("validation_batch_size", validation_batch_size, int, least=1)
        if validation_split:
            (x, y, sample_weight), validation_data = split_rows(
                validation_split, x, y, sample_weight
            )
            if self.labels:
                warn_of_untrained_classes(self, (x, y), validation_data[:2])
        if self.labels and isinstance(class_weight, str) and class_weight == BALANCED:
            class_weight = balanced_class_weight(self, x, y)
        class_weights, class_weight = read_class_weight(self, class_weight)
        options = {"batch_size": batch_size, "shuffle": shuffle, "class_weights": class_weights}
        with (
            warning_of_cut_texts(self, x, columns=self.reads_columns) as end_counting,
            self._fresh_functions_after_errors(),
        ):
            data = self.training_arguments(x, y, sample_weight, **options)
            # Keras shuffles arrays and PyDatasets, and warns if it is asked to shuffle other data.
            is_finite = getattr(data["x"], "num_batches", None) is not None
            kwargs["shuffle"] = shuffle and ("batch_size" in data or is_finite)
            if isinstance(data["x"], Batches):
                kwargs |= self._of_batches(data, **kwargs)
                if end_counting:  # all texts have been read
                    end_counting()
            elif end_counting:
                callback = ended_after_an_epoch(end_counting)
                kwargs["callbacks"] = with_callback(kwargs.get("callbacks"), callback)
            if validation_data is not None:
                are_parts = isinstance(validation_data, tuple)
                parts = validation_data if are_parts else (validation_data,)
                order = {"batch_size": validation_batch_size or batch_size, "shuffle": None}
                validation = for_keras(self.training_arguments(*parts, **order))
                validation_data = validation["x"]
                if "y" in validation:
                    columns = (validation[name] for name in ("x", "y", "sample_weight"))
                    validation_data = tuple(column for column in columns if column is not None)
                    kwargs["validation_batch_size"] = validation["batch_size"]
            kwargs |= {"validation_data": validation_data, "class_weight": class_weight}
            return super().fit(**data, epochs=epochs, **kwargs)

    def _of_batches(
        self, data: dict[str, Any], *, steps_per_epoch: int | None = None, callbacks=None, **kwargs
    ) -> dict[str, Any]:
        """Turns `Batches` into data for Keras's `fit`, and returns the other arguments that these need.

        Keras gets an endless sequence, of which it makes a single iterator; for finite data it makes two in
        each epoch. With several steps per execution, an epoch would end only after a multiple of them.
        """
        batches = data["x"]
        steps = steps_per_epoch or batches.per_epoch
        is_endless = steps_per_epoch is not None or self.steps_per_execution == 1
        data["x"] = batches.endless() if is_endless else batches.epoch()
        begun = []

        def begin(epoch: int, logs=None) -> None:
            if not (is_endless and begun):  # `initial_epoch`, or that of Keras's BackupAndRestore
                batches.first = epoch * steps
            begun.append(epoch)

        callback = keras.callbacks.LambdaCallback(on_epoch_begin=begin)
        needed = {"callbacks": with_callback(callbacks, callback), "shuffle": False}
        return needed | ({"steps_per_epoch": steps} if is_endless else {})

    def evaluate(
        self, x=None, y=None, batch_size: int | None = None, *, sample_weight=None, **kwargs
    ):
        """Measures loss and metrics as in Keras, on the same kinds of data as `fit`."""
        counting = warning_of_cut_texts(self, x, columns=self.reads_columns)
        with counting, self._fresh_functions_after_errors():
            data = {"x": x}
            if not kwargs.get("_use_cached_eval_dataset"):  # Keras holds what `fit` has prepared
                order = {"batch_size": batch_size, "shuffle": None}
                data = self.training_arguments(x, y, sample_weight, **order)
            return super().evaluate(**for_keras(data), **kwargs)

    def predict(self, x, batch_size: int | None = None, verbose="auto", **kwargs):
        """Computes outputs as in Keras, on the same kinds of data as `fit`.

        Texts in memory are read without a tf.data pipeline, whose set-up takes longer than a few short
        texts, unless there are callbacks, a number of steps, XLA or replicas.
        """
        with warning_of_cut_texts(self, x):
            if is_text(x) and (has_no_rows(x) or (not kwargs and runs_alone(self))):
                return predict_texts(self, x, batch_size, verbose)
            rows = None
            if compiles_for_each_shape(getattr(self, "distribute_strategy", None)):
                x, rows = with_whole_batches(self, x, batch_size)
            one_length = self.outputs_per_token
            data = for_keras(keras_arguments(self, x, batch_size=batch_size, one_length=one_length))
            self._trace_prediction_for(data["x"])
            rows_a_step = data.get("batch_size")
            outputs = super().predict(data["x"], rows_a_step, verbose=verbose, **kwargs)
            return keras.tree.map_structure(lambda output: output[:rows], outputs)


def encoder_of(model: ZooModel):
    """The encoder inside a model, or the model itself if it is one."""
    while model.inner() is not None:
        model = model.inner()
    return model


# --- Quantized layers: which can be quantized, and how a model's configuration stores them ---


def _can_be_quantized(layer: keras.layers.Layer) -> bool:
    """Whether Keras can quantize a layer.

    Keras would warn about other kinds of layers, and fail for layers that were never built, such as those
    that a second encoder replaces by the first one's.
    """
    return layer.built and isinstance(layer, keras.layers.Dense | keras.layers.Embedding)


def check_is_float(model) -> None:
    """Raises ValueError for a quantized model, because checkpoint files cannot store its weights."""
    if quantized_layers(model):
        raise ValueError(
            "The model is quantized, but a checkpoint stores the original weights. Save it with "
            'model.save("model.keras") or bert_zoo.export, or save it before model.quantize.'
        )


def quantized_layers(layer, path: str = "") -> dict[str, list[Any]]:
    """Modes and configurations of the layers that Keras has quantized, by path, ready for JSON."""
    found = {}
    if layer.quantization_mode is not None:
        config = keras.saving.serialize_keras_object(getattr(layer, "quantization_config", None))
        found[path] = [layer.quantization_mode, config]
    for child in private.children(layer):
        found |= quantized_layers(child, f"{path}{step_to(child, layer)}/")
    return found


def quantize_layers(layer, quantized: Mapping[str, list[Any]], path: str = "") -> None:
    """Quantizes the layers that `quantized_layers` found, so that their weights can be assigned."""
    if path in quantized and layer.quantization_mode is None:
        mode, config = quantized[path]
        config = keras.saving.deserialize_keras_object(config)
        layer.quantize(mode, **({} if config is None else {"config": config}))
    for child in private.children(layer):
        quantize_layers(child, quantized, f"{path}{step_to(child, layer)}/")
