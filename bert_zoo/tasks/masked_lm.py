"""Masked language models, which predict the token at a mask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Self

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.error_text import shown
from bert_zoo.fields import check
from bert_zoo.graph import has_tensorflow
from bert_zoo.models.data_adapters import text_rows
from bert_zoo.models.direct import for_this_device, read_and_run, tokenized
from bert_zoo.printing import surroundings, table
from bert_zoo.runtime.answers import PrintedRow, PrintedRows
from bert_zoo.tasks.objectives.objective import ObjectiveModel
from bert_zoo.tasks.objectives.table import PREDICTIONS
from bert_zoo.tasks.presets import TextScores, text_score
from bert_zoo.text.batches import strings, text_batch
from bert_zoo.text.numpy_packing import Tokens

if TYPE_CHECKING:
    from bert_zoo.text.tokenizer import Piece


# -------------------------------------------------------------------------------------------------
# Log-probabilities of tokens at a masked position, in batches of texts.
# -------------------------------------------------------------------------------------------------


class Blank(NamedTuple):
    """A text with one masked token to predict."""

    token_ids: np.ndarray  # int32 [tokens], without special tokens, with the mask at `position`
    position: int  # position of the token to predict

    def window(self, size: int) -> Self:
        """At most `size` tokens around the one to predict."""
        start = max(0, min(self.position - size // 2, len(self.token_ids) - size))
        return type(self)(self.token_ids[start : start + size], self.position - start)


def log_probs_at(
    model, blanks: Iterable[Blank], wanted: Iterable[Sequence[int]], batch_size: int, total: int
) -> Iterator[np.ndarray]:
    """Yields log-probabilities of `wanted` tokens at the positions of blanks, float32 [batch, wanted], batch by batch.

    Each blank asks for the same number of tokens; sort blanks by length to avoid padding. For texts longer than the
    model's limit, a window around the blank is read. `total` is the number of blanks, for the progress bar.
    """
    preprocessor = model.preprocessor
    size = preprocessor.sequence_length - preprocessor.packer.layout.specials(1)
    pairs = zip(blanks, wanted, strict=True)
    with tqdm(total=total, desc="Masked texts", disable=None) as progress:
        while batch := [*islice(pairs, batch_size)]:
            windows = [blank.window(size) for blank, _ in batch]
            lengths = np.array([len(window.token_ids) for window in windows])
            is_blank = np.zeros(lengths.sum(), np.int32)
            is_blank[np.cumsum(lengths) - lengths + [window.position for window in windows]] = 1
            ids = np.concatenate([window.token_ids for window in windows])
            asked = np.array([ids for _, ids in batch], np.int32)
            steps = {"size": batch_size, "reading": {"preprocessor": preprocessor}}
            read = (ids, is_blank, lengths, asked)
            found = read_and_run(model, _read, _predict, *read, **steps)
            yield ops.convert_to_numpy(found)[: len(batch)]
            progress.update(len(batch))


def _read(model, ids, is_blank, lengths, wanted, *, preprocessor):
    """Model inputs with `is_blank`, int32 [batch, length], 1 at the blank, and `wanted`."""
    preprocessor = for_this_device(preprocessor)
    if has_tensorflow:
        import tensorflow as tf

        tokens = tf.RaggedTensor.from_row_lengths(ids, lengths)
    else:
        tokens = Tokens(ids, lengths)
    inputs, (positions,) = preprocessor.pack_with_positions([tokens])
    return {**inputs, "is_blank": positions.gather(is_blank), "wanted": wanted}


def _predict(model, inputs):
    """Log-probabilities of the requested tokens, float32 [batch, requested tokens]."""
    inputs = dict(inputs)
    is_blank, wanted = inputs.pop("is_blank"), inputs.pop("wanted")
    inputs["mask_positions"] = ops.cast(ops.argmax(is_blank, axis=1), "int32")[:, None]
    outputs = model(inputs, training=False)
    logits = outputs["mlm_logits"] if isinstance(outputs, dict) else outputs
    log_probs = ops.log_softmax(ops.cast(logits[:, 0], "float32"))
    return ops.take_along_axis(log_probs, wanted, axis=1)


# -------------------------------------------------------------------------------------------------
# `fill_mask`: candidates for masks in raw texts.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate(PrintedRow):
    """A candidate token for a mask.

    Attributes:
        token: the token's text, without the vocabulary's marks for the start or inside of a word.
        token_id: its id.
        score: its probability over the whole vocabulary.
        text: the text with this token; other masks stay.
        start: its position in `text`, in characters.
    """

    token: str
    token_id: int
    score: float
    text: str
    start: int

    def cells(self) -> tuple[str, ...]:
        left, right = surroundings(self.text, self.start, self.start + len(self.token))
        return (self.token, f"{self.score:.3f}", f"{left}{self.token}{right}")

    def bar(self) -> tuple:
        left, right = surroundings(self.text, self.start, self.start + len(self.token))
        return self.token, self.score, (left, self.token, right)


class FilledMasks(PrintedRows):
    """A list of `Candidate`, most probable first, for each mask of a text. Prints as tables."""

    def __str__(self) -> str:
        tables = [table(candidate.cells() for candidate in candidates) for candidates in self]
        if len(self) == 1:
            return tables[0]
        return "\n\n".join(f"Mask {i} of {len(self)}\n{rows}" for i, rows in enumerate(tables, 1))

    def draw(self, charts: ModuleType) -> str:
        drawn = []
        for i, candidates in enumerate(self, 1):
            title = f"Mask {i} of {len(self)}" if len(self) > 1 else ""
            rows = [candidate.bar() for candidate in candidates]
            drawn.append(charts.score_bars(rows, title=title))
        return charts.stacked(drawn)


def _mask_probabilities(model, token_ids: np.ndarray, masks: int) -> np.ndarray:
    """Probabilities at a text's masks, float32 [masks, vocabulary]."""
    preprocessor = model.preprocessor
    most = preprocessor.sequence_length - preprocessor.packer.layout.specials(1)
    if len(token_ids) > most:
        raise ValueError(
            f"The text has {len(token_ids)} tokens, but this model reads only {most} besides special tokens. Shorten "
            "the text around the mask."
        )
    steps = {"size": 1, "reading": {"preprocessor": preprocessor}}
    found = read_and_run(model, _masked_inputs, _probabilities, token_ids, **steps)
    if len(found) != masks:
        raise ValueError(
            f"The text has {masks} masks, but its tokens have {len(found)}. Check the spelling of the masks."
        )
    return ops.convert_to_numpy(found)


