"""Models for tasks: an encoder with a head."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.heads import MaskedLMHead, OutputHead, SpanBoundaryHead, pool
from bert_zoo.models import tagging
from bert_zoo.models.base import ZooModel
from bert_zoo.models.compiling import ACCURACY
from bert_zoo.models.cores import in_shares
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.inputs import PLACES, check_range, check_rank
from bert_zoo.models.labels import LabelRange, LabelSets, label_names
from bert_zoo.models.long_texts import are_rows, over_windows
from bert_zoo.models.thresholds import DEFAULT_THRESHOLD, Thresholds, label_thresholds
from bert_zoo.registry import Family, registry

log = logging.getLogger("bert_zoo")


class TaskModel(ZooModel):
    """An encoder and what stands on it.

    Args:
        encoder: an `Encoder`, or its configuration when Keras rebuilds a saved model.

    Attributes:
        reads_first_only: whether the head reads nothing of the encoder's but the first token, which
            saves most of the last layer.
    """

    reads_first_only = False

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

    @property
    def longest_input(self) -> int:
        return self.encoder.longest_input

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

        return in_shares(outputs, inputs)

    def outputs_of_rows(self, inputs, training=None):
        """As `call`, of inputs that are rows of their own and no windows."""
        options = {"first_only": True} if self.reads_first_only else {}
        encoded = self.encoder(self.encoder_inputs(inputs), training=training, **options)
        return self.head_outputs(encoded, inputs, training)

    def window_outputs(self, inputs, training=None):
        """What is pooled of the windows of long texts: ids [rows, length] to [rows, size]."""
        return self.outputs_of_rows(inputs, training)

    def from_pooled(self, outputs):
        """What the model gives for texts, from the pooled outputs of their windows."""
        return outputs

    @property
    def family(self) -> Family:
        return registry().families[self.encoder.family]

    def output_head(self, units: int, name: str, dropout: float, **options) -> OutputHead:
        config = self.encoder.config
        return OutputHead(
            units,
            dropout=dropout,
            initializer_range=config.initializer_range,
            dtype=self.dtype_policy,
            name=name,
            **options,
        )

    @property
    def reads_pooler(self) -> bool:
        return self.family.heads[self.task].pooler

    def sentence_head(self, units: int) -> OutputHead:
        """A head over a whole text; where the family reads no pooler, with a layer in its place."""
        config = self.encoder.config
        return self.output_head(
            units,
            "classifier",
            config.head_dropout,
            transform_size=0 if self.reads_pooler else config.hidden_size,
        )

    def summary_of(self, encoded):
        """What a head over a whole text reads, [batch, hidden]."""
        return encoded["pooled_output"] if self.reads_pooler else encoded["sequence_output"][:, 0]

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
        labels: their names, see `bert_zoo.models.labels.label_names`.
    """

    def __init__(
        self,
        encoder,
        num_classes: int | None = None,
        labels: Sequence[str] | Mapping | None = None,
        **kwargs,
    ):
        self.labels = label_names(num_classes, labels)
        super().__init__(encoder, **kwargs)

    @property
    def num_classes(self) -> int:
        return len(self.labels)

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        what = "the number of labels"
        axes = ("batch", "length") if self.outputs_per_token else ("batch",)
        return {"": LabelRange(self.num_classes, what, axes, self.labels)}

    def get_config(self):
        return {**super().get_config(), "labels": list(self.labels)}


@keras.saving.register_keras_serializable("bert_zoo")
class Classifier(LabelledModel):
    """Logits [batch, classes] over the first token."""

    task = "classification"
    reads_first_only = True
    pools_windows = True

    def add_head(self, config):
        self.classifier = self.sentence_head(self.num_classes)

    def build(self, input_shape):
        self.classifier.build((None, self.encoder.config.hidden_size))
        self.built = True

    def head_outputs(self, encoded, inputs, training=None):
        return self.classifier(self.summary_of(encoded), training=training)

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None):
        """The likeliest label of each text, with its probability.

        Args:
            texts: strings, or a pair of string batches.
            batch_size: texts a step.
            top_k: how many of the likeliest labels are given; one by default.

        Returns:
            A list of `Classification(text, label, score, scores, top)` that prints as a table.
        """
        from bert_zoo.models.verbs import classify, likeliest

        return classify(self, texts, batch_size, top_k, likeliest)


