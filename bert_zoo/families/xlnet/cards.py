"""XLNet's cards, settings, and rows, which continue from batch to batch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bert_zoo.data.rows import RowScheme, Runs, Template, Text, TooFewRows
from bert_zoo.families.bert.cards import (
    ANSWERS,
    CHOICES,
    PRETRAINING_SIZES,
    SENTENCES,
    TEXTS,
    is_large,
)
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec, read_table, scores_of
from bert_zoo.presets import OwnRows, Preset, PretrainingPreset, PretrainingSize, Recipe
from bert_zoo.text.numpy_packing import Layout


@dataclass(frozen=True)
class StreamedPairs(RowScheme):
    """XLNet's rows, which continue those of the batch before, for a model with a memory. The concatenated documents are
    cut into equal streams, one for each row of a batch. With `both_directions` there are half as many, and each is
    also read from its end to its beginning (`reads_backwards`). The first half of a row comes from its stream, and
    the next batch continues after it. Two texts follow: whole sentences that come next in the stream, then the
    sentences after them or, in half of the rows, sentences from anywhere in the stream. If both are too long, the
    longer text is cut at its end. Source: Yang et al. 2019 (arXiv:1906.08237), sections 2.4 to 3.1; zihangdai/xlnet
    data_utils.py, create_tfrecords and _split_a_and_b.
    """

    length: int = 512  # tokens in a row, including special ones
    batch_size: int = 32  # rows
    both_directions: bool = True
    in_order: ClassVar[bool] = True

    def __post_init__(self):
        if self.both_directions and self.batch_size % 2:
            raise ValueError(
                f"batch_size is {self.batch_size}, and half of the rows are read backwards: make it even."
            )

    @property
    def reused(self) -> int:
        """First tokens of a row that the memory keeps; the next batch continues after them."""
        return self.length // 2

    def plan(self, text: Text, rng: np.random.Generator) -> Iterator[Runs]:
        tokens, ways = int(text.sentence_starts[-1]), 1 + self.both_directions
        streams = self.batch_size // ways
        size, room = tokens // streams, self.length - self.reused - text.layout.specials(2)
        if size < self.length or room < 2:
            raise TooFewRows(
                f"The text has {tokens:,} tokens, and {streams} streams with rows of {self.length} tokens "
                "need at least that many each, and rows need room for two texts. Lower batch_size or use more text."
            )
        begins = np.arange((size - self.length) // self.reused + 1) * self.reused
        starts = np.empty((len(begins), self.batch_size, 3), np.int64)
        lengths = np.empty_like(starts)
        for stream in range(self.batch_size):
            is_backwards, first = stream >= streams, stream % streams * size
            inside = np.searchsorted(text.sentence_starts, [first, first + size], side="right")
            bounds = text.sentence_starts[inside[0] : inside[1]] - first
            bounds = bounds[bounds < size]
            bounds = size - bounds[::-1] if is_backwards else bounds
            pairs = self._pairs(begins + self.reused, bounds, size, room, rng)
            at = np.stack([begins, begins + self.reused, pairs[1]], axis=1)
            lengths[:, stream] = np.stack([np.full_like(begins, self.reused), *pairs[::2]], axis=1)
            starts[:, stream] = first + at
            if is_backwards:
                starts[:, stream] = first + size - at - lengths[:, stream]
        rows = np.arange(len(begins) * self.batch_size).repeat(3)
        backwards = np.arange(self.batch_size).repeat(3) >= streams
        yield Runs(rows, starts.ravel(), lengths.ravel(), backwards=np.tile(backwards, len(begins)))

    @staticmethod
    def _pairs(begins, bounds, size: int, room: int, rng) -> tuple[np.ndarray, ...]:
        """Lengths of first texts, which start at begins int64 [rows] in the stream of `size` tokens; starts of second
        ones, and their lengths; `room` tokens for both. bounds int64 [n] are starts of sentences, except the first.
        """
        draws = rng.random((3, len(begins)))
        ends = np.append(bounds, size)
        low = np.searchsorted(bounds, begins, side="right")
        high = np.searchsorted(bounds, begins + room, side="left")
        # The first text ends at a random sentence end that leaves room for the second, if there is one.
        chosen = low + (draws[0] * (high - low)).astype(np.int64)
        is_alone = high <= low
        first_end = np.where(is_alone, ends[high], ends[chosen])
        # A second text from anywhere: whole sentences around as many tokens as there is room for.
        wanted = np.maximum(1, room - (first_end - begins))
        inside = (draws[1] * (size - wanted)).astype(np.int64)
        start = np.append(0, bounds)[np.searchsorted(bounds, inside, side="right")]
        end = ends[np.searchsorted(bounds, inside + wanted, side="left")]
        end = np.maximum(np.minimum(end, size - 1), inside + wanted)
        is_random = is_alone | (draws[2] < 0.5)
        start, end = np.where(is_random, start, first_end), np.where(is_random, end, ends[high])
        first, second = first_end - begins, end - start
        kept = np.minimum(first, np.maximum(room - second, -(-room // 2)))
        return kept, start, np.minimum(second, room - kept)

    def template(self, layout: Layout) -> Template:
        parts = layout.parts(2)
        a, b = (number for number, part in enumerate(parts) if part.is_text)
        return Template(
            first=(parts[:a], []),
            middle=([], parts[a + 1 : b]),
            last=([], parts[b + 1 :]),
            segments=(parts[a].segment, parts[b].segment),
        )


README, SCRIPTS = "zihangdai/xlnet README.md", "zihangdai/xlnet scripts/"
SPANS = (*ANSWERS, "beam_question_answering")
# TensorFlow's Adam. The rate falls from the end of warmup.
RECIPE = Recipe(
    learning_rate=2e-5,
    schedule="linear_after_warmup",
    weight_decay=0.0,
    bias_correction=True,
)
LONG = RECIPE.replace(max_length=512, warmup_steps=1000)
NO_LAYER_DECAY = (
    "All layers have one rate: the authors scaled gradients by layer, which Adam cancels."
)

PRESETS = (
    Preset(
        "xlnet/glue",
        TEXTS,
        RECIPE,
        README,
        note="The defaults of the authors' program, with BERT's number of epochs.",
    ),
    Preset(
        "xlnet/stsb",
        SENTENCES,
        RECIPE.replace(learning_rate=5e-5, total_steps=1200, warmup_steps=120, epsilon=1e-8),
        README,
        benchmark="stsb",
    ),
    Preset(
        "xlnet/squad",
        SPANS,
        LONG.replace(epochs=4, batch_size=24, total_steps=12_000),
        SCRIPTS + "gpu_squad_base.sh",
        fits=lambda config: not is_large(config),
        note=NO_LAYER_DECAY,
    ),
    Preset(
        "xlnet/squad_large",
        SPANS,
        LONG.replace(epochs=4, batch_size=48, total_steps=8_000, learning_rate=3e-5),
        SCRIPTS + "tpu_squad_large.sh",
        fits=is_large,
        note=NO_LAYER_DECAY,
    ),
    Preset(
        "xlnet/race",
        CHOICES,
        LONG.replace(epochs=5, total_steps=12_000),
        SCRIPTS + "tpu_race_large_bsz32.sh",
    ),
)


def streamed(size: PretrainingSize) -> PretrainingSize:
    """A size without a position table. Rows continue from batch to batch, so all have one length."""
    config = {name: value for name, value in size.config.items() if name != "max_positions"}
    return replace(size, config=config, phases=((64, 1.0),))


def streamed_pairs(length: int, batch_size: int, languages: tuple[int, ...]):
    # needs NumPy, which presets must not import

    return StreamedPairs(length, batch_size)


PRETRAINING = PretrainingPreset(
    rows="streamed_pairs",
    recipe=Recipe(
        batch_size=8192,
        total_steps=500_000,
        warmup_steps=40_000,
        learning_rate=4e-4,
        schedule="linear_after_warmup",
    ),
    phases=((512, 1.0),),
    sizes=PRETRAINING_SIZES
    | {name: streamed(PRETRAINING_SIZES[name]) for name in ("nano", "mini")},
    vocabulary="sentencepiece_cased",
    lowercase=False,
    source="Yang et al. 2019, appendix A.4; zihangdai/xlnet README.md, train.py",
    own_rows=(OwnRows("streamed_pairs", streamed_pairs),),
)

PAPER = "XLNet: Generalized Autoregressive Pretraining for Language Understanding, arXiv:1906.08237"
GOOGLE = "https://storage.googleapis.com/xlnet/released_models/cased_"
NOTE = (
    "Pads on the left. Uses the exact GELU, as in Hugging Face's port. Google trained with the tanh "
    'approximation; load(..., activation="gelu_tanh") uses it.'
)
# zihangdai/xlnet README.md: single-task results.
COLUMNS = (
    "MNLI (dev accuracy)",
    "QNLI (dev accuracy)",
    "QQP (dev accuracy)",
    "RTE (dev accuracy)",
    "SST-2 (dev accuracy)",
    "MRPC (dev accuracy)",
    "CoLA (dev Matthews correlation)",
    "STS-B (dev Pearson correlation)",
    "SQuAD 1.1 (dev exact match)",
    "SQuAD 2.0 (dev exact match)",
    "RACE (test accuracy)",
)


def released(size: str, archive: str, params: int, scores: str, **config: int) -> Checkpoint:
    return Checkpoint(
        f"xlnet_{size}",
        config,
        sources=[HF(f"xlnet/xlnet-{size}-cased"), Archive(f"{GOOGLE}{archive}.zip")],
        provides=frozenset({"encoder", "masked_lm"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=False),
        scores=scores_of(COLUMNS, scores),
        note=NOTE,
    )


CHECKPOINTS = [
    released(**row)
    for row in read_table("""
        size   archive           hidden_size  num_layers  num_heads  intermediate_size  params       scores
        base   L-12_H-768_A-12   -            -           -          -                  116_718_336  86.8 91.7 91.4 74.0 94.7 88.2 60.2 89.5 - 80.18
        large  L-24_H-1024_A-16  1024         24          16         4096               360_268_800  89.8 93.9 91.8 83.8 95.6 89.2 63.6 91.8 88.95 86.12 81.75
    """)
]