def _masked_inputs(model, token_ids, *, preprocessor):
    """Model inputs for a text's ids, with the positions of its masks."""
    preprocessor = for_this_device(preprocessor)
    if not has_tensorflow:
        inputs = preprocessor.pack([Tokens(token_ids, np.array([len(token_ids)]))])
        at = np.flatnonzero(inputs["token_ids"][0] == preprocessor.tokenizer.mask_id)
        return {**inputs, "mask_positions": np.int32(at)[None]}
    import tensorflow as tf

    inputs = preprocessor.pack([tf.RaggedTensor.from_tensor(token_ids[None])])
    at = tf.where(inputs["token_ids"][0] == preprocessor.tokenizer.mask_id)
    return {**inputs, "mask_positions": tf.transpose(tf.cast(at, tf.int32))}


def _probabilities(model, inputs):
    outputs = model(inputs, training=False)
    logits = outputs["mlm_logits"] if isinstance(outputs, dict) else outputs
    return ops.softmax(logits[0])


class Gap(NamedTuple):
    """A mask's context: the text before and after it."""

    before: str
    after: str


def _gaps(text: str, mask: str) -> list[Gap]:
    if not isinstance(text, str):
        raise TypeError(f"fill_mask takes a single text; got {text!r} ({type(text).__name__}).")
    if mask not in text:
        raise ValueError(
            f"The text {text!r} has no mask. Write {mask} in place of the token to predict."
        )
    parts = text.split(mask)
    return [Gap(mask.join(parts[:i]), mask.join(parts[i:])) for i in range(1, len(parts))]


