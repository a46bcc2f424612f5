"""XLM-RoBERTa (Conneau et al. 2020, arXiv:1911.02116): RoBERTa in a hundred languages."""

from dataclasses import replace

from bert_zoo.families import roberta
from bert_zoo.families.roberta_checkpoints import BASE, LARGE, fairseq

PAPER = "Unsupervised Cross-lingual Representation Learning at Scale, arXiv:1911.02116"
HF_CODEC = replace(
    roberta.HF_CODEC,
    fixed={**roberta.HF_CODEC.fixed, "model_type": ("xlm-roberta",)},
    written={**roberta.HF_CODEC.written, "model_type": "xlm-roberta"},
)
FAIRSEQ_CODEC = replace(
    roberta.FAIRSEQ_CODEC,
    fixed={**roberta.FAIRSEQ_CODEC.fixed, "task": ("multilingual_masked_lm",)},
)

FAMILY = replace(
    roberta.FAMILY,
    name="xlm_roberta",
    defaults=roberta.FAMILY.defaults | {"vocab_size": 250002},
    codecs={"hf": HF_CODEC, "fairseq": FAIRSEQ_CODEC},
    heads=roberta.heads("XLMRoberta"),
    hf_encoder_class="XLMRobertaModel",
    tokenizer="xlm_roberta",
    checkpoints=[
        fairseq(
            "xlm_roberta_base",
            "xlm-roberta-base",
            "xlmr.base",
            BASE,
            277_453_056,
            paper=PAPER,
            scores={"XNLI (test accuracy, average over 15 languages)": 76.2},
            note="100 languages.",
        ),
        fairseq(
            "xlm_roberta_large",
            "xlm-roberta-large",
            "xlmr.large",
            LARGE,
            558_840_832,
            paper=PAPER,
            scores={"XNLI (test accuracy, average over 15 languages)": 80.9},
            note="100 languages.",
        ),
    ],
)
