"""Token, position and segment embeddings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo import private
from bert_zoo.layers.common import (
    Dropout,
    build_all,
    dense,
    float_rows,
    float_table,
    initializer,
    norm,
    table,
)


def check_length(token_ids, longest_input: int) -> None:
    """Raises ValueError if ids [batch, length] have more tokens than there are positions."""
    length = ops.shape(token_ids)[1]
    if isinstance(length, int) and length > longest_input:
        raise ValueError(
            f"The input has {length} tokens per row, but this model has {longest_input} positions. Cut the "
            f"text, for instance with load(..., max_length={longest_input})."
        )


class Embeddings(keras.layers.Layer):
    """Normalised sum of token, position and segment embeddings (BERT, section 3, figure 2).

    If `embedding_size` is below `hidden_size`, the tables are narrow and a dense layer widens their
    normalised sum (ALBERT, section 3.1).

    Args:
        vocab_size: rows of the token table.
        hidden_size: width of the output.
        embedding_size: width of the tables.
        token_size: width of the token table, if it differs; a subclass's `embedded_tokens` then makes
            vectors as wide as the other tables.
        max_positions, num_segments: rows of the other tables; 0 segments for no segment table.
        position_offset: row of the first token in the position table. If it is not 0, only tokens other
            than `pad_id` are counted, and padding has the row before (fairseq utils.py, make_positions).
        pad_id: the id of padding.
        epsilon: number that the layer norm adds to the variance; None for no norm (GPT).
        dropout: rate on the normalised sum.
        initializer_range: standard deviation of randomly initialised weights.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        embedding_size: int,
        token_size: int | None = None,
        max_positions: int,
        num_segments: int,
        position_offset: int,
        pad_id: int,
        epsilon: float | None,
        dropout: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.position_offset = position_offset
        self.pad_id = pad_id
        self.longest_input = max_positions - position_offset

        options = {"stddev": initializer_range, "dtype": self.dtype_policy}
        self.token_embedding = table(
            vocab_size, token_size or embedding_size, "token_embedding", **options
        )
        self.position_embedding = table(
            max_positions, embedding_size, "position_embedding", **options
        )
        self.segment_embedding = table(num_segments, embedding_size, "segment_embedding", **options)
        self.norm = norm("norm", epsilon=epsilon, dtype=self.dtype_policy)
        self.projection = None
        if embedding_size != hidden_size:
            self.projection = dense(hidden_size, "projection", **options)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def share_tables(self, other: "Embeddings") -> None:
        """Uses the tables and the norm of another layer instead of its own, which are not built yet."""
        for name in ("token_embedding", "position_embedding", "segment_embedding", "norm"):
            setattr(self, name, getattr(other, name))

    def build(self, token_ids_shape):
        build_all(None, self.token_embedding, self.position_embedding, self.segment_embedding)
        build_all((None, None, self.position_embedding.output_dim), self.norm, self.projection)
        self.built = True

    def call(
        self,
        token_ids,
        segment_ids=None,
        position_ids=None,
        document_ids=None,
        added=None,
        training=None,
    ):
        """Embeds ids.

        Args:
            token_ids: int [batch, length].
            segment_ids: int [batch, length]; None for segment 0 everywhere.
            position_ids: int [batch, length], rows of the position table; None for 0, 1, 2, ..., or,
                with a `position_offset`, for the running count of tokens.
            document_ids: int [batch, length], the number of each token's document (documents must not
                interleave). Without `position_ids`, positions start again in each document.
            added: [batch, length, embedding_size], another summand; None for none.

        Returns:
            [batch, length, hidden_size].

        Raises:
            ValueError: rows have more tokens than there are positions.
        """
        check_length(token_ids, self.longest_input)
        length = ops.shape(token_ids)[1]
        if position_ids is None and document_ids is not None:
            position_ids = positions_in_documents(document_ids) + self.position_offset
        elif position_ids is None and self.position_offset:
            position_ids = self._positions_of_tokens(token_ids)
        # Tables are cast before they are added: variables are float32 under mixed precision.
        cast = self.compute_dtype
        if position_ids is None:
            positions = ops.cast(float_table(self.position_embedding)[:length], cast)[None]
        else:
            positions = self.position_embedding(position_ids)
        x = self.embedded_tokens(token_ids, document_ids)
        if segment_ids is not None:
            x = x + self.segment_embedding(segment_ids)
        elif self.segment_embedding is not None:
            x = x + ops.cast(float_table(self.segment_embedding)[0], cast)
        if added is not None:
            positions = positions + added
        # ALBERT's dropout comes before the projection, as in its modeling.py.
        x = self.normed(x + positions, training)
        return x if self.projection is None else self.projection(x)

    def normed(self, x, training):
        """The sum [batch, length, embedding_size] after normalisation and dropout."""
        x = x if self.norm is None else self.norm(x)
        return self.dropout(x, training=training)

    def embedded_tokens(self, token_ids, document_ids):
        """The tokens' part of the sum, [batch, length, embedding_size]; arguments as in `call`."""
        return self.token_embedding(token_ids)

    def _positions_of_tokens(self, token_ids):
        is_token = ops.cast(ops.not_equal(token_ids, self.pad_id), "int32")
        return ops.cumsum(is_token, axis=1) * is_token + self.position_offset - 1

    def compute_output_shape(self, token_ids_shape):
        return (*token_ids_shape, self.hidden_size)