class Spelling:
    """Spells tokens of a model's vocabulary and joins them to a text."""

    def __init__(self, model):
        tokenizer = model.preprocessor.tokenizer
        self.model, self.tokenizer = model, tokenizer
        self.mask = tokenizer.id_to_token(tokenizer.mask_id)

    def _ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        return tokenized(self.model, text_rows(self.model, texts))

    def read(self, text: str) -> np.ndarray:
        """The ids of a text with masks, int32 [tokens]."""
        (ids,) = self._ids([text])
        if self.tokenizer.mask_id in ids:
            return ids
        # ALBERT's original tokenizer treats "[MASK]" in a text as plain text.
        first, *others = self._ids(text.split(self.mask))
        joined = [*first, *(i for part in others for i in (self.tokenizer.mask_id, *part))]
        return np.array(joined, np.int32)

    def candidates(self, gap: Gap, ids: np.ndarray, row: np.ndarray) -> list[Candidate]:
        found = []
        for token_id in map(int, ids):
            piece = self.tokenizer.piece(token_id)
            before, after = self._before(gap.before, piece), _after(gap.after, piece)
            text = f"{before}{piece.text}{after}"
            found.append(Candidate(piece.text, token_id, float(row[token_id]), text, len(before)))
        return found

    def _before(self, before: str, piece: Piece) -> str:
        """The text before a mask, adjusted to this token."""
        takes_space = self.tokenizer.mask_takes_space
        if piece.joins_before is None:
            # Such tokens begin words, also where the mask touches the one before.
            return f"{before} " if before[-1:].isalnum() else before
        if piece.joins_before:
            return before.rstrip() if takes_space or not self.tokenizer.marks.begins else before
        return f"{before.rstrip()} " if before.strip() else before

    def id_in(self, gap: Gap, target: str) -> int | list[int]:
        """The id of a word in the place of a mask, or its pieces where they are not one token."""
        vocabulary = self.tokenizer.vocabulary
        if target in vocabulary:
            token_id = self.tokenizer.token_to_id(target)
            if self.tokenizer.piece(token_id).text != target:
                return token_id
        blank = " " if self.tokenizer.mask_takes_space and gap.before[-1:].isspace() else ""
        pieces = self._ids([blank + target])[0].tolist()
        if len(pieces) == 1 and pieces != [self.tokenizer.unk_id]:
            return pieces[0]
        # The inside of a word has no mark where beginnings or ends have one.
        return self.tokenizer.token_to_id(target) if target in vocabulary else pieces


def _after(after: str, piece: Piece) -> str:
    """The text after a mask, adjusted to this token."""
    if piece.joins_after is None:
        return after
    if piece.joins_after:
        return after.lstrip()
    return f" {after}" if after[:1].isalnum() else after


def _target_ids(
    spelling: Spelling, gap: Gap, targets: str | Sequence[str] | None
) -> list[int] | None:
    if targets is None:
        return None
    targets = [targets] if isinstance(targets, str) else list(targets)
    if not targets or not all(isinstance(target, str) and target for target in targets):
        raise ValueError(f"targets is {targets!r}; it must be a word or a list of words.")
    found = []
    for target in targets:
        token_id = spelling.id_in(gap, target)
        if isinstance(token_id, list):
            pieces = [spelling.tokenizer.id_to_token(piece) for piece in token_id]
            raise ValueError(
                f"The target {target!r} is not a single token of this model's vocabulary; its pieces are {pieces}. A "
                "mask replaces one token: choose another word, or write a mask for each piece."
            )
        found.append(token_id)
    return [*dict.fromkeys(found)]


# -------------------------------------------------------------------------------------------------
# Pseudo-log-likelihood: the probability of each token of a text, given all others.
# -------------------------------------------------------------------------------------------------

LEFT_TO_RIGHT = "left_to_right"
WITHIN_WORD = ("one_by_one", LEFT_TO_RIGHT)


def _blanks(token_ids: np.ndarray, mask_id: int, word_starts: np.ndarray | None) -> Iterator[Blank]:
    """Yields a text with each token masked in turn; with `word_starts`, also the rest of its word."""
    size = len(token_ids)
    ends = np.arange(1, size + 1)
    if word_starts is not None:
        starts = np.append(np.flatnonzero(word_starts[token_ids]), size)
        ends = starts[np.searchsorted(starts, np.arange(size), side="right")]
    for position, end in enumerate(ends):
        hidden = token_ids.copy()
        hidden[position:end] = mask_id
        yield Blank(hidden, position)


