"""`augment`: makes variants of training texts by replacing words with a masked-language model's predictions."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.data.word_vectors import read_word_vectors
from bert_zoo.embeddings.exact_search import search
from bert_zoo.error_text import shown
from bert_zoo.fields import check
from bert_zoo.graph import has_tensorflow
from bert_zoo.models.base import ZooModel
from bert_zoo.models.direct import for_this_device, read_and_run
from bert_zoo.text.numpy_packing import Tokens
from bert_zoo.text.tokenizer import Tokenizer

# Words that carry the grammar of a sentence and are not replaced.
FUNCTION_WORDS = frozenset(
    """
    a about above across after again against ain all almost along already also although always am among an
    and another any are aren around as at be because been before behind being below beneath beside between
    beyond both but by can cannot could couldn d did didn do does doesn doing don done down during each either
    else enough even ever every except few for from further had hadn has hasn have haven having he her here
    hers herself him himself his how however i if in inside into is isn it its itself just least less ll m ma
    many may me might mightn mine more most much must mustn my myself near needn neither never no nobody none
    nor not nothing now o of off often on once one only onto or other others ought our ours ourselves out
    outside over own per perhaps quite rather re s same shall shan she should shouldn since so some somebody
    someone something such t than that the their theirs them themselves then there these they this those
    though through throughout thus till to too toward towards under unless until up upon us ve very was wasn
    we were weren what whatever when where whether which while who whom whose why will with within without won
    would wouldn y yet you your yours yourself yourselves
    """.split()
)
# Texts whose words are batched together by length.
_TEXTS_AT_ONCE = 1_000


class Word(NamedTuple):
    """A word that can be replaced."""

    start: int  # in characters
    end: int
    choices: Sequence[str]  # replacements


def augment(
    texts: Sequence[str] | tuple[Sequence[str], Sequence[str]],
    model: ZooModel,
    number: int = 20,
    probability: float = 0.4,
    candidates: int = 15,
    glove: str | Path | None = None,
    seed: int = 0,
    *,
    batch_size: int = 128,
) -> list[list[str]] | list[list[tuple[str, str]]]:
    """Makes variants of each text by replacing some words with others that fit their place.

    Only words of the letters a to z are replaced, except `FUNCTION_WORDS`. They must be lower-case unless the
    model lowercases its texts. A word that is one token of the vocabulary is replaced by one of the model's
    likeliest tokens there; families with segments also read the unmasked text, as second text. The word
    itself may be among these tokens; parts of words, punctuation and special tokens may not. Any other word
    is replaced by a word with a near vector in `glove`, or stays if there is no file or vector. Texts that
    already contain a mask token do not change.

    Args:
        texts: texts, or pairs (firsts, seconds); both sides of pairs are varied.
        model: a model with a head for masked tokens, of task "masked_lm" or "pretraining".
        number: variants to draw for each text; equal ones are kept once.
        probability: probability of replacing a word in a variant.
        candidates: how many of the likeliest tokens, or nearest words, to draw from.
        glove: a text file of word vectors in GloVe's format: a word and its numbers per line. It is read
            into memory.
        seed: together with a text's index, determines the draws for it.
        batch_size: masked texts per step of the model; results do not depend on it.

    Returns:
        For each text (or pair), a list that starts with the text itself, followed by its variants.

    Raises:
        TypeError: the model has no such head, or `texts` is a single string.
        ValueError: an argument is outside its range, or the file of vectors is damaged.

    Source: Jiao et al. 2020 (TinyBERT, arXiv:1909.10351), section 3.2.
    """
    _check(texts, model, number, probability, candidates)
    is_paired = isinstance(texts, tuple)
    rows = [*zip(*texts, strict=True)] if is_paired else [(text,) for text in texts]
    vectors = WordVectors(glove) if glove is not None else None
    found = []
    with tqdm(total=len(rows), desc="Variants", unit=" texts", disable=None) as progress:
        for begin in range(0, len(rows), _TEXTS_AT_ONCE):
            some = rows[begin : begin + _TEXTS_AT_ONCE]
            flat = [text for row in some for text in row]
            words = iter(_words(flat, model, candidates, vectors, batch_size))
            for place, row in enumerate(some, begin):
                draws = np.random.default_rng([seed, place])
                parts = [(text, next(words)) for text in row]
                variants = [
                    row,
                    *(
                        tuple(_variant(*part, probability, draws) for part in parts)
                        for _ in range(number)
                    ),
                ]
                distinct = dict.fromkeys(variants)
                found.append([*distinct] if is_paired else [text for (text,) in distinct])
            progress.update(len(some))
    return found


def _check(texts, model, number: int, probability: float, candidates: int) -> None:
    if isinstance(texts, str):
        raise TypeError(f"texts is {shown(texts)}, one string; pass a list, [{shown(texts)}].")
    if not hasattr(model, "fill_mask"):
        raise TypeError(
            f"A model of task {model.task!r} predicts no masked tokens. Load a model with task='masked_lm'."
        )
    most = model.preprocessor.tokenizer.vocab_size
    check("number", number, int, least=1)
    check("candidates", candidates, int, least=1, most=most)
    check("probability", probability, float, above=0, most=1)


def _variant(text: str, words: Sequence[Word], probability: float, draws: Any) -> str:
    parts, end = [], 0
    for word in words:
        choice, chance = word.choices[draws.integers(len(word.choices))], draws.random()
        if chance < probability:
            parts += [text[end : word.start], choice]
            end = word.end
    return "".join([*parts, text[end:]])


def _words(
    texts: Sequence[str],
    model: ZooModel,
    candidates: int,
    vectors: "WordVectors | None",
    batch_size: int,
) -> list[list[Word]]:
    """The replaceable words of each text, in order."""
    tokenizer = model.preprocessor.tokenizer
    letters = "a-zA-Z" if model.preprocessor.lowercase else "a-z"
    special = [re.escape(token.content) for token in tokenizer.added_tokens.values()]
    # Match special tokens first, so that no word is found in them.
    pattern = re.compile("|".join([*special, rf"\b([{letters}]+)\b"]))
    tokens = _with_spans(tokenizer, texts)
    rows = np.split(tokens.ids, tokens.starts[1:])
    # Words of one token: (text, span) -> index of the token in its text. Other words: (text, span, word).
    masked, others = {}, []
    for number, spans in enumerate(np.split(tokens.spans, tokens.starts[1:])):
        if tokenizer.mask_id in rows[number]:
            continue
        places = {tuple(span): place for place, span in enumerate(spans.tolist())}
        for word in pattern.finditer(texts[number]):
            if not word[1] or word[1].lower() in FUNCTION_WORDS:
                continue
            place = places.get(word.span())
            if place is not None and rows[number][place] != tokenizer.unk_id:
                masked[number, word.span()] = place
            else:
                others.append((number, word.span(), word[1].lower()))
    in_place = [(number, place) for (number, _), place in masked.items()]
    found = [
        (*word, choices)
        for word, choices in zip(
            masked, _likeliest_words(model, rows, in_place, candidates, batch_size), strict=True
        )
    ]
    if vectors is not None:
        near = vectors.nearest({word for *_, word in others}, candidates)
        found += [(number, span, near.get(word)) for number, span, word in others]
    words: list[list[Word]] = [[] for _ in texts]
    for number, span, choices in sorted(found, key=lambda word: word[:2]):
        if choices:
            words[number].append(Word(*span, choices))
    return words


def _with_spans(tokenizer: Tokenizer, texts: Sequence[str]) -> Tokens:
    """Tokens of texts, with the span of characters of each."""
    if not has_tensorflow:
        from bert_zoo.text.windows import reader_of

        return reader_of(tokenizer).tokenized(texts, with_spans=True)
    ids, starts, ends = tokenizer.tokenize_with_offsets(list(texts))
    spans = np.stack([starts.values.numpy(), ends.values.numpy()], axis=1)
    return Tokens(ids.values.numpy(), ids.row_lengths().numpy(), spans)


def _likeliest_words(
    model: ZooModel,
    rows: Sequence[np.ndarray],
    places: Sequence[tuple[int, int]],
    candidates: int,
    batch_size: int,
) -> list[list[str]]:
    """Replacements for each of the tokens at `places`, (row, index), which are masked one at a time."""
    tokenizer = model.preprocessor.tokenizer
    is_word = tokenizer.word_starts
    is_word[[*tokenizer.added_tokens]] = False
    found: list[list[str]] = [[] for _ in places]
    order = sorted(range(len(places)), key=lambda i: len(rows[places[i][0]]))
    steps = {"size": batch_size, "reading": {"preprocessor": model.preprocessor}}
    for begin in range(0, len(order), batch_size):
        batch = order[begin : begin + batch_size]
        texts = [rows[places[i][0]] for i in batch]
        lengths = np.array([*map(len, texts)])
        ids = np.concatenate(texts)
        masked = ids.copy()
        masked[np.cumsum(lengths) - lengths + [places[i][1] for i in batch]] = tokenizer.mask_id
        read = (masked, ids, lengths)
        found_there = read_and_run(model, _masked_inputs, _top, *read, **steps, number=candidates)
        top, is_there = (ops.convert_to_numpy(each)[: len(batch)] for each in found_there)
        for i, likeliest, is_masked in zip(batch, top, is_there, strict=True):
            # Sorted by id, so that the order of nearly equal scores does not matter.
            ids = (t for t in np.sort(likeliest) if is_masked and t < len(is_word) and is_word[t])
            words = (tokenizer.piece(int(t)).text for t in ids)
            found[i] = [word for word in words if any(map(str.isalnum, word))]
    return found


def _masked_inputs(model, masked, ids, lengths, *, preprocessor):
    """Model inputs: texts with one mask each, followed by the original texts in families with segments."""
    preprocessor = for_this_device(preprocessor)
    parts = (masked, ids) if preprocessor.packer.layout.segments else (masked,)
    mask_id = preprocessor.tokenizer.mask_id
    if not has_tensorflow:
        inputs = preprocessor.pack([Tokens(part, lengths) for part in parts])
        at = np.argmax(inputs["token_ids"] == mask_id, axis=1)
        return {**inputs, "mask_positions": np.int32(at)[:, None]}
    import tensorflow as tf

    inputs = preprocessor.pack([tf.RaggedTensor.from_row_lengths(part, lengths) for part in parts])
    is_mask = tf.cast(inputs["token_ids"] == mask_id, tf.int32)
    return {**inputs, "mask_positions": tf.argmax(is_mask, 1, output_type=tf.int32)[:, None]}


def _top(model, inputs, *, number: int):
    """Likeliest tokens at each mask, int32 [batch, number], and bool [batch]: whether the mask was not cut."""
    outputs = model(inputs, training=False)
    logits = outputs["mlm_logits"] if isinstance(outputs, dict) else outputs
    at = ops.take_along_axis(inputs["token_ids"], inputs["mask_positions"], axis=1)[:, 0]
    return ops.top_k(logits[:, 0], number)[1], ops.equal(at, model.preprocessor.tokenizer.mask_id)


class WordVectors:
    """Static word vectors of a file, to look up near words."""

    def __init__(self, path: str | Path):
        self._words, self._vectors = read_word_vectors(path)
        self._places = {word: place for place, word in enumerate(self._words)}

    def nearest(self, words: Collection[str], number: int) -> dict[str, list[str]]:
        """For each word that has a vector, the `number` words with the nearest vectors by cosine."""
        known = sorted(word for word in words if word in self._places)
        if not known:
            return {}
        queries = self._vectors[[self._places[word] for word in known]]
        hits = search(queries, self._vectors, top_k=number + 1)
        return {
            word: [self._words[row] for row in rows if self._words[row] != word][:number]
            for word, rows in zip(known, hits.indices, strict=True)
        }
