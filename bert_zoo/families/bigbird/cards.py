"""BigBird's cards, and settings for fine-tuning and pretraining."""

from dataclasses import replace

from bert_zoo.families import roberta
from bert_zoo.families.bert.cards import (
    ANSWERS,
    BASE,
    CHOICES,
    LARGE,
    PRETRAINING_SIZES,
    SENTENCES,
    WORDS,
    of_config,
    of_glue,
)
from bert_zoo.family import HF, Checkpoint, Files, TextSpec
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

# For both: the program uses BERT's Adam and does not clip gradients.
RECIPE = Recipe(clip_norm=None, max_length=4096)
APPENDIX = "Zaheer et al. 2020 (arXiv:2007.14062), appendix E"
# Data set -> rows per update, learning rate, epochs.
DOCUMENTS = {
    "arxiv": (64, 3e-5, 10),
    "patents": (64, 5e-5, 3),
    "hyperpartisan": (32, 5e-6, 15),
    "yelp": (32, 2e-5, 2),
}
OF_LARGE = "Batch size of the base model; learning rate and epochs of the large model."
QUESTIONS = RECIPE.replace(batch_size=32, learning_rate=3e-5, epochs=5)
PRESETS = (
    Preset(
        "bigbird/classification",
        (*SENTENCES, *WORDS),
        RECIPE.replace(batch_size=64, learning_rate=1e-5, total_steps=16_000, warmup_steps=1_000),
        "google-research/bigbird bigbird/classifier/base_size.sh, run_classifier.py",
        note="The authors used 32 cores with two rows each.",
    ),
    *(
        Preset(
            f"bigbird/{name}",
            SENTENCES,
            RECIPE.replace(batch_size=rows, learning_rate=rate, epochs=epochs),
            f"{APPENDIX}.4, table 14",
            benchmark=name,
        )
        for name, (rows, rate, epochs) in DOCUMENTS.items()
    ),
    *of_glue("bigbird", roberta.RECIPE, roberta.GLUE, f"{APPENDIX}.4: RoBERTa's settings"),
    Preset(
        "bigbird/triviaqa",
        ANSWERS,
        QUESTIONS,
        f"{APPENDIX}.2, tables 12 and 13",
        grid={"learning_rate": (3e-5, 5e-5), "epochs": (3, 5)},
        note=f"{OF_LARGE} The authors trained on every occurrence of an answer, this program on the first.",
    ),
    Preset(
        "bigbird/hotpotqa",
        ANSWERS,
        QUESTIONS,
        f"{APPENDIX}.2, tables 12 and 13",
        benchmark="hotpotqa",
        grid={"epochs": (5, 9)},
        note=f"{OF_LARGE} The authors also trained on evidence and question types.",
    ),
    Preset(
        "bigbird/natural_questions",
        ANSWERS,
        QUESTIONS.replace(batch_size=128, learning_rate=5e-5, epochs=3, stride=2048),
        f"{APPENDIX}.2, tables 12 and 13",
        benchmark="natural_questions",
        grid={"learning_rate": (5e-5, 1e-4), "epochs": (3, 5)},
        note=f"{OF_LARGE} The authors also trained on long answers.",
    ),
    Preset(
        "bigbird/wikihop",
        CHOICES,
        QUESTIONS.replace(batch_size=64, learning_rate=2e-5),
        f"{APPENDIX}.2, tables 12 and 13",
        grid={"learning_rate": (2e-5, 5e-5), "epochs": (5, 10)},
        note=f"{OF_LARGE} The authors put all candidates of a question in one row, this program one in each row.",
    ),
)
# For a vocabulary made from the text; Google's has another id for the separator.
MADE = {"sep_id": 3}
# Small blocks, so that even the rows of a nano model have more blocks than a token attends to.
SMALL_BLOCKS = {"max_positions": 512, "block_size": 16, "num_random_blocks": 1}


def of_made_vocabulary(name: str, size: PretrainingSize) -> PretrainingSize:
    """One of BERT's sizes with rows of 4,096 tokens, or of 512 for nano and mini."""
    if name in ("nano", "mini"):
        size = replace(of_config(size, **SMALL_BLOCKS), phases=((64, 0.7), (512, 0.3)))
    return of_config(size, **MADE)


PRETRAINING = PretrainingPreset(
    rows="doc_sentences",
    recipe=RECIPE.replace(
        batch_size=32, learning_rate=1e-4, total_steps=100_000, warmup_steps=10_000
    ),
    phases=((4096, 1.0),),
    sizes={name: of_made_vocabulary(name, size) for name, size in PRETRAINING_SIZES.items()},
    vocabulary="sentencepiece",
    lowercase=False,
    source="google-research/bigbird bigbird/pretrain/run_pretraining.py, bigbird/core/flags.py",
)

PAPER = "Big Bird: Transformers for Longer Sequences, arXiv:2007.14062"
GOOGLE = "https://storage.googleapis.com/bigbird-transformer/pretrain/bigbr_"
TEXT = TextSpec(lowercase=None, max_length=4096)
NOTE = (
    "Uses the random blocks of Google's code. In evaluation mode, transformers uses block 0 for all of them; "
    'load(..., random_blocks="hf_evaluation") does the same.'
)
# Zaheer et al. 2020, tables 2, 4 and 5.
SCORES = {
    "masked tokens (bits per character)": 1.678,
    "HotpotQA (dev joint F1)": 67.7,
    "TriviaQA (dev F1)": 79.5,
    "WikiHop (dev accuracy)": 75.9,
}


def google(size: str, config: dict, params: int, **card) -> Checkpoint:
    """A pretrained checkpoint. Google's files include no configuration and no vocabulary."""
    names = [f"model.ckpt-0.{part}" for part in ("index", "data-00000-of-00001")]
    return Checkpoint(
        f"bigbird_{size}",
        config,
        sources=[HF(f"google/bigbird-roberta-{size}"), Files(f"{GOOGLE}{size}", names)],
        provides=frozenset({"encoder", "masked_lm", "pretraining"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TEXT,
        note=NOTE,
        **card,
    )


CHECKPOINTS = [
    google("base", BASE, 127_468_800, scores=SCORES),
    google("large", LARGE, 359_123_968),
    Checkpoint(
        "bigbird_base_trivia_itc",
        {**BASE, "num_segments": 16, "pooler": False},
        sources=[HF("google/bigbird-base-trivia-itc")],
        provides=frozenset({"encoder", "question_answering"}),
        params=126_888_960,
        licence="Apache-2.0",
        paper=PAPER,
        text=TEXT,
        scores={"TriviaQA (dev F1)": SCORES["TriviaQA (dev F1)"]},
        note=f"Fine-tuned on TriviaQA. {NOTE}",
    ),
]
