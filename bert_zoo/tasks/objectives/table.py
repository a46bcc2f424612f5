"""The objectives and predictions by name."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import shown
from bert_zoo.registry import registry
from bert_zoo.tasks.objectives.denoising import (
    Denoising,
    PrefixLanguageModel,
    SpanCorruption,
    WholeTexts,
)
from bert_zoo.tasks.objectives.masking import (
    DynamicMaskedTokens,
    MaskedTokenPrediction,
    MaskedTokens,
    NGrams,
    Replacement,
    StreamMaskedTokens,
    WholeWords,
    WindowedNGrams,
)
from bert_zoo.tasks.objectives.objective import Draws, Objective, Prediction, SentencePrediction
from bert_zoo.tasks.objectives.permutations import Permutations
from bert_zoo.tasks.objectives.replaced_tokens import ReplacedTokenPrediction, ReplacedTokens
from bert_zoo.tasks.objectives.spans import SpanPrediction, Spans

# Name in families' pages -> objective, with the paper's settings.
OBJECTIVES: dict[str, Objective] = {
    "masked_tokens": MaskedTokens(),
    "dynamic_masked_tokens": DynamicMaskedTokens(),
    "stream_masked_tokens": StreamMaskedTokens(),
    "dynamic_masked_tokens_30": DynamicMaskedTokens(rate=0.3, replacement=Replacement()),
    "dynamic_masks_20": DynamicMaskedTokens(
        rate=0.2, replacement=Replacement(mask=1.0, random=0.0)
    ),
    "whole_words": WholeWords(),
    "ngrams": NGrams(),
    "windowed_ngrams": WindowedNGrams(),
    "spans": Spans(),
    "permutations": Permutations(),
    "replaced_tokens": ReplacedTokens(),
    "replaced_tokens_large": ReplacedTokens(rate=0.25),
    "replaced_masks": ReplacedTokens(replacement=Replacement(mask=1.0, random=0.0)),
    "span_corruption": SpanCorruption(),
    "prefix_lm": PrefixLanguageModel(),
    "bert_style": WholeTexts(),
    "mass_style": WholeTexts(random=0.0),
}
# Name of a head of `task="pretraining"` -> its prediction.
PREDICTIONS: dict[str, Prediction] = {
    "masked_lm": MaskedTokenPrediction("mlm_logits", {"mask_positions": ()}),
    "next_sentence": SentencePrediction(
        "nsp_logits", classes="0 where the second text follows the first, 1 where it does not"
    ),
    "sentence_order": SentencePrediction(
        "sop_logits", classes="0 where the two texts are in order, 1 where they are swapped"
    ),
    "span_boundary": SpanPrediction("sbo_logits", {"span_boundaries": (2,)}, ("span_tokens",)),
    "replaced_token": ReplacedTokenPrediction("discriminator_logits"),
}


# -------------------------------------------------------------------------------------------------
# Shows what an objective does to a text.
# -------------------------------------------------------------------------------------------------

WIDTH = 100


def _wrapped(widths: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Columns divided into lines: (column, width) for each."""
    lines, room = [], 0
    for column, width in enumerate(widths):
        if not lines or width > room:
            lines.append([])
            room = WIDTH - 7
        lines[-1].append((column, width))
        room -= width + 1
    return lines


def objective_for(
    model, objective: str | Objective | None = None, counts: np.ndarray | None = None
) -> Objective:
    """Returns an objective for a model and its vocabulary.

    Args:
        model: a model of any task.
        objective: an objective, or its name in `OBJECTIVES`; by default the objective that the model's
            family was pretrained with.
        counts: int [vocab_size], how often each token occurs in the corpus, for objectives that draw
            random tokens by frequency.

    Returns:
        The objective, ready to be called with batches and `Draws`.

    Raises:
        ValueError: an unknown name, a family without an objective, or a vocabulary that lacks a token that
            the objective needs.
    """
    encoder = getattr(model, "encoder", model)
    if objective is None:
        objective = registry().families[encoder.family].pretraining_of(encoder.config)
        if not objective:
            raise ValueError(
                f"The family {encoder.family} was not pretrained on masked tokens. Pass an objective: "
                f"{', '.join(OBJECTIVES)}."
            )
    if isinstance(objective, str):
        if objective not in OBJECTIVES:
            raise ValueError(
                f"There is no objective {shown(objective)}; choose one of {', '.join(OBJECTIVES)}."
            )
        objective = OBJECTIVES[objective]
        if hasattr(objective, "targets") and hasattr(encoder.config, "span_targets"):
            objective = replace(objective, targets=encoder.config.span_targets)
    return objective.for_tokenizer(model.preprocessor.tokenizer, counts)


