"""Measurements of a pretraining: held-out losses, predictions of masked words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.pretraining.batches import MaskedRowBatches, PretrainingBatches
from bert_zoo.pretraining.tokens import ids_of
from bert_zoo.tasks.objectives import Draws
from bert_zoo.tasks.objectives.objective import ObjectiveModel

# Rows of held-out text, which no training has: their seed is another one.
MEASURED_ROWS, MEASURED_SEED = 256, 1 << 30
# Sentences whose masks are filled before and after; those that are looked at; words of a sentence.
SHOWN, LOOKED_AT, SHOWN_WORDS = 6, 2_000, range(6, 25)


@dataclass
class HeldOut:
    """Text kept out of training to measure the loss, with the same rows and masks every time."""

    name: str
    batches: PretrainingBatches | MaskedRowBatches
    count: int  # of the batches

    def losses(self, model: ObjectiveModel) -> dict[str, float]:
        """The total loss and, with several objectives, the loss of each."""
        data = self.batches.dataset(0, self.count)
        metrics = model.evaluate(data, return_dict=True, verbose=0)
        return {name: float(value) for name, value in metrics.items() if name.endswith("loss")}

    def unigram_loss(self, counts: np.ndarray) -> float:
        """Loss of a unigram model with the training text's counts, int [vocabulary].

        It is measured on masked tokens or a decoder's targets.
        """
        labels = [self.batches.at(number)[1] for number in range(self.count)]
        labels = [rows["mlm_logits"] if isinstance(rows, dict) else rows for rows in labels]
        tokens = np.concatenate([rows[rows != IGNORED_LABEL] for rows in labels])
        # Special tokens, which the text does not hold, are asked for too by RoBERTa's objective; of them,
        # and of words that are new, it knows how often they are.
        asked = np.bincount(tokens, minlength=len(counts))
        known = asked[counts > 0].sum()
        counts = np.where(counts > 0, counts, asked * counts.sum() / max(known, 1))
        return float(-log_frequencies(counts)[tokens].mean())


def log_frequencies(counts: np.ndarray) -> np.ndarray:
    """The logarithm of each token's relative frequency, with one added to every count."""
    return np.log(counts + 1.0) - np.log(counts.sum() + len(counts))


def masked_sentences(documents: Iterator[Sequence[str]], preprocessor) -> list[tuple[str, str]]:
    """A few sentences with one word masked, and that word, chosen by a fixed seed.

    Each word has at least four letters and is a single token. Each sentence fits into a row.
    """
    tokenizer = preprocessor.tokenizer
    most = preprocessor.sequence_length - preprocessor.packer.layout.specials(1)
    sentences = []
    for document in documents:
        sentences += [s for s in document if len(s.split()) in SHOWN_WORDS]
        if len(sentences) >= LOOKED_AT:
            break
    mask = tokenizer.id_to_token(tokenizer.mask_id)
    order = np.argsort(Draws(0, 0, np.arange(len(sentences))).uniform("sentence"), kind="stable")
    found: list[tuple[str, str]] = []
    for number in order:
        words = sentences[number].split()
        places = [p for p, w in enumerate(words) if p and len(w) > 3 and w.isalpha()]
        if places:
            found_ids = ids_of(tokenizer, [f" {words[p]}" for p in places])
            places = [p for p, ids in zip(places, found_ids, strict=True) if len(ids) == 1]
        if not places or mask in sentences[number]:
            continue
        if len(*ids_of(tokenizer, [sentences[number]])) > most:
            continue
        place = places[int(Draws(0, 1, [number]).integers("word", len(places), 1)[0, 0])]
        text = " ".join([*words[:place], mask, *words[place + 1 :]])
        found.append((text, words[place]))
        if len(found) == SHOWN:
            break
    return found


def answers(model: ObjectiveModel, sentences: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
    """The three most likely words at the mask of each sentence, with their probabilities."""
    return [
        [[c.token, c.score] for c in model.fill_mask(text, top_k=3)[0]] for text, _ in sentences
    ]