class TypedEmbeddings(Embeddings):
    """`Embeddings` that also add a vector for each token's type of another kind, such as its language.

    Args:
        num_types: rows of the table of types; 0 for no such table.
        type_table: name of the table.
        adds_first: whether tokens without ids are of type 0; otherwise they have no vector.
        **options: as in `Embeddings`.
    """

    def __init__(self, *, num_types: int, type_table: str, adds_first: bool = False, **options):
        super().__init__(**options)
        self.adds_first, width = adds_first, options["embedding_size"]
        own = {"stddev": options["initializer_range"], "dtype": self.dtype_policy}
        self.type_embedding = table(num_types, width, type_table, **own)

    def build(self, token_ids_shape):
        build_all(None, self.type_embedding)
        super().build(token_ids_shape)

    def call(
        self,
        token_ids,
        segment_ids=None,
        position_ids=None,
        document_ids=None,
        type_ids=None,
        training=None,
    ):
        """Embeds ids as `Embeddings.call`; `type_ids` are int [batch, length]."""
        added = None
        if type_ids is not None and self.type_embedding is not None:
            added = self.type_embedding(type_ids)
        elif self.adds_first:
            added = ops.cast(float_table(self.type_embedding)[0], self.compute_dtype)
        ids = (token_ids, segment_ids, position_ids, document_ids)
        return super().call(*ids, added=added, training=training)


class TokenTable(keras.layers.Embedding):
    """A token table that may be the sum of another table and a difference. Then `embeddings` is the difference; it is
    trained, and no gradient reaches the other table through it. Source: He et al. 2021 (DeBERTaV3,
    arXiv:2111.09543), section 3.2; microsoft/DeBERTa DeBERTa/apps/tasks/rtd_task.py, register_discriminator_fw_hook.
    """

    base = None

    def share(self, base: "TokenTable") -> None:
        """Copies this table to another one, and from now on learns the difference from that."""
        base.build()
        if private.is_declared(self.embeddings):
            private.start_like(base.embeddings, self.embeddings)
        else:
            whole = ops.convert_to_tensor(self.whole)
            base.embeddings.assign(whole)
            self.embeddings.assign(ops.zeros_like(whole))
        # A function, because Keras would track the other layer as part of this one.
        self.base = lambda: base

    @property
    def whole(self):
        """The table [rows, width]."""
        own = float_table(self)
        return own if self.base is None else ops.stop_gradient(float_table(self.base())) + own

    def quantize(self, mode=None, type_check=True, **options):
        # Keras quantizes no subclasses, as they may compute something else; with a base, this one does.
        super().quantize(mode, type_check=self.base is not None, **options)

    def call(self, inputs):
        if self.base is None:
            return super().call(inputs)
        # Adds rows and not whole tables, because a batch reads few rows.
        base, own = float_rows(self.base(), inputs), ops.take(self.embeddings, inputs, axis=0)
        return ops.cast(ops.stop_gradient(base) + own, self.compute_dtype)

    def stored_variables(self) -> "dict[int, StoredTable]":
        """What files store in place of variables, by the variables' ids: two whole tables."""
        if self.base is None:
            return {}
        difference, base = self.embeddings, self.base().embeddings

        def assign(table):
            private.fill(base, table)
            private.fill(difference, ops.zeros_like(table))

        def assign_base(table):
            private.fill(difference, ops.cast(self.whole, table.dtype) - table)
            private.fill(base, table)

        return {
            id(difference): StoredTable(difference, lambda: self.whole, assign),
            id(base): StoredTable(base, lambda: base, assign_base),
        }


