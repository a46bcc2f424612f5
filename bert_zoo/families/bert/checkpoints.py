"""Cards of the released BERT checkpoints.

The activation is the exact GELU (erf) of Hugging Face's port, because its files are the first source.
Google trained with the tanh approximation; `load(name, activation="gelu_tanh")` uses it.
"""

from bert_zoo.families.bert.derived_checkpoints import (
    BASE,
    CASED,
    CASED_VOCAB,
    DERIVED,
    LARGE,
    SMALL,
    UNCASED_VOCAB,
    WITH_HEADS,
)
from bert_zoo.families.bert.presets import PRETRAINING
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec

GOOGLE = "https://storage.googleapis.com/bert_models/"
BERT_PAPER = "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, arXiv:1810.04805"

# For where commits and hashes come from, see checkpoints/README.md.
COMMITS = {
    "bert-base-uncased": "86b5e0934494bd15c9632b12f734a8a67f723594",
    "bert-base-cased": "cd5ef92a9fb2f889e972770a36d4ed042daf221e",
    "bert-large-uncased": "6da4b6a26a1877e173fca3225479512db81a5e5b",
    "bert-base-multilingual-cased": "3f076fdb1ab68d5b2880cb87a0886f315b8146f8",
    "bert-base-multilingual-uncased": "7cbf9a625e29989f6b9c6c2fa68234c304f7e38f",
    "bert-base-chinese": "8f23c25b06e129b6c986331a13d8d025a92cf0ea",
    "bert_uncased_L-2_H-128_A-2": "30b0a37ccaaa32f332884b96992754e246e48c5f",
    "bert_uncased_L-4_H-256_A-4": "387825ce42dbb39b87911cdf8e383ee3b25184f8",
}
SAFETENSORS_HASHES = {
    "bert-base-uncased": "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
}
ARCHIVE_FILES = (
    *("bert_config.json", "vocab.txt"),
    *("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"),
)
ARCHIVE_HASHES = {  # of ARCHIVE_FILES
    "2018_10_18/uncased_L-12_H-768_A-12": (
        "7b4e5f53efbd058c67cda0aacfafb340113ea1b5797d9ce6ee411704ba21fcbc",
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        "04c1323086e2f1c5b7c0759d8d3e484afbb0ab45f51793daab9f647113a0117b",
        "58580dc5e0bf0ae0d2efd51d0e8272b2f808857f0a43a88aaf7549da6d7a8a84",
    ),
    "2018_10_18/uncased_L-24_H-1024_A-16": (
        "bfa42236d269e2aeb3a6d30412a33d15dbe8ea597e2b01dc9518c63cc6efafcb",
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        "68b52f2205ffc64dc627d1120cf399c1ef1cbc35ea5021d1afc889ffe2ce2093",
        "bc6b3363e3be458c99ecf64b7f472d2b7c67534fd8f564c0556a678f90f4eea1",
    ),
    "2018_10_18/cased_L-12_H-768_A-12": (
        "f11dfb757bea16339a33e1bf327b0aade6e57fd9c29dc6b84f7ddb20682f48bc",
        "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02",
        "517d6ef5c41fc2ca1f595276d6fccf5521810d57f5a74e32616151557790f7b1",
        "734d5a1b68bf98d4e9cb6b6692725d00842a1937af73902e51776905d8f760ea",
    ),
    "2018_10_18/cased_L-24_H-1024_A-16": (
        "7adb2125c8225da495656c982fd1c5f64ba8f20ad020838571a3f8a954c2df57",
        "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02",
        "ef42a53f577fbe07381f4161b13c7cab4f4fc3b167cec6a9ae382c53d18049cf",
        "6ff33640f40d472f7a16af0c17b1179ca9dcc0373155fb05335b6a4dd1657ef0",
    ),
    "2018_11_23/multi_cased_L-12_H-768_A-12": (
        "e76c3964bc14a8bb37a5530cdc802699d2f4a6fddfab0611e153aa2528f234f0",
        "fe0fda7c425b48c516fc8f160d594c8022a0808447475c1a7c6d6479763f310c",
        "7d8509c2a62b4e300feb55f8e5f1eef41638f4998dd4d887736f42d4f6a34b37",
        "55b8a2df41f69c60c5180e50a7c31b7cdf6238909390c4ddf05fbc0d37aa1ac5",
    ),
    "2018_11_03/multilingual_L-12_H-768_A-12": (
        "49063bb061390211d2fdd108cada1ed86faa5f90b80c8f6fdddf406afa4c4624",
        "87b44292b452f6c05afa49b2e488e7eedf79ea4f4c39db6f2f4b37764228ef3f",
        "87c372c1a3b1dc7effaaa9103c80a81b3cbab04c7933ced224eec3b8ad2cc8e7",
        "3cd83912ebeb0efe2abf35c9f1d5a515d8e80295e61c49b75c8853f756658429",
    ),
    "2018_11_03/chinese_L-12_H-768_A-12": (
        "7aaad0335058e2640bcb2c2e9a932b1cd9da200c46ea7b8957d54431f201c015",
        "45bbac6b341c319adc98a532532882e91a9cefc0329aa57bac9ae761c27b291c",
        "46315546e05ce62327b3e2cd1bed22836adcb2ff29735ec87721396edb21b82e",
        "756699356b78ad0ef1ca9ba6528297bcb3dd1aef5feadd31f4775d7c7fc989ba",
    ),
}


