"""Encoders that carry a memory from one segment of a text to the next."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from bert_zoo.layers.recurrent_stack import updated_memory
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.inputs import as_id_tensors, check_range, check_rank

INPUTS = {"token_ids": True, "padding_mask": False, "memory": False, "memory_mask": False}


@keras.saving.register_keras_serializable("bert_zoo")
class RecurrentEncoder(Encoder):
    """Transformer-XL's encoder: a segment and the memory of earlier ones in, the new memory out.

    Called with a dict of `token_ids` int [batch, length], and optionally

    * `memory`: for each layer, [batch, memory length, hidden], as the call before returned it. What
      precedes a text without it is the configuration's `memory_start`: `mem_len` rows of zeros that
      are attended to, or nothing.
    * `memory_mask` int [batch, memory length]: 1 where the memory holds something.
    * `padding_mask` int [batch, length]: 1 for real tokens; no others are attended to, now or from
      memory.

    Returns a dict: `sequence_output` [batch, length, hidden]; `memory`, as above with `mem_len`
    positions, through which no gradient runs; `memory_mask` [batch, mem_len] where a mask came in or
    memory starts empty; on request `hidden_states`, the embedding output first, and `attentions`
    [batch, heads, length, memory length + length], one a layer.

    Shapes in and out are the same for a memory of `mem_len`, so one compiled step serves a text of
    any length. Called with `first_only=True`, it gives the first token alone, as `Encoder` does; it
    saves no time here, where memory holds every token. Arguments: as `Encoder`.
    """

    pools_windows = False  # its memory carries a text on

    def call(self, inputs, first_only=False, training=None):
        ids = as_id_tensors(inputs, INPUTS)
        self._check_ids(ids)
        token_ids, padding_mask = ids["token_ids"], ids.get("padding_mask")
        memory, memory_mask = inputs.get("memory"), ids.get("memory_mask")
        starts_empty = self.config.memory_start == "empty"
        if memory is None:
            if memory_mask is not None:
                raise ValueError(
                    "memory_mask says what the memory holds, and no memory is given. Pass both, as "
                    "the model returned them, or neither."
                )
            start = self.initial_memory(ops.shape(token_ids)[0])
            memory = start["memory"]
            if starts_empty:
                memory_mask = start["memory_mask"]
        self._check_memory(memory, memory_mask, token_ids)

        keys_mask = None
        if starts_empty or memory_mask is not None or padding_mask is not None:
            if memory_mask is None:
                memory_mask = ops.ones(ops.shape(memory[0])[:2], "int32")
            if padding_mask is None:
                padding_mask = ops.ones_like(token_ids)
            keys_mask = ops.concatenate([memory_mask, padding_mask], axis=1)

        embedded = self.embeddings(token_ids, training=training)
        hidden_states, new_memory, attentions = self.stack(
            embedded, list(memory), keys_mask, training=training
        )
        if first_only:
            hidden_states = [*hidden_states[:-1], hidden_states[-1][:, :1]]
            attentions = [*attentions[:-1], attentions[-1][:, :, :1]]
        outputs = {"sequence_output": hidden_states[-1], "memory": new_memory}
        if keys_mask is not None:
            outputs["memory_mask"] = updated_memory(memory_mask, padding_mask, self.config.mem_len)
        if self.output_hidden_states:
            outputs["hidden_states"] = hidden_states
        if self.output_attentions:
            outputs["attentions"] = attentions
        return outputs

    def initial_memory(self, batch_size: int) -> dict[str, Any]:
        """What precedes a text: the inputs `memory` and `memory_mask` of its first segment.

        Args:
            batch_size: rows; may be a tensor.
        """
        config = self.config
        shape = (batch_size, config.mem_len, config.hidden_size)
        holds = ops.zeros if config.memory_start == "empty" else ops.ones
        return {
            "memory": [ops.zeros(shape, self.compute_dtype) for _ in range(config.num_layers)],
            "memory_mask": holds(shape[:2], "int32"),
        }

    def _check_ids(self, ids: dict[str, Any]) -> None:
        check_rank(ids["token_ids"], 2, "[batch, length]")
        for name, (limit, what) in self.id_limits().items():
            if name in ids:
                check_range(name, ids[name], limit, what)
        mask = ids.get("padding_mask")
        if mask is not None and not _fits(mask.shape, ids["token_ids"].shape):
            raise ValueError(
                f"padding_mask has shape {tuple(mask.shape)} and token_ids "
                f"{tuple(ids['token_ids'].shape)}; they must be the same."
            )

    def _check_memory(self, memory, memory_mask, token_ids) -> None:
        config = self.config
        if isinstance(memory, Mapping) or len(memory) != config.num_layers:
            raise ValueError(
                f"memory has {len(memory)} entries; it is a list of one tensor for each of the "
                f"{config.num_layers} layers, as the model returned it."
            )
        wanted = (token_ids.shape[0], memory[0].shape[1], config.hidden_size)
        for layer, entry in enumerate(memory):
            if not _fits(entry.shape, wanted):
                raise ValueError(
                    f"memory[{layer}] has shape {tuple(entry.shape)}; it must be {wanted}: the "
                    "batch, the positions remembered, and the model's width."
                )
        if memory_mask is not None and not _fits(memory_mask.shape, wanted[:2]):
            raise ValueError(
                f"memory_mask has shape {tuple(memory_mask.shape)}; the memory's is {wanted[:2]}."
            )

    def id_limits(self) -> dict[str, tuple[int, str]]:
        mask = (2, "1 is a real token and 0 padding")
        return {
            "token_ids": (self.config.vocab_size, "the size of the vocabulary"),
            "padding_mask": mask,
            "memory_mask": mask,
        }


def _fits(shape, wanted) -> bool:
    """Whether a shape is the wanted one as far as both are known."""
    return len(shape) == len(wanted) and all(
        None in (found, other) or found == other for found, other in zip(shape, wanted, strict=True)
    )
