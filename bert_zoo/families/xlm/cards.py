"""XLM's cards, settings, and rows of one language and of translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bert_zoo.config import TextSpec
from bert_zoo.data.rows import (
    FIRST,
    MIDDLE,
    SECOND,
    RowScheme,
    Runs,
    Template,
    Text,
    around,
    cut,
    followed,
    separator,
)
from bert_zoo.families.bert.cards import (
    ANSWERS,
    CHOICES,
    PRETRAINING_SIZES,
    TEXTS,
    of_config,
    width,
)
from bert_zoo.family import HF, Checkpoint
from bert_zoo.presets import OwnRows, Preset, PretrainingPreset, PretrainingSize, Recipe
from bert_zoo.text.numpy_packing import Layout


@dataclass(frozen=True)
class Translations(RowScheme):
    """XLM's rows: sentences of one language, and sentences with their translation. A document of the text is one
    sentence in each language, in the order of `languages`. A row of one language is filled with its sentences, from
    documents in random order, with separators between them. With `pairs`, each document also gives a row with its
    sentence in two random languages. Each of the two has its own special tokens, and positions restart with the
    second. The longer text of a pair that is too long is cut at its end. Source: Lample and Conneau 2019
    (arXiv:1901.07291), sections 3.3 and 3.5; facebookresearch/XLM xlm/trainer.py, generate_batch, and xlm/utils.py,
    concat_batches.
    """

    length: int = 256  # tokens in a row, including special ones
    languages: tuple[int, ...] = (0, 1)  # the id of each in `language_ids`
    pairs: bool = True

    def plan(self, text: Text, rng: np.random.Generator) -> Iterator[Runs]:
        number, documents = len(self.languages), text.num_documents
        if len(text.sentence_starts) != number * documents + 1:
            raise ValueError(
                f"The text has {len(text.sentence_starts) - 1:,} sentences with tokens in {documents:,} "
                f"documents; each must have one in each of {number} languages. Take lines out that have no "
                "translation."
            )
        for place, language in enumerate(self.languages):
            sentences = rng.permutation(documents) * number + place
            yield self._stream(text, sentences, language)
        if self.pairs:
            yield self._translated(text, rng)

    def _stream(self, text: Text, sentences: np.ndarray, language: int) -> Runs:
        specials = text.layout.specials(1)
        separators = len(separator(text.layout))
        starts = text.sentence_starts[sentences]
        lengths = text.sentence_starts[sentences + 1] - starts
        starts, lengths = cut(starts, lengths, self.length - specials)
        before = np.concatenate([[0], np.cumsum(lengths + separators)])
        # The last sentence's separator ends the row.
        most = self.length - specials + separators
        end = np.searchsorted(before, before[:-1] + most, side="right") - 1
        begins = np.zeros(len(starts), bool)
        begins[followed(end)] = True
        kinds = np.where(begins, FIRST, MIDDLE).astype(np.int8)
        languages = np.full(len(starts), language, np.int32)
        return Runs(np.cumsum(begins) - 1, starts, lengths, kinds=kinds, languages=languages)

    def _translated(self, text: Text, rng: np.random.Generator) -> Runs:
        number, documents = len(self.languages), text.num_documents
        first = rng.integers(number, size=documents)
        second = (first + rng.integers(1, number, size=documents)) % number
        place = np.stack([first, second], axis=1)
        sentences = np.arange(documents)[:, None] * number + place
        starts = text.sentence_starts[sentences]
        lengths = text.sentence_starts[sentences + 1] - starts
        room = self.length - 2 * text.layout.specials(1)
        kept = np.minimum(
            lengths, np.maximum(room - lengths[:, ::-1], [room - room // 2, room // 2])
        )
        return Runs(
            np.repeat(np.arange(documents), 2),
            starts.ravel(),
            kept.ravel(),
            kinds=np.tile(np.array([FIRST, SECOND], np.int8), documents),
            languages=np.array(self.languages, np.int32)[place.ravel()],
        )

    def template(self, layout: Layout) -> Template:
        alone = around(layout)
        goes_on = ([], alone[1])
        return Template(only=alone, first=alone, middle=goes_on, last=goes_on, second=alone)


README = "facebookresearch/XLM README.md"
PRESETS = (
    Preset(
        "xlm/xnli",
        (*TEXTS, *ANSWERS, *CHOICES),
        Recipe(
            batch_size=8,
            learning_rate=5e-6,
            schedule="constant",
            warmup_proportion=0.0,
            weight_decay=0.0,
            clip_norm=None,
            max_length=256,
        ),
        README,
        note="The authors train for up to 250 epochs of 20,000 rows and keep the best.",
    ),
)


def translations(length: int, batch_size: int, languages: tuple[int, ...], *, pairs: bool = True):
    # needs NumPy, which presets must not import

    return Translations(length, languages, pairs)


PRETRAINING = PretrainingPreset(
    rows="full_sentences",
    recipe=Recipe(
        batch_size=32,
        total_steps=1_000_000,
        warmup_steps=4_000,
        learning_rate=1e-4,
        weight_decay=0.0,
        betas=(0.9, 0.98),
        bias_correction=True,
        clip_norm=5.0,
    ),
    phases=((256, 1.0),),
    sizes=PRETRAINING_SIZES
    | {
        # With the authors' standard deviation, the tables would outweigh the linear layers.
        "nano": of_config(PRETRAINING_SIZES["nano"], embedding_initializer_range=0.05),
        "mini": of_config(PRETRAINING_SIZES["mini"], embedding_initializer_range=0.03),
        "large": PretrainingSize({**width(1024, 12), "num_heads": 8}),
    },
    vocabulary="word_bpe",
    lowercase=True,
    source=f"{README}; there the rate falls with the root of the steps, here linearly to 0",
    own_rows=(
        OwnRows("languages", partial(translations, pairs=False), multilingual=True),
        OwnRows("translations", translations, multilingual=True),
    ),
)

PAPER = "Cross-lingual Language Model Pretraining, arXiv:1901.07291"
IDS = "`language_ids` count the languages from 0 in this order: "
XNLI15 = "ar bg de el en es fr hi ru sw th tr ur vi zh"
LANGUAGES_17 = "ar de en es fr hi it ja ko nl pl pt ru sv tr vi zh"

# facebookresearch/XLM README.md: GLUE's test server; XNLI after fine-tuning on English only.
GLUE = {
    "GLUE (test score)": 82.8,
    "CoLA (test Matthews correlation)": 62.9,
    "SST-2 (test accuracy)": 95.6,
    "MRPC (test F1/accuracy)": "90.7/87.1",
    "STS-B (test Pearson/Spearman correlation)": "88.8/88.2",
    "QQP (test F1/accuracy)": "73.2/89.8",
    "MNLI (test accuracy, matched/mismatched)": "89.1/88.5",
    "QNLI (test accuracy)": 94.0,
    "RTE (test accuracy)": 76.0,
    "WNLI (test accuracy)": 71.9,
}
XNLI = "XNLI (test accuracy, en/es/de/ar/zh)"
XNLI_URDU = "XNLI (test accuracy, ur)"
XNLI_AVERAGE = "XNLI (test accuracy, average over 15 languages)"  # table 1 of the paper
# Table 2 of the paper: encoder and decoder initialised with these weights, no parallel texts.
TRANSLATION = "unsupervised translation (BLEU, {set} {pair})"
TRANSLATES = "The scores are those of translation models that were initialised with it."


def released(
    name: str,
    params: int,
    sizes: dict[str, Any],
    *,
    scores: dict[str, float | str],
    note: str,
    lowercase: bool = True,
) -> Checkpoint:
    """A checkpoint on Hugging Face's hub; `sizes` differ from the family's defaults."""
    return Checkpoint(
        name,
        sizes,
        sources=[HF(f"FacebookAI/{name.replace('_', '-')}")],
        provides=frozenset({"encoder", "masked_lm", "pretraining"}),
        params=params,
        licence="CC-BY-NC-4.0 (not for commercial use)",
        paper=PAPER,
        text=TextSpec(lowercase=lowercase),
        scores=scores,
        note=note,
    )


WIDE = {"hidden_size": 1024, "num_heads": 8}
PAIR = {**WIDE, "num_layers": 6, "num_languages": 2}
FIFTEEN = {**WIDE, "vocab_size": 95_000, "num_languages": 15}
MANY = {
    "vocab_size": 200_000,
    "hidden_size": 1280,
    "num_layers": 16,
    "num_heads": 16,
    "language_embeddings": False,
}
CHECKPOINTS = [
    released("xlm_mlm_en_2048", 667_088_896, {}, scores=GLUE, note="English."),
    # These two keep case, because the authors kept it for translation (get-data-nmt.sh;
    # https://github.com/facebookresearch/XLM/issues/12). transformers lower-cases their texts.
    released(
        "xlm_mlm_ende_1024",
        142_357_504,
        {**PAIR, "vocab_size": 64_699},
        lowercase=False,
        scores={TRANSLATION.format(set="newstest2016", pair="en-de/de-en"): "26.4/34.3"},
        note=f"{IDS}de en. {TRANSLATES}",
    ),
    released(
        "xlm_mlm_enfr_1024",
        141_784_064,
        {**PAIR, "vocab_size": 64_139},
        lowercase=False,
        scores={TRANSLATION.format(set="newstest2014", pair="en-fr/fr-en"): "33.4/33.3"},
        note=f"{IDS}en fr. {TRANSLATES}",
    ),
    released(
        "xlm_mlm_xnli15_1024",
        248_976_384,
        FIFTEEN,
        scores={XNLI: "83.2/76.3/74.2/68.5/71.9", XNLI_URDU: 63.4, XNLI_AVERAGE: 71.5},
        note=f"{IDS}{XNLI15}.",
    ),
    released(
        "xlm_mlm_tlm_xnli15_1024",
        248_976_384,
        FIFTEEN,
        scores={XNLI: "85.0/78.9/77.8/73.1/76.5", XNLI_URDU: 67.3, XNLI_AVERAGE: 75.1},
        note=f"Also pretrained on translations. {IDS}{XNLI15}.",
    ),
    released(
        "xlm_mlm_17_1280",
        571_496_960,
        {**MANY, "num_languages": 17},
        lowercase=False,
        scores={XNLI: "84.8/79.4/76.2/71.5/75.0"},
        note=f"Covers 17 languages: {LANGUAGES_17}. Takes no `language_ids`.",
    ),
    released(
        "xlm_mlm_100_1280",
        571_496_960,
        {**MANY, "num_languages": 100},
        lowercase=False,
        scores={XNLI: "83.7/76.6/73.6/67.4/71.7", XNLI_URDU: 62.9},
        note="Covers 100 languages. Takes no `language_ids`.",
    ),
]