def hub(owner: str, name: str) -> HF:
    return HF(f"{owner}/{name}", COMMITS.get(name, "main"), SAFETENSORS_HASHES.get(name))


def archive(variant: str, config: dict) -> Archive:
    """Google's archive of a variant; its name has the release date and the sizes."""
    sizes = "_L-{num_layers}_H-{hidden_size}_A-{num_heads}".format(**config)
    hashes = ARCHIVE_HASHES.get(variant + sizes, (None,) * len(ARCHIVE_FILES))
    files = dict(zip(ARCHIVE_FILES, hashes, strict=True))
    return Archive(f"{GOOGLE}{variant}{sizes}.zip", files=files)


def google(name: str, variant: str, config: dict, params: int, **card) -> Checkpoint:
    """A checkpoint of google-research/bert: same licence, heads and paper for all."""
    repo = name.replace("_", "-").replace("wwm", "whole-word-masking")
    return Checkpoint(
        name,
        config,
        sources=[hub("google-bert", repo), archive(variant, config)],
        provides=WITH_HEADS,
        params=params,
        licence="Apache-2.0",
        **{"paper": BERT_PAPER, **card},
    )


# Tables 1 to 4 of the paper.
COLUMNS = (
    "GLUE (test average without WNLI)",
    "MNLI (test accuracy, matched/mismatched)",
    "SST-2 (test accuracy)",
    "CoLA (test Matthews correlation)",
    "RTE (test accuracy)",
    "SQuAD 1.1 (dev F1/EM)",
    "SQuAD 2.0 (dev F1/EM)",
)
BASE_SCORES = (79.6, "84.6/83.4", 93.5, 52.1, 66.4, "88.5/80.8")
LARGE_SCORES = (82.1, "86.7/85.9", 94.9, 60.5, 70.1, "90.9/84.1", "81.9/78.7")

# Other scores: google-research/bert README.md and multilingual.md.
GOOGLE_CHECKPOINTS = [
    google(
        "bert_base_uncased",
        "2018_10_18/uncased",
        BASE | UNCASED_VOCAB,
        109_482_240,
        aliases=["bert_base"],
        scores=dict(zip(COLUMNS, BASE_SCORES, strict=False)),
    ),
    google("bert_base_cased", "2018_10_18/cased", BASE | CASED_VOCAB, 108_310_272, text=CASED),
    google(
        "bert_large_uncased",
        "2018_10_18/uncased",
        LARGE | UNCASED_VOCAB,
        335_141_888,
        aliases=["bert_large"],
        scores=dict(zip(COLUMNS, LARGE_SCORES, strict=True)),
    ),
    google(
        "bert_large_cased",
        "2018_10_18/cased",
        LARGE | CASED_VOCAB,
        333_579_264,
        text=CASED,
        scores={"SQuAD 1.1 (dev F1/EM)": "91.5/84.8", "MNLI (dev accuracy)": 86.09},
    ),
    google(
        "bert_large_uncased_wwm",
        "2019_05_30/wwm_uncased",
        LARGE | UNCASED_VOCAB,
        335_141_888,
        scores={"SQuAD 1.1 (dev F1/EM)": "92.8/86.7", "MNLI (dev accuracy)": 87.07},
    ),
    google(
        "bert_large_cased_wwm",
        "2019_05_30/wwm_cased",
        LARGE | CASED_VOCAB,
        333_579_264,
        text=CASED,
        scores={"SQuAD 1.1 (dev F1/EM)": "92.9/86.7", "MNLI (dev accuracy)": 86.46},
    ),
    google(
        "bert_base_multilingual_cased",
        "2018_11_23/multi_cased",
        BASE | {"vocab_size": 119547},
        177_853_440,
        text=CASED,
        scores={"XNLI (translate-train accuracy, en/zh/es/de)": "81.9/76.6/77.8/75.9"},
        note="Covers 104 languages.",
    ),
    google(
        "bert_base_multilingual_uncased",
        "2018_11_03/multilingual",
        BASE | {"vocab_size": 105879},
        167_356_416,
        scores={"XNLI (zero-shot accuracy, en/zh/es/de)": "81.4/63.8/74.3/70.5"},
        note="Covers 102 languages. Google recommends bert_base_multilingual_cased instead.",
    ),
    google(
        "bert_base_chinese",
        "2018_11_03/chinese",
        BASE | {"vocab_size": 21128},
        102_267_648,
        text=CASED,
        scores={"XNLI (Chinese accuracy)": 77.2},
        note=(
            "Latin letters keep their case and accents, as in Hugging Face's files. Google's code "
            "lower-cased them; to do so, set model.preprocessor = bert_zoo.text.preprocessor_from_dir("
            'directory, sequence_length=512, tokenizer_options={"lowercase": True}).'
        ),
    ),
]

