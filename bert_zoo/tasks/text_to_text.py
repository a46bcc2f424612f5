"""Text-to-text models, which read one text and generate another."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL, UNLIMITED
from bert_zoo.data.buckets import Rows
from bert_zoo.fields import check
from bert_zoo.layers.backbones import PADDING
from bert_zoo.models.base import Interface
from bert_zoo.models.data_adapters import is_tf_dataset, keras_arguments
from bert_zoo.models.direct import for_this_device
from bert_zoo.models.graphs import in_graph, on_model
from bert_zoo.models.inputs import as_ids, check_range, check_rank
from bert_zoo.models.labels import LabelRange, label_arrays
from bert_zoo.models.long_texts import warning_of_cut_texts
from bert_zoo.models.losses import token_loss
from bert_zoo.models.task_model import GeneratingModel, Use
from bert_zoo.models.text_rows import tables_of_texts, with_weights
from bert_zoo.tasks.generation import (
    OPEN,
    Generation,
    IdOutput,
    TextOutput,
    checked_ids,
    filled,
    slots_for,
    with_prefix,
)
from bert_zoo.tasks.logits import without
from bert_zoo.tasks.presets import TextScores, text_score

# -------------------------------------------------------------------------------------------------
# Generation of targets with keras_hub's samplers: sources are encoded once, then the decoder runs step by step.
# -------------------------------------------------------------------------------------------------

# Maximum tokens that a SavedModel generates.
SERVED_TOKENS = 256


@dataclass(frozen=True)
class DecoderStep:
    """A `bert_zoo.tasks.generation.Step` for the decoder."""

    never: tuple[int, ...]  # ids that must not be chosen
    gives_logits: bool = False  # whether scores are logits and not log-probabilities
    fixed: ClassVar[tuple[str, ...]] = ("source", "source_mask")

    def __call__(self, model, tokens, state):
        backbone = model.encoder.backbone
        logits, memory = model.decoder.step(
            backbone.embeddings(tokens[:, None]),
            state["source"],
            state["source_mask"],
            backbone.token_table,
            state["memory"],
            state["start"][0],
        )
        scores = ops.cast(logits[:, 0], "float32")
        scores = scores if self.gives_logits else ops.log_softmax(scores)
        return without(scores, self.never), {**state, "memory": memory, "start": state["start"] + 1}


def _read_sources(model, inputs, *, slots: int):
    """The state before a target's first token, from the encoder's inputs.

    `start`, the number of tokens in memory, is the same for all rows, but like all states has one entry per row.
    """
    encoded = model.encoder.unmasked(inputs, training=False)["sequence_output"]
    rows = ops.shape(encoded)[0]
    return {
        "source": model.decoder.source(encoded),
        "source_mask": ops.convert_to_tensor(inputs["padding_mask"]),
        "memory": model.decoder.initial_memory(rows, slots),
        "start": ops.zeros_like(inputs["token_ids"][:, 0]),
    }


def _read_texts(model, texts, *, preprocessor):
    return for_this_device(preprocessor)(texts)


def served_targets(model, texts, preprocessor):
    """Targets, string [batch], as `generate` writes them by default; in the graph of a SavedModel."""
    import tensorflow as tf

    # A sampler makes a variable, which TensorFlow allows in no trace, and traces belong to threads.
    with ThreadPoolExecutor(1) as outside:
        options = {"own": True, "num_return_sequences": 1}
        generation = outside.submit(Generation, model, **options).result()
    number = generation.new_tokens(1, SERVED_TOKENS)
    if generation.config.prefix is not None:
        texts = tf.strings.join([generation.config.prefix, texts])
    inputs, tokenizer = preprocessor(texts), preprocessor.tokenizer
    start = tf.fill([tf.size(texts), 1], model.start_id)
    tokens = filled(
        model,
        tf.pad(start, [[0, 0], [0, number]], constant_values=OPEN),
        1,
        _read_sources(model, inputs, slots=slots_for(number)),
        step=DecoderStep(_never_chosen(model, sentinels=False), generation.reads_logits),
        sampler=served(generation.sampler),
        stop_ids=generation.stop_ids,
        processor=generation.processor,
    )[:, 1:]
    is_stop = tf.reduce_any(
        tokens[..., None] == tf.constant(generation.stop_ids, tokens.dtype), axis=-1
    )
    is_over = tf.logical_or(is_stop, tokens == OPEN)
    is_shown = tf.cumsum(tf.cast(is_over, tf.int32), axis=1) == 0
    return tokenizer.detokenize(tf.ragged.boolean_mask(tokens, is_shown))


def served(sampler):
    """A sampler of its own, without the variables of its seeds, which a SavedModel would have to hold."""
    drawer = getattr(sampler, "drawer", sampler)
    if getattr(drawer, "variables", ()):
        drawer.seed_generator = ServedSeeds()
    return sampler


class ServedSeeds(keras.random.SeedGenerator):
    """Seeds that TensorFlow draws at each run of a graph."""

    def __init__(self):
        """Makes no variable."""

    def next(self, ordered: bool = True):
        import tensorflow as tf

        return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)


class IdSources(IdOutput):
    """Sources and results as ids, with lengths to sort sources by, int [sources]."""

    def __init__(self, model, sources: Mapping[str, Any], stop_ids):
        token_ids, mask = checked_ids(model, sources, "source")
        super().__init__(token_ids[:, :0])
        self._inputs = {"token_ids": token_ids, "padding_mask": mask}
        self.lengths = np.sum(mask, axis=1)

    def inputs(self, rows: np.ndarray) -> dict[str, Any]:
        """The encoder's inputs for some rows, without columns of padding at the end."""
        inputs = {name: ids[rows] for name, ids in self._inputs.items()}
        end = np.flatnonzero(inputs["padding_mask"].any(axis=0))[-1] + 1
        return {name: ids[:, :end] for name, ids in inputs.items()}


