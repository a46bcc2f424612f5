"""ELMo's cards, and settings for its pretraining and for training on its vectors."""

from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import Checkpoint, Files, TextSpec, read_table
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

CONFIGS = {
    "elmo_words_nano": {
        "cell_size": 256,
        "projection_size": 64,
        "filters": ((1, 16), (2, 16), (3, 32), (4, 64), (5, 64)),
    },
    # The sizes of elmo_small and elmo_original.
    "elmo_words_small": {"cell_size": 1024, "projection_size": 128},
    "elmo_words_base": {"cell_size": 4096, "projection_size": 512, "num_highways": 2},
}
# nano and small are our own settings for a few to a few hundred megabytes of text, on a few cores or one GPU. base has
# bilm-tf's batches on three GPUs for ten epochs of a billion words. bilm-tf uses Adagrad at 0.2 and clips the gradients
# of the loss of 20 words at 10.
LANGUAGE_MODELS = tuple(
    LanguageModelPreset(
        family="elmo",
        config=CONFIGS[row["name"]],
        unit="word",
        bidirectional=True,
        segment_length=20,
        evaluation=Reading(20),
        clip_norm=0.5,
        **row,
    )
    for row in read_table("""
        name              size   batch_size  total_steps  vocab_size  learning_rate  warmup_steps  num_samples
        elmo_words_nano   nano   64          20_000       10_000      3e-3           400           1_024
        elmo_words_small  small  128         200_000      100_000     1e-3           2_000         4_096
        elmo_words_base   base   384         1_000_000    793_471     5e-4           10_000        8_192
    """)
)

S3 = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo"
PAPER = "Deep contextualized word representations, arXiv:1802.05365"
TEXT = TextSpec(lowercase=None)
WORDS_ARE_SPLIT = (
    "Texts are split at white space, so tokenize them first, as the training text was."
)


RELEASED = read_table("""
    name         cell_size  projection_size  num_highways  params      folder                             files                              trained_on
    small        1024       128              -             13_593_296  2x1024_128_2048cnn_1xhighway       -                                  -
    medium       2048       256              -             28_027_728  2x2048_256_2048cnn_1xhighway       -                                  -
    original     4096       512              2             93_600_848  2x4096_512_2048cnn_2xhighway       -                                  -
    original_5b  4096       512              2             93_600_848  2x4096_512_2048cnn_2xhighway_5.5B  -                                  -
    portuguese   4096       512              2             93_600_848  contributed/pt                     elmo_pt                            Portuguese Wikipedia
    pubmed       4096       512              2             93_600_848  contributed/pubmed                 elmo_2x4096_512_2048cnn_2xhighway  PubMed
""")


def elmo(
    name: str, params: int, folder: str, files: str = "", trained_on: str = "", **config: int
) -> Checkpoint:
    """A checkpoint from allennlp's store: by the paper's authors, or contributed, with a word on its texts."""
    files = files or f"elmo_{folder}"
    weights = "weights_PubMed_only" if name == "pubmed" else "weights"
    contributed = f"Contributed to allennlp; trained on {trained_on}. " if trained_on else ""
    return Checkpoint(
        f"elmo_{name}",
        config,
        sources=[Files(f"{S3}/{folder}", [f"{files}_options.json", f"{files}_{weights}.hdf5"])],
        provides=frozenset({"encoder"}),
        params=params,
        licence="not declared (the files come with no licence)" if trained_on else "Apache-2.0",
        paper=PAPER,
        text=TEXT,
        note=contributed + WORDS_ARE_SPLIT,
    )


(NANO,) = (preset for preset in LANGUAGE_MODELS if preset.size == SIZE)
CHECKPOINTS = [
    *(elmo(**row) for row in RELEASED),
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
