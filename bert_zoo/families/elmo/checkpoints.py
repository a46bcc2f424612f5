"""Cards of the released ELMo models and of the one that this project trained."""

from bert_zoo.families.elmo.presets import LANGUAGE_MODELS
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import Checkpoint, Files, TextSpec

S3 = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo"
PAPER = "Deep contextualized word representations, arXiv:1802.05365"
LARGE = {"cell_size": 4096, "projection_size": 512, "num_highways": 2}
LARGE_PARAMS = 93_600_848
TEXT = TextSpec(lowercase=None)
WORDS_ARE_SPLIT = (
    "Texts are split at white space, so tokenize them first, as the training text was."
)


def elmo(name: str, config: dict, params: int, folder: str, weights: str, options: str, **card):
    """A checkpoint from allennlp's store; `weights` and `options` are files in `folder`."""
    return Checkpoint(
        f"elmo_{name}",
        config,
        sources=[Files(f"{S3}/{folder}", [options, weights])],
        provides=frozenset({"encoder"}),
        params=params,
        paper=PAPER,
        text=TEXT,
        **card,
    )


def of_paper(name: str, config: dict, params: int, folder: str):
    """A checkpoint by the paper's authors."""
    files = (f"elmo_{folder}_weights.hdf5", f"elmo_{folder}_options.json")
    return elmo(name, config, params, folder, *files, licence="Apache-2.0", note=WORDS_ARE_SPLIT)


(NANO,) = (preset for preset in LANGUAGE_MODELS if preset.size == SIZE)
CHECKPOINTS = [
    of_paper(
        "small",
        {"cell_size": 1024, "projection_size": 128},
        13_593_296,
        "2x1024_128_2048cnn_1xhighway",
    ),
    of_paper(
        "medium",
        {"cell_size": 2048, "projection_size": 256},
        28_027_728,
        "2x2048_256_2048cnn_1xhighway",
    ),
    of_paper("original", LARGE, LARGE_PARAMS, "2x4096_512_2048cnn_2xhighway"),
    of_paper("original_5b", LARGE, LARGE_PARAMS, "2x4096_512_2048cnn_2xhighway_5.5B"),
    elmo(
        "portuguese",
        LARGE,
        LARGE_PARAMS,
        "contributed/pt",
        "elmo_pt_weights.hdf5",
        "elmo_pt_options.json",
        licence="not declared (the files come with no licence)",
        note=f"Contributed to allennlp; trained on Portuguese Wikipedia. {WORDS_ARE_SPLIT}",
    ),
    elmo(
        "pubmed",
        LARGE,
        LARGE_PARAMS,
        "contributed/pubmed",
        "elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5",
        "elmo_2x4096_512_2048cnn_2xhighway_options.json",
        licence="not declared (the files come with no licence)",
        note=f"Contributed to allennlp; trained on PubMed. {WORDS_ARE_SPLIT}",
    ),
    trained_here(
        "elmo_nano",
        {**NANO.config, "vocab_size": NANO.vocab_size},
        PAPER,
        sha256="567fa2c0cfc53c03cea2a25bef973f7eb56a6555438758c0e1102989173a2545",
        params=696_272,
        scores={
            "held-out loss": 4.651,
            "held-out loss before training": 6.167,
            "held-out loss of a unigram model": 6.165,
            "held-out backward loss": 4.655,
            "held-out forward loss": 4.647,
        },
        provides=frozenset({"encoder"}),
        text=TextSpec(lowercase=None, max_length=2048),
    ),
]
