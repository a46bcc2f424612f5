"""The encoder: a family's backbone with its text handling, alone or inside a task model."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo import private
from bert_zoo.config import Config, HeadSpec, Prompts
from bert_zoo.family import Pooling
from bert_zoo.fields import check
from bert_zoo.json_files import read_object
from bert_zoo.layers.common import FIRST
from bert_zoo.layers.heads import check_size, finished, pool
from bert_zoo.models.base import Interface, ZooModel
from bert_zoo.models.data_adapters import text_rows, with_prompt
from bert_zoo.models.direct import outputs_of_texts
from bert_zoo.models.graphs import outside_of_graphs
from bert_zoo.models.inputs import as_ids, check_range, check_rank, real_tokens
from bert_zoo.models.long_texts import LongTexts, are_rows, over_windows, warning_of_cut_texts
from bert_zoo.models.word_outputs import WordVectors, sentences_of, word_vectors
from bert_zoo.registry import registry
from bert_zoo.text.batches import strings
from bert_zoo.text.format import DeferredPreprocessor, WithPreprocessor
from bert_zoo.weights.bind import POOLED
from bert_zoo.weights.files import write_json


def mask_padding(
    outputs: Mapping[str, Any], padding_mask: Any, *, is_partial: bool = False
) -> None:
    """Sets the Keras mask of an encoder's outputs with one vector per token, so that Keras's layers omit padding.

    `padding_mask` is [batch, length], 1 for real tokens; the batch axis may be 1. With `is_partial` the last layer
    computed only some tokens, and its outputs get no mask.
    """
    states = [*outputs.get("hidden_states", ()), *outputs.get("encoder_outputs", ())]
    sequences = states[:-1] if is_partial else [*states, outputs["sequence_output"]]
    if not sequences:
        return
    mask = ops.cast(padding_mask, "bool")
    if 1 in mask.shape:
        mask = ops.logical_and(mask, ops.ones_like(sequences[0][..., 0], "bool"))
    for x in sequences:
        private.set_mask(x, mask)


log = logging.getLogger("bert_zoo")

PREPROCESSOR_FILE = "preprocessor.json"


def _sentence_vectors(
    model, inputs, *, pooling: Pooling, prompt: str | None = None, training: bool | None = False
):
    """Ids to pooled vectors [batch, hidden]."""
    if not are_rows(inputs):
        return over_windows(model, inputs, training, partial(finished, pooling=pooling))
    positions = FIRST if pooling.reads_first_only else None
    outputs = model(inputs, positions=positions, training=training)
    return model.sentence_vectors(outputs["sequence_output"], inputs, pooling, prompt)


def _contacts(model, inputs):
    """Contacts [batch, length - 2, length - 2] of proteins, and their numbers of tokens [batch]."""
    mask = real_tokens(inputs)
    attentions = model(inputs, internals=True, training=False)["attentions"]
    contacts = model.backbone.contact_head(attentions, inputs["token_ids"], mask)
    return contacts, ops.sum(mask, axis=1)


@keras.saving.register_keras_serializable("bert_zoo")
class Encoder(ZooModel):
    """Turns token ids or texts into contextual vectors.

    Call it with a dict of int32 tensors [batch, length], as `preprocessor` makes them from texts:

    * `token_ids`;
    * `padding_mask`, 1 for real tokens; by default all are real;
    * in most families `segment_ids` (default 0), `position_ids`, and `document_ids` for rows that hold
      several documents: 1, 2, ..., and 0 for padding;
    * the state that the previous call returned, if the backbone has one.

    `backbone.inputs` and `backbone.state` list what a family takes. The call returns a dict:

    * `sequence_output` [batch, length, hidden];
    * `pooled_output` [batch, hidden], if the encoder has a pooler and there are no `document_ids`;
    * `query_output` [batch, targets, hidden], if a second stream was requested (XLNet);
    * on request `hidden_states`, the embedding output first, and `attentions`
      [batch, heads, length, keys], one per layer;
    * the new state.

    `sequence_output` and `hidden_states` carry the Keras mask of `padding_mask`, with which Keras's own layers
    on top leave padding out. Tokens at `positions` have none.

    With `positions`, int [batch, number] or `bert_zoo.layers.common.FIRST` (the first token of each row),
    the last layer computes only these tokens: `sequence_output` and the last hidden state are
    [batch, number, hidden], and the last attentions [batch, heads, number, keys]. `internals=True` returns
    hidden states and attentions whatever the settings. `global_tokens`, "first", "first_text" or
    "second_text", selects the global tokens in families that have them; by default there are none.

    Args:
        config: the family's configuration, or a dict of its fields.
        family: name of the family; by default the first of `bert_zoo.families`.
        output_hidden_states, output_attentions: whether calls return them.
        pooling: how `embed` pools token vectors to sentence vectors.
        prompts: prompts that `embed` can put before texts.
        long_texts: how `embed`, and task models whose outputs can be pooled, read texts that exceed the
            model's length.
        preprocessor: a `bert_zoo.text.Preprocessor`, or one that is deferred.
        why_no_vocabulary: the error message for a missing preprocessor.

    Attributes:
        backbone: the layer that computes. Its layers are attributes of the encoder too.
        loaded_from: directory or Hugging Face repository of the weights, if they come from one.
    """

    task = "encoder"
    verbs = ("embed", "embed_words", "contacts")
    peft_task = "FEATURE_EXTRACTION"
    outputs_per_token = True
    pools_windows = True
    interface = Interface(("sequence_output", "pooled_output"))
    traced_settings = (
        "config",
        "output_hidden_states",
        "output_attentions",
        "pooling",
        "long_texts",
    )
    untracked = ("preprocessor", "backbone")

    def __init__(
        self,
        config: Config | dict[str, Any],
        family: str | None = None,
        *,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        pooling: Pooling | dict[str, Any] = Pooling(),  # noqa: B008 (frozen)
        prompts: Prompts | dict[str, Any] = Prompts(),  # noqa: B008 (frozen)
        long_texts: LongTexts | dict[str, Any] = LongTexts(),  # noqa: B008 (frozen)
        preprocessor=None,
        why_no_vocabulary: str | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._preprocessor = preprocessor
        self.why_no_vocabulary = why_no_vocabulary
        self.loaded_from: str | None = None
        self._window_reader = (None, None)
        families = registry().families
        page = families[next(iter(families)) if family is None else family]
        self.config = page.config_class.from_dict(config) if isinstance(config, dict) else config
        self.family = page.name
        self.output_hidden_states = output_hidden_states
        self.output_attentions = output_attentions
        self.pooling = Pooling(**pooling) if isinstance(pooling, dict) else pooling
        self.prompts = Prompts(**prompts) if isinstance(prompts, dict) else prompts
        self.backbone = page.backbone(self.config, self.dtype_policy)
        # Keras finds the layers here and not below the backbone, so names of variables, `.keras` files
        # and summaries do not depend on the backbone's class.
        for layer in self.backbone.groups().layers:
            setattr(self, layer.name, layer)
        for number, spec in enumerate(self.pooling.dense):
            name = f"{POOLED}{number}"
            options = {"activation": spec.activation, "use_bias": spec.use_bias, "name": name}
            setattr(self, name, keras.layers.Dense(spec.units, dtype=self.dtype_policy, **options))
        self.long_texts = LongTexts(**long_texts) if isinstance(long_texts, dict) else long_texts
        self.build((None, None))

    def __dir__(self):
        # Keras 3.15 uses it to write and read files.
        return [name for name in super().__dir__() if name != "backbone"]

    @property
    def vector_size(self) -> int:
        """The length of a sentence vector."""
        width = self.config.hidden_size * len(self.pooling.modes)
        width = self.pooling.dense[-1].units if self.pooling.dense else width
        return self.pooling.truncate_dim or width

    def build(self, input_shape):
        self.backbone.build(input_shape)
        width = self.config.hidden_size * len(self.pooling.modes)
        for layer in self.pooled_layers:
            layer.build((None, width))
            width = layer.units
        check_size(self.pooling, width)
        self.built = True

    @property
    def pooled_layers(self) -> list[keras.layers.Layer]:
        return [getattr(self, f"{POOLED}{number}") for number in range(len(self.pooling.dense))]

    @property
    def state(self) -> tuple[str, ...]:
        return self.backbone.state

    @property
    def long_texts(self) -> LongTexts:
        """How texts that exceed the model's length are read."""
        return self._long_texts

    @long_texts.setter
    def long_texts(self, value: LongTexts) -> None:
        self._long_texts = value
        # XLA needs a static number of windows, and Keras turns XLA on by default; so turn it off here.
        self.supports_jit = not value.in_windows

    def initial_memory(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        """The state to pass with the first segment of a batch of new texts.

        Args:
            batch_size: the number of texts.
            tokens: see `bert_zoo.layers.Backbone.initial_state`.

        Returns:
            The inputs that `state` names, by name; empty for a backbone without state.
        """
        return self.backbone.initial_state(batch_size, tokens)

    def freeze(self, *, embeddings: bool = False, layers: int = 0) -> None:
        """Freezes the embeddings and the lowest `layers` layers; see `bert_zoo.training.freeze`."""
        self.backbone.groups().freeze(embeddings=embeddings, layers=layers)

    def __call__(self, inputs, positions=None, **options):
        outputs = self.unmasked(inputs, positions, **options)
        padding_mask = real_tokens(inputs)
        if padding_mask is not None:
            mask_padding(outputs, padding_mask, is_partial=positions is not None)
        return outputs

    def unmasked(self, inputs, positions=None, **options):
        """As a call, without Keras masks on the outputs.

        For heads, which read `padding_mask`: Keras would pass masks on to logits, and leave tokens out of the
        loss that have labels.
        """
        if positions is not None:
            options["positions"] = positions
        return super().__call__(inputs, **options)

    def call(self, inputs, positions=None, internals=False, global_tokens=None, training=None):
        inputs, main = self._checked(inputs), self.backbone.main_input
        if positions is not None and not isinstance(positions, slice):
            positions, length = as_ids("positions", positions), inputs[main].shape[1]
            if length is not None:
                check_range("positions", positions, length, "the length of the input")
        options = {"global_tokens": global_tokens} if self.backbone.has_global_tokens else {}
        outputs = dict(self.backbone(inputs, positions=positions, training=training, **options))
        if not (self.output_hidden_states or internals):
            del outputs["hidden_states"]
        attentions = outputs.pop("attentions")
        if self.output_attentions or internals:
            length = keras.ops.shape(inputs[main])[1]
            outputs |= self.backbone.shown_attentions(attentions, length)
        return outputs

    def _checked(self, inputs) -> dict[str, Any]:
        """The inputs with ids as int32 tensors."""
        table = self.backbone.inputs
        known = [*(name for name in table if name not in self.state), *self.state]
        unknown = sorted(set(inputs) - set(known))
        missing = sorted(name for name in table if table[name].required and name not in inputs)
        if unknown or missing:
            raise ValueError(
                f"The model takes {known}; unknown here: {unknown}, missing: {missing}."
            )
        inputs = {
            name: as_ids(name, value) if name in table else value
            for name, value in inputs.items()
            if value is not None
        }
        main = self.backbone.main_input
        check_rank(inputs[main], len(table[main].axes), f"[{', '.join(table[main].axes)}]")
        wanted = tuple(inputs[main].shape[:2])
        for name in (name for name in table if name in inputs):
            found = tuple(inputs[name].shape)
            if name not in self.state and not table[name].fits(found, wanted):
                axes = table[name].axes
                said = "they must be the same" if len(axes) == 2 else f"its axes are {list(axes)}"
                raise ValueError(f"{name} has shape {found} and {main} {wanted}; {said}.")
            check_range(name, inputs[name], table[name].limit, table[name].meaning)
        return inputs

    @property
    def longest_input(self) -> int:
        return self.backbone.longest_input

    def id_limits(self) -> dict[str, tuple[int, str]]:
        return {name: (ids.limit, ids.meaning) for name, ids in self.backbone.inputs.items()}

    def embed(
        self,
        texts,
        batch_size: int = 32,
        prompt: str | None = None,
        truncate_dim: int | None = None,
        role: str | None = None,
    ):
        """Computes sentence vectors, pooled and normalised as `pooling` says.

        Args:
            texts: strings or bytes, in a list, a NumPy array or a string tensor. A single text counts as
                a list of one.
            batch_size: number of texts per step.
            prompt: a text to put before each text, or the name of one of the model's `prompts` (names
                win). "" is no prompt. By default the model's default prompt, if it has one.
            truncate_dim: keep only this many leading numbers of each vector, for a model trained for it
                (`bert_zoo.embeddings.Matryoshka`); by default the model's own setting. As in
                sentence-transformers, truncated vectors are not normalised again.
            role: "query" for texts that search, "document" for texts to be found. It chooses the model's prompt
                for them, if it has one, in place of `prompt`.

        Returns:
            NumPy float32 [texts, size].

        Raises:
            ValueError: there are a prompt and a role, or one that does not exist; or the prompt cannot be left
                out of the vectors because texts are read in windows.
        """
        before = self.prompts.text(prompt, role)
        texts = with_prompt(before, text_rows(self, texts))
        pooling = self.pooling
        if truncate_dim is not None:
            pooling = replace(pooling, truncate_dim=truncate_dim)
        options: dict[str, Any] = {"pooling": pooling}
        if not self.pooling.include_prompt:
            options["prompt"] = before
        if self.long_texts.in_windows:
            if before and not self.pooling.include_prompt:
                raise ValueError(
                    "The model leaves prompts out of its sentence vectors, which does not work for texts in "
                    "windows. Load it with long_texts='cut'."
                )
            options["reader"] = self.window_reader
        with warning_of_cut_texts(self, texts, pooled=True):
            return outputs_of_texts(self, _sentence_vectors, texts, batch_size, **options)

    def embed_words(
        self,
        texts,
        batch_size: int = 32,
        *,
        features: str | int = "top",
        pooling: str = "mean",
    ) -> list[WordVectors]:
        """Computes a vector for each word.

        Texts that are too long for the model are read in parts, cut between words.

        Args:
            texts: a text or several, split at white space and around punctuation (each mark is a word);
                or lists of words.
            batch_size: number of rows per step.
            features: which layers to read: "top", the number of one layer, "mix" (the mean of all) or
                "concat4" (the last four side by side).
            pooling: how to combine a word's pieces: "mean", "first" or "last".

        Returns:
            A `WordVectors(words, vectors)` for each text; vectors are float32 [words, size].

        Raises:
            ValueError: `features` or `pooling` has an unknown value.
        """
        check("batch_size", batch_size, int, least=1)
        sentences = sentences_of(texts)
        words = [list(sentence.words) for sentence in sentences]
        found = word_vectors(self, words, batch_size, HeadSpec(features), pooling)
        return [WordVectors(s.words, v) for s, v in zip(sentences, found, strict=True)]

    def contacts(self, texts) -> list[np.ndarray]:
        """Computes how likely each two residues of a protein touch, for models with a head for it (ESM-2).

        Texts are read one by one, as the attention of all layers takes much memory.

        Args:
            texts: a protein or several, in letters of amino acids.

        Returns:
            For each text, float32 [residues, residues]: symmetric probabilities.

        Raises:
            ValueError: the model has no such head.
        """
        if not hasattr(self.backbone, "contact_head"):
            raise ValueError(
                f"Models of the family {self.family} do not predict contacts. Load one of ESM-2, such as "
                "esm2_t6_8m."
            )
        found = []
        with warning_of_cut_texts(self, texts := strings(texts), pooled=False):
            for text in texts:
                (contacts,), (tokens,) = outputs_of_texts(self, _contacts, [text])
                found.append(contacts[: tokens - 2, : tokens - 2])
        return found

    def sentence_vectors(
        self,
        sequence_output,
        inputs,
        pooling: Pooling | None = None,
        prompt: str | None = None,
    ):
        """Pools token vectors to sentence vectors.

        Args:
            sequence_output: token vectors [batch, length, hidden], as `call` returned them.
            inputs: the inputs of that call.
            pooling: a `Pooling`; by default the encoder's.
            prompt: the prompt that all texts begin with, if prompts are not pooled. By default each row
                is compared with the encoder's `prompts`.

        Returns:
            float32 [batch, size].
        """
        pooling = pooling or self.pooling
        prompt_mask = None if pooling.include_prompt else self._after_prompts(inputs, prompt)
        pooled = self.backbone.pooled_tokens(inputs, real_tokens(inputs))
        vectors = pool(sequence_output, pooled, pooling, prompt_mask)
        for layer in self.pooled_layers:
            vectors = ops.cast(layer(vectors), "float32")
        return finished(vectors, pooling)

    def _after_prompts(self, inputs, prompt: str | None):
        """[batch, length], 1 for tokens after a text's prompt; see `sentence_vectors`."""
        token_ids = inputs["token_ids"]
        mask = inputs.get("padding_mask")
        mask = ops.ones_like(token_ids) if mask is None else ops.cast(mask, "int32")
        numbers = ops.cumsum(mask, axis=1)
        if prompt is not None:
            _, length = self._prompt_row(prompt)
            return ops.cast(numbers > length, "int32")
        if self.preprocessor.packer.layout.padding_side == "left":
            raise ValueError(
                "Prompts that are not pooled are looked up at the start of each row, but this model pads on the "
                "left. Call embed() instead, or set encoder.pooling with include_prompt=True."
            )
        lengths = ops.zeros_like(token_ids[:, :1])
        for text in filter(None, self.prompts.texts.values()):
            begin, length = self._prompt_row(text)
            padded = ops.pad(token_ids, [(0, 0), (0, len(begin))], constant_values=-1)
            fits = ops.all(ops.equal(padded[:, : len(begin)], begin), axis=1, keepdims=True)
            lengths = ops.maximum(lengths, ops.cast(fits, "int32") * length)
        return ops.cast(numbers > lengths, "int32")

    def _prompt_row(self, prompt: str):
        """The ids at the start of rows with a prompt, and the number of tokens that count as the prompt.

        As in sentence-transformers, the number counts the prompt alone and the special tokens before it.
        The ids leave out a final blank, which may be part of the next word's first token.
        """
        if not prompt:
            return (), 0
        reader = self.preprocessor.with_options(report_truncation=False, bucket=1)
        tokenizer, roles = reader.tokenizer, reader.packer.layout.roles
        special = {int(getattr(tokenizer, f"{role}_id")) for role in roles}

        def row(text: str):
            with outside_of_graphs():
                ids = keras.ops.convert_to_numpy(reader([text])["token_ids"])[0]
            return ids[:-1] if int(ids[-1]) in special else ids

        return row(prompt.rstrip()), len(row(prompt))

    def window_outputs(self, inputs, training=None):
        """As `TaskModel.window_outputs`: vectors before they are normalised and truncated."""
        pooling = replace(self.pooling, layer_norm=False, normalize=False, truncate_dim=None)
        return _sentence_vectors(self, inputs, pooling=pooling, training=training)

    def from_pooled(self, vectors):
        return finished(vectors, self.pooling)

    @property
    def has_preprocessor(self) -> bool:
        return self._preprocessor is not None

    @property
    def preprocessor(self):
        if isinstance(self._preprocessor, DeferredPreprocessor):
            self._preprocessor = self._preprocessor.make()
        if self._preprocessor is None:
            if self.why_no_vocabulary is not None:
                raise FileNotFoundError(
                    f"{self.why_no_vocabulary} If the vocabulary is in another directory, set "
                    f"model.preprocessor = bert_zoo.text.preprocessor_from_dir(directory, {self.family!r}); "
                    "or pass dicts of ids."
                )
            raise ValueError(
                "This model has no vocabulary: it was loaded without files (weights=None), or made from "
                "its configuration alone (to_json, from_config). Load it with weights, set "
                "model.preprocessor to that of another model or to bert_zoo.text.preprocessor_from_dir(...), "
                "or pass dicts of ids."
            )
        return self._preprocessor

    @preprocessor.setter
    def preprocessor(self, value) -> None:
        self._preprocessor = value

    @property
    def window_reader(self):
        """The preprocessor for long texts, a `bert_zoo.text.windows.DocumentWindows`."""
        from bert_zoo.text.windows import document_windows

        # Kept as long as the preprocessor stays the same: graphs are cached by it.
        made_from, reader = self._window_reader
        if made_from is not self.preprocessor:
            reader = document_windows(self.preprocessor, self.long_texts.stride)
            self._window_reader = (self.preprocessor, reader)
        return reader

    def preprocessor_to_save(self):
        """The preprocessor, or the deferred one if tensorflow_text is missing; it writes the vocabulary.

        None for a model without vocabulary, with a warning if its files lacked one.
        """
        if self._preprocessor is None:
            if self.why_no_vocabulary is not None:
                log.warning(
                    "The vocabulary is not saved with the model: %s", self.why_no_vocabulary
                )
            return None
        try:
            return self.preprocessor
        except ImportError:
            return self._preprocessor

    # Keras calls these two with a directory for assets while it writes and reads a .keras file.

    def save_assets(self, directory: str) -> None:
        preprocessor = self.preprocessor_to_save()
        if preprocessor is None:
            return
        preprocessor.save_vocabulary(directory)
        write_json(Path(directory) / PREPROCESSOR_FILE, preprocessor.get_config())

    def load_assets(self, directory: str) -> None:
        options = Path(directory) / PREPROCESSOR_FILE
        if options.is_file():
            # Keras deletes the directory afterwards.
            self._preprocessor = DeferredPreprocessor(
                directory, registry().families[self.family].text, **read_object(options)
            )

    @classmethod
    def from_config(cls, config, custom_objects=None):
        preprocessor = getattr(config["family"], "preprocessor", None)
        return super().from_config({"preprocessor": preprocessor, **config}, custom_objects)

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "family": WithPreprocessor(self.family, self._preprocessor),
            "output_hidden_states": self.output_hidden_states,
            "output_attentions": self.output_attentions,
            "pooling": asdict(self.pooling),
            "prompts": {"texts": dict(self.prompts.texts), "default": self.prompts.default},
            "long_texts": self.long_texts.get_config(),
        }
