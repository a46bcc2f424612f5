"""What every model of the zoo shares: text in `fit`, `evaluate` and `predict`; text when saved."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
from keras import ops

from bert_zoo import private
from bert_zoo.forks import refuse_fork
from bert_zoo.models.compiling import (
    reads_class_numbers,
    sum_slices,
    warn_of_probabilities,
    with_probabilities,
    with_token_accuracy,
)
from bert_zoo.models.cut_texts import ended_after_an_epoch, warning_of_cut_texts
from bert_zoo.models.data_adapters import (
    is_text,
    is_tf_dataset,
    keras_arguments,
    split_rows,
    with_whole_batches,
)
from bert_zoo.models.direct import predict_texts, runs_alone
from bert_zoo.models.graphs import Graphs
from bert_zoo.models.head_arguments import Asked, Told
from bert_zoo.models.inputs import (
    check_batch_size,
    check_is_dict,
    check_is_integer,
    outside,
    tokens_of,
)
from bert_zoo.models.labels import LabelRange, checked_labels, label_arrays, read_class_weight
from bert_zoo.models.onnx_conversion import converting
from bert_zoo.models.quantization import (
    can_be_quantized,
    check_mode,
    quantize_layers,
    quantized_layers,
)
from bert_zoo.models.replicas import (
    LossScaling,
    LossTracker,
    check_several_steps,
    compiles_for_each_shape,
    divided_rows,
    is_on_tpu,
    warn_of_clipping,
    whole_everywhere,
    with_one_row,
)
from bert_zoo.models.row_batches import RowBatches
from bert_zoo.weights.bind import named_variables, set_trained_layers, trained_layers

# What Keras's own export takes, of what the model reads.
EXPORTED_IDS = ("token_ids", "char_ids", "segment_ids", "padding_mask")


@dataclass(frozen=True)
class Interface:
    """The names of a SavedModel's signatures; `bert_zoo.serving` traces them.

    Attributes:
        outputs: outputs that signatures give, as far as the model has them. A model that returns a
            tensor has one.
        row_outputs: outputs with one vector per row rather than per token (only for models whose other
            outputs are per token).
        texts: inputs of the signature that takes texts -> their rank.
        pairs: whether one text or two can be read.
        labels: inputs int [batch, length] that the model reads beside those of its encoder.
        needs_labels: whether it cannot do without them; they may have a length of their own then.
        steps: signatures that carry a state, of models that have one -> whether they give the next
            token's log-probabilities and nothing else.
        text_name: what the signature that takes texts is called beside `serving_default`.
    """

    outputs: tuple[str, ...] = ("logits",)
    row_outputs: tuple[str, ...] = ()
    texts: tuple[tuple[str, int], ...] = (("text", 1),)
    pairs: bool = True
    labels: tuple[str, ...] = ()
    needs_labels: bool = False
    steps: tuple[tuple[str, bool], ...] = (("step", False),)
    text_name: str | None = None


class ZooModel(keras.Model):
    """A Keras model that also takes raw text wherever data goes in.

    Attributes:
        task: the name that `load` knows it by.
        labels: the names of its classes, in the order of their numbers, where it has classes.
        labels_are_texts: whether its labels are texts, as long as those that it reads.
        ids_rank: axes of the ids that it is called with.
        peft_task: what peft's `task_type` says of adapters of such models, if it has a word for them.
        output_activation: what makes probabilities of its outputs: "softmax", "sigmoid"; None where
            these are no logits of classes.
        outputs_per_token: whether outputs carry the length of the input, so that `predict` has to
            pad all batches alike.
        reads_columns: whether it can be called with a tuple of input dicts, of rows of several texts.
        shared_columns: of these, how many columns of texts are read together with each of the others.
        reads_windows: whether it reads long texts in windows.
        fixes_encoder: whether its encoder is not trained and drops nothing out.
        pools_windows: whether outputs of the windows of a long text can be pooled to those of the text.
        positions_read: further integer inputs holding positions in the text, shape [batch, n, ...],
            mapped to the sizes of their trailing axes.
        second_ids: inputs of ids for another part of the model, which reads `token_ids` by default.
        state: names of inputs that the call before returned; see `bert_zoo.layers.Backbone`.
        taught_by: how a student is compared with a teacher of the task, a key of
            `bert_zoo.distillation.losses.MATCHES`; None where there is no way.
        truncation: which text of a pair is cut when both are too long together; None leaves it to the
            preprocessor.
        untracked: attributes that Keras does not see being set.
        traced_settings: attributes that `call` and verbs read beside layers and weights.
        replaces: the task whose models this one is loaded in place of, where a checkpoint was trained for
            this one.
        least_logits: the fewest logits of a trained head that the task can use.
        if_untrained: what is wrong with a checkpoint that was not trained for the task, where that is not
            seen in its weights.
        default_optimizer: the function of `bert_zoo.training.optimizers` that makes the task's
            optimizer; None where there is nothing to train.
        default_loss_weights: by output; None for 1 each.
        interface: what its SavedModel takes and gives.
    """

    task: str
    labels: tuple[str, ...] = ()
    labels_are_texts = False
    ids_rank = 2
    output_activation: str | None = None
    reads_columns = False
    shared_columns = 0
    reads_windows = False
    fixes_encoder = False
    outputs_per_token = False
    peft_task: str | None = None
    pools_windows = False
    positions_read: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    second_ids: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    taught_by: str | None = None
    truncation: str | None = None
    untracked: tuple[str, ...] = ("preprocessor",)
    traced_settings: tuple[str, ...] = ()
    replaces: str | None = None
    least_logits = 1
    if_untrained: str | None = None
    default_optimizer: str | None = None
    default_loss_weights: Mapping[str, float] | None = None
    interface = Interface()

    def __init__(self, *args, name: str | None = None, **kwargs):
        refuse_fork()
        super().__init__(*args, name=name or self._free_name(), **kwargs)

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
        """The model that this one adds to. (No property: Keras would write its weights under that name.)"""
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
        """Whether every call returns the state, and not only those that are given one."""
        return bool(self.state) and not encoder_of(self).backbone.state_is_optional

    @functools.cached_property
    def graphs(self) -> Graphs:
        """What verbs have traced; see `bert_zoo.models.graphs`."""
        return Graphs()

    @property
    def text_reader(self):
        """What `texts_to_inputs` is given in `fit`, `evaluate` and `predict`: the preprocessor."""
        return self.preprocessor

    def id_limits(self) -> dict[str, tuple[int, str]]:
        """Input name -> (ids lie in [0, this), what the limit is)."""
        return self.inner().id_limits()

    def head_limits(self, inputs) -> dict[str, tuple[Any, str]]:
        """As `id_limits`, of inputs that the head reads, whose limits depend on other inputs."""
        length = ops.shape(tokens_of(inputs))[-1]
        return dict.fromkeys(self.positions_read, (length, "the length of the input"))

    @property
    def longest_input(self) -> int:
        """The most tokens that a row may have."""
        return self.inner().longest_input

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        """Output name ("" for a lone output) -> what its labels may be; none for other numbers.

        They may be bounded by the shapes of inputs: ids or texts, arrays or tensors.
        """
        return {}

    @classmethod
    def head_arguments(cls, asked: Asked, told: Told) -> dict[str, Any]:
        """The arguments of a model beside its encoder: what the user asks for, else what the checkpoint says."""
        asked.refuse_classes(cls.task)
        asked.refuse_thresholds(cls.task)
        return {}

    @property
    def labels_to_save(self) -> tuple[str, ...] | None:
        """The names that a saved model keeps; None where it has none of its own."""
        return None

    def default_loss(self) -> Any:
        """The task's loss, or losses by output; None for a model that computes its own."""
        return None

    def default_metrics(self) -> list[Any] | None:
        """What `fit` and `evaluate` report beside the loss."""
        return None

    def answers_as_teacher(self, texts, batch_size: int = 32):
        """What a student learns of this model: its outputs for texts, float32 [rows, size].

        Args:
            texts: as `predict` takes them, in lists; a row is a text, or a pair.
            batch_size: rows a step.
        """
        return self.predict(texts, batch_size=batch_size, verbose=0)

    def served_answers(self, outputs: dict[str, Any]) -> dict[str, Any]:
        """What a SavedModel computes for its clients from the outputs of `interface`; on TensorFlow."""
        return {}

    def served_of_texts(
        self, texts: tuple, run: Callable[[dict[str, Any]], dict[str, Any]], preprocessor
    ) -> dict[str, Any]:
        """What a SavedModel gives for texts; traceable, on TensorFlow.

        Args:
            texts: the tensors of `interface.texts`, or of a pair.
            run: from ids to what is served of them.
            preprocessor: what reads texts.
        """
        ids = self.texts_to_inputs(texts if len(texts) > 1 else texts[0], preprocessor)
        outputs = run(ids)
        # Without them, a client could not tell what the rows stand for.
        return outputs | ids if self.outputs_per_token else outputs

    @property
    def inputs_apart(self) -> dict[str, tuple[int | None, ...]]:
        """Inputs beside ids and mask, each in a signature of its own where the model is served -> its
        shape, None where that is free."""
        ids = encoder_of(self).backbone.inputs
        more = [*self.second_ids, *(name for name in ids if ids[name].is_apart)]
        positions = {name: (None, None, *axes) for name, axes in self.positions_read.items()}
        return positions | dict.fromkeys(more, (None,) * self.ids_rank)

    def portable_verb(self) -> dict[str, Any]:
        """What `bert_zoo.runtime` needs to answer as the model's verb does: its name as `verb`, and what
        the verb reads of the model beside its outputs. Empty where there is none."""
        return {}

    def served_variables(self) -> list[keras.Variable]:
        """Those that exports hold: what only a loss reads, they leave out."""
        return self.variables

    @property
    def stacks(self) -> tuple[keras.layers.Layer, ...]:
        """What holds `blocks` that LoRA and `rematerialize` are for: the encoder's stack, and a decoder."""
        return (encoder_of(self).backbone.groups().stack,)

    def levels_below_head(self) -> dict[int, int]:
        """The encoder's variables by id, and how many layers below the head each lies; see `Groups`."""
        return encoder_of(self).backbone.groups().levels_below_head()

    def __call__(self, inputs, *args, **kwargs):
        refuse_fork()
        # Before Keras, whose word on text is that strings are no tensors.
        are_columns = self.reads_columns and isinstance(inputs, tuple)
        for part in inputs if are_columns else (inputs,):
            check_is_dict(part)
            for name in self.id_limits():
                if isinstance(part.get(name), keras.KerasTensor):
                    check_is_integer(name, part[name])
        return super().__call__(divided_rows(inputs), *args, **kwargs)

    def as_text_rows(self, x):
        """Strings from the user, checked, as a string tensor or a tuple of two."""
        from bert_zoo.text.batches import text_batch

        if isinstance(x, tuple):
            if len(x) != 2:
                raise ValueError(f"A pair of texts is (first, second); got {len(x)} parts.")
            return text_batch(x[0], "first texts"), text_batch(x[1], "second texts")
        return text_batch(x)

    def texts_to_inputs(self, texts, preprocessor):
        """A batch of texts, or a pair of batches, to the input dict; traceable."""
        return preprocessor(self.prompted(texts))

    def prompted(self, texts):
        """Texts with what the model has stand before them; traceable."""
        return texts

    def as_text_labels(self, texts, y):
        """Labels from the user, as numbers, in rows beside those of `as_text_rows`."""
        return label_arrays(self, texts, y)

    def labelled_texts_to_inputs(self, texts, labels, preprocessor):
        """As `texts_to_inputs`, with the labels as the loss reads them; traceable."""
        return self.texts_to_inputs(texts, preprocessor), checked_labels(self, texts, labels)

    def training_arguments(self, x, y=None, sample_weight=None, **options) -> dict[str, Any]:
        """Keras's data arguments of `fit` and `evaluate`; `options` are those of `keras_arguments`."""
        return keras_arguments(self, x, y, sample_weight, labelled=True, **options)

    def dataset_of_rows(self, x, y, sample_weight, *, batch_size: int, shuffle: bool):
        """What `fit` is given in memory as a tf.data of batches of (inputs, labels).

        None where a text with its label is a row, and there is nothing to divide into rows.
        """
        return None

    def check_in_graph(self, inputs):
        """The inputs, checked when the TensorFlow graph that this is called in runs.

        GPUs read zeros, in silence, where an id is outside of a table.
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

        Keras's "auto" turns XLA on there; it would compile anew for every length of a batch, fuses
        less on CPUs than oneDNN, and breaks TPUStrategy (keras#19448).

        Outputs are logits: losses take `from_logits=True`, and metrics of Keras that read
        probabilities are given these (`bert_zoo.models.metrics.OfLogits`). Where they are of tokens, the metric
        "accuracy" leaves out labels of -100, as `bert_zoo.training.TokenAccuracy`; Keras's own
        metric objects count them as wrong.
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
        # Behind the scaling of losses, where Keras has wrapped it for float16.
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if on_tensorflow:
            with self.distribute_strategy.scope():
                private.set_loss_tracker(self, LossTracker(name="loss"))
                if type(self.optimizer) is keras.optimizers.LossScaleOptimizer:
                    self.optimizer = LossScaling.around(self.optimizer)
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
        # Keras 3.15 gives a model of one's own its `trainable` as an argument, which then reads False
        # and freezes nothing, and forgets what is set on the layers inside.
        config = dict(config)
        trained = config.pop("trained_layers", {})
        quantized = config.pop("quantized_layers", {})
        config.pop("trainable", None)
        model = super().from_config(config, custom_objects)
        quantize_layers(model, quantized)
        set_trained_layers(model, trained)
        return model

    def quantize(self, mode: str | None = None, **options) -> None:
        """As in Keras, to "int8"; `.keras` files and exports hold the quantized model.

        Raises:
            ValueError: another mode.
        """
        check_mode(mode)
        # Not of Keras 3.10.
        if "filters" in inspect.signature(keras.Model.quantize).parameters:
            options = {"filters": can_be_quantized, **options}
        super().quantize(mode, **options)

    def compile_from_config(self, config):
        # Keras 3.15 leaves loaded models uncompiled whose class has a `compile` of its own.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs):
        # tf.train.Checkpoint goes by it. Of Keras 3.15's it sees neither layers in lists, as blocks are,
        # nor the states of dropout.
        children = super()._trackable_children(save_type, **kwargs)
        is_checkpoint = save_type == "checkpoint"
        return children | named_variables(self, "variables") if is_checkpoint else children

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Keras 3.15 leaves the variables of optimizer and metrics to the first trace of a step, and
        # TensorFlow traces a function that made variables twice. Under a tf.distribute strategy it
        # makes them before, but with the mean of the replicas' first batches, which turns ids
        # into floats, and across workers with nothing that it can use (keras#20585).
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
        return super()._make_function(step_function, **kwargs)

    def make_train_function(self, force=False):
        if keras.backend.backend() == "torch":
            raise ValueError(
                "Training is not supported on Keras's torch backend, where models only compute and "
                "predict: their gradients are written for TensorFlow and JAX. Set KERAS_BACKEND to "
                "'tensorflow', or to 'jax', before Keras is imported."
            )
        return super().make_train_function(force)

    def predict_step(self, *args):
        return whole_everywhere(super().predict_step(*args))

    def _trace_prediction_for(self, data) -> None:
        """Traces `predict` once for batches of every length.

        Keras 3.15 hands it the batches themselves (and `evaluate` an iterator, which has no lengths), so
        that TensorFlow traces the first length, then the next with the length left open, and then the
        last batch, which has fewer rows.
        """
        if keras.backend.backend() != "tensorflow" or self.run_eagerly or not is_tf_dataset(data):
            return
        if private.strategy_of(self) is None and self.steps_per_execution == 1:
            self.make_predict_function()
            self.predict_function.get_concrete_function([data.element_spec])

    def export(self, filepath, format: str = "tf_saved_model", *, input_signature=None, **kwargs):
        """As in Keras, on ids of any batch and length: `token_ids`, `segment_ids`, `padding_mask`.

        `bert_zoo.export` writes SavedModels that take text, and ONNX files with named axes.

        Raises:
            ValueError: a model with a memory, whose outputs Keras cannot export.
        """
        if self.always_gives_state:
            raise ValueError(
                "Keras exports no model that returns a memory, a list of tensors. Use "
                "bert_zoo.export(model, directory), whose signatures take and give it."
            )
        if input_signature is None:
            input_signature = [self._specs_of_ids(keras.InputSpec)]
        converts = format == "onnx" and keras.backend.backend() == "tensorflow"
        with converting() if converts else contextlib.nullcontext():
            super().export(filepath, format=format, input_signature=input_signature, **kwargs)

    @property
    def _default_save_signature(self):
        # Keras's own, which tf.saved_model.save traces, calls every model with one tensor.
        import tensorflow as tf

        @tf.function(input_signature=(self._specs_of_ids(tf.TensorSpec),), autograph=False)
        def serving_default(inputs):
            return self(inputs, training=False)

        return serving_default

    def _specs_of_ids(self, spec: type) -> dict[str, Any]:
        names = [name for name in EXPORTED_IDS if name in self.id_limits()]
        return {n: spec(dtype="int32", shape=self.ids_shape(n), name=n) for n in names}

    def ids_shape(self, name: str) -> tuple[None, ...]:
        """The shape of an input of ids, free in all axes."""
        ids = encoder_of(self).backbone.inputs.get(name)
        return (None,) * (self.ids_rank + (0 if ids is None else len(ids.axes) - 2))

    @contextlib.contextmanager
    def _fresh_functions_after_errors(self):
        """Lets a user mend a mistake and call `fit` again.

        Keras 3.15 keeps a function whose first trace failed half-way, and TensorFlow then refuses
        the variables of optimizer and metrics in every later one.
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
        """As in Keras; `x` may also be strings, a pair of string batches, or a tf.data of them.

        Labels of classes may be their names, and `class_weight` is by name or number.
        """
        if not self.compiled:
            raise ValueError(
                f"This model, of task {self.task!r}, has no loss yet, so fit() cannot train it. Compile it "
                "with a loss for its outputs: model.compile(optimizer, loss); or load the checkpoint for a "
                "task that has one, such as load(name, task='classification')."
            )
        if validation_batch_size is not None:
            check_batch_size(validation_batch_size, "validation_batch_size")
        class_weights, class_weight = read_class_weight(self, class_weight)
        if validation_split:
            (x, y, sample_weight), validation_data = split_rows(
                validation_split, x, y, sample_weight
            )
        options = {"batch_size": batch_size, "shuffle": shuffle, "class_weights": class_weights}
        data = self.training_arguments(x, y, sample_weight, **options)
        if validation_data is not None:
            parts = validation_data if isinstance(validation_data, tuple) else (validation_data,)
            rows = validation_batch_size or batch_size
            validation = self.training_arguments(*parts, batch_size=rows)
            validation_data = validation["x"]
            if "y" in validation:
                columns = (validation[name] for name in ("x", "y", "sample_weight"))
                validation_data = tuple(column for column in columns if column is not None)
                kwargs["validation_batch_size"] = validation["batch_size"]
        # Keras shuffles arrays and PyDatasets, and warns where it is asked to shuffle others.
        is_finite = getattr(data["x"], "num_batches", None) is not None
        shuffles_itself = isinstance(data["x"], RowBatches)
        kwargs["shuffle"] = shuffle and not shuffles_itself and ("batch_size" in data or is_finite)
        with (
            warning_of_cut_texts(self, x, columns=self.reads_columns) as end_counting,
            self._fresh_functions_after_errors(),
        ):
            if end_counting:
                kwargs["callbacks"] = ended_after_an_epoch(kwargs.get("callbacks"), end_counting)
            kwargs |= {"validation_data": validation_data, "class_weight": class_weight}
            return super().fit(**data, epochs=epochs, **kwargs)

    def evaluate(
        self, x=None, y=None, batch_size: int | None = None, *, sample_weight=None, **kwargs
    ):
        """As in Keras, on the same kinds of data as `fit`."""
        data = {"x": x}
        if not isinstance(x, RowBatches):  # those of `fit`, which Keras passes on
            data = self.training_arguments(x, y, sample_weight, batch_size=batch_size)
        counting = warning_of_cut_texts(self, x, columns=self.reads_columns)
        with counting, self._fresh_functions_after_errors():
            return super().evaluate(**data, **kwargs)

    def predict(self, x, batch_size: int | None = None, verbose="auto", **kwargs):
        """As in Keras, on the same kinds of data as `fit`.

        Texts in memory go through without a tf.data pipeline, which takes longer to set up than short
        texts do, unless there are callbacks, a number of steps, XLA or replicas.
        """
        with warning_of_cut_texts(self, x):
            if is_text(x) and not kwargs and runs_alone(self):
                return predict_texts(self, x, batch_size, verbose)
            rows = None
            if compiles_for_each_shape(getattr(self, "distribute_strategy", None)):
                x, rows = with_whole_batches(self, x, batch_size)
            one_length = self.outputs_per_token
            data = keras_arguments(self, x, batch_size=batch_size, one_length=one_length)
            self._trace_prediction_for(data["x"])
            rows_a_step = data.get("batch_size")
            outputs = super().predict(data["x"], rows_a_step, verbose=verbose, **kwargs)
            return keras.tree.map_structure(lambda output: output[:rows], outputs)


def encoder_of(model: ZooModel):
    """The encoder that a model is, or that stands below all that it adds."""
    while model.inner() is not None:
        model = model.inner()
    return model
