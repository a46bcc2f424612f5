"""GPT's and GPT-2's cards, and published settings for fine-tuning."""

from bert_zoo.families.bert.cards import SENTENCES
from bert_zoo.family import HF, Checkpoint, Files, TextSpec, read_table, scores_of
from bert_zoo.presets import Preset, Recipe

RECIPE = Recipe(
    epochs=3,
    batch_size=32,
    learning_rate=6.25e-5,
    schedule="linear_after_warmup",
    warmup_proportion=0.002,
    weight_decay=0.01,
    epsilon=1e-8,
    max_length=512,
)
PRESETS = (
    Preset(
        "gpt/glue",
        SENTENCES,
        RECIPE,
        "Radford et al. 2018, section 4.1; openai/finetune-transformer-lm",
    ),
)

PROVIDES = frozenset({"encoder", "causal_lm"})
GPT2_PAPER = (
    "Language Models are Unsupervised Multitask Learners, "
    "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf"
)
# OpenAI's own files: weights and vocabulary.
GPT2_FILES = (
    *("encoder.json", "hparams.json", "model.ckpt.data-00000-of-00001", "model.ckpt.index"),
    "vocab.bpe",
)
OPENAI = "https://openaipublic.blob.core.windows.net/gpt-2/models"

# Zero-shot scores, table 3 of the paper.
COLUMNS = (
    "LAMBADA (perplexity)",
    "LAMBADA (accuracy)",
    "CBT common nouns (accuracy)",
    "CBT named entities (accuracy)",
    "WikiText-2 (perplexity)",
    "Penn Treebank (perplexity)",
    "enwik8 (bits per byte)",
    "text8 (bits per character)",
    "WikiText-103 (perplexity)",
    "One Billion Words (perplexity)",
)


def gpt2(name: str, repo: str, folder: str, params: int, scores: str, **config: int) -> Checkpoint:
    """A checkpoint of openai/gpt-2. All have the same licence and tokenizer."""
    return Checkpoint(
        name,
        config,
        sources=[HF(f"openai-community/{repo}"), Files(f"{OPENAI}/{folder}", GPT2_FILES)],
        provides=PROVIDES,
        params=params,
        licence="MIT",
        paper=GPT2_PAPER,
        text=TextSpec(lowercase=None, max_length=1024),
        scores=scores_of(COLUMNS, scores),
    )


GPT2_TABLE = read_table("""
    name         repo         folder  hidden_size  intermediate_size  num_layers  num_heads  params         scores
    gpt2         gpt2         124M    -            -                  -           -          124_439_808    35.13 45.99 87.65 83.4 29.41 65.85 1.16 1.17 37.50 75.20
    gpt2_medium  gpt2-medium  355M    1024         4096               24          16         354_823_168    15.60 55.48 92.35 87.1 22.76 47.33 1.01 1.06 26.37 55.72
    gpt2_large   gpt2-large   774M    1280         5120               36          20         774_030_080    10.87 60.12 93.45 88.0 19.93 40.31 0.97 1.02 22.05 44.575
    gpt2_xl      gpt2-xl      1558M   1600         6400               48          25         1_557_611_200  8.63 63.24 93.30 89.05 18.34 35.76 0.93 0.98 17.48 42.16
""")
GPT = [
    Checkpoint(
        "gpt",
        {},
        sources=[HF("openai-community/openai-gpt")],
        provides=PROVIDES,
        params=116_534_784,
        licence="MIT",
        paper="Improving Language Understanding by Generative Pre-Training, https://cdn.openai.com/"
        "research-covers/language-unsupervised/language_understanding_paper.pdf",
        text=TextSpec(lowercase=True, max_length=512),
        aliases=("openai_gpt",),
        scores={
            "MNLI (test matched accuracy)": 82.1,
            "MNLI (test mismatched accuracy)": 81.4,
            "SNLI (test accuracy)": 89.9,
            "SciTail (test accuracy)": 88.3,
            "QNLI (test accuracy)": 88.1,
            "RTE (test accuracy)": 56.0,
            "Story Cloze (test accuracy)": 86.5,
            "RACE (test accuracy)": 59.0,
            "CoLA (test Matthews correlation)": 45.4,
            "SST-2 (test accuracy)": 91.3,
            "MRPC (test F1)": 82.3,
            "STS-B (test Pearson correlation)": 82.0,
            "QQP (test F1)": 70.3,
            "GLUE (test score)": 72.8,
        },
        note="Texts are split into words as in transformers; OpenAI's code used ftfy and spaCy.",
    )
]
GPT2 = [
    *(gpt2(**row) for row in GPT2_TABLE),
    Checkpoint(
        "distilgpt2",
        {"num_layers": 6},
        sources=[HF("distilbert/distilgpt2")],
        provides=PROVIDES,
        params=81_912_576,
        licence="Apache-2.0",
        paper="DistilBERT, a distilled version of BERT, arXiv:1910.01108",
        text=TextSpec(lowercase=None, max_length=1024),
        scores={"WikiText-103 (test perplexity, fine-tuned)": 21.1},
        note="Distilled from gpt2, with half as many layers.",
    ),
]
