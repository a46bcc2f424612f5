"""Published settings of training on ELMo's vectors."""

from bert_zoo.presets import Preset, Recipe

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
        note="Published for names in CoNLL 2003, found by LSTMs and a CRF on a mix of all layers, with the best "
        "of at most 75 epochs kept; here for a linear head on the last layer, and for every task.",
    ),
)
