"""The attention of every head between the tokens, or the words, of sentences."""

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

# How the attention from a word is made of that from its pieces: (maps [..., pieces, words], where words begin)
# -> [..., words, words]. "mean" is the paper's; its code takes the first piece by default.
FROM_PIECES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "mean": lambda maps, starts: (
        np.add.reduceat(maps, starts, axis=-2) / np.diff(np.append(starts, maps.shape[-2]))[:, None]
    ),
    "first": lambda maps, starts: maps[..., starts, :],
}


class AttentionMaps(NamedTuple):
    """The attention of every head within a sentence, as `bert_zoo.charts.attention_viewer` takes it.

    Attributes:
        tokens: the tokens, or words, special tokens among them.
        maps: float32 [layers, heads, tokens, tokens]; row i is what token i attends to.
    """

    tokens: tuple[str, ...]
    maps: np.ndarray


class SentenceAttention(NamedTuple):
    """The attention within one of several sentences."""

    number: int
    token_ids: np.ndarray  # int32 [tokens]
    word_ids: np.ndarray  # int32 [tokens], the number of each token's word, or `NO_WORD`
    maps: np.ndarray  # float32 [layers, heads, tokens, tokens]


def attention_maps(
    model: ZooModel, sentence: str | Sequence[str], *, level: str = "tokens"
) -> AttentionMaps:
    """The attention of all heads within a sentence, as for a picture.

    Args:
        model: any model of the zoo, whose encoder is looked at.
        sentence: a text, which is split at white space and around punctuation; or a list of words.
        level: "tokens", or "words", whose attention is the mean of their pieces' and, to them, the sum.

    Raises:
        ValueError: another level, a sentence that is too long, or an encoder without maps of all tokens.
    """
    if level not in ("tokens", "words"):
        raise ValueError(f"level is {level!r}; it is 'tokens' or 'words'.")
    (words,) = words_of([sentence])
    found = next(attention_of_sentences(model, [words], 1), None)
    if found is None:
        longest = encoder_of(model).preprocessor.sequence_length
        raise ValueError(
            f"The sentence has {len(words)} words, more than {longest} tokens, which is what the model reads "
            "at once. Shorten it."
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
    """The words of texts, of lists of words, or of a treebank's sentences."""
    rows = [getattr(sentence, "words", sentence) for sentence in sentences]
    return [list(sentence.words) for sentence in sentences_of(rows)]


def words_of_pieces(
    maps: np.ndarray, word_ids: np.ndarray, from_pieces: str = "mean"
) -> np.ndarray:
    """Attention between words, [..., words, words], of that between their pieces, [..., tokens, tokens].

    Attention to a word is the sum of that to its pieces. Special tokens stay, as words of their own.
    Source: Clark et al. 2019, section 4.1; clarkkev/attention-analysis bpe_utils.py, get_word_word_attention.

    Args:
        word_ids: int [tokens], the number of each token's word, -1 for special tokens.
        from_pieces: what stands for the attention from a word, the "mean" of its pieces', as in the paper, or
            that of the "first".
    """
    if from_pieces not in FROM_PIECES:
        raise ValueError(f"from_pieces is {from_pieces!r}; it is one of {list(FROM_PIECES)}.")
    starts = starts_of_words(word_ids)
    return FROM_PIECES[from_pieces](np.add.reduceat(maps, starts, axis=-1), starts)


def starts_of_words(word_ids: np.ndarray) -> np.ndarray:
    """Where words begin, special tokens among them."""
    before = np.append(NO_WORD, word_ids[:-1])
    return np.flatnonzero((word_ids == NO_WORD) | (word_ids != before))


def attention_of_sentences(
    model: ZooModel, words: list[list[str]], batch_size: int
) -> Iterator[SentenceAttention]:
    """The attention within each sentence, short ones first; those without words, and those that are too long for
    the model, are left out.
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

    # What is cut is counted by those who call.
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
        f"The encoder, of the family {encoder.family}, has no map of the attention from every token to every "
        "token: it has no attention heads, or they see windows of the text, or a memory before it. Choose a family "
        "whose tokens attend to all others, such as BERT."
    )
