"""The encoder that users hold, alone or inside a task model."""

import logging
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
from keras import ops

from bert_zoo.config import Config, HeadSpec, Prompts
from bert_zoo.family import Pooling
from bert_zoo.json_files import read_object
from bert_zoo.layers.common import FIRST
from bert_zoo.layers.heads.pooling import check_size, finished, pool
from bert_zoo.models.base import Interface, ZooModel
from bert_zoo.models.cut_texts import warning_of_cut_texts
from bert_zoo.models.data_adapters import text_rows, with_prompt
from bert_zoo.models.direct import outputs_of_texts
from bert_zoo.models.graphs import outside_of_graphs
from bert_zoo.models.inputs import (
    as_ids,
    check_batch_size,
    check_range,
    check_rank,
    real_tokens,
)
from bert_zoo.models.long_texts import LongTexts, are_rows, over_windows
from bert_zoo.models.word_outputs import WordVectors, sentences_of, word_vectors
from bert_zoo.registry import registry
from bert_zoo.text.format import DeferredPreprocessor, WithPreprocessor
from bert_zoo.weights.bind import POOLED
from bert_zoo.weights.files import write_json

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


@keras.saving.register_keras_serializable("bert_zoo")
class Encoder(ZooModel):
    """Ids in, contextual vectors out: what a family's backbone computes, with text around it.

    Called with a dict of what `backbone.inputs` lists: int32 tensors [batch, length] `token_ids`, and
    optionally `padding_mask` (1 = real token; default all real), of most families `segment_ids`
    (default 0), `position_ids` and `document_ids` (for rows of several documents, 1, 2, ... and 0 for
    padding); and of what `backbone.state` names, as the call before returned it.

    Returns a dict: `sequence_output` [batch, length, hidden]; `pooled_output` [batch, hidden] where
    the encoder has a pooler and rows are single documents; `query_output` [batch, targets, hidden] where
    a second stream was asked for; on request `hidden_states`, the embedding output first, and
    `attentions` [batch, heads, length, keys], one a layer; and the new state. Called with
    `positions`, int [batch, number], or `bert_zoo.layers.common.FIRST` for the first token of each row,
    the last layer computes no others: `sequence_output` and the last hidden state are [batch, number,
    hidden], the last attentions [batch, heads, number, keys]. Called with `internals=True`, it gives
    hidden states and attentions in any case. `global_tokens` says which tokens are global, "first",
    "first_text" or "second_text", where the family has such tokens; by default none are.

    Args:
        config: sizes and choices.
        family: whose page makes the backbone; the first of `bert_zoo.families` by default.
        output_hidden_states, output_attentions: whether the dict carries them.
        pooling: how `embed` makes sentence vectors.
        prompts: what stands before the texts that it makes them of.
        long_texts: what `embed`, and task models whose outputs can be pooled, do with texts that are
            longer than the model reads at once.
        preprocessor: a `bert_zoo.text.Preprocessor`, or one that is deferred.
        why_no_vocabulary: what to say of a missing preprocessor.

    Attributes:
        backbone: the layer that computes; its layers are attributes of the encoder too.
        loaded_from: the directory or Hugging Face repository that the weights are from, if it is one.
    """

    task = "encoder"
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
        # Keras finds the layers here, and not below the backbone: the names of variables, `.keras`
        # files and summaries do not tell what puts the layers together.
        for layer in self.backbone.groups().layers:
            setattr(self, layer.name, layer)
        for number, spec in enumerate(self.pooling.dense):
            name = f"{POOLED}{number}"
            options = {"activation": spec.activation, "use_bias": spec.use_bias, "name": name}
            setattr(self, name, keras.layers.Dense(spec.units, dtype=self.dtype_policy, **options))
        self.long_texts = LongTexts(**long_texts) if isinstance(long_texts, dict) else long_texts
        self.build((None, None))

    def __dir__(self):
        # Keras 3.15 writes and reads files by it.
        return [name for name in super().__dir__() if name != "backbone"]

    @property
    def vector_size(self) -> int:
        """The numbers of a sentence vector."""
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
        """The dense layers that sentence vectors go through."""
        return [getattr(self, f"{POOLED}{number}") for number in range(len(self.pooling.dense))]

    @property
    def state(self) -> tuple[str, ...]:
        return self.backbone.state

    @property
    def long_texts(self) -> LongTexts:
        """What is done with texts that are longer than the model reads at once."""
        return self._long_texts

    @long_texts.setter
    def long_texts(self, value: LongTexts) -> None:
        self._long_texts = value
        # XLA needs a static number of windows, and Keras turns XLA on by default; so turn it off here.
        self.supports_jit = not value.in_windows

    def initial_memory(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        """The state for a batch of new texts, which a backbone with a memory takes with the first segment.

        Args:
            tokens: see `bert_zoo.layers.Backbone.initial_state`.
        """
        return self.backbone.initial_state(batch_size, tokens)

    def freeze(self, *, embeddings: bool = False, layers: int = 0) -> None:
        """As `bert_zoo.training.freeze`, of nothing by default."""
        self.backbone.groups().freeze(embeddings=embeddings, layers=layers)

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
    ):
        """Sentence vectors, NumPy float32 [texts, size], pooled and normalised as `pooling` says.

        Args:
            texts: strings or bytes, in a list, a NumPy array or a string tensor; one alone is a list
                of one.
            batch_size: texts a step.
            prompt: what stands before each text: the name of one of the model's `prompts`, which goes
                first, or a text of your own; the model's default prompt, if it has one, by default, and
                "" for none.
            truncate_dim: how many numbers of a vector are kept, the first ones, as of a model that was
                trained for it (`bert_zoo.embeddings.Matryoshka`); the model's by default. As in
                sentence-transformers, what is left of a vector of length 1 is shorter than 1.
        """
        before = self.prompts.text(prompt)
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
                    "The model leaves prompts out of its vectors, which texts in windows are not read with. "
                    "Load it with long_texts='cut'."
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
        """The vectors of texts' words, a `WordVectors(words, vectors)` for each text, vectors float32 [words, size].

        Texts that are too long for the model are read in parts, cut between words.

        Args:
            texts: a text or several, which are split at white space and around punctuation (a mark is a word);
                or lists of words.
            batch_size: rows a step.
            features: the layers that are read, as `load` calls them: "top", the number of one, "mix" (their
                mean) or "concat4" (side by side).
            pooling: what of a word's pieces is taken: their "mean", the "first" or the "last".

        Raises:
            ValueError: there are no texts, or `features` or `pooling` cannot be.
        """
        check_batch_size(batch_size)
        sentences = sentences_of(texts)
        words = [list(sentence.words) for sentence in sentences]
        found = word_vectors(self, words, batch_size, HeadSpec(features), pooling)
        return [WordVectors(s.words, v) for s, v in zip(sentences, found, strict=True)]

    def sentence_vectors(
        self,
        sequence_output,
        inputs,
        pooling: Pooling | None = None,
        prompt: str | None = None,
    ):
        """Sentence vectors, float32 [batch, size], of token vectors [batch, length, hidden].

        Args:
            sequence_output: as `call` returned it.
            inputs: that it was called with.
            pooling: the encoder's by default.
            prompt: what all texts begin with, where that is not pooled; by default what their ids say,
                which may begin with any of the encoder's `prompts`.
        """
        pooling = pooling or self.pooling
        prompt_mask = None if pooling.include_prompt else self._after_prompts(inputs, prompt)
        vectors = pool(sequence_output, real_tokens(inputs), pooling, prompt_mask)
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
                "Prompts that are not pooled are found at the begin of a row, and this model's rows begin with "
                "padding. Call embed() instead, or set encoder.pooling with include_prompt=True."
            )
        lengths = ops.zeros_like(token_ids[:, :1])
        for text in filter(None, self.prompts.texts.values()):
            begin, length = self._prompt_row(text)
            padded = ops.pad(token_ids, [(0, 0), (0, len(begin))], constant_values=-1)
            fits = ops.all(ops.equal(padded[:, : len(begin)], begin), axis=1, keepdims=True)
            lengths = ops.maximum(lengths, ops.cast(fits, "int32") * length)
        return ops.cast(numbers > lengths, "int32")

    def _prompt_row(self, prompt: str):
        """Ids that rows with a prompt begin with, and how many of their tokens it counts for.

        As in sentence-transformers, these are those of the prompt alone, special tokens before it among
        them; where it ends in a blank, that may be part of the next word's first token.
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
        """As `TaskModel.window_outputs`: vectors before they are normalised and cut."""
        pooling = replace(self.pooling, normalize=False, truncate_dim=None)
        return _sentence_vectors(self, inputs, pooling=pooling, training=training)

    def from_pooled(self, vectors):
        """The sentence vectors of texts, from the pooled ones of their windows."""
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
                    f"{self.why_no_vocabulary} Where the vocabulary is in another directory, set "
                    f"model.preprocessor = bert_zoo.text.preprocessor_from_dir(directory, {self.family!r}); "
                    "or pass dicts of ids."
                )
            raise ValueError(
                "This model has no vocabulary: it was loaded without files (weights=None), or made from "
                "its configuration alone (to_json, from_config). Load it with weights, set "
                "model.preprocessor to another model's or to bert_zoo.text.preprocessor_from_dir(...), "
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

        # The same one as long as the preprocessor is, since graphs are kept by it.
        made_from, reader = self._window_reader
        if made_from is not self.preprocessor:
            reader = document_windows(self.preprocessor, self.long_texts.stride)
            self._window_reader = (self.preprocessor, reader)
        return reader

    def preprocessor_to_save(self):
        """What writes the vocabulary: the preprocessor, or a deferred one where tensorflow_text is missing.

        None, with a warning where files lacked, for a model without vocabulary.
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

    # Keras calls these two while it writes and reads a .keras file, with a directory for assets.

    def save_assets(self, directory: str) -> None:
        preprocessor = self.preprocessor_to_save()
        if preprocessor is None:
            return
        preprocessor.save_vocabulary(directory)
        write_json(Path(directory) / PREPROCESSOR_FILE, preprocessor.get_config())

    def load_assets(self, directory: str) -> None:
        options = Path(directory) / PREPROCESSOR_FILE
        if options.is_file():
            # The directory is gone when Keras returns.
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