def show(
    model, text: str | tuple[str, str], objective: str | Objective | None = None, seed: int = 0
) -> str:
    """Prints what an objective hides in a text, and what the model must predict.

    Args:
        model: a model of any task, with its preprocessor.
        text: a text, or a tuple of two; it is truncated as for the model.
        objective: as for `objective_for`. Random tokens that are drawn by frequency in the corpus are
            drawn by frequency in the text.
        seed: seed of the random numbers.

    Returns:
        The printed text.

    Raises:
        ValueError: as for `objective_for`.
    """
    preprocessor = model.preprocessor
    tokenizer = preprocessor.tokenizer
    texts = tuple([part] for part in text) if isinstance(text, tuple) else [text]
    batch = {name: np.array(value) for name, value in preprocessor(texts).items()}
    token_ids = batch["token_ids"]
    roles = {getattr(tokenizer, f"{role}_id") for role in preprocessor.packer.layout.roles}
    special = np.isin(token_ids, [*roles]) | (batch["padding_mask"] == 0)
    words = np.bincount(token_ids[~special], minlength=tokenizer.vocab_size)
    objective = objective_for(model, objective, words)
    batch |= {
        "row": np.zeros(1, np.int64),
        "special": special,
        "word_starts": tokenizer.word_starts[token_ids] & ~special,
    }
    inputs, labels = objective(batch, Draws(seed, 0, batch["row"]))

    def spelled(ids) -> list[str]:
        return [tokenizer.id_to_token(int(token)) for token in ids]

    if isinstance(objective, Denoising):
        reads = spelled(inputs["token_ids"][inputs["padding_mask"] == 1])
        writes = spelled(labels[labels != IGNORED_LABEL])
        lines = [f"The encoder reads {len(reads)} tokens, and the decoder writes {len(writes)}."]
        for title, row in (
            ("text", spelled(token_ids[~special])),
            ("reads", reads),
            ("writes", writes),
        ):
            lines += ["", *_paragraph(title, row)]
    else:
        lines = _columns(objective, spelled, batch, inputs, labels)
    printed = "\n".join(lines)
    print(printed)
    return printed


def _paragraph(title: str, words: Sequence[str]) -> list[str]:
    """A row of tokens in lines after its title."""
    lines = [" ".join(words[i] for i, _ in line) for line in _wrapped([*map(len, words)])]
    return [f"{'' if i else title:<6}  {line}" for i, line in enumerate(lines)]


def _columns(objective, spelled, batch, inputs, labels) -> list[str]:
    """Lines for an objective of masked tokens: text, what the model reads, and what it must predict."""
    tokens, reads = spelled(batch["token_ids"][0]), spelled(inputs["token_ids"][0])
    asked = [""] * len(tokens)
    for position in inputs["mask_positions"][0][labels["mlm_logits"][0] != IGNORED_LABEL]:
        asked[position] = tokens[position]
    real = np.flatnonzero(batch["padding_mask"][0])
    rows = [[row[place] for place in real] for row in (tokens, reads, asked)]
    lines = [f"{sum(map(bool, asked))} of {len(real)} tokens are predicted."]
    for columns in _wrapped([max(map(len, column)) for column in zip(*rows, strict=True)]):
        lines.append("")
        for title, row in zip(("text", "reads", "label"), rows, strict=True):
            padded = [f"{row[column]:<{width}}" for column, width in columns]
            lines.append(f"{title:<5}  {' '.join(padded)}".rstrip())
    if "span_boundaries" in inputs:
        lines += ["", "The tokens of a span are also predicted from the two tokens next to it:"]
        is_asked = labels["sbo_logits"][0] != IGNORED_LABEL
        of_span = inputs["span_tokens"][0] // objective.targets
        for number, (before, after) in enumerate(inputs["span_boundaries"][0]):
            if after:
                ids = labels["sbo_logits"][0][is_asked & (of_span == number)]
                lines.append(f"  {tokens[before]} … {tokens[after]}: {' '.join(spelled(ids))}")
    if objective.replaced:
        lines += [
            "",
            "The generator's samples replace the predicted tokens. The discriminator then predicts for "
            "each token whether it was replaced.",
        ]
    return lines