@keras.saving.register_keras_serializable("bert_zoo")
class MultiLabelClassifier(Classifier):
    """Logits [batch, classes] over the first token, of which any number of classes may apply.

    A class's probability is the sigmoid of its logit. Labels are rows of 0 and 1, [batch, classes],
    or for each text a list or set of names; in tf.data, strings [batch, names], ragged or filled up
    with "".

    Args:
        encoder, num_classes, labels: as in `LabelledModel`.
        thresholds: what a label's probability must be above for the label to count: a number, one for
            each label, or a dict by name. It can be set on the model too.
    """

    task = "multi_label_classification"

    def __init__(
        self,
        encoder,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        thresholds: Thresholds = DEFAULT_THRESHOLD,
        **kwargs,
    ):
        super().__init__(encoder, num_classes, labels, **kwargs)
        self.thresholds = thresholds

    @property
    def thresholds(self) -> tuple[float, ...]:
        """One probability a label."""
        return self._thresholds

    @thresholds.setter
    def thresholds(self, value: Thresholds) -> None:
        from bert_zoo.training.metrics import LabelF1

        self._thresholds = label_thresholds(value, self.labels)
        # What the model is compiled with decides by them too, from the next trace on.
        for metric in self._metrics_given():
            if isinstance(metric, LabelF1):
                metric.thresholds = self._thresholds
        self.train_function = self.test_function = None

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None):
        """Every label of each text whose probability is above its threshold.

        Args:
            texts: strings, or a pair of string batches.
            batch_size: texts a step.
            top_k: the most labels a text; all by default.

        Returns:
            A list of `MultiLabelClassification(text, labels, scores)` that prints as a table.
        """
        from bert_zoo.models.verbs import above_thresholds, classify

        return classify(self, texts, batch_size, top_k, above_thresholds)

    def _metrics_given(self) -> list[Any]:
        """What `compile` was given, not yet made into objects where these are names."""
        return keras.tree.flatten(getattr(self._compile_metrics, "_user_metrics", None))

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        if any(isinstance(metric, str) and metric in ACCURACY for metric in self._metrics_given()):
            log.warning(
                "Keras's accuracy compares the one likeliest label of each text, of which a multi-label "
                "model may find any number. Leave it out for micro and macro F1, which "
                "bert_zoo.training.compile_for_task(model, optimizer) compiles with."
            )

    def fit(self, *args, class_weight=None, **kwargs):
        if class_weight is not None:
            raise ValueError(
                "class_weight weighs a row by its one class, and rows of a multi-label model have any "
                "number. Pass sample_weight, one number a row, or compile with a loss that weighs labels."
            )
        return super().fit(*args, **kwargs)

    def label_ranges(self, inputs) -> dict[str, LabelSets]:
        return {"": LabelSets(self.labels)}

    def get_config(self):
        return {**super().get_config(), "thresholds": list(self.thresholds)}


@keras.saving.register_keras_serializable("bert_zoo")
class Regressor(TaskModel):
    """One number a text, [batch, 1], over the first token."""

    task = "regression"
    reads_first_only = True
    pools_windows = True

    def add_head(self, config):
        self.classifier = self.sentence_head(1)

    build = Classifier.build
    head_outputs = Classifier.head_outputs


