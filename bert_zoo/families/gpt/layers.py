"""Causal attention that can use the keys and values of earlier calls."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from bert_zoo.layers.attention import (
    SelfAttention,
    attention_bias,
    causal_bias,
    has_kernels,
    masked_score,
)
from bert_zoo.layers.backbones import Ids, TransformerBackbone, check_memory
from bert_zoo.layers.block import Stack
from bert_zoo.layers.common import with_slots


class CausalAttention(SelfAttention):
    """`SelfAttention` that can also attend to the keys and values of earlier calls.

    The bias of the call hides later tokens; see `bert_zoo.layers.attention.causal_bias`. Arguments as in
    `SelfAttention`. Source: Radford et al. 2019; openai/gpt-2 src/model.py, attn.
    """

    def call(self, x, bias, positions=None, memory=None, start=None, training=None):
        """Attends within each row, and to the tokens in memory.

        Args:
            x, positions: as in `SelfAttention.call`.
            bias: as in `SelfAttention.call`; with memory [batch, 1, length, slots].
            memory: keys [batch, heads, head_size, slots] and values [batch, heads, slots, head_size] of
                earlier tokens, or None.
            start: int32 scalar, the first slot for the tokens of x.

        Returns:
            Output and probabilities; with memory, also the memory with the tokens of x in it.
        """
        if memory is None:
            return super().call(x, bias, positions=positions, training=training)
        keys, values = memory
        heads = (-1, ops.shape(bias)[2], self.num_heads, self.head_size)
        query, key, value = (ops.reshape(part, heads) for part in ops.split(self.qkv(x), 3, -1))
        context = None
        keys = with_slots(keys, ops.transpose(key, (0, 2, 3, 1)), start, axis=3)
        values = with_slots(values, ops.transpose(value, (0, 2, 1, 3)), start, axis=2)
        if has_kernels():
            slots = ops.transpose(keys, (0, 3, 1, 2)), ops.transpose(values, (0, 2, 1, 3))
            context = self.fused(query, *slots, bias, training, self.scale)
        query = ops.transpose(query, (0, 2, 1, 3)) * self.scale
        output, probabilities = self.attended(query, keys, values, bias, training, context)
        return output, probabilities, (keys, values)


class CausalStack(Stack):
    """A `Stack` of blocks with `CausalAttention`. Arguments as in `Stack`."""

    def call(self, x, bias, positions=None, memory=None, start=None, training=None):
        """Runs the stack.

        Args:
            x, positions: as in `Stack.call`.
            bias: as in `Stack.call`; with memory [batch, 1, length, slots].
            memory: a list with the keys and then the values of each block, or None; see
                `CausalAttention.call`.
            start: int32 scalar, the first slot for the tokens of x.

        Returns:
            The results of `Stack.call`; with memory, also the memory with the tokens of x in it.
        """
        if memory is None:
            return super().call(x, bias, positions=positions, training=training)
        length = ops.shape(x)[1]
        hidden_states, attentions, updated = [x], [], []
        x = ops.reshape(x, (-1, self.hidden_size))
        for number, block in enumerate(self.blocks):
            of_block = memory[2 * number : 2 * number + 2]
            x, probabilities, (keys, values) = block(
                x, bias, memory=of_block, start=start, training=training
            )
            attentions.append(probabilities)
            updated += keys, values
            hidden_states.append(ops.reshape(x, (-1, length, self.hidden_size)))
        return hidden_states, attentions, updated


class CausalBackbone(TransformerBackbone):
    """Embeddings and a stack of blocks whose tokens attend to those before them (GPT).

    Besides the inputs of `TransformerBackbone`, it takes the keys and values of earlier tokens. If they are
    given, it returns them extended by the new tokens' keys and values:

    * `memory`: for each layer the keys [batch, heads, head_size, slots] and the values [batch, heads,
      slots, head_size] of earlier tokens, with free slots for more;
    * `memory_mask` int [batch, slots]: 1 for slots that hold a token.

    New tokens take the slots after the last one in use in any row. Padding after them leaves its
    slots empty, and positions count only tokens. Input and output shapes are the same, so one compiled step
    serves a text up to the number of slots. If too few slots are free, outputs are NaN.

    Arguments as in `TransformerBackbone`; the stack is a `CausalStack`.
    """

    state = ("memory", "memory_mask")
    state_is_optional = True

    @property
    def inputs(self) -> dict[str, Ids]:
        return {**super().inputs, "memory_mask": Ids(2, "1 is a token and 0 a free slot")}

    @property
    def token_table(self):
        """As `RecurrentBackbone.token_table`, with one cluster and no projection."""
        return [super().token_table], [None]

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        config = self.config
        slots = config.longest_input if tokens is None else tokens
        size = config.hidden_size // config.num_heads
        shapes = ((size, slots), (slots, size))
        return {
            "memory": [
                ops.zeros((batch_size, config.num_heads, *shape), self.compute_dtype)
                for _ in range(config.num_layers)
                for shape in shapes
            ],
            "memory_mask": ops.zeros((batch_size, slots), "int32"),
        }

    def embedded(self, inputs, training):
        embedded, bias = super().embedded(inputs, training)
        length = ops.shape(embedded)[1]
        return embedded, ops.minimum(bias, causal_bias(length, length, None, bias.dtype))

    def call(self, inputs, positions=None, training=None):
        memory, memory_mask = (inputs.get(name) for name in self.state)
        if memory is None and memory_mask is None:
            return super().call(inputs, positions, training)
        self._check_memory(memory, memory_mask, inputs)
        if positions is not None or "document_ids" in inputs:
            raise ValueError(
                "With memory, a row continues one text and all of its tokens are computed. Leave document_ids "
                "and positions out."
            )
        token_ids, mask = inputs["token_ids"], inputs.get("padding_mask")
        mask = ops.ones_like(token_ids) if mask is None else mask
        length, slots = ops.shape(token_ids)[1], ops.shape(memory_mask)[1]
        numbers = ops.arange(slots, dtype="int32")
        # Padded with a row of zeros, because an empty batch has no maximum.
        start = ops.max(ops.pad(memory_mask * (numbers + 1)[None, :], [(1, 0), (0, 0)]))
        places = ops.arange(length, dtype="int32")
        position_ids = inputs.get("position_ids")
        if position_ids is None:
            # Padding gets 0, as its place may lie beyond the last position.
            position_ids = (ops.sum(memory_mask, axis=1)[:, None] + places[None, :]) * mask
        embedded = self.embeddings(token_ids, None, position_ids, training=training)
        dtype = keras.backend.standardize_dtype(embedded.dtype)
        memory_mask = with_slots(memory_mask, mask, start, axis=1)
        later = numbers[None, :] > (start + places)[:, None]
        bias = ops.minimum(
            attention_bias(memory_mask, dtype), ops.cast(later, dtype) * masked_score(dtype)
        )
        # Otherwise tokens would silently overwrite others.
        bias = ops.where(start + length > slots, float("nan"), bias)
        hidden_states, attentions, memory = self.stack(
            embedded, bias, memory=memory, start=start, training=training
        )
        if self.final_norm is not None:
            hidden_states[-1] = self.final_norm(hidden_states[-1])
        return {
            "sequence_output": hidden_states[-1],
            "hidden_states": hidden_states,
            "attentions": attentions,
            "memory": memory,
            "memory_mask": memory_mask,
        }

    def state_after(self, token_ids, lengths, state: Mapping[str, Any]) -> dict[str, Any]:
        """As `RecurrentBackbone.state_after`."""
        mask = ops.arange(ops.shape(token_ids)[1])[None, :] < lengths[:, None]
        outputs = self({"token_ids": token_ids, "padding_mask": ops.cast(mask, "int32"), **state})
        return {name: outputs[name] for name in self.state}

    def _check_memory(self, memory, memory_mask, inputs) -> None:
        config = self.config
        if memory is None or memory_mask is None:
            raise ValueError(
                "memory and memory_mask go together: pass both, as the model returned them or as "
                "initial_memory(batch_size) gives them, or neither."
            )
        batch, slots = inputs["token_ids"].shape[0], memory_mask.shape[1]
        size = config.hidden_size // config.num_heads
        keys = (batch, config.num_heads, size, slots)
        values = (batch, config.num_heads, slots, size)
        each = "keys and values of each layer, [batch, heads, head size, slots] and [batch, heads, slots, head size]"
        check_memory(memory, [keys, values] * config.num_layers, each)