class FillsMasks(ObjectiveModel):
    """A model that is trained on masked tokens, perhaps among other objectives."""

    def printed_predictions(self, texts, second=None, **others):
        return "\n\n".join(f"{text}\n{self.fill_mask(text)}" for text in texts)

    def fill_mask(self, text: str, targets: str | Sequence[str] | None = None, top_k: int = 5):
        """Finds the likeliest tokens for each mask of a text.

        Args:
            text: a text that contains the tokenizer's mask at least once: "[MASK]" for BERT and ALBERT,
                "<mask>" for RoBERTa. If there are several, each is filled while the others stay.
            targets: rank only these words, each of which must be a single token in that place; or tokens
                as the vocabulary spells them ("##ing").
            top_k: number of candidates per mask. All targets are returned.

        Returns:
            For each mask a list of `Candidate(token, token_id, score, text, start)`, likeliest first;
            prints as tables. Scores are probabilities over the whole vocabulary, as in Hugging Face's
            fill-mask pipeline.

        Raises:
            ValueError: the text has no mask or is too long, or a target is not a single token.
        """
        tokenizer = self.preprocessor.tokenizer
        spelling = Spelling(self)
        gaps = _gaps(text, spelling.mask)
        wanted = [_target_ids(spelling, gap, targets) for gap in gaps]
        if targets is None:
            note = "the size of the vocabulary"
            check("top_k", top_k, int, least=1, most=tokenizer.vocab_size, note=note)
        probabilities = _mask_probabilities(self, spelling.read(text), len(gaps))
        filled = FilledMasks()
        for gap, row, ids in zip(gaps, probabilities, wanted, strict=True):
            if ids is None:
                # The model's token table may be larger than the vocabulary.
                scores = row[: tokenizer.vocab_size]
                ids = np.flatnonzero(scores >= np.partition(scores, -top_k)[-top_k])
            ids = np.array(ids)
            ranked = ids[np.argsort(-row[ids], kind="stable")]
            filled.append(spelling.candidates(gap, ranked[: None if targets else top_k], row))
        return filled

    def score(self, texts, batch_size: int = 64, within_word: str = "one_by_one") -> list:
        """Scores texts: how likely each token is given all others of its text.

        The sum of a text's log-probabilities is its pseudo-log-likelihood, and exp of their negative mean its
        pseudo-perplexity. Use them to compare texts under one model; they are not probabilities of texts. A
        text of n tokens is read n times. If it is too long for the model, the window around each token is.

        Args:
            texts: a text or several, without special tokens.
            batch_size: number of masked copies of texts per step.
            within_word: "one_by_one" hides one token at a time. "left_to_right" also hides the later tokens
                of the same word, which would otherwise give away how a rare word starts.

        Returns:
            A list of `TextScore(text, tokens, log_probs, perplexity, bits_per_character)`, in the
            order of the texts, that prints as a table. Log-probabilities are in nats.

        Raises:
            ValueError: a text has no tokens, or an option is unknown or does not suit the model.

        Source: Salazar et al. 2020 (arXiv:1910.14659), section 2; left to right within words: Kauf and
        Ivanova 2023 (arXiv:2305.10588), section 2.
        """
        check("batch_size", batch_size, int, least=1)
        check("within_word", within_word, str, choices=WITHIN_WORD)
        if within_word == LEFT_TO_RIGHT and self.encoder.backbone.has_second_stream:
            raise ValueError(
                f"within_word={LEFT_TO_RIGHT!r} masks further tokens, but this model was not trained to read masks, because "
                "it predicts in a second stream. Leave within_word out."
            )
        texts = strings(texts)
        if not texts:
            return TextScores()
        tokenizer = self.preprocessor.tokenizer
        rows = tokenized(self, text_batch(texts))
        if empty := [number for number, row in enumerate(rows) if not len(row)]:
            raise ValueError(
                f"texts[{empty[0]}] is {shown(texts[empty[0]])}, which has no token to score. Leave it out."
            )
        word_starts = tokenizer.word_starts if within_word == LEFT_TO_RIGHT else None
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        blanks = (
            b for number in order for b in _blanks(rows[number], tokenizer.mask_id, word_starts)
        )
        wanted = ([token_id] for number in order for token_id in rows[number])
        ends = np.cumsum([len(rows[number]) for number in order])
        batches = log_probs_at(self, blanks, wanted, batch_size, total=int(ends[-1]))
        log_probs = np.split(np.concatenate(list(batches))[:, 0], ends[:-1])
        found = dict(zip(order, log_probs, strict=True))
        return TextScores(
            text_score(tokenizer, text, row, found[number], len(text))
            for number, (text, row) in enumerate(zip(texts, rows, strict=True))
        )


@keras.saving.register_keras_serializable("bert_zoo")
class MaskedLM(FillsMasks):
    """Predicts masked tokens.

    Returns logits [batch, length, vocabulary]; with `mask_positions` int [batch, predictions] among the
    inputs, only the logits at these positions, [batch, predictions, vocabulary].
    """

    task = "masked_lm"
    verbs = ("fill_mask", "score")
    default_loss_weights = None

    @property
    def objectives(self):
        return {self.task: PREDICTIONS[self.task]}

    def head_outputs(self, encoded, inputs, training=None):
        (logits,) = super().head_outputs(encoded, inputs, training).values()
        return logits

    def label_ranges(self, inputs):
        (label_range,) = super().label_ranges(inputs).values()
        return {"": label_range}

    def default_loss(self):
        (loss,) = super().default_loss().values()
        return loss
