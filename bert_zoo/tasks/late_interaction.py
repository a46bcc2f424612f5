"""Late interaction (ColBERT): a vector for each token, compared token by token."""

from dataclasses import asdict
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import DOCUMENT, ROLES, TokenVectors
from bert_zoo.layers.heads import normalized
from bert_zoo.models.base import Interface
from bert_zoo.models.data_adapters import rows_of, text_rows, with_prompt
from bert_zoo.models.direct import batches_of, outputs_of_texts
from bert_zoo.models.inputs import real_tokens, tokens_of
from bert_zoo.models.labels import HeadChoice
from bert_zoo.models.long_texts import warning_of_cut_texts
from bert_zoo.models.task_model import Use
from bert_zoo.runtime.answers import TokenMatches, maxsim, token_matches
from bert_zoo.tasks.vectors import VectorModel
from bert_zoo.text.numpy_packing import SCORED
from bert_zoo.weights.table import token_head

VECTORS, MASK = "vectors", "vector_mask"


@keras.saving.register_keras_serializable("bert_zoo")
class LateInteraction(VectorModel):
    """Turns texts into a vector for each token, compared by the sum of each query token's best match (MaxSim).

    Returns a dict: `vectors` [batch, length, size], 0 for tokens that are not compared, and `vector_mask` int32
    [batch, length], 1 for those that are. Takes the encoder's inputs and `scored_tokens` int32 [batch, length]: 1 for
    tokens that are compared, 2 for those that the encoder does not attend to, 0 for others; by default all but padding.
    `column_inputs` makes them from texts.

    Called with a tuple of input dicts, one for each column of texts, it returns [batch, columns, length, size + 1],
    whose last number is the mask.

    Source: Khattab and Zaharia 2020 (arXiv:2004.12832), section 3; sentence-transformers' MultiVectorEncoder.

    Args:
        encoder: as in `TaskModel`.
        token_vectors: how vectors are made and rows composed, a `bert_zoo.config.TokenVectors` or a dict of its
            fields.
    """

    task = "late_interaction"
    verbs = ("embed", "explain")
    peft_task = "FEATURE_EXTRACTION"
    use = Use(
        "sentence-similarity",
        "turns texts into a vector for each token, by which documents are found that answer a query",
        "model.embed({texts})",
    )
    outputs_per_token = True
    reads_roles = True
    takes_token_vectors = True  # whether `load` takes settings of them
    served_roles = ROLES
    runtime_verb = "embed_tokens"
    similarity = "maxsim"
    interface = Interface((VECTORS, MASK), pairs=False, marks=(SCORED,))
    traced_settings = ("token_vectors",)
    token_head = staticmethod(token_head)

    def __init__(
        self,
        encoder,
        token_vectors: TokenVectors | dict[str, Any] = TokenVectors(),  # noqa: B008 (frozen)
        **kwargs,
    ):
        if isinstance(token_vectors, dict):
            token_vectors = TokenVectors(**token_vectors)
        self.token_vectors = token_vectors
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        arguments = super().head_arguments(head)
        return arguments | {"token_vectors": head.token_vectors or TokenVectors()}

    @property
    def family(self):
        return super().family.with_head(self.task, self.token_head(self.token_vectors.use_bias))

    def add_head(self, config):
        made = self.token_vectors
        # As torch's Linear begins.
        uniform = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
        self.projection = keras.layers.Dense(
            made.size,
            use_bias=made.use_bias,
            kernel_initializer=uniform,
            dtype=self.dtype_policy,
            name="projection",
        )

    def id_limits(self):
        return super().id_limits() | {SCORED: (3, "the marks of tokens")}

    def encoder_inputs(self, inputs):
        read = {name: value for name, value in inputs.items() if name != SCORED}
        marks = inputs.get(SCORED)
        if marks is not None:
            is_read = ops.cast(ops.not_equal(marks, 2), "int32")
            mask = real_tokens(read)
            read["padding_mask"] = is_read if mask is None else ops.cast(mask, "int32") * is_read
        return read

    def head_outputs(self, encoded, inputs, training=None):
        mask = inputs.get(SCORED)
        if mask is None:
            mask = real_tokens(inputs)
        if mask is None:
            mask = ops.ones_like(tokens_of(inputs))
        mask = ops.cast(ops.not_equal(mask, 0), "int32")
        vectors = ops.cast(self.projection(encoded["sequence_output"]), "float32")
        vectors *= ops.expand_dims(ops.cast(mask, "float32"), -1)
        if self.token_vectors.normalize:
            vectors = normalized(vectors)
        return {VECTORS: vectors, MASK: mask}

    def read_column(self, role, rows, training=None):
        outputs = super().read_column(role, rows, training)
        mask = ops.cast(outputs[MASK], "float32")[..., None]
        return ops.concatenate([outputs[VECTORS], mask], axis=-1)

    def reader_of_role(self, role, preprocessor):
        return preprocessor.of_role(getattr(self.token_vectors, role))

    def embed(
        self, texts, batch_size: int = 32, prompt: str | None = None, role: str | None = None
    ) -> list[np.ndarray]:
        """Computes a vector for each token that is compared.

        Args:
            texts, batch_size, prompt: as for `Encoder.embed`.
            role: "query" for texts that search, "document" (the default) for texts to be found. It decides about
                marker, length, expansion and words to skip, and chooses the model's prompt in place of `prompt`.

        Returns:
            For each text, NumPy float32 [tokens, size].
        """
        rows = self.token_outputs(texts, batch_size, prompt, role)
        return [row[VECTORS][row[MASK] == 1] for row in rows]

    def token_outputs(
        self, texts, batch_size: int, prompt: str | None, role: str | None
    ) -> list[dict[str, np.ndarray]]:
        """Of each text, its rows of the model's outputs and of `token_ids`."""
        texts = with_prompt(self.encoder.prompts.text(prompt, role), text_rows(self, texts))
        found: list[Any] = [None] * len(texts)
        with warning_of_cut_texts(self, texts, pooled=False):
            for numbers in batches_of(texts, batch_size):
                rows = rows_of(texts, numbers)
                outputs = outputs_of_texts(self, _outputs, rows, batch_size, role=role or DOCUMENT)
                for row, number in enumerate(numbers):
                    found[number] = {name: values[row] for name, values in outputs.items()}
        return found

    def explain(self, query: str, document: str) -> TokenMatches:
        """Shows which token of a document each token of a query meets, and how well.

        Args:
            query, document: texts.

        Returns:
            A list of `TokenMatch(token, match, score)`, in the order of the query, that prints as a table. The sum of
            the scores is that of query and document.
        """
        tokenizer, sides = self.preprocessor.tokenizer, []
        for role, text in zip(ROLES, (query, document), strict=True):
            (row,) = self.token_outputs([text], 1, None, role)
            is_compared = row[MASK] == 1
            tokens = [tokenizer.id_to_token(int(index)) for index in row["token_ids"][is_compared]]
            sides.append((row[VECTORS][is_compared], tokens))
        return token_matches(*sides)

    def scores_of_pairs(self, queries, documents):
        pairs = zip(queries, documents, strict=True)
        return np.array([maxsim(q, d, [len(d)])[0] for q, d in pairs], np.float32)

    def get_config(self):
        return {**super().get_config(), "token_vectors": asdict(self.token_vectors)}


def _outputs(model, inputs):
    return {**model(inputs, training=False), "token_ids": inputs["token_ids"]}
