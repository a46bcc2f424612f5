"""Causal language models, which predict each token from those before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL, UNLIMITED
from bert_zoo.fields import check
from bert_zoo.layers.common import Dropout, over_replicas
from bert_zoo.layers.heads import AdaptiveSoftmax
from bert_zoo.models.base import Interface
from bert_zoo.models.direct import tokenized
from bert_zoo.models.graphs import on_model
from bert_zoo.models.inputs import as_ids, check_range
from bert_zoo.models.labels import has_labels
from bert_zoo.models.metrics import PredictionQuality, total_and_count
from bert_zoo.models.replicas import added_losses
from bert_zoo.models.task_model import GeneratingModel
from bert_zoo.tasks.generation import (
    Generation,
    IdOutput,
    TextOutput,
    checked_ids,
    left_padded,
    slots_for,
    with_prefix,
)
from bert_zoo.tasks.presets import TextScores, text_score
from bert_zoo.tasks.streams import StatefulModel

# -------------------------------------------------------------------------------------------------
# Text generation from a prompt with keras_hub's samplers.
# -------------------------------------------------------------------------------------------------

# Tokens of a prompt read at once.
PIECE = 128


def read_prompts(model, rows: Sequence[np.ndarray], new_tokens: int = 0) -> dict[str, Any]:
    """Reads token ids in pieces of `PIECE` tokens; the state after them, in the form of `initial_memory`.

    A state that grows with the text has room for `new_tokens` more. Rows of different lengths are padded on the
    right, which no query sees, and each row's memory ends with its own last token, so a row's state does not depend
    on other rows. (Padding on the left would shift the zeros that a text starts from, which count as a past.)
    """
    lengths = np.array([len(row) for row in rows])
    state = model.initial_memory(len(rows), tokens=slots_for(lengths.max() + new_tokens))
    for start in range(0, lengths.max(), PIECE):
        kept = np.clip(lengths - start, 0, PIECE).astype("int32")
        piece = np.zeros((len(rows), kept.max()), "int32")
        for to, row, number in zip(piece, rows, kept, strict=True):
            to[:number] = row[start : start + number]
        state = on_model(model, _read_piece, piece, kept, state)
    return state


def _read_piece(model, token_ids, lengths, state):
    """The state after the first `lengths` [batch] of token_ids [batch, length]."""
    # The model's call would also run the softmax.
    return model.encoder.backbone.state_after(token_ids, lengths, state)


@dataclass(frozen=True)
class PromptStep:
    """A `bert_zoo.tasks.generation.Step`."""

    gives_logits: bool = False  # whether scores are logits and not log-probabilities
    fixed: ClassVar[tuple[str, ...]] = ()

    def __call__(self, model, tokens, state):
        inputs = {"token_ids": tokens[:, None], **state}
        if self.gives_logits:
            scores, outputs = model.next_logits(inputs)
        else:
            outputs = model(inputs, training=False)
            scores = outputs["log_probs"]
        return scores[:, 0], {name: outputs[name] for name in state}


class IdPrompts(IdOutput):
    """Prompts and results as ids; `rows` are those that the model reads, one array per prompt."""

    def __init__(self, model, prompt: Mapping[str, Any], stop_ids: Sequence[int]):
        token_ids, mask = checked_ids(model, prompt, "prompt")
        super().__init__(token_ids)
        self.rows = [row[real > 0] for row, real in zip(token_ids, mask, strict=True)]


class TextPrompts(TextOutput):
    """Prompts and results as texts. Results begin with the prompts as the model reads them, `rows`."""

    def __init__(self, model, prompt: str | Sequence[str], stop_ids: Sequence[int]):
        from bert_zoo.text.batches import strings, text_batch

        tokenizer = model.preprocessor.tokenizer
        texts = text_batch(prompt, "prompt")
        tokens = zip(strings(texts), tokenized(model, texts), strict=True)
        # If the tokenizer ends every line, the prompt's last line stays open.
        closes = tokenizer.eos_at in ("line_ends", "line_starts_and_ends")
        shown = [
            row[:-1] if closes and not text.endswith(("\n", "\r")) else row for text, row in tokens
        ]
        self.rows = [row if row.size else _start(tokenizer) for row in shown]
        super().__init__(tokenizer, shown, stop_ids, isinstance(prompt, str))


def _start(tokenizer) -> np.ndarray:
    """The ids that an empty prompt continues from."""
    if not hasattr(tokenizer, "eos_id"):
        raise ValueError(
            "The prompt is empty, but this vocabulary has no end token to start a text from. Pass a prompt of at least "
            "one token."
        )
    return np.array([tokenizer.eos_id], "int32")


# -------------------------------------------------------------------------------------------------
# Likelihoods of texts under a language model, token by token.
# -------------------------------------------------------------------------------------------------


def label_log_probs(model, token_ids: np.ndarray, labels: np.ndarray, length: int) -> np.ndarray:
    """The labels' log-probabilities, float32 [batch, tokens], in segments of `length` tokens.

    Rows may be padded on the right, because tokens do not see what follows. Rows longer than the model's
    positions are read in windows that overlap by half.
    """
    tokens, window = token_ids.shape[1], model.longest_input
    if tokens <= window:
        return _of_window(model, token_ids, labels, length)
    step = window // 2
    found = []
    for start in range(0, tokens - window + step, step):
        rows = (array[:, start : start + window] for array in (token_ids, labels))
        of_window = _of_window(model, *rows, length)
        found.append(of_window[:, window - step :] if start else of_window)
    return np.concatenate(found, axis=1)


def _of_window(model, token_ids: np.ndarray, labels: np.ndarray, length: int) -> np.ndarray:
    state = model.initial_memory(len(token_ids), tokens=-(-token_ids.shape[1] // length) * length)
    segments = []
    for start in range(0, token_ids.shape[1], length):
        ids, wanted = (array[:, start : start + length] for array in (token_ids, labels))
        found, state = on_model(model, _scored_segment, ids, wanted, state)
        segments.append(ops.convert_to_numpy(found))
    return np.concatenate(segments, axis=1)


def _scored_segment(model, token_ids, labels, state):
    outputs = model({"token_ids": token_ids, "labels": labels, **state}, training=False)
    return outputs["log_probs"], {name: outputs[name] for name in state}


def _num_characters(tokenizer, text: str, ids: np.ndarray) -> int:
    """The number of scored characters; of bytes, if tokens are bytes."""
    if tokenizer.unit not in ("word", "subword"):
        return len(ids)
    # Without an end token, the first token is not scored.
    if not hasattr(tokenizer, "eos_id"):
        return len(tokenizer.detokenized([ids])[0].decode("utf-8", "replace"))
    return len(text)


@keras.saving.register_keras_serializable("bert_zoo")
class CausalLM(GeneratingModel):
    """Language model that predicts each token from those before it.

    Call it as its encoder, optionally also with `labels` int [batch, length]: the tokens whose
    log-probabilities you want, or -100 for none. It returns a dict:

    * `log_probs`: float32 log-probabilities of the next tokens [batch, length, vocabulary]; with `labels`
      only those of the labels, [batch, length], 0 where the label is -100;
    * the encoder's state: `memory`, and `memory_mask` if it has one. Models with a fixed number of
      positions (GPT) return their state only if they are given one.

    `fit` and `evaluate` take such dicts with `labels`, or texts. They minimise the mean negative
    log-probability, and report `perplexity` and `bits` per token over all tokens seen.
    """

    task = "causal_lm"
    verbs = ("generate", "score")
    peft_task = "CAUSAL_LM"
    outputs_per_token = True
    predicts_tokens = True
    default_optimizer = "language_model_adam"
    interface = Interface(
        ("log_probs",),
        pairs=False,
        labels=("labels",),
        steps=(("step", True), ("step_scores", False)),
        text_name="score",
    )

    def add_head(self, config):
        dtype = self.dtype_policy
        self.output_dropout = Dropout(config.output_dropout, dtype=dtype, name="output_dropout")
        self.softmax = AdaptiveSoftmax(
            config.cluster_bounds,
            config.table_sizes,
            config.table_widths,
            [config.has_own_projection(c) for c in range(len(config.cluster_sizes))],
            tied=config.tie_word_embeddings,
            hidden_size=config.hidden_size,
            projection_initializer_range=config.projection_initializer_range,
            use_bias=config.softmax_bias,
            name="softmax",
            **self.layer_options,
        )
        self.quality = PredictionQuality()

    @property
    def state(self) -> tuple[str, ...]:
        return self.encoder.state

    def encoder_inputs(self, inputs):
        return {name: value for name, value in inputs.items() if name != "labels"}

    def head_outputs(self, encoded, inputs, training=None):
        labels = self._labels(inputs)
        x = self.output_dropout(encoded["sequence_output"], training=training)
        wanted = None if labels is None else ops.maximum(labels, 0)
        log_probs = self.softmax(x, *self.encoder.backbone.token_table, wanted)
        if labels is not None:
            log_probs = ops.where(labels == IGNORED_LABEL, 0.0, log_probs)
        state = {name: encoded[name] for name in self.state if name in encoded}
        return {"log_probs": log_probs, **state}

    def next_logits(self, inputs) -> tuple[Any, dict[str, Any]]:
        """Scores of the next tokens, as `AdaptiveSoftmax.logits`, and the encoder's outputs, for generation."""
        encoded = self.encoder(inputs, training=False)
        table = self.encoder.backbone.token_table
        return self.softmax.logits(encoded["sequence_output"], *table), encoded

    def _labels(self, inputs):
        labels = inputs.get("labels")
        if labels is None:
            return None
        if tuple(labels.shape) != tuple(inputs["token_ids"].shape):
            raise ValueError(
                f"labels have shape {tuple(labels.shape)} and token_ids "
                f"{tuple(inputs['token_ids'].shape)}. Both must be the same; use -100 for tokens without a label."
            )
        labels = as_ids("labels", labels)
        check_range("labels", labels, *self.id_limits()["labels"])
        return labels

    def id_limits(self) -> dict[str, tuple[int, str]]:
        limits = super().id_limits()
        return {**limits, "labels": limits["token_ids"]}

    def initial_memory(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        """The state to pass with the first segment of new texts; see `Encoder.initial_memory`."""
        return self.encoder.initial_memory(batch_size, tokens)

    def served_answers(self, outputs):
        return {"total_log_prob": ops.sum(outputs["log_probs"], axis=-1)}

    def served_of_texts(self, texts, run, preprocessor):
        outputs = super().served_of_texts(texts, run, preprocessor)
        # There the tokens that are scored are also those that are read.
        outputs["token_ids"] = outputs.pop("labels")
        return outputs

    def texts_to_inputs(self, texts, preprocessor):
        return preprocessor.scored(texts)

    def printed_predictions(self, texts, second=None, **others):
        return "\n\n".join(self.generate(text) for text in texts)

    def generate(
        self,
        prompt: str | Sequence[str] | Mapping[str, Any],
        *,
        max_new_tokens: int | None = None,
        sampler: Any = None,
        beams: int | None = None,
        length_penalty: float | None = None,
        top_p: float | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        stop: str | Sequence[int | str] | None = "eos",
        stream: bool = False,
        bad_words: Sequence[str] | None = None,
        settings: str | None = None,
        **options: Any,
    ):
        """Continues a prompt token by token.

        A model with a memory of `mem_len` tokens reads and writes texts of any length. A model with a fixed
        number of positions keeps the keys and values of all tokens, so prompt and new tokens must fit. The
        result for a prompt does not depend on the other prompts of a batch, except for the random numbers
        that some samplers draw.

        What the checkpoint's generation_config.json says is the default of all options; see
        `model.generation_config`.

        Args:
            prompt: a text or several; or a dict of `token_ids` [batch, length], with a `padding_mask` if
                rows differ in length (padding may be on either side). An empty text starts from the end
                token.
            max_new_tokens: maximum number of tokens to add to each prompt; by default 100.
            sampler: "greedy" (the default), "top_k" (one of the 5 likeliest), "top_p" (one of the likeliest
                that together pass a probability of 0.1), "random" or "beam" (5 beams); or an object of
                keras_hub.samplers, for example `keras_hub.samplers.TopKSampler(k=40)`. It replaces the
                checkpoint's way of choosing tokens.
            beams: number of texts that the sampler "beam" keeps.
            length_penalty: exponent for a beam search, which divides a text's summed log-probability
                by its number of new tokens raised to this power; 0 by default, and with `num_beams` 1.
                transformers' `generate` chooses the same texts with the same `length_penalty` and
                `num_beams`.
            top_p: total probability of the tokens that the sampler "top_p" draws from.
            temperature: number that log-probabilities are divided by, for "top_k", "top_p", "random" and
                `do_sample`; 1 by default. Below 1, likely tokens come more often, above 1 less often; 0
                means "greedy". A sampler object has its own.
            seed: seed of a named sampler. A sampler object has its own state, and continues from it.
            stop: what ends a text: "eos", the checkpoint's end tokens or else the vocabulary's; a list of
                tokens or ids; or None for nothing.
            stream: whether to return an iterator of pieces, each as soon as it is sampled. The first
                piece is the prompt; the joined pieces equal the result without streaming.
            bad_words: texts that are never written in the tokens that they are usually split into; other
                spellings, such as another case, are other words.
            settings: name of settings of the checkpoint (`task_specific_params` in its config.json).
            **options: transformers' options with their meanings and defaults there: `num_beams`,
                `do_sample` (also with `num_beams`), `top_k`, `early_stopping`, `num_return_sequences`,
                `min_new_tokens`, `no_repeat_ngram_size`, `repetition_penalty`, `bad_words_ids`,
                `forced_bos_token_id`, `forced_eos_token_id` and the others of
                `bert_zoo.generation_config.GenerationConfig`.

        Returns:
            The text: the prompt as the model reads it (unknown words replaced) and its continuation,
            without what stopped it. For several prompts a list, which prints numbered; with
            `num_return_sequences` a list, in which a prompt's texts follow each other. For ids, int32
            [batch * returned sequences, length + new tokens]: a row that stops earlier than others repeats
            its stop token. With `stream`, an iterator of strings, of lists of strings, or of ids [batch, 1].

        Raises:
            ValueError, TypeError: invalid options or prompts; an empty prompt without an end token; a text
                that may exceed the model's positions; a model whose `mem_len` is 0; a stream of beams.
            ImportError: keras_hub cannot be imported.
        """
        options |= {"max_new_tokens": max_new_tokens, "length_penalty": length_penalty}
        options |= {"top_p": top_p, "temperature": temperature, "sampler": sampler, "beams": beams}
        options |= {"seed": seed, "stop": stop, "stream": stream, "bad_words": bad_words}
        if any(0 in entry.shape for entry in keras.tree.flatten(self.initial_memory(1, tokens=1))):
            raise ValueError(
                "This model's mem_len is 0, so every token would depend only on the previous one. Load it with a memory, for "
                "example load(..., mem_len=512)."
            )
        generation = Generation(self, settings=settings, **options)
        prompt = with_prefix(prompt, generation.config.prefix, "prompt")
        kind = IdPrompts if isinstance(prompt, Mapping) else TextPrompts
        prompts = kind(self, prompt, generation.stop_ids)
        if not prompts.rows:
            return generation.no_texts()
        rows, longest = prompts.rows, max(map(len, prompts.rows))
        number = generation.new_tokens(longest)
        # The last token is not read.
        if longest + number - 1 > self.longest_input:
            raise ValueError(
                f"The longest prompt has {longest} tokens. With max_new_tokens={number}, its text would exceed the "
                f"{self.longest_input} positions of this model. Choose at most "
                f"{max(self.longest_input - longest + 1, 0)} new tokens, or shorten the prompt."
            )

        def begin():
            if generation.processor.reads_prompt:
                tokens = left_padded(rows)
            else:
                tokens = np.array([row[-1:] for row in rows], "int32")
            return tokens, read_prompts(self, [row[:-1] for row in rows], number)

        step = PromptStep(generation.reads_logits)
        return generation.outputs(prompts, [begin], step, number)

    def score(self, texts, batch_size: int = 8, segment_length: int = 128) -> list:
        """Scores texts: how likely each token is after those before it.

        The first token is predicted from the vocabulary's end token, as in training. If the vocabulary
        has no end token, the first token is read but not scored. Long texts are read whole: in segments
        that pass on the memory, or, if the model has a fixed number of positions, in windows of that
        length that overlap by half.

        Args:
            texts: a text or several.
            batch_size: number of texts per step.
            segment_length: number of tokens per step. A token sees its segment and the `mem_len` tokens
                before it, so this changes the scores, except with `same_length`.

        Returns:
            A list of `TextScore(text, tokens, log_probs, perplexity, bits_per_character)`, in the
            order of the texts, that prints as a table. Log-probabilities are in nats.

        Raises:
            ValueError: a text has no token to score.
        """
        from bert_zoo.text.batches import strings

        for name, value in (("batch_size", batch_size), ("segment_length", segment_length)):
            check(name, value, int, least=1)
        texts = strings(texts)
        if not texts:
            return TextScores()
        # Segments handle long texts, so nothing is truncated.
        reader = self.preprocessor.with_options(
            sequence_length=UNLIMITED, padding="longest", report_truncation=False
        )
        tokenizer = self.preprocessor.tokenizer
        # Group texts of similar length to avoid padding.
        order = np.argsort([len(text) for text in texts], kind="stable")
        scores = {}
        for start in range(0, len(texts), batch_size):
            numbers = order[start : start + batch_size]
            rows = reader.scored([texts[number] for number in numbers])
            token_ids, labels = np.asarray(rows["token_ids"]), np.asarray(rows["labels"])
            are_scored = labels != IGNORED_LABEL
            for number in numbers[~are_scored.any(axis=1)]:
                raise ValueError(
                    f"texts[{number}] is {texts[number]!r}, which has no token to score. Without an end token in the "
                    "vocabulary, the first token is not scored. Leave the text out, or make it longer."
                )
            found = label_log_probs(self, token_ids, labels, segment_length)
            for number, is_scored, ids, values in zip(
                numbers, are_scored, labels, found, strict=True
            ):
                text, ids = texts[number], ids[is_scored]
                characters = _num_characters(tokenizer, text, ids)
                scores[number] = text_score(tokenizer, text, ids, values[is_scored], characters)
        return TextScores(scores[number] for number in range(len(texts)))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """`mean_loss`, plus the losses that the encoder's layers add in training, if any."""
        # Read first: in `mean_loss` replicas wait for each other, and by then the next replica's layers
        # would have added their losses.
        added = added_losses(self)
        return self.mean_loss(x, y, y_pred, sample_weight) + added

    def mean_loss(self, x, y, y_pred, sample_weight):
        """Mean negative log-probability of the labels in nats; labels are inputs, see `call`."""
        if has_labels(y) or "labels" not in x:
            raise ValueError(
                "A language model's labels are inputs. Pass texts, or dicts with token_ids and labels, without y. "
                "Batches with weights are (x, None, sample_weight)."
            )
        total, count = total_and_count(y_pred["log_probs"], x["labels"], sample_weight)
        # Replicas' losses are summed: Keras only divides losses that it computes itself.
        return -total / ops.maximum(over_replicas(count, "SUM"), 1.0)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.quality.update_state(*total_and_count(y_pred["log_probs"], x["labels"]))
        return self.get_metrics_result()


@keras.saving.register_keras_serializable("bert_zoo")
class StatefulLM(StatefulModel):
    """Trains and evaluates a recurrent language model on streams of segments.

    `fit`, `evaluate` and `predict` take datasets of dicts, as `bert_zoo.pretraining.streams.segments` makes
    them: `token_ids` and `labels` int [batch, length], and `starts_stream` int [batch]; see `StatefulModel`.
    `predict` returns the labels' log-probabilities in nats, float32 [steps * batch, length], step by step.

    Args:
        language_model: a `CausalLM` with a recurrent encoder. It holds all weights.
        batch_size, evaluation_batch_size: as in `StatefulModel`.

    Raises:
        ValueError: the language model has a fixed number of positions.
    """

    task = CausalLM.task
    default_optimizer = CausalLM.default_optimizer
    held_as = "language_model"
    reads = ("token_ids", "labels")
    source = "bert_zoo.pretraining.streams.segments(token_ids, batch_size, segment_length)"

    def __init__(
        self,
        language_model: CausalLM | dict[str, Any],
        batch_size: int,
        evaluation_batch_size: int | None = None,
        **kwargs,
    ):
        if isinstance(language_model, dict):
            language_model = keras.saving.deserialize_keras_object(language_model)
        if not language_model.always_gives_state:
            raise ValueError(
                f"A model of the family {language_model.encoder.family} has a fixed number of positions, so it "
                "cannot continue a stream. Call fit and evaluate of the language model itself."
            )
        super().__init__(language_model, batch_size, evaluation_batch_size, **kwargs)
        self.quality = PredictionQuality()
        self.built = True

    def step(self, inputs, training):
        outputs = self.language_model(inputs, training=training)
        return outputs["log_probs"], outputs

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The mean negative log-probability of the labels; see `CausalLM.compute_loss`."""
        added = added_losses(self)
        return self.language_model.mean_loss(x, y, {"log_probs": y_pred}, sample_weight) + added

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.quality.update_state(*total_and_count(y_pred, x["labels"]))
        return self.get_metrics_result()
