"""Transformer-XL's backbone: a stack with a memory of the previous segment."""

from collections.abc import Mapping
from typing import Any

from keras import ops

from bert_zoo.families.transformer_xl.stack import updated_memory
from bert_zoo.layers.attention import at_queries
from bert_zoo.layers.backbones import PADDING, Backbone, Ids, fits
from bert_zoo.layers.common import at_positions, float_kernel, float_table


class RecurrentBackbone(Backbone):
    """Embeddings and a stack of blocks with a memory of earlier segments (Transformer-XL).

    Besides `token_ids` and `padding_mask`, it takes

    * `memory`: for each layer [batch, memory length, hidden], as the previous call returned it. If it is
      missing, the configuration's `memory_start` applies: `mem_len` rows of zeros that are attended to, or
      an empty memory.
    * `memory_mask` int [batch, memory length]: 1 for occupied positions of the memory.

    Padding is never attended to, not even from memory. The call also returns the new `memory` of `mem_len`
    positions, through which no gradient flows, and a `memory_mask` if there was a mask or if memory starts
    empty. With a memory of `mem_len`, input and output shapes are the same, so one compiled step serves
    texts of any length. `positions` save no time here, because the memory needs every token.

    Args:
        config: the configuration.
        embeddings: a layer token_ids -> [batch, length, hidden].
        stack: a `RecurrentStack`.
    """

    state = ("memory", "memory_mask")

    @property
    def inputs(self) -> dict[str, Ids]:
        return {**super().inputs, "memory_mask": Ids(2, PADDING)}

    @property
    def token_table(self):
        """The clusters' tables, and for each cluster the kernel of its projection or None."""
        config, tables = self.config, self.embeddings.tables
        kernels = [
            None if layer is None else float_kernel(layer, each.output_dim)
            for each, layer in zip(tables, self.embeddings.projections, strict=True)
        ]
        of_clusters = [kernels[config.table_of(c)] for c in range(len(config.cluster_sizes))]
        return [*map(float_table, tables)], of_clusters

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        config = self.config
        shape = (batch_size, config.mem_len, config.hidden_size)
        holds = ops.zeros if config.memory_start == "empty" else ops.ones
        return {
            "memory": [ops.zeros(shape, self.compute_dtype) for _ in range(config.num_layers)],
            "memory_mask": holds(shape[:2], "int32"),
        }

    def call(self, inputs, positions=None, training=None):
        memory, masks = self.past(inputs)
        keys_mask = None if masks is None else ops.concatenate(masks, axis=1)
        embedded = self.embeddings(inputs["token_ids"], training=training)
        hidden_states, attentions = self.stack(embedded, memory, keys_mask, training=training)
        outputs = self.outputs(hidden_states, attentions, positions)
        return outputs | self.next_state(hidden_states, memory, masks)

    def past(self, inputs) -> tuple[list, list | None]:
        """The memory, and the masks of memory and tokens; None instead of masks if everything is seen."""
        token_ids, padding_mask = inputs["token_ids"], inputs.get("padding_mask")
        memory, memory_mask = (inputs.get(name) for name in RecurrentBackbone.state)
        starts_empty = self.config.memory_start == "empty"
        if memory is None:
            if memory_mask is not None:
                raise ValueError(
                    "There is a memory_mask, but no memory. Pass both, as the model returned them, or neither."
                )
            start = self.initial_state(ops.shape(token_ids)[0])
            memory = start["memory"]
            memory_mask = start["memory_mask"] if starts_empty else None
        self._check_memory(memory, memory_mask, token_ids)
        if not starts_empty and memory_mask is None and padding_mask is None:
            return memory, None
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory[0])[:2], "int32")
        if padding_mask is None:
            padding_mask = ops.ones_like(token_ids)
        return memory, [memory_mask, padding_mask]

    def next_state(self, hidden_states, memory, masks, kept: int = 0) -> dict[str, Any]:
        """The new `state`, from the first `kept` tokens, or from all tokens for 0."""
        mem_len = self.config.mem_len

        def updated(old, new):
            return updated_memory(old, new[:, :kept] if kept else new, mem_len)

        state = {"memory": [updated(*pair) for pair in zip(memory, hidden_states, strict=False)]}
        if masks is not None:
            state["memory_mask"] = updated(*masks)
        return {name: value for name, value in state.items() if name in self.state}

    def outputs(self, hidden_states, attentions, positions) -> dict[str, Any]:
        """The other outputs of a call; the last layer's only at `positions`, if there are any."""
        if positions is not None:
            hidden_states = [*hidden_states[:-1], at_positions(hidden_states[-1], positions)]
            attentions = [*attentions[:-1], at_queries(attentions[-1], positions)]
        outputs = {"sequence_output": hidden_states[-1], "hidden_states": hidden_states}
        return outputs | {"attentions": attentions}

    def state_after(self, token_ids, lengths, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state after the first tokens of each row.

        Args:
            token_ids: int [batch, length]; later tokens are ignored.
            lengths: int [batch], the number of tokens to read in each row.
            state: the state before them, as `initial_state` returns it.
        """
        # Not `call`, whose memory would end with the padding.
        memory, keys_mask = state["memory"], ops.ones_like(token_ids)
        keys_mask = ops.concatenate([state["memory_mask"], keys_mask], axis=1)
        embedded = self.embeddings(token_ids, training=False)
        hidden_states, _ = self.stack(embedded, memory, keys_mask, training=False)
        kept = lengths[:, None] + ops.arange(self.config.mem_len)[None, :]

        def updated(old, new):
            joined = ops.concatenate([ops.cast(old, new.dtype), new], axis=1)
            return ops.take_along_axis(joined, kept[:, :, None], axis=1)

        return {
            "memory": [updated(old, new) for old, new in zip(memory, hidden_states, strict=False)],
            "memory_mask": ops.take_along_axis(keys_mask, kept, axis=1),
        }

    def _check_memory(self, memory, memory_mask, token_ids) -> None:
        num_layers = self.config.num_layers
        if isinstance(memory, Mapping) or len(memory) != num_layers:
            raise ValueError(
                f"memory has {len(memory)} entries; it must be a list with one tensor for each of the "
                f"{num_layers} layers, as the model returned it."
            )
        wanted = (token_ids.shape[0], memory[0].shape[1], self.config.hidden_size)
        for layer, entry in enumerate(memory):
            if not fits(entry.shape, wanted):
                raise ValueError(
                    f"memory[{layer}] has shape {tuple(entry.shape)}; it must be {wanted}: batch, memory "
                    "length, hidden size."
                )
        if memory_mask is not None and not fits(memory_mask.shape, wanted[:2]):
            raise ValueError(
                f"memory_mask has shape {tuple(memory_mask.shape)}; it must be {wanted[:2]}, as the memory."
            )
