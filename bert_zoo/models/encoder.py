"""The encoder that users hold, alone or inside a task model."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
from keras import ops

from bert_zoo.config import Config
from bert_zoo.heads.pooling import normalized, pool
from bert_zoo.json_files import read_object
from bert_zoo.layers.attention import attention_bias
from bert_zoo.models.base import ZooModel
from bert_zoo.models.cut_texts import cut_texts_said
from bert_zoo.models.direct import outputs_of_texts
from bert_zoo.models.feeding import text_rows
from bert_zoo.models.inputs import as_id_tensors, check_range, check_rank
from bert_zoo.models.long_texts import LongTexts, are_rows, over_windows
from bert_zoo.registry import Pooling, registry
from bert_zoo.text.directories import DeferredPreprocessor

log = logging.getLogger("bert_zoo")

PREPROCESSOR_FILE = "preprocessor.json"
INPUTS = {"token_ids": True, "segment_ids": False, "padding_mask": False, "position_ids": False}


def _sentence_vectors(model, inputs, *, pooling: Pooling, training: bool | None = False):
    """Ids to pooled vectors [batch, hidden]."""
    if not are_rows(inputs):
        return over_windows(model, inputs, training)
    outputs = model(inputs, first_only=pooling.reads_first_only, training=training)
    return pool(outputs["sequence_output"], inputs.get("padding_mask"), pooling)


@keras.saving.register_keras_serializable("bert_zoo")
class Encoder(ZooModel):
    """A transformer encoder: ids in, contextual vectors out.

    Called with a dict of int32 tensors [batch, length]: `token_ids`, and optionally `segment_ids`
    (default 0), `padding_mask` (1 = real token; default all real) and `position_ids`.

    Returns a dict: `sequence_output` [batch, length, hidden]; `pooled_output` [batch, hidden] where
    the encoder has a pooler; on request `hidden_states`, the embedding output first, and
    `attentions` [batch, heads, length, length], one a layer. Called with `first_only=True`, for what
    reads the first token alone, the last layer computes no other: `sequence_output` and the last
    hidden state are [batch, 1, hidden], the last attentions [batch, heads, 1, length].

    Args:
        config: sizes and choices.
        family: whose bricks it is built from.
        output_hidden_states, output_attentions: whether the dict carries them.
        pooling: how `embed` makes sentence vectors.
        long_texts: what `embed`, and task models whose outputs can be pooled, do with texts that are
            longer than the model reads at once.
        preprocessor: a `bert_zoo.text.Preprocessor`, or one that is deferred.
        why_no_vocabulary: what to say of a missing preprocessor.
    """

    task = "encoder"
    outputs_per_token = True
    pools_windows = True
    traced_settings = (
        "config",
        "output_hidden_states",
        "output_attentions",
        "pooling",
        "long_texts",
    )

    def __init__(
        self,
        config: Config | dict[str, Any],
        family: str = "bert",
        *,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        pooling: Pooling | dict[str, Any] = Pooling(),  # noqa: B008 (frozen)
        long_texts: LongTexts | dict[str, Any] = LongTexts(),  # noqa: B008 (frozen)
        preprocessor=None,
        why_no_vocabulary: str | None = None,
        name: str = "encoder",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        self._preprocessor = preprocessor
        self.why_no_vocabulary = why_no_vocabulary
        self._window_reader = (None, None)
        page = registry().families[family]
        self.config = page.config_class.from_dict(config) if isinstance(config, dict) else config
        self.family = family
        self.output_hidden_states = output_hidden_states
        self.output_attentions = output_attentions
        self.pooling = Pooling(**pooling) if isinstance(pooling, dict) else pooling
        self.long_texts = LongTexts(**long_texts) if isinstance(long_texts, dict) else long_texts
        # XLA must know how many windows there are; Keras uses it where no one said anything.
        self.supports_jit = not self.long_texts.in_windows
        parts = page.parts(self.config, self.dtype_policy)
        self.embeddings = parts["embeddings"]
        self.stack = parts["stack"]
        self.pooler = parts["pooler"]
        self.build((None, None))

    def build(self, input_shape):
        self.embeddings.build((None, None))
        self.stack.build((None, None, self.config.hidden_size))
        if self.pooler is not None:
            self.pooler.build((None, None, self.config.hidden_size))
        self.built = True

    def freeze(self, *, embeddings: bool = False, layers: int = 0) -> None:
        """Keeps weights as they are in training; `bert_zoo.training.freeze` is what users call.

        Args:
            embeddings: whether those of the embeddings.
            layers: how many layers, from the lowest.

        Raises:
            ValueError: there are not so many layers, or higher layers share weights with these.
        """
        of_layers = self.stack.blocks_of_layers
        if isinstance(layers, bool) or not 0 <= layers <= len(of_layers):
            raise ValueError(f"layers is {layers!r}; this encoder has {len(of_layers)} to freeze.")
        below = {number for numbers in of_layers[:layers] for number in numbers}
        shared = below & {number for numbers in of_layers[layers:] for number in numbers}
        if shared:
            raise ValueError(
                f"The lowest {layers} layers cannot be frozen alone: layers above share weights with "
                f"them. Freeze all {len(of_layers)} layers, or none."
            )
        if embeddings:
            self.embeddings.trainable = False
        for number in below:
            self.stack.blocks[number].trainable = False

    def levels_below_head(self) -> dict[int, int]:
        """Variables by id, and how many layers below the head each lies, for `layer_decay`.

        Source: google-research/electra model/optimization.py, _get_layer_lrs. The head has level 0,
        the layers from the highest 2, 3, ..., and the embeddings the next. A pooler, which ELECTRA
        does not have, takes the free level 1. Layers that share their weights are one layer, so
        that ALBERT's block has level 2 and its embeddings 3.
        """
        num_blocks = len(self.stack.blocks)
        levels = {id(v): num_blocks + 2 for v in self.embeddings.variables}
        # A recurrent stack's own biases are read by the lowest layer first.
        levels |= {id(v): num_blocks + 1 for v in self.stack.variables}
        for number, block in enumerate(self.stack.blocks):
            levels |= {id(v): num_blocks + 1 - number for v in block.variables}
        if self.pooler is not None:
            levels |= {id(v): 1 for v in self.pooler.variables}
        return levels

    def call(self, inputs, first_only=False, training=None):
        ids = as_id_tensors(inputs, INPUTS)
        self._check_ids(ids)
        token_ids = ids["token_ids"]
        mask = ids.get("padding_mask")
        if mask is None:
            mask = ops.ones_like(token_ids)
        embedded = self.embeddings(
            token_ids, ids.get("segment_ids"), ids.get("position_ids"), training=training
        )
        bias = attention_bias(mask, keras.backend.standardize_dtype(embedded.dtype))
        hidden_states, attentions = self.stack(
            embedded, bias, first_only=first_only, training=training
        )
        outputs = {"sequence_output": hidden_states[-1]}
        if self.pooler is not None:
            outputs["pooled_output"] = self.pooler(hidden_states[-1])
        if self.output_hidden_states:
            outputs["hidden_states"] = hidden_states
        if self.output_attentions:
            outputs["attentions"] = attentions
        return outputs

    def _check_ids(self, ids: dict[str, Any]) -> None:
        token_ids = ids["token_ids"]
        check_rank(token_ids, 2, "[batch, length]")
        for name, value in ids.items():
            if len(value.shape) != 2 or any(
                None not in (a, b) and a != b and a != 1
                for a, b in zip(value.shape, token_ids.shape, strict=False)
            ):
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)} and token_ids {tuple(token_ids.shape)}; "
                    "they must be the same."
                )
        for name, (limit, what) in self.id_limits().items():
            if name in ids:
                check_range(name, ids[name], limit, what)

    @property
    def longest_input(self) -> int:
        return self.config.longest_input

    def id_limits(self) -> dict[str, tuple[int, str]]:
        """Input name -> (ids lie in [0, this), what the limit is)."""
        return {
            "token_ids": (self.config.vocab_size, "the size of the vocabulary"),
            "segment_ids": (self.config.num_segments, "the number of segments"),
            "position_ids": (self.config.max_positions, "the rows of the position table"),
            "padding_mask": (2, "1 is a real token and 0 padding"),
        }

    def embed(self, texts, batch_size: int = 32):
        """Sentence vectors of raw texts.

        Args:
            texts: strings or bytes, in a list, a NumPy array or a string tensor; one alone is a list
                of one.
            batch_size: texts a step.

        Returns:
            NumPy float32 [number of texts, hidden], pooled and normalised as `self.pooling` says.
        """
        texts = text_rows(self, texts)
        with cut_texts_said(self, texts, pooled=True):
            reader = self.window_reader if self.long_texts.in_windows else None
            return outputs_of_texts(
                self, _sentence_vectors, texts, batch_size, reader=reader, pooling=self.pooling
            )

    def window_outputs(self, inputs, training=None):
        """Vectors of windows before they are pooled and normalised; see `TaskModel`."""
        pooling = replace(self.pooling, normalize=False)
        return _sentence_vectors(self, inputs, pooling=pooling, training=training)

    def from_pooled(self, vectors):
        """The sentence vectors of texts, from the pooled ones of their windows."""
        return normalized(vectors) if self.pooling.normalize else vectors

    @property
    def has_preprocessor(self) -> bool:
        return self._preprocessor is not None

    @property
    def preprocessor(self):
        if isinstance(self._preprocessor, DeferredPreprocessor):
            self._preprocessor = self._preprocessor.make()
        if self._preprocessor is None:
            if self.why_no_vocabulary is not None:
                raise FileNotFoundError(self.why_no_vocabulary)
            raise ValueError(
                "This model has no vocabulary, because it was loaded without files (weights=None). "
                "Load it with weights, set model.preprocessor = "
                "bert_zoo.text.preprocessor_from_dir(...), or pass dicts of ids."
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
        """What writes the vocabulary: the preprocessor, or a deferred one where TensorFlow is missing.

        None, with a word on the log where files lacked, for a model without vocabulary.
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
        options = json.dumps(preprocessor.get_config(), indent=2)
        (Path(directory) / PREPROCESSOR_FILE).write_text(options + "\n", encoding="utf-8")

    def load_assets(self, directory: str) -> None:
        options = Path(directory) / PREPROCESSOR_FILE
        if options.is_file():
            # The directory is gone when Keras returns.
            self._preprocessor = DeferredPreprocessor(
                directory, registry().families[self.family].tokenizer, **read_object(options)
            )

    @classmethod
    def from_config(cls, config, custom_objects=None):
        # What `.keras` files of bert_zoo 0.1.0 say in place of `trained_layers`.
        config = dict(config)
        frozen = config.pop("frozen", {})
        encoder = super().from_config(config, custom_objects)
        encoder.freeze(**frozen)
        return encoder

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "family": self.family,
            "output_hidden_states": self.output_hidden_states,
            "output_attentions": self.output_attentions,
            "pooling": {"mode": self.pooling.mode, "normalize": self.pooling.normalize},
            "long_texts": self.long_texts.get_config(),
        }