class TextSources(TextOutput):
    """Sources and results as texts, as `IdSources`."""

    def __init__(self, model, sources, stop_ids):
        from bert_zoo.text.batches import strings

        self._texts = strings(sources, "sources")
        self._model = model
        self.lengths = np.array([*map(len, self._texts)])
        shown = [np.zeros(0, "int32")] * len(self._texts)
        super().__init__(model.preprocessor.tokenizer, shown, stop_ids, isinstance(sources, str))

    def inputs(self, rows: np.ndarray) -> dict[str, Any]:
        from bert_zoo.text.batches import text_batch

        model, texts = self._model, text_batch([self._texts[row] for row in rows])
        inputs = in_graph(model, _read_texts, texts, preprocessor=model.preprocessor)
        return {name: np.asarray(ids) for name, ids in inputs.items()}


def _never_chosen(model, sentinels: bool) -> tuple[int, ...]:
    """Padding, ids beyond the vocabulary and, unless allowed, sentinels."""
    if not model.encoder.has_preprocessor:
        return ()
    tokenizer = model.preprocessor.tokenizer
    table, _ = model.id_limits()["token_ids"]
    never = {tokenizer.pad_id, *range(tokenizer.vocab_size, table)}
    return tuple(sorted(never if sentinels else never.union(tokenizer.sentinel_ids)))


# -------------------------------------------------------------------------------------------------
# Likelihoods of targets, token by token.
# -------------------------------------------------------------------------------------------------


def label_log_probs(model, inputs, labels):
    """The labels' log-probabilities, float32 [batch, target length]; without meaning for label -100."""
    logits = ops.cast(model(inputs, training=False), "float32")
    wanted = ops.maximum(labels, 0)[..., None]
    return ops.take_along_axis(logits, wanted, axis=-1)[..., 0] - ops.logsumexp(logits, axis=-1)


# Inputs of the decoder.
TOKENS, MASK, DOCUMENTS = "decoder_token_ids", "decoder_padding_mask", "decoder_document_ids"
PREFIX = "decoder_"


