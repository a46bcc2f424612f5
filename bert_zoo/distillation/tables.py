"""`static_from`: a table of token vectors made from an encoder, whose texts' vectors are means of rows."""

import re

import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.config import Pooling
from bert_zoo.distillation.vocabularies import smaller
from bert_zoo.families.static.family import FAMILY
from bert_zoo.fields import check
from bert_zoo.layers.heads import pool
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.direct import on_rows
from bert_zoo.models.encoder import Encoder
from bert_zoo.tasks import SentenceEmbedder
from bert_zoo.text.byte_bpe import ByteBpeTokenizer
from bert_zoo.text.files import HF_SPECIAL_TOKENS
from bert_zoo.text.format import rows_of_texts
from bert_zoo.text.numpy_packing import PLAIN, Tokens
from bert_zoo.text.preprocessor import TextPreprocessor
from bert_zoo.text.tokenizer import Tokenizer
from bert_zoo.text.wordpiece import WordPieceTokenizer
from bert_zoo.training.presets import compile_for_task
from bert_zoo.weights.bind import variables_of

# Tokens without a meaning, in BERT's vocabularies.
UNUSED = re.compile(r"\[unused\d+\]")
# Special tokens that a table has no use for.
AROUND = set(HF_SPECIAL_TOKENS) - {"unknown_token", "padding_token"}
# Tokens that texts are cut to, as in model2vec.
LENGTH = 512


def static_from(
    encoder: ZooModel,
    dimensions: int | None = 256,
    *,
    sif: float | None = 1e-4,
    pooling: str = "mean",
    batch_size: int = 256,
) -> SentenceEmbedder:
    """Makes a table of token vectors from an encoder, as model2vec does: without data, in one pass over the vocabulary.

    The encoder reads each token alone, between its special tokens, and its outputs are pooled. Of these vectors the first
    principal components are kept. Frequent tokens then count less: row r is multiplied by sif / (sif + p), where p
    is the token's probability by Zipf's law, 1 / (r + 2) over the sum of all. So the vocabulary must list frequent
    tokens first, as BERT's does.

    Special tokens but those of padding and unknown words are left out, and so are tokens such as "[unused7]". A
    byte-level BPE puts a blank before texts, so that their first words are like all others.

    Args:
        encoder: any model with a WordPiece or byte-level BPE vocabulary; it does not change.
        dimensions: number of principal components, at most the encoder's width; None for vectors as they are.
        sif: a number above 0 and below 1, see above; None for no weights.
        pooling: how outputs for a token and the special tokens around it become a vector, a mode of
            `bert_zoo.config.Pooling`.
        batch_size: number of tokens per step.

    Returns:
        A model of sentence vectors: normalised means, in which unknown words do not count. It can be trained further.

    Raises:
        TypeError: the vocabulary is of another kind.
        ValueError: a number outside its range.

    Source: MinishLab/model2vec model2vec/distill, version 0.10; Arora et al. 2017 for `sif`.
    """
    encoder = encoder_of(encoder)
    note = "the encoder's width"
    check("dimensions", dimensions, int | None, least=1, most=encoder.config.hidden_size, note=note)
    check("sif", sif, float | None, above=0, below=1)
    reader = encoder.preprocessor
    tokenizer = _without_special_tokens(reader.tokenizer)
    ids = np.array([*map(reader.tokenizer.token_to_id, tokenizer.vocabulary)], np.int32)
    vectors = _vectors_of(encoder, reader, ids, Pooling(pooling, normalize=False), batch_size)
    if dimensions is not None:
        vectors = _components(vectors, dimensions)
    if sif is not None:
        odds = 1 / np.arange(2, len(vectors) + 2)
        vectors = vectors * (sif / (sif + odds / odds.sum()))[:, None]
    table = Encoder(
        FAMILY.config_class(
            vocab_size=len(vectors),
            hidden_size=vectors.shape[1],
            unk_id=getattr(tokenizer, "unk_id", None),
        ),
        FAMILY.name,
        preprocessor=rows_of_texts(tokenizer, layout=PLAIN, sequence_length=LENGTH),
    )
    (variable,) = variables_of(table).values()
    variable.assign(vectors)
    model = SentenceEmbedder(table)
    compile_for_task(model)
    return model


def _without_special_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with the tokens that occur in texts, in their order."""
    if not isinstance(tokenizer, WordPieceTokenizer | ByteBpeTokenizer):
        raise TypeError(
            f"The vocabulary of a {type(tokenizer).__name__} cannot be a table's. Choose an encoder with a WordPiece or "
            "byte-level BPE vocabulary, such as BERT, MPNet or RoBERTa."
        )
    options = tokenizer.get_config()
    changes = dict.fromkeys(AROUND & options.keys())
    if "add_prefix_space" in options:  # a text's first word is like all others
        changes["add_prefix_space"] = True
    keep = {getattr(tokenizer, name, None) for name in ("unk_id", "pad_id")}
    left_out = {t.content for index, t in tokenizer.added_tokens.items() if index not in keep}
    plain = tokenizer.with_options(**changes, added_tokens=())
    tokens = {t for t in plain.vocabulary if t not in left_out and not UNUSED.match(t)}
    return smaller(plain, tokens)


def _vectors_of(
    encoder: Encoder, reader: TextPreprocessor, ids: np.ndarray, pooling: Pooling, size: int
) -> np.ndarray:
    """The pooled vector of each token alone in a row, float64 [tokens, width]."""
    packer = reader.with_options(bucket=1, padding="longest").packer.in_numpy()
    found = []
    for start in tqdm(range(0, len(ids), size), "Reading tokens", disable=None):
        batch = np.resize(ids[start : start + size], size)  # repeated, so that one graph reads all
        (tokens,) = packer.checked([Tokens(batch, np.ones(size, np.int64))])
        inputs, _ = packer.lay_out([tokens])
        found.append(ops.convert_to_numpy(on_rows(encoder, _pooled, inputs, size, pooling=pooling)))
    return np.concatenate(found)[: len(ids)].astype(np.float64)


def _pooled(model: Encoder, inputs, *, pooling: Pooling):
    return pool(model(inputs, training=False)["sequence_output"], None, pooling)


def _components(vectors: np.ndarray, number: int) -> np.ndarray:
    """The first principal components of vectors [rows, width], each with the sign that makes its largest number
    positive.
    """
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    found = centred @ directions[:, ::-1][:, :number]
    return found * np.sign(found[np.abs(found).argmax(axis=0), np.arange(number)])
