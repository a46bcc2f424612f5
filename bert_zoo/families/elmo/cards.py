"""ELMo's cards, and settings for its pretraining and for training on its vectors."""

from functools import partial

from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import Checkpoint, Files, TextSpec
from bert_zoo.presets import LanguageModelPreset, Preset, Reading, Recipe

RECIPE = Recipe(
    epochs=75,
    batch_size=64,
    learning_rate=1e-3,
    schedule="constant",
    warmup_proportion=0.0,
    weight_decay=0.0,
    epsilon=1e-8,
    bias_correction=True,
    clip_norm=5.0,
    freeze_embeddings=True,
    freeze_layers=2,
)
PRESETS = (
    Preset(
        "elmo/vectors",
        ("classification", "multi_label_classification", "regression", "token_classification"),
        RECIPE,
        "Peters et al. 2018, section 3.3; allenai/allennlp training_config/ner_elmo.jsonnet",
        note="Published for LSTMs and a CRF on a mix of all layers, which tag CoNLL 2003; the best of at most 75 "
        "epochs was kept. Here it is used for a linear head on the last layer, for every task.",
    ),
)

_words = partial(
    LanguageModelPreset,
    family="elmo",
    unit="word",
    bidirectional=True,
    segment_length=20,
    evaluation=Reading(20),
    clip_norm=0.5,
)
LANGUAGE_MODELS = (
    # Our own settings for a few to a few hundred megabytes of text, on a few cores or one GPU.
    _words(
        "elmo_words_nano",
        config={
            "cell_size": 256,
            "projection_size": 64,
            "filters": ((1, 16), (2, 16), (3, 32), (4, 64), (5, 64)),
        },
        batch_size=64,
        total_steps=20_000,
        size="nano",
        vocab_size=10_000,
        learning_rate=3e-3,
        warmup_steps=400,
        num_samples=1_024,
    ),
    _words(
        "elmo_words_small",
        # elmo_small's sizes.
        config={"cell_size": 1024, "projection_size": 128},
        batch_size=128,
        total_steps=200_000,
        size="small",
        vocab_size=100_000,
        learning_rate=1e-3,
        warmup_steps=2_000,
        num_samples=4_096,
    ),
    _words(
        "elmo_words_base",
        # elmo_original's sizes, and bilm-tf's batches on three GPUs for ten epochs of a billion words. bilm-tf
        # uses Adagrad at 0.2 and clips the gradients of the loss of 20 words at 10.
        config={"cell_size": 4096, "projection_size": 512, "num_highways": 2},
        batch_size=384,
        total_steps=1_000_000,
        size="base",
        vocab_size=793_471,
        learning_rate=5e-4,
        warmup_steps=10_000,
        num_samples=8_192,
    ),
)

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
