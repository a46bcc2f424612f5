"""Multilingual MiniLM (Wang et al. 2020, arXiv:2002.10957): BERT's layers with XLM-RoBERTa's tokenizer."""

from dataclasses import replace

from bert_zoo.families import xlm_roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import EMBEDDING, SMALL, multilingual_e5
from bert_zoo.family import HF, Checkpoint, Pooling, TextSpec

PARAMS = 117_653_760

FAMILY = replace(
    bert.FAMILY,
    name="multilingual_minilm",
    # There are 250,002 pieces and special tokens; the rows after them are unused.
    defaults=SMALL | {"vocab_size": 250037},
    formats={
        "hf": replace(
            bert.HF,
            tokenizer_class=xlm_roberta.SCHEME.tokenizer_class,
            classes=bert.hf_classes("Bert"),
        )
    },
    heads={"masked_lm": bert.HEADS["masked_lm"], **bert.TASK_HEADS},
    text=xlm_roberta.FAMILY.text,
    objectives=("masked_lm",),
    pretraining_preset=None,
    checkpoints=[
        Checkpoint(
            "multilingual_minilm",
            {},
            sources=[HF("microsoft/Multilingual-MiniLM-L12-H384")],
            provides=frozenset({"encoder"}),
            params=PARAMS,
            licence="MIT",
            paper=(
                "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained "
                "Transformers, arXiv:2002.10957"
            ),
            text=TextSpec(lowercase=None),
            aliases=["mminilm", "multilingual_minilm_l12_h384"],
            scores={"XNLI (test accuracy, average over 15 languages)": 71.1},
            note=(
                "Covers 100 languages. Distilled from xlm_roberta_base; fine-tune it before use. The pooler in its "
                "files was not trained."
            ),
        ),
        Checkpoint(
            "paraphrase_multilingual_minilm",
            {},
            sources=[
                HF(
                    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
                    "bf3bf13ab40c3157080a7ab344c831b9ad18b5eb",
                )
            ],
            provides=EMBEDDING,
            params=PARAMS,
            licence="Apache-2.0",
            paper=(
                "Making Monolingual Sentence Embeddings Multilingual using Knowledge Distillation, "
                "arXiv:2004.09813"
            ),
            text=TextSpec(lowercase=None, max_length=128),
            pooling=Pooling("mean", normalize=False),
            aliases=["paraphrase-multilingual-MiniLM-L12-v2"],
            note="A sentence encoder for 50 languages: mean-pooled, not normalised.",
        ),
        multilingual_e5("small", "fd1525a9fd15316a2d503bf26ab031a61d056e98", {}, PARAMS),
    ],
)
