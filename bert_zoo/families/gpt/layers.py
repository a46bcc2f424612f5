"""Causal attention that can use the keys and values of earlier calls."""

from keras import ops

from bert_zoo.layers.attention import SelfAttention
from bert_zoo.layers.common import with_slots
from bert_zoo.layers.fused_attention import has_kernels
from bert_zoo.layers.stack import Stack


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
