"""`fill_mask`: candidates for masks in raw texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_zoo.graph import has_tensorflow
from bert_zoo.models.data_adapters import text_rows
from bert_zoo.models.direct import for_this_device, tokenized
from bert_zoo.models.graphs import in_graph, on_model
from bert_zoo.runtime.printed import Row, Rows, surroundings, table
from bert_zoo.text.reading import Tokens

if TYPE_CHECKING:
    from bert_zoo.text.tokenizer import Piece


@dataclass(frozen=True)
class Candidate(Row):
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


class FilledMasks(Rows):
    """A list of `Candidate`, most probable first, for each mask of a text. Prints as tables."""

    def __str__(self) -> str:
        tables = [table(candidate.cells() for candidate in candidates) for candidates in self]
        if len(self) == 1:
            return tables[0]
        return "\n\n".join(f"Mask {i} of {len(self)}\n{rows}" for i, rows in enumerate(tables, 1))


def fill_mask(model, text: str, targets: str | Sequence[str] | None, top_k: int) -> FilledMasks:
    """See `MaskedLM.fill_mask`."""
    tokenizer = model.preprocessor.tokenizer
    spelling = Spelling(model)
    gaps = _gaps(text, spelling.mask)
    wanted = [_target_ids(spelling, gap, targets) for gap in gaps]
    if targets is None and not 1 <= top_k <= tokenizer.vocab_size:
        raise ValueError(
            f"top_k is {top_k}; it must be between 1 and the size of the vocabulary, "
            f"{tokenizer.vocab_size}."
        )
    probabilities = _mask_probabilities(model, spelling.read(text), len(gaps))
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


def _mask_probabilities(model, token_ids: np.ndarray, masks: int) -> np.ndarray:
    """Returns probabilities at a text's masks, float32 [masks, vocabulary]."""
    preprocessor = model.preprocessor
    most = preprocessor.sequence_length - preprocessor.packer.layout.specials(1)
    if len(token_ids) > most:
        raise ValueError(
            f"The text has {len(token_ids)} tokens, but this model reads only {most} besides special tokens. Shorten "
            "the text around the mask."
        )
    if keras.backend.backend() == "tensorflow":
        found = in_graph(model, _at_masks, token_ids, preprocessor=preprocessor)
    else:
        inputs = in_graph(model, _masked_inputs, token_ids, preprocessor=preprocessor)
        found = on_model(model, _probabilities, keras.tree.map_structure(np.asarray, inputs))
    if len(found) != masks:
        raise ValueError(
            f"The text has {masks} masks, but its tokens have {len(found)}. Check the spelling of the masks."
        )
    return ops.convert_to_numpy(found)


def _at_masks(model, token_ids, *, preprocessor):
    """Maps a text's ids, int32 [tokens], to probabilities [masks, vocabulary]."""
    return _probabilities(model, _masked_inputs(model, token_ids, preprocessor=preprocessor))


def _masked_inputs(model, token_ids, *, preprocessor):
    """Returns model inputs for a text's ids, with the positions of its masks."""
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
        """Returns the ids of a text with masks, int32 [tokens]."""
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
        """Returns the text before a mask, adjusted to this token."""
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
    """Returns the text after a mask, adjusted to this token."""
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
