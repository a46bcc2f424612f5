"""Models that predict each token from those before it."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.heads import AdaptiveSoftmax
from bert_zoo.layers.replicas import over_replicas
from bert_zoo.models.base import Interface
from bert_zoo.models.inputs import as_ids, check_range
from bert_zoo.models.metrics import PredictionQuality, total_and_count
from bert_zoo.models.replicas import added_losses
from bert_zoo.models.task_model import TaskModel


@keras.saving.register_keras_serializable("bert_zoo")
class CausalLM(TaskModel):
    """Log-probabilities of the next tokens.

    Called as its encoder is, optionally also with `labels` int [batch, length]: the tokens whose
    log-probabilities are wanted, -100 where none is. Returns a dict of

    * `log_probs`: float32 [batch, length, vocabulary]; with `labels` those of the labels alone,
      [batch, length] in the order of the tokens, 0 where the label is -100;
    * the encoder's state: `memory`, and `memory_mask` where it gives one. Models whose positions end
      (GPT) return it where it is given, as what generation need not compute again.

    `fit` and `evaluate` take such dicts with `labels`, or texts, and minimise the mean negative
    log-probability; they report `perplexity` and `bits`, a token, over all tokens seen.
    """

    task = "causal_lm"
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

    def _labels(self, inputs):
        labels = inputs.get("labels")
        if labels is None:
            return None
        if tuple(labels.shape) != tuple(inputs["token_ids"].shape):
            raise ValueError(
                f"labels have shape {tuple(labels.shape)} and token_ids "
                f"{tuple(inputs['token_ids'].shape)}; every token needs one, -100 for none."
            )
        labels = as_ids("labels", labels)
        check_range("labels", labels, *self.id_limits()["labels"])
        return labels

    def id_limits(self) -> dict[str, tuple[int, str]]:
        limits = super().id_limits()
        return {**limits, "labels": limits["token_ids"]}

    def initial_memory(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        """As `Encoder.initial_memory`."""
        return self.encoder.initial_memory(batch_size, tokens)

    def served_answers(self, outputs):
        return {"total_log_prob": ops.sum(outputs["log_probs"], axis=-1)}

    def served_of_texts(self, texts, run, preprocessor):
        outputs = super().served_of_texts(texts, run, preprocessor)
        # What is read there are the tokens that are scored.
        outputs["token_ids"] = outputs.pop("labels")
        return outputs

    def texts_to_inputs(self, texts, preprocessor):
        return preprocessor.scored(texts)

    def generate(
        self,
        prompt: str | Sequence[str] | Mapping[str, Any],
        *,
        max_new_tokens: int = 100,
        sampler: Any = None,
        beams: int | None = None,
        length_penalty: float | None = None,
        top_p: float | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        stop: str | Sequence[int | str] | None = "eos",
        stream: bool = False,
    ):
        """Goes on from a prompt, a token at a time, with the memory of what came before.

        With a memory of `mem_len` tokens, texts of any length are read and written; a model whose positions
        end keeps the keys and values of all tokens, and a text has room there. Each prompt of a batch gets
        what it gets alone, whatever the lengths of the others, except for the random numbers of samplers
        that draw them.

        Args:
            prompt: a text or several; or a dict of `token_ids` [batch, length], with a `padding_mask`
                on either side where rows differ in length. An empty text goes on from the end token.
            max_new_tokens: the most tokens that are added to each prompt.
            sampler: "greedy" (the default), "top_k" (the 5 likeliest), "top_p" (the likeliest whose sum
                passes 0.1), "random" or "beam" (5 beams); or an object of keras_hub.samplers for other
                numbers, for example `keras_hub.samplers.TopKSampler(k=40)`.
            beams: how many texts the sampler "beam" keeps.
            length_penalty: of that sampler, which divides the sum of the new tokens' log-probabilities by
                their number to the power of it; 0 by default. With it, `num_beams` and `early_stopping=False`
                transformers' `generate` chooses the same.
            top_p: the probability that the likeliest tokens of the sampler "top_p" have together.
            temperature: of the sampler that is named, if it draws: "top_k", "top_p" and "random".
                Log-probabilities are divided by it: below 1, likely tokens come more often, above 1
                less. At 0 the likeliest is taken, as by "greedy". 1 by default; an object has its own.
            seed: of the sampler that is named; an object has its own, and goes on where it stands.
            stop: what ends a text: "eos", the vocabulary's end token if it has one; a list of tokens
                or ids; or None for nothing.
            stream: return an iterator of pieces, each as soon as it is sampled. The first is the
                prompt; joined they are what the same seed gives without streaming.

        Returns:
            The text, beginning with the prompt as the model reads it (unknown words as such) and
            ending before what stopped it; a list of them, which prints numbered, for several prompts.
            For ids, int32 [batch, length + new tokens]: a row that stops earlier than others repeats
            its stop token. Streams give strings, lists of them, and [batch, 1].

        Raises:
            ValueError, TypeError: options or prompts that do not fit; an empty prompt without an end
                token; a text that may become longer than the model has positions; a model whose
                `mem_len` is 0; a stream of beams.
            ImportError: keras_hub cannot be imported.
        """
        from bert_zoo.tasks.causal_lm.generation import generate

        drawing = {"sampler": sampler, "beams": beams, "length_penalty": length_penalty}
        drawing |= {"top_p": top_p, "temperature": temperature, "seed": seed}
        options = {"max_new_tokens": max_new_tokens, "stop": stop, "stream": stream}
        return generate(self, prompt, **drawing, **options)

    def score(self, texts, batch_size: int = 8, segment_length: int = 128) -> list:
        """How likely texts are, token by token.

        The first token is predicted from the vocabulary's end token, as a line is in training; where
        the vocabulary has none, it is read and not scored. Long texts are read in segments with the
        memory carried on; nothing is cut off. Where a text is longer than the model has positions, it is
        read in windows of that many tokens that overlap by half, so that each token has at least half a
        window before it.

        Args:
            texts: a text or several.
            batch_size: texts at a time.
            segment_length: tokens at a time. It changes how far back a token sees (its segment and
                `mem_len` before it), except with `same_length`.

        Returns:
            A list of `TextScore(text, tokens, log_probs, perplexity, bits_per_character)`, in the
            order of the texts, that prints as a table.

        Raises:
            ValueError: a text without a token to score.
        """
        from bert_zoo.tasks.causal_lm.scoring import score

        return score(self, texts, batch_size, segment_length)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """`mean_loss`, and in training what layers of the encoder add to it, if any do."""
        # First, since replicas meet in the other: the next one's layers would have added theirs by then.
        added = added_losses(self)
        return self.mean_loss(x, y, y_pred, sample_weight) + added

    def mean_loss(self, x, y, y_pred, sample_weight):
        """Mean negative log-probability of the labels, which are inputs (see `call`), in nats."""
        if y is not None or sample_weight is not None or "labels" not in x:
            raise ValueError(
                "A language model's labels are inputs: pass texts, or dicts with token_ids and "
                "labels, without y and sample_weight."
            )
        total, count = total_and_count(y_pred["log_probs"], x["labels"])
        # Replicas' losses are summed: Keras divides those alone that it computes itself.
        return -total / ops.maximum(over_replicas(count, "SUM"), 1.0)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.quality.update_state(*total_and_count(y_pred["log_probs"], x["labels"]))
        return self.get_metrics_result()
