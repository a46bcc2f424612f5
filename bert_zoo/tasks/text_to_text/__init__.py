"""Text-to-text models, which read one text and generate another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.buckets import Rows
from bert_zoo.layers.backbones import PADDING
from bert_zoo.models.base import Interface
from bert_zoo.models.data_adapters import is_tf_dataset, keras_arguments
from bert_zoo.models.inputs import as_ids, check_range, check_rank
from bert_zoo.models.labels import LabelRange, label_arrays
from bert_zoo.models.losses import token_loss
from bert_zoo.models.task_model import GeneratingModel, Use
from bert_zoo.models.text_rows import tables_of_texts, with_weights

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
        """Checks the decoder's inputs and returns them as int32 tensors."""
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
        from bert_zoo.data.arrays import concat, where

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
        from bert_zoo.data.arrays import where

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
        from bert_zoo.tasks.text_to_text.generation import served_targets

        return {"generated_text": served_targets(self, *texts, preprocessor)}

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
        from bert_zoo.tasks.text_to_text.generation import generate

        options |= {"max_new_tokens": max_new_tokens, "length_penalty": length_penalty}
        options |= {"top_p": top_p, "temperature": temperature, "sampler": sampler, "beams": beams}
        options |= {"seed": seed, "stop": stop, "stream": stream, "bad_words": bad_words}
        options |= {"settings": settings, "sentinels": sentinels, "batch_size": batch_size}
        return generate(self, sources, **options)

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
        from bert_zoo.tasks.text_to_text.scoring import score

        return score(self, sources, targets, batch_size)


def _ids_of_texts(model, columns: tuple, *, reader, prompts) -> tuple[dict[str, Any], ...]:
    return tuple(map(reader, columns))
