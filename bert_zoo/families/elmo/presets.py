"""Settings for ELMo's pretraining, and published ones for training on its vectors."""

from functools import partial

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
