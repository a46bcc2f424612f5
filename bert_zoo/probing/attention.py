"""The attention of every head between the tokens or words of sentences."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.direct import for_this_device, on_rows
from bert_zoo.models.graphs import in_graph
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.models.word_outputs import sentences_of
from bert_zoo.text.numpy_words import NO_WORD

# Ways to pool the attention from a word's pieces: (maps [..., pieces, words], starts of words) -> [..., words, words].
# The paper takes the "mean"; its code takes the first piece by default.
FROM_PIECES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "mean": lambda maps, starts: (
        np.add.reduceat(maps, starts, axis=-2) / np.diff(np.append(starts, maps.shape[-2]))[:, None]
    ),
    "first": lambda maps, starts: maps[..., starts, :],
}


class AttentionMaps(NamedTuple):
    """The attention of every head within a sentence, ready for `bert_zoo.charts.attention_viewer`.

    Attributes:
        tokens: the tokens or words, including special tokens.
        maps: float32 [layers, heads, tokens, tokens]; row i holds the attention from token i and sums to 1.
    """

    tokens: tuple[str, ...]
    maps: np.ndarray


class SentenceAttention(NamedTuple):
    """The attention within one of several sentences."""

    number: int  # of the sentence
    token_ids: np.ndarray  # int32 [tokens]
    word_ids: np.ndarray  # int32 [tokens], the number of each token's word, or `NO_WORD`
    maps: np.ndarray  # float32 [layers, heads, tokens, tokens]


def attention_maps(
    model: ZooModel, sentence: str | Sequence[str], *, level: str = "tokens"
) -> AttentionMaps:
    """Returns the attention of all heads within a sentence, for example to draw it.

    Args:
        model: an encoder, or a model that has one.
        sentence: a list of words, or a text, which is split at white space and around punctuation.
        level: "tokens" or "words". The attention from a word is the mean over its pieces, the attention to a word
            the sum.

    Raises:
        ValueError: `level` is unknown, the sentence is too long for the model, or the encoder has no attention maps
            between all tokens.
    """
    if level not in ("tokens", "words"):
        raise ValueError(f"level is {level!r}; it is 'tokens' or 'words'.")
    (words,) = words_of([sentence])
    found = next(attention_of_sentences(model, [words], 1), None)
    if found is None:
        longest = encoder_of(model).preprocessor.sequence_length
        raise ValueError(
            f"The {len(words)} words of the sentence make more than {longest} tokens, the most that the model reads "
            "at once. Shorten the sentence."
        )
    name = encoder_of(model).preprocessor.tokenizer.id_to_token
    tokens = tuple(map(name, found.token_ids.tolist()))
    if level == "tokens":
        return AttentionMaps(tokens, found.maps)
    starts = starts_of_words(found.word_ids)
    names = (
        tokens[start] if word == NO_WORD else words[word]
        for start, word in zip(starts, found.word_ids[starts], strict=True)
    )
    return AttentionMaps(tuple(names), words_of_pieces(found.maps, found.word_ids))


def words_of(sentences: Iterable[Any]) -> list[list[str]]:
    """Returns the words of texts, of lists of words, or of a treebank's sentences."""
    rows = [getattr(sentence, "words", sentence) for sentence in sentences]
    return [list(sentence.words) for sentence in sentences_of(rows)]


def words_of_pieces(
    maps: np.ndarray, word_ids: np.ndarray, from_pieces: str = "mean"
) -> np.ndarray:
    """Turns attention between pieces [..., tokens, tokens] into attention between words [..., words, words].

    The attention to a word is the sum over its pieces. Special tokens count as words.
    Source: Clark et al. 2019, section 4.1; clarkkev/attention-analysis bpe_utils.py, get_word_word_attention.

    Args:
        maps: attention between pieces.
        word_ids: int [tokens], the number of each token's word, -1 for special tokens.
        from_pieces: how to pool the attention from a word's pieces: "mean", as in the paper, or "first".
    """
    if from_pieces not in FROM_PIECES:
        raise ValueError(f"from_pieces is {from_pieces!r}; it is one of {list(FROM_PIECES)}.")
    starts = starts_of_words(word_ids)
    return FROM_PIECES[from_pieces](np.add.reduceat(maps, starts, axis=-1), starts)


def starts_of_words(word_ids: np.ndarray) -> np.ndarray:
    """Positions at which words or special tokens begin."""
    before = np.append(NO_WORD, word_ids[:-1])
    return np.flatnonzero((word_ids == NO_WORD) | (word_ids != before))


def attention_of_sentences(
    model: ZooModel, words: list[list[str]], batch_size: int
) -> Iterator[SentenceAttention]:
    """Yields the attention within each sentence, the shortest first.

    Sentences without words and sentences that are too long for the model are left out.
    """
    from bert_zoo.text.words import word_batch

    check_batch_size(batch_size)
    encoder = encoder_of(model)
    lengths = np.array([*map(len, words)])
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = word_batch([words[row] for row in rows])
        inputs, word_ids = in_graph(encoder, _packed, batch, preprocessor=encoder.preprocessor)
        size = min(batch_size, len(order))
        maps = ops.convert_to_numpy(on_rows(encoder, _attention, inputs, size))
        if maps.shape[-1] != maps.shape[-2]:
            raise _no_maps(encoder)
        token_ids, mask, word_ids = (
            ops.convert_to_numpy(part)
            for part in (inputs["token_ids"], inputs["padding_mask"], word_ids)
        )
        for at, row in enumerate(rows):
            (real,) = mask[at].nonzero()
            if word_ids[at].max() + 1 == lengths[row]:
                of_tokens = maps[at][..., real[:, None], real]
                yield SentenceAttention(
                    int(row), token_ids[at, real], word_ids[at, real], of_tokens
                )


def _packed(model, words, *, preprocessor):
    from bert_zoo.text.words import pack_words

    # The caller detects truncated sentences itself.
    reader = for_this_device(preprocessor.with_options(report_truncation=False))
    packed = pack_words(words, reader)
    return packed.inputs, packed.word_ids


def _attention(encoder, inputs):
    """float32 [batch, layers, heads, length, length]."""
    attentions = encoder(inputs, internals=True, training=False)["attentions"]
    if not attentions:
        raise _no_maps(encoder)
    return ops.cast(ops.stack(attentions, axis=1), "float32")


def _no_maps(encoder) -> ValueError:
    return ValueError(
        f"An encoder of the family {encoder.family} has no attention maps between all tokens: it has no attention "
        "heads, or they see only windows of the text, or also a memory. Choose a family in which every token attends "
        "to all others, such as BERT."
    )