@keras.saving.register_keras_serializable("bert_zoo")
class TokenClassifier(LabelledModel):
    """Logits [batch, length, classes], one row a token.

    Beside texts, `fit`, `evaluate` and `predict` take sentences of words, a list of lists of strings
    or a ragged tensor [batch, (words)]. Labels are those of words then, ids or names, a list for
    each sentence; with raw texts, of what stands between white space. tf.data has ragged rows of
    them. Beside ids there is a label for each token, -100 where none is to be learned.
    """

    task = "token_classification"
    outputs_per_token = True

    def add_head(self, config):
        self.classifier = self.output_head(self.num_classes, "classifier", config.head_dropout)

    def build(self, input_shape):
        self.classifier.build((None, None, self.encoder.config.hidden_size))
        self.built = True

    def head_outputs(self, encoded, inputs, training=None):
        return self.classifier(encoded["sequence_output"], training=training)

    def as_text_rows(self, x):
        from bert_zoo.text.words import has_rows_of_words, word_batch

        return word_batch(x) if has_rows_of_words(x) else super().as_text_rows(x)

    def as_text_labels(self, texts, y):
        return tagging.label_rows(self, texts, y)

    def texts_to_inputs(self, texts, preprocessor):
        from bert_zoo.text.words import has_rows_of_words, pack_words

        if has_rows_of_words(texts):
            return pack_words(texts, preprocessor).inputs
        return super().texts_to_inputs(texts, preprocessor)

    def labelled_texts_to_inputs(self, texts, labels, preprocessor):
        return tagging.labelled_words_to_inputs(self, texts, labels, preprocessor)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """As in Keras; what labels padding has, metrics do not see."""
        if "padding_mask" in x:
            y = ops.where(ops.equal(x["padding_mask"], 0), IGNORED_LABEL, y)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def tag(self, texts, aggregate: bool = True, batch_size: int = 32):
        """The likeliest label of each word, and the spans that labels such as "B-LOC" mark.

        Texts that are too long for the model are read in parts, cut between words.

        Args:
            texts: a text or several, which are split at white space and around punctuation (a mark
                is a word); or lists of words, as the training data have them.
            aggregate: whether labels of a tag scheme are read as spans.
            batch_size: rows a step.

        Returns:
            A list of `Tagging(text, words, spans)` that prints texts with their spans marked,
            "[Berlin]LOC 0.99", or tables of words where there are no spans to read.
        """
        return tagging.tag(self, texts, aggregate, batch_size)


