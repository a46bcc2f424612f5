"""XLM's cards, settings, and rows of one language and of translations."""

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
from bert_zoo.family import HF, Checkpoint, read_table, scores_of
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

# facebookresearch/XLM README.md: GLUE's test server; XNLI after fine-tuning on English only. The average is from table 1
# of the paper; translation from table 2: encoder and decoder initialised with these weights, no parallel texts.
COLUMNS = (
    "GLUE (test score)",
    "CoLA (test Matthews correlation)",
    "SST-2 (test accuracy)",
    "MRPC (test F1/accuracy)",
    "STS-B (test Pearson/Spearman correlation)",
    "QQP (test F1/accuracy)",
    "MNLI (test accuracy, matched/mismatched)",
    "QNLI (test accuracy)",
    "RTE (test accuracy)",
    "WNLI (test accuracy)",
    "unsupervised translation (BLEU, newstest2016 en-de/de-en)",
    "unsupervised translation (BLEU, newstest2014 en-fr/fr-en)",
    "XNLI (test accuracy, en/es/de/ar/zh)",
    "XNLI (test accuracy, ur)",
    "XNLI (test accuracy, average over 15 languages)",
)
TRANSLATES = "The scores are those of translation models that were initialised with it."
NOTES = {
    "xlm_mlm_en_2048": "English.",
    "xlm_mlm_ende_1024": f"{IDS}de en. {TRANSLATES}",
    "xlm_mlm_enfr_1024": f"{IDS}en fr. {TRANSLATES}",
    "xlm_mlm_xnli15_1024": f"{IDS}{XNLI15}.",
    "xlm_mlm_tlm_xnli15_1024": f"Also pretrained on translations. {IDS}{XNLI15}.",
    "xlm_mlm_17_1280": f"Covers 17 languages: {LANGUAGES_17}. Takes no `language_ids`.",
    "xlm_mlm_100_1280": "Covers 100 languages. Takes no `language_ids`.",
}
# The authors kept case for translation (get-data-nmt.sh; https://github.com/facebookresearch/XLM/issues/12), where
# transformers lower-cases texts.
RELEASED = read_table("""
    name                     case     hidden_size  num_layers  num_heads  vocab_size  num_languages  params       scores
    xlm_mlm_en_2048          uncased  -            -           -          -           -              667_088_896  82.8 62.9 95.6 90.7/87.1 88.8/88.2 73.2/89.8 89.1/88.5 94.0 76.0 71.9
    xlm_mlm_ende_1024        cased    1024         6           8          64_699      2              142_357_504  - - - - - - - - - - 26.4/34.3
    xlm_mlm_enfr_1024        cased    1024         6           8          64_139      2              141_784_064  - - - - - - - - - - - 33.4/33.3
    xlm_mlm_xnli15_1024      uncased  1024         -           8          95_000      15             248_976_384  - - - - - - - - - - - - 83.2/76.3/74.2/68.5/71.9 63.4 71.5
    xlm_mlm_tlm_xnli15_1024  uncased  1024         -           8          95_000      15             248_976_384  - - - - - - - - - - - - 85.0/78.9/77.8/73.1/76.5 67.3 75.1
    xlm_mlm_17_1280          cased    1280         16          16         200_000     17             571_496_960  - - - - - - - - - - - - 84.8/79.4/76.2/71.5/75.0
    xlm_mlm_100_1280         cased    1280         16          16         200_000     100            571_496_960  - - - - - - - - - - - - 83.7/76.6/73.6/67.4/71.7 62.9
""")


def released(name: str, case: str, params: int, scores: str, **config: Any) -> Checkpoint:
    """A checkpoint on Hugging Face's hub; `config` differs from the family's defaults."""
    if name.endswith("_1280"):
        config["language_embeddings"] = False
    return Checkpoint(
        name,
        config,
        sources=[HF(f"FacebookAI/{name.replace('_', '-')}")],
        provides=frozenset({"encoder", "masked_lm", "pretraining"}),
        params=params,
        licence="CC-BY-NC-4.0 (not for commercial use)",
        paper=PAPER,
        text=TextSpec(lowercase=case == "uncased"),
        scores=scores_of(COLUMNS, scores),
        note=NOTES[name],
    )


CHECKPOINTS = [released(**row) for row in RELEASED]