@keras.saving.register_keras_serializable("bert_zoo")
class TextToText(GeneratingModel):
    """Reads a source text and writes a target text.

    Call it with a dict of the encoder's inputs for the source and

    * `decoder_token_ids` int [batch, target length]: the target's tokens shifted to the right, after
      `start_id`, which starts every target;
    * optionally `decoder_padding_mask` (1 = real token; default all real);
    * for rows of several sources and targets, `decoder_document_ids` besides `document_ids`.

    Returns float32 logits of the next tokens, [batch, target length, vocabulary].

    `fit` and `evaluate` take sources and targets as strings, in lists, arrays or a tf.data of pairs; or
    dicts of ids with the targets' tokens as labels, int [batch, target length], -100 for none. If such a
    dict has no `decoder_token_ids`, they are made from the labels. The loss is the mean over all tokens of
    the targets, end tokens included. T5's own loss is `bert_zoo.training.TokenCrossentropy(z_loss=1e-4)`.
    `predict` takes `(sources, targets)` and returns the same logits that `fit` uses.

    Attributes:
        decoder: the layer that reads the target, also step by step for generation; see
            `bert_zoo.families.t5.layers.Decoder`.
    """

    task = "text_to_text"
    verbs = ("generate", "score")
    peft_task = "SEQ_2_SEQ_LM"
    use = Use("text2text-generation", "reads a text and writes another", "model.generate({texts})")
    labels_are_texts = True
    outputs_per_token = True
    predicts_tokens = True
    interface = Interface(pairs=False, labels=(TOKENS, MASK), needs_labels=True)

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
        """The decoder's inputs, checked, as int32 tensors."""
        if TOKENS not in inputs:
            raise ValueError(
                f"{TOKENS} is missing: the target's tokens shifted to the right, after the id {self.start_id}. To use "
                "texts, pass (sources, targets). To write targets, call model.generate(sources). The encoder "
                "alone is model.encoder."
            )
        if ("document_ids" in inputs) != (DOCUMENTS in inputs):
            raise ValueError(
                f"document_ids and {DOCUMENTS} go together: pass both, for rows with several sources and targets, or "
                "neither."
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
                    f"{name} has the shape {tuple(value.shape)}, but {TOKENS} {tuple(target[TOKENS].shape)}. They must "
                    "have the same shape."
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

    @property
    def start_id(self) -> int:
        """The id that every target starts with: the checkpoint's, by default padding."""
        start = self.generation_config.decoder_start_token_id
        return self.encoder.config.pad_id if start is None else start

    # --- Data ---

    def training_arguments(self, x, y=None, sample_weight=None, **options):
        if isinstance(x, tuple) and len(x) == 2 and y is None:
            x, y = x
        if isinstance(x, Mapping) and y is not None and TOKENS not in x:
            y = label_arrays(self, x, y)
            decoder_inputs = self._decoder_inputs(y)
            x = {**x, **{name: np.asarray(ids) for name, ids in decoder_inputs.items()}}
        elif is_tf_dataset(x) and isinstance(x.element_spec, tuple):
            first = x.element_spec[0]
            if isinstance(first, Mapping) and "token_ids" in first and TOKENS not in first:
                x = x.map(lambda x, y, *rest: ({**x, **self._decoder_inputs(y)}, y, *rest))
        return keras_arguments(self, x, y, sample_weight, labelled=True, **options)

    def _decoder_inputs(self, labels) -> dict[str, Any]:
        """The decoder's inputs for labels [batch, target length], -100 for none; traceable."""
        from bert_zoo.data.batches import concat, where

        ids = where(labels == IGNORED_LABEL, self.encoder.config.pad_id, labels)
        return {TOKENS: concat([ids[:, :1] * 0 + self.start_id, ids[:, :-1]], 1)}

    def as_text_labels(self, texts, y):
        from bert_zoo.text.batches import text_batch

        return text_batch(y, "targets")

    def text_rows(self, texts, labels=None, weights=None, *, one_length=False, class_weights=None):
        sources, targets = texts if labels is None and isinstance(texts, tuple) else (texts, labels)
        columns = (sources,) if targets is None else (sources, targets)
        tables = tables_of_texts(self, _ids_of_texts, columns, {}, one_length)
        weights = None if weights is None else np.asarray(weights)

        def gather(numbers):
            inputs, *target = (table.padded(numbers) for table in tables)
            y = None
            if target:
                inputs, y = self.labelled_rows(inputs, *target)
            if labels is None:
                return (inputs,)
            return with_weights(inputs, y, None if weights is None else weights[numbers])

        lengths = sum(table.padded_lengths for table in tables)
        return Rows(lengths, gather, tables[0].axes, tables[0].axes)

    def labelled_texts_to_inputs(self, texts, labels, preprocessor):
        return self.labelled_rows(preprocessor(texts), preprocessor(labels))

    def labelled_rows(self, source: Mapping, target: Mapping) -> tuple[dict[str, Any], Any]:
        """Inputs and labels, from the preprocessor's ids of sources and targets; traceable."""
        from bert_zoo.data.batches import where

        labels = where(target["padding_mask"] == 0, IGNORED_LABEL, target["token_ids"])
        return {**source, **self._decoder_inputs(labels)}, labels

    def texts_to_inputs(self, texts, preprocessor):
        if not isinstance(texts, tuple):
            return preprocessor(texts)
        inputs, _ = self.labelled_texts_to_inputs(*texts, preprocessor)
        return inputs

    # --- Use ---

    def served_of_texts(self, texts, run, preprocessor):
        """The text that `generate` writes by default, of up to 256 tokens if the checkpoint sets no limit."""
        return {"generated_text": served_targets(self, *texts, preprocessor)}

    def prediction_rows(self, texts, second=None, *, batch_size=32, **others):
        if second is not None:
            super().prediction_rows(texts, second)
        for text in self.generate(texts, batch_size=batch_size, num_return_sequences=1):
            yield {"generated_text": text}

    def printed_predictions(self, texts, second=None, **others):
        return "\n".join(self.generate(texts))

    def generate(
        self,
        sources: str | Sequence[str] | Mapping[str, Any],
        *,
        max_new_tokens: int | None = None,
        sampler: Any = None,
        beams: int | None = None,
        length_penalty: float | None = None,
        top_p: float | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        stop: str | Sequence[int | str] | None = "eos",
        bad_words: Sequence[str] | None = None,
        settings: str | None = None,
        sentinels: bool = False,
        batch_size: int = 32,
        stream: bool = False,
        **options: Any,
    ) -> str | list[str] | np.ndarray | Iterator:
        """Writes a target for each source, token by token.

        Each source is read once, and the keys and values of earlier tokens are kept. The result for a
        source does not depend on the others in its batch, except for the random numbers that some samplers
        draw. Padding, and ids of the token table beyond the vocabulary, are never chosen; a model without a
        vocabulary chooses among all ids.

        What the checkpoint's generation_config.json says is the default of all options; see
        `model.generation_config`.

        Args:
            sources: a text or several; or a dict of `token_ids` [batch, length], the end token last, with
                a `padding_mask` if rows differ in length.
            max_new_tokens: maximum number of tokens of a target; by default 100.
            sampler, beams, length_penalty, top_p, temperature, seed, stop, bad_words: as in
                `CausalLM.generate`.
            settings: name of settings of the checkpoint (`task_specific_params` in its config.json), such
                as "summarization" of T5 1.0. Their `prefix` is put before each source.
            sentinels: whether gap markers (`<extra_id_0>`, ...) may be chosen. A model that was pretrained
                on filling gaps, but not yet trained for a task, writes them.
            batch_size: number of sources per step. A stream reads all sources at once.
            stream: whether to return an iterator of pieces, each as soon as it is sampled. The joined
                pieces equal the result of one batch without streaming.
            **options: transformers' options, as in `CausalLM.generate`.

        Returns:
            The target, without the source and what stopped it. For several sources a list, which prints
            numbered; with `num_return_sequences` a list, in which a source's targets follow each other. For
            ids, int32 [batch * returned sequences, new tokens]: a row that stops earlier than others
            repeats its stop token. With `stream`, an iterator of strings, of lists of strings, or of ids
            [batch, 1].

        Raises:
            ValueError, TypeError: invalid options or sources; a stream of beams.
            ImportError: keras_hub cannot be imported.
        """
        options |= {"max_new_tokens": max_new_tokens, "length_penalty": length_penalty}
        options |= {"top_p": top_p, "temperature": temperature, "sampler": sampler, "beams": beams}
        options |= {"seed": seed, "stop": stop, "stream": stream, "bad_words": bad_words}
        check("batch_size", batch_size, int, least=1)
        generation = Generation(self, settings=settings, **options)
        step = DecoderStep(_never_chosen(self, sentinels), generation.reads_logits)
        sources = with_prefix(sources, generation.config.prefix, "sources")
        kind = IdSources if isinstance(sources, Mapping) else TextSources
        read = kind(self, sources, generation.stop_ids)
        if not len(read.lengths):
            return generation.no_texts()
        number, new_tokens = len(read.lengths), generation.new_tokens(1)

        def begin(rows: np.ndarray):
            start = np.full((len(rows), 1), self.start_id, "int32")
            slots = slots_for(new_tokens)
            return start, on_model(self, _read_sources, read.inputs(rows), slots=slots)

        if stream:
            begins = [partial(begin, np.arange(number))]
            pieces = generation.outputs(read, begins, step, new_tokens)
            next(pieces)  # the first piece, the text before the new tokens, is empty
            return pieces
        order = np.arange(number)
        if number > batch_size:
            # Group sources of similar length to avoid padding.
            order = np.argsort(read.lengths, kind="stable")
        batches = np.split(order, range(batch_size, number, batch_size))
        begins = [partial(begin, rows) for rows in batches]
        with warning_of_cut_texts(self, sources, parts=1):
            return generation.outputs(read, begins, step, new_tokens, order=np.argsort(order))

    def score(self, sources, targets, batch_size: int = 8) -> list:
        """Scores targets: how likely each token is given the source, including the end token.

        Args:
            sources, targets: a text each, or two lists of the same length. They are read whole.
            batch_size: number of pairs per step.

        Returns:
            A list of `TextScore(text, tokens, log_probs, perplexity, bits_per_character)`, whose texts are
            the targets, that prints as a table. Log-probabilities are in nats.

        Raises:
            ValueError: the numbers of sources and targets differ.
        """
        from bert_zoo.text.batches import strings, text_batch

        check("batch_size", batch_size, int, least=1)
        sources, targets = strings(sources, "sources"), strings(targets, "targets")
        if len(sources) != len(targets):
            raise ValueError(
                f"There are {len(sources)} sources and {len(targets)} targets. Pass one target for each source."
            )
        if not sources:
            return TextScores()
        # Nothing is truncated.
        reader = self.preprocessor.with_options(
            sequence_length=UNLIMITED, padding="longest", report_truncation=False
        )
        tokenizer = reader.tokenizer
        has_bytes = tokenizer.unit not in ("word", "subword")
        # Group pairs of similar length to avoid padding.
        lengths = [
            len(source) + len(target) for source, target in zip(sources, targets, strict=True)
        ]
        order = np.argsort(lengths, kind="stable")
        scores = {}
        for rows in np.split(order, range(batch_size, len(order), batch_size)):
            texts = (text_batch([column[row] for row in rows]) for column in (sources, targets))
            inputs, labels = self.labelled_texts_to_inputs(*texts, reader)
            inputs = {name: np.asarray(ids) for name, ids in inputs.items()}
            labels = np.asarray(labels)
            found = ops.convert_to_numpy(on_model(self, label_log_probs, inputs, labels))
            for row, ids, log_probs in zip(rows, labels, found, strict=True):
                is_real, text = ids != IGNORED_LABEL, targets[row]
                size = len(text.encode() if has_bytes else text)
                scores[row] = text_score(tokenizer, text, ids[is_real], log_probs[is_real], size)
        return TextScores(scores[row] for row in range(len(targets)))


def _ids_of_texts(model, columns: tuple, *, reader, prompts) -> tuple[dict[str, Any], ...]:
    return tuple(map(reader, columns))