@keras.saving.register_keras_serializable("bert_zoo")
class QuestionAnswerer(TaskModel):
    """Where an answer starts and ends: a dict of logits [batch, length].

    `fit` and `evaluate` take x = (questions, contexts) and y = answers, one for each question: a
    tuple (text, start), where it starts in the context in characters; SQuAD's {"text": ...,
    "answer_start": ...}, of one or with lists of several, of which the first is trained; None where
    the context has no answer. Contexts are read whole, in the windows that `answer` reads by
    default, and rows of a batch are windows: those that do not show all of the answer are trained
    to point at the first token. With a dict of positions as y, a pair is one row, cut where it is
    too long, as in `predict`.

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
        length = length or self.longest_input
        return dict.fromkeys(
            ("start_logits", "end_logits"), LabelRange(length, "the length of the input")
        )

    def dataset_of_rows(self, x, y, sample_weight, **options):
        is_of_positions = isinstance(y, Mapping) and set(y) == set(self.label_ranges(x))
        if y is None or is_of_positions:
            return None
        from bert_zoo.models.question_answering import answered_batches

        return answered_batches(self, x, y, sample_weight, **options)

    def answer(
        self,
        question,
        context,
        no_answer_threshold: float | None = 0.0,
        *,
        n_best: int = 20,
        max_answer_length: int = 30,
        stride: int = 128,
        max_question_length: int = 64,
        batch_size: int = 32,
    ):
        """The part of a context that answers a question, or no answer.

        A context of any length is read whole, in windows that overlap.

        Args:
            question: a string, or several.
            context: a string, or several. Question i is about context i; a single string goes with
                all of the other.
            no_answer_threshold: there is no answer where the log-odds of that against the best span
                are above it; higher values give more answers. None: there always is one, which is
                right for a model that was trained without unanswerable questions (SQuAD 1.1).
            n_best: number of candidates.
            max_answer_length: in tokens.
            stride: tokens from the beginning of a window to that of the next one.
            max_question_length: tokens that a longer question is cut to, with a word on the log.
            batch_size: windows a step.

        Returns:
            `SpanAnswer(question, context, text, start, end, score, no_answer_score, candidates)`,
            which prints the answer with what stands around it; where there are several, a list of
            them that prints as a table.

        Raises:
            TypeError, ValueError: something that is no text, different numbers of questions and
                contexts, a context without text, or an option outside its range.

        Source: google-research/bert, run_squad.py.
        """
        from bert_zoo.models.question_answering import answer

        return answer(
            self,
            question,
            context,
            no_answer_threshold,
            n_best=n_best,
            max_answer_length=max_answer_length,
            stride=stride,
            max_question_length=max_question_length,
            batch_size=batch_size,
        )


@keras.saving.register_keras_serializable("bert_zoo")
class MultipleChoice(TaskModel):
    """Logits [batch, choices]; inputs are [batch, choices, length].

    As text: a pair of the prompts [batch] and the choices [batch, choices].
    Source: Hugging Face BertForMultipleChoice (Google's repository has no such program).
    """

    task = "multiple_choice"
    ids_rank = 3
    reads_first_only = True

    def add_head(self, config):
        self.classifier = self.sentence_head(1)

    build = Classifier.build

    def encoder_inputs(self, inputs):
        token_ids = ops.convert_to_tensor(inputs["token_ids"])
        check_rank(token_ids, 3, "[batch, choices, length]")
        shape = ops.shape(token_ids)
        return {name: ops.reshape(value, (-1, shape[2])) for name, value in inputs.items()}

    def head_outputs(self, encoded, inputs, training=None):
        logits = self.classifier(self.summary_of(encoded), training=training)
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
    places_read = ("mask_positions",)

    def add_head(self, config):
        self.masked_lm = MaskedLMHead(
            config.vocab_size,
            config.table_width,
            activation=self.family.heads[self.task].activation or config.activation,
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
        return {name: value for name, value in inputs.items() if name not in PLACES}

    @property
    def token_table(self):
        return self.encoder.embeddings.token_embedding.embeddings

    def places(self, inputs, name: str):
        """The input of that name, checked to lie in the text; None where it is not given."""
        places, length = inputs.get(name), inputs["token_ids"].shape[1]
        if places is not None and length is not None:
            check_range(name, places, length, "the length of the input")
        return places

    def head_outputs(self, encoded, inputs, training=None):
        positions = self.places(inputs, "mask_positions")
        return self.masked_lm(encoded["sequence_output"], self.token_table, positions)

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        return {"": self.token_label_range}

    def fill_mask(self, text: str, targets: str | Sequence[str] | None = None, top_k: int = 5):
        """The likeliest tokens in the place of each mask of a text.

        Args:
            text: a text with the tokenizer's mask in it, once or more: "[MASK]" of BERT and ALBERT,
                "<mask>" of RoBERTa. Of several masks each is filled while the others stay.
            targets: words to rank, each one token in that place, instead of the vocabulary; or
                tokens as the vocabulary spells them ("##ing").
            top_k: candidates a mask; targets are returned all.

        Returns:
            For each mask a list of `Candidate(token, token_id, score, text, start)`, likeliest first;
            prints as tables. Scores are probabilities among the whole vocabulary, as those of
            Hugging Face's fill-mask pipeline.

        Raises:
            ValueError: the text has no mask or is too long, or a target is not one token.
        """
        from bert_zoo.models.fill_mask import fill_mask

        return fill_mask(self, text, targets, top_k)

    @property
    def token_label_range(self) -> LabelRange:
        size = self.encoder.config.vocab_size
        return LabelRange(size, "the size of the vocabulary", ("batch", "length"))


@dataclass(frozen=True)
class SentenceObjective:
    """Two classes over the pooled first token.

    Attributes:
        output: name of the logits [batch, 2].
        classes: what the two are.
        reads: keys of `PLACES`.
    """

    output: str
    classes: str
    reads: tuple[str, ...] = ()

    def add_head(self, model: "Pretraining", name: str) -> keras.layers.Layer:
        # The originals have no dropout before this layer.
        head = model.output_head(2, name, dropout=0.0)
        head.build((None, model.encoder.config.hidden_size))
        return head

    def logits(self, head, model: "Pretraining", encoded, inputs):
        return head(encoded["pooled_output"])

    def label_range(self, model: "Pretraining") -> LabelRange:
        return LabelRange(2, self.classes)


@dataclass(frozen=True)
class SpanObjective:
    """The tokens of spans, where `span_boundaries` [batch, spans, 2] are given.

    Attributes:
        output: name of the logits [batch, spans, targets, vocabulary].
        reads: keys of `PLACES`.
    """

    output: str
    reads: tuple[str, ...] = ("span_boundaries",)

    def add_head(self, model: "Pretraining", name: str) -> keras.layers.Layer:
        config = model.encoder.config
        head = SpanBoundaryHead(
            config.vocab_size,
            config.hidden_size,
            max_targets=config.span_targets,
            activation=config.activation,
            epsilon=config.layer_norm_epsilon,
            initializer_range=config.initializer_range,
            dtype=model.dtype_policy,
            name=name,
        )
        head.build((None, None, config.hidden_size))
        return head

    def logits(self, head, model: "Pretraining", encoded, inputs):
        boundaries = model.places(inputs, "span_boundaries")
        if boundaries is None:
            return None
        return head(encoded["sequence_output"], model.token_table, boundaries)

    def label_range(self, model: "Pretraining") -> LabelRange:
        return replace(model.token_label_range, axes=("batch", "spans", "targets"))


# What families train beside masked tokens.
OBJECTIVES: dict[str, SentenceObjective | SpanObjective] = {
    "next_sentence": SentenceObjective(
        "nsp_logits", "0 where the second text follows the first, 1 where it does not"
    ),
    "sentence_order": SentenceObjective(
        "sop_logits", "0 where the two texts are in order, 1 where they are swapped"
    ),
    "span_boundary": SpanObjective("sbo_logits"),
}


@keras.saving.register_keras_serializable("bert_zoo")
class Pretraining(MaskedLM):
    """A family's objectives: a dict of `mlm_logits` (as `MaskedLM`) and those of its `objectives`.

    BERT gives `nsp_logits` [batch, 2], ALBERT `sop_logits` [batch, 2], SpanBERT `sbo_logits`
    [batch, spans, targets, vocabulary] where `span_boundaries` [batch, spans, 2] are given.
    """

    task = "pretraining"

    @property
    def places_read(self) -> tuple[str, ...]:
        reads = (place for name in self.family.objectives for place in OBJECTIVES[name].reads)
        return ("mask_positions", *reads)

    def add_head(self, config):
        super().add_head(config)
        for name in self.family.objectives:
            setattr(self, name, OBJECTIVES[name].add_head(self, name))

    def head_outputs(self, encoded, inputs, training=None):
        outputs = {"mlm_logits": super().head_outputs(encoded, inputs, training)}
        for name in self.family.objectives:
            objective = OBJECTIVES[name]
            logits = objective.logits(getattr(self, name), self, encoded, inputs)
            if logits is not None:
                outputs[objective.output] = logits
        return outputs

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        objectives = [OBJECTIVES[name] for name in self.family.objectives]
        ranges = {objective.output: objective.label_range(self) for objective in objectives}
        return {"mlm_logits": self.token_label_range, **ranges}


@keras.saving.register_keras_serializable("bert_zoo")
class SentenceEmbedder(TaskModel):
    """Sentence vectors [batch, hidden], pooled and normalised as the checkpoint's card says."""

    task = "embedding"
    pools_windows = True

    @property
    def reads_first_only(self) -> bool:
        return self.encoder.pooling.reads_first_only

    def add_head(self, config):
        pass

    def build(self, input_shape):
        self.built = True

    def head_outputs(self, encoded, inputs, training=None):
        mask = inputs.get("padding_mask")
        return pool(encoded["sequence_output"], mask, self.encoder.pooling)

    def window_outputs(self, inputs, training=None):
        return self.encoder.window_outputs(inputs, training)

    def from_pooled(self, outputs):
        return self.encoder.from_pooled(outputs)

    def embed(self, texts, batch_size: int = 32):
        """As `Encoder.embed`."""
        return self.encoder.embed(texts, batch_size)
