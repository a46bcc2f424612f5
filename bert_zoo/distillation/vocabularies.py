"""`prune_vocabulary`: removes the tokens that texts do not need, without changing outputs for these texts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import singledispatch
from itertools import pairwise
from pathlib import Path

import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.config import Config
from bert_zoo.error_text import shown
from bert_zoo.fields import check
from bert_zoo.loading.growing import rebuilt
from bert_zoo.models.base import ZooModel, check_is_float, encoder_of
from bert_zoo.pretraining.corpus import Corpus
from bert_zoo.pretraining.tokens import BATCH_CHARACTERS, ids_of
from bert_zoo.text.byte_bpe import ALPHABET, ByteBpeTokenizer
from bert_zoo.text.files import SUFFIX
from bert_zoo.text.sentencepiece import SentencePieceTokenizer
from bert_zoo.text.tokenizer import Tokenizer
from bert_zoo.text.vocabulary_files import BPE, NORMAL, read_sentencepiece_model
from bert_zoo.text.wordpiece import WordPieceTokenizer
from bert_zoo.training.freezing import without_lora
from bert_zoo.training.presets import compile_for_task
from bert_zoo.weights.bind import named_variables


def prune_vocabulary(
    model: ZooModel,
    texts: Iterable[str | Sequence[str]] | Path | Sequence[Path],
    *,
    keep: Iterable[str] = (),
    min_count: int = 1,
) -> ZooModel:
    """Makes a model with fewer tokens; outputs stay the same for texts that need no others.

    It keeps the tokens of the texts, special and added tokens, and those that spell all other words:

    - WordPiece: single characters, at the start of words and inside;
    - byte-level BPE: all bytes, and the merges and tokens from which kept tokens are built;
    - SentencePiece: single characters, all pieces that are not text, and the pieces with the lowest and the
      highest score, from which the library scores unknown characters and user-defined pieces; for BPE
      models also the pieces from which kept ones are merged.

    Words that the texts lack are split into more and shorter tokens. They become unknown only if a character
    is unknown to the given model or occurs only in its longer tokens. Tokens keep their order but get new
    ids. The token table and heads over the vocabulary lose the rows of removed tokens.

    Args:
        model: any model with a vocabulary of these kinds; it does not change.
        texts: as many as possible of the texts that the model will read (both texts of pairs) or generate:
            strings; lists of sentences, one per document, as
            `bert_zoo.pretraining.corpus.Corpus` yields them; or pathlib.Paths of files and folders, read as
            by `bert_zoo pretrain --text`.
        keep: further tokens to keep, as the vocabulary spells them ("##ing", "Ġthe", "▁the").
        min_count: how often a token must occur in the texts to be kept.

    Returns:
        The smaller model. If the given one is compiled, it is compiled as by `load`.

    Raises:
        TypeError: the vocabulary is of another kind, or `texts` is a single string.
        ValueError: `keep` has an unknown token, `min_count` is below 1, the texts have no tokens, or the model
            is quantized.
    """
    check("min_count", min_count, int, least=1)
    check_is_float(model)
    model = without_lora(model)
    before = model.preprocessor.tokenizer
    config = encoder_of(model).config
    counts = _counts(before, texts)
    if not counts.any():
        raise ValueError("The texts have no tokens. Check that they are texts for this model.")
    kept = {*np.flatnonzero(counts >= min_count).tolist(), *map(before.token_to_id, keep)}
    kept |= before.added_tokens.keys() | _ids_of(config, before).values()
    if model.generates:
        kept |= model.generation_config.needed_ids
    if getattr(config, "positions_after_padding", False):
        kept |= {*range(config.pad_id)}  # as the table of positions starts after this id
    tokenizer = smaller(before, {before.id_to_token(index) for index in kept})
    rows = np.array([before.token_to_id(token) for token in tokenizer.vocabulary])
    ids = {
        name: int(np.flatnonzero(rows == index)[0])
        for name, index in _ids_of(config, before).items()
    }
    pruned = rebuilt(model, vocab_size=len(rows), **ids)
    if model.generates:
        new_ids = {old: new for new, old in enumerate(rows.tolist())}
        pruned.generation_config = model.generation_config.renumbered(new_ids)
    encoder_of(pruned).preprocessor = type(model.preprocessor)(
        tokenizer, **model.preprocessor.get_config()
    )
    values = named_variables(model)
    for path, variable in named_variables(pruned).items():
        value = ops.convert_to_numpy(values[path])
        variable.assign(value if value.shape == tuple(variable.shape) else value[rows])
    if model.compiled:
        compile_for_task(pruned)
    return pruned


@singledispatch
def smaller(tokenizer: Tokenizer, kept: set[str]) -> Tokenizer:
    """A tokenizer with the kept tokens, and with all that spell these and other words."""
    raise TypeError(
        f"The vocabulary of a {type(tokenizer).__name__} cannot be pruned. Only WordPiece, byte-level BPE "
        "and SentencePiece vocabularies can."
    )


@smaller.register
def _(tokenizer: WordPieceTokenizer, kept: set[str]) -> WordPieceTokenizer:
    vocabulary = [
        token
        for token in tokenizer.base_vocabulary
        if token in kept or len(token.removeprefix(SUFFIX)) == 1
    ]
    return WordPieceTokenizer(vocabulary, **tokenizer.get_config())


@smaller.register
def _(tokenizer: ByteBpeTokenizer, kept: set[str]) -> ByteBpeTokenizer:
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    added = {token.content for token in tokenizer.added_tokens.values()}
    made = {
        pair
        for token in kept - added
        for pair in merges_of(token, lambda *pair: -ranks[pair] if pair in ranks else None)
    }
    tokens = {*kept, *ALPHABET, *(left + right for left, right in made)}
    vocabulary = [token for token in tokenizer.base_vocabulary if token in tokens]
    merges = [pair for pair in tokenizer.merges if pair in made]
    return ByteBpeTokenizer(vocabulary, merges, **tokenizer.get_config())


@smaller.register
def _(tokenizer: SentencePieceTokenizer, kept: set[str]) -> SentencePieceTokenizer:
    settings = tokenizer._settings
    model = read_sentencepiece_model(settings.model)
    scores = {piece.text.decode(): piece.score for piece in model.pieces if _is_text(piece)}
    tokens = {*kept, *(text for text in scores if len(text) == 1)}
    # The library derives scores of unknown characters and user-defined pieces from these.
    tokens |= {min(scores, key=scores.get), max(scores, key=scores.get)}
    if model.trainer.kind == BPE:
        made = (
            merges_of(token, lambda *pair: scores.get("".join(pair)))
            for token in kept & scores.keys()
        )
        tokens |= {"".join(pair) for pairs in made for pair in pairs}
    # Keep pieces that are split into several tokens if those are kept.
    for piece, parts in tokenizer.split_tokens.items():
        if tokens.issuperset(map(tokenizer.id_to_token, parts)):
            tokens.add(tokenizer.id_to_token(piece))
    pieces = [
        piece
        for number, piece in enumerate(model.pieces)
        if number < len(settings.scheme.replaced_pieces)
        or not _is_text(piece)
        or piece.text.decode() in tokens
    ]
    del model.pieces[:]
    model.pieces.extend(pieces)
    options = {**settings.options, "added_tokens": tokenizer.get_config().get("added_tokens", ())}
    return SentencePieceTokenizer(model.SerializeToString(), settings.scheme, **options)


def _is_text(piece) -> bool:
    return piece.type in (0, NORMAL)


def merges_of(token: str, score: Callable[[str, str], float | None]) -> list[tuple[str, str]]:
    """The merges that build a token from its characters, in order; `score` gives two neighbours' priority, highest
    first, None for no merge. See `bert_zoo.text.byte_bpe`."""
    parts, made = [*token], []
    while True:
        scores = [score(*pair) for pair in pairwise(parts)]
        found = [i for i, value in enumerate(scores) if value is not None]
        if not found:
            return made
        first = max(found, key=scores.__getitem__)
        made.append((parts[first], parts[first + 1]))
        parts[first : first + 2] = ["".join(made[-1])]


def _counts(tokenizer: Tokenizer, texts) -> np.ndarray:
    """Occurrences of each token, int64 [tokens]."""
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    for batch in _batches(texts):
        ids = np.concatenate(ids_of(tokenizer, batch))
        counts += np.bincount(ids, minlength=len(counts))
    return counts


def _batches(texts) -> Iterator[list[str]]:
    """Yields texts in batches of about `BATCH_CHARACTERS` characters."""
    if isinstance(texts, str):
        raise TypeError(
            f"texts is {shown(texts)}, one string; pass a list of texts, or pathlib.Path({shown(texts)}) for a "
            "file."
        )
    if not isinstance(texts, Iterable) or (
        isinstance(texts, list | tuple) and all(isinstance(text, Path) for text in texts)
    ):
        texts = Corpus(texts)
    if not isinstance(texts, Corpus):  # which shows its own progress
        texts = tqdm(texts, "Reading", unit=" texts", disable=None)
    batch, size = [], 0
    for text in texts:
        batch.append(text if isinstance(text, str) else " ".join(text))
        size += len(batch[-1])
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _ids_of(config: Config, tokenizer: Tokenizer) -> dict[str, int]:
    """Field of the configuration -> token id."""
    found = {f.name: getattr(config, f.name) for f in fields(config) if f.name.endswith("_id")}
    return {n: i for n, i in found.items() if i is not None and i < tokenizer.vocab_size}