# google-research/bert README.md, "new March 11th, 2020". Its averages include WNLI.
MINIATURE_PARAMS = {
    2: (4_385_920, 9_591_040, 22_458_880, 38_603_520),
    4: (4_782_464, 11_170_560, 28_763_648, 52_779_264),
    6: (5_179_008, 12_750_080, 35_068_416, 66_955_008),
    8: (5_575_552, 14_329_600, 41_373_184, 81_130_752),
    10: (5_972_096, 15_909_120, 47_677_952, 95_306_496),
    12: (6_368_640, 17_488_640, 53_982_720, 109_482_240),
}
MINIATURE_NAMES = {  # and GLUE average, SST-2, MNLI matched/mismatched
    (2, 128): ("bert_tiny", (64.2, 83.2, "70.2/70.3")),
    (4, 256): ("bert_mini", (65.8, 85.9, "74.8/74.3")),
    (4, 512): ("bert_small", (71.2, 89.7, "77.6/77.0")),
    (8, 512): ("bert_medium", (73.5, 89.6, "80.0/79.1")),
}


def miniature(layers: int, hidden: int, params: int) -> Checkpoint:
    heads = hidden // 64
    alias, scores = MINIATURE_NAMES.get((layers, hidden), ("", ()))
    config = {
        "hidden_size": hidden,
        "num_layers": layers,
        "num_heads": heads,
        "intermediate_size": 4 * hidden,
    }
    names = (
        "GLUE (test average with WNLI)",
        "SST-2 (test accuracy)",
        "MNLI (test accuracy, matched/mismatched)",
    )
    return Checkpoint(
        f"bert_l{layers}_h{hidden}",
        config,
        sources=[
            hub("google", f"bert_uncased_L-{layers}_H-{hidden}_A-{heads}"),
            archive("2020_02_20/uncased", config),
        ],
        provides=WITH_HEADS,
        params=params,
        licence="Apache-2.0",
        paper="Well-Read Students Learn Better, arXiv:1908.08962",
        aliases=[alias] if alias else [],
        scores=dict(zip(names, scores, strict=False)),
    )


MINIATURES = [
    miniature(layers, hidden, params)
    for layers, row in MINIATURE_PARAMS.items()
    for hidden, params in zip((128, 256, 512, 768), row, strict=True)
]

MINILM_V2 = (
    "MiniLMv2: Multi-Head Self-Attention Relation Distillation for Compressing Pretrained Transformers, "
    "arXiv:2012.15828"
)

OWN = [
    trained_here(
        "bert_nano",
        PRETRAINING.sizes[SIZE].config,
        BERT_PAPER,
        sha256="c54417ed382b0ff690dc8d47b67abd216d181b41df783f0c7f253c4cb293f438",
        params=1_197_952,
        scores={
            "held-out loss": 4.058,
            "held-out masked-token loss": 3.507,
            "held-out masked-token loss before training": 6.911,
            "held-out masked-token loss of a unigram model": 6.771,
            "held-out next-sentence loss": 0.551,
        },
    ),
    trained_here(
        "minilm_nano",
        SMALL | {"num_layers": 2, "vocab_size": 9579},
        paper=MINILM_V2,
        text=TextSpec(lowercase=True, max_length=256),
        sha256="b095c112bfbdd1b10cb0b09a8561b21b0a621892c9a602f3221b0c05a35e60ac",
        provides=frozenset({"encoder"}),
        params=7_573_248,
        scores={"held-out distillation loss": 0.338},
        note=(
            "A small encoder to fine-tune: its files take 8 MB. Distilled from minilm_l6's attention on 9 MB of English."
        ),
    ),
    trained_here(
        "minilm_nano",
        SMALL | {"num_layers": 2, "vocab_size": 9734},
        tag="sst2",
        paper=MINILM_V2,
        text=TextSpec(lowercase=True, max_length=64),
        sha256="686c435826a6cf06045ed00dee48e439777f8bf14561858deb1bfd27fc38f697",
        provides=frozenset({"encoder", "classification"}),
        labels=("negative", "positive"),
        params=7_632_768,
        scores={"SST-2 (dev accuracy)": 0.883},
        note="Classifies sentences of film reviews. Distilled from minilm_l6 after it was fine-tuned on SST-2.",
    ),
]

CHECKPOINTS = [*GOOGLE_CHECKPOINTS, *MINIATURES, *DERIVED, *OWN]