@dataclass(frozen=True)
class StoredTable:
    """A whole table as files store it, in place of a variable that holds a difference or its base. Assign the table of
    the difference first. This also sets the base, so both are equal if the file has no table for the base. Assigning
    the base afterwards changes the difference, and not the first table.
    """

    variable: Any  # that it replaces
    read: Callable[[], Any]  # returns the whole table
    assign: Callable[[Any], None]  # sets it

    @property
    def value(self):
        return ops.convert_to_tensor(self.read())

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.variable.shape)

    @property
    def dtype(self) -> str:
        return self.variable.dtype

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(ops.convert_to_numpy(self.value), dtype)


class TokenEmbeddings(keras.layers.Layer):
    """Token embeddings for models whose attention knows positions (DeBERTa, ModernBERT, T5).

    Args:
        vocab_size, hidden_size: rows and width of the token table.
        epsilon: number that the layer norm adds to the variance; None for no norm.
        dropout: rate on the output.
        initializer_range: standard deviation of randomly initialised tables.
        norm_bias: whether the layer norm has a bias.
        longest_input: maximum number of tokens per row; None for no limit.
        max_positions, num_segments: rows of position and segment tables to add; 0 for no such table.
        projected_size: width of a dense layer above the rest; 0 for none.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        epsilon: float | None,
        dropout: float,
        initializer_range: float,
        norm_bias: bool = True,
        longest_input: int | None = None,
        max_positions: int = 0,
        num_segments: int = 0,
        projected_size: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.longest_input = longest_input
        options = {"stddev": initializer_range, "dtype": self.dtype_policy}
        self.position_embedding = table(max_positions, hidden_size, "position_embedding", **options)
        self.segment_embedding = table(num_segments, hidden_size, "segment_embedding", **options)
        self.token_embedding = TokenTable(
            vocab_size,
            hidden_size,
            embeddings_initializer=initializer(initializer_range),
            dtype=self.dtype_policy,
            name="token_embedding",
        )
        self.norm = norm("norm", epsilon=epsilon, use_bias=norm_bias, dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.projection = dense(projected_size, "projection", **options) if projected_size else None

    def share_tables(self, other: "TokenEmbeddings") -> None:
        """Takes over the table of another layer, which keeps a difference from it; see `TokenTable`."""
        other.token_embedding.share(self.token_embedding)

    def build(self, token_ids_shape):
        build_all(None, self.token_embedding, self.position_embedding, self.segment_embedding)
        build_all((None, None, self.token_embedding.output_dim), self.norm, self.projection)
        self.built = True

    def call(
        self, token_ids, segment_ids=None, position_ids=None, document_ids=None, training=None
    ):
        """Embeds int [batch, length] as [batch, length, hidden_size]; arguments as in `Embeddings.call`.

        `segment_ids` and positions are ignored if there is no table for them.

        Raises:
            ValueError: rows have more than `longest_input` tokens.
        """
        if self.longest_input is not None:
            check_length(token_ids, self.longest_input)
        x = self.token_embedding(token_ids)
        if self.position_embedding is not None:
            x = x + self.position_embedding(token_positions(token_ids, position_ids, document_ids))
        if segment_ids is not None and self.segment_embedding is not None:
            x = x + self.segment_embedding(segment_ids)
        elif self.segment_embedding is not None:
            x = x + ops.cast(float_table(self.segment_embedding)[0], self.compute_dtype)
        x = x if self.norm is None else self.norm(x)
        x = self.dropout(x, training=training)
        return x if self.projection is None else self.projection(x)

    def compute_output_shape(self, token_ids_shape):
        width = self.token_embedding.output_dim
        return (*token_ids_shape, width if self.projection is None else self.projection.units)


def token_positions(token_ids, position_ids, document_ids):
    """int [batch or 1, length], the positions of tokens: as given, in their documents, or in their rows."""
    if position_ids is not None:
        return position_ids
    if document_ids is not None:
        return positions_in_documents(document_ids)
    # Not None in an index; see `bert_zoo.layers.attention.attention_bias`.
    return ops.expand_dims(ops.arange(ops.shape(token_ids)[1], dtype="int32"), 0)


def positions_in_documents(document_ids):
    """int [batch, length], positions from 0 in each document of a row; see `Embeddings.call`."""
    return token_positions(document_ids, None, None) - begin_of_documents(document_ids)


def begin_of_documents(document_ids):
    """int32 [batch, length], the position of the first token of each token's document."""
    place, length = token_positions(document_ids, None, None), ops.shape(document_ids)[1]
    before = ops.pad(document_ids, [(0, 0), (1, 0)], constant_values=-1)[:, :length]
    is_first = ops.not_equal(document_ids, before)
    begins = ops.sort(ops.where(is_first, place, length), axis=1)
    return ops.take_along_axis(begins, ops.cumsum(ops.cast(is_first, "int32"), axis=1) - 1, axis=1)
