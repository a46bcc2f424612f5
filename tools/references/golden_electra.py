"""The golden cases of ELECTRA as Hugging Face keeps it: discriminators and generators apart.

Both networks in one TensorFlow checkpoint: `golden_electra_tf1.py`.
"""

from golden_bert import BERT, VOCABULARY
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    head_cases,
    labelled,
    longest_inputs,
    minimal_config,
)

ELECTRA = Family(
    prefix="Electra",
    # As small: tables narrower than the layers.
    tiny_config={
        **TINY_SIZES,
        "embedding_size": 16,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(VOCABULARY),
    },
    tokens=BERT.tokens,
    write_vocabulary=BERT.write_vocabulary,
)


def hub_config(config: dict) -> dict:
    """The config.json of the released discriminators."""
    return minimal_config(config, "architectures", "embedding_size", "layer_norm_eps", "model_type")


_ONE_LAYER = {"num_hidden_layers": 1}  # enough for a head, and smaller
_SAME_SIZE = {"embedding_size": TINY_SIZES["hidden_size"]}  # as base and large
_ENCODER_GRADIENTS = (
    "electra.embeddings.word_embeddings.weight",
    "electra.embeddings.token_type_embeddings.weight",
    "electra.embeddings.LayerNorm.weight",
    "electra.embeddings_project.weight",
    "electra.encoder.layer.0.attention.self.query.weight",
    "electra.encoder.layer.1.output.dense.bias",
)


CASES = (
    Case(
        "encoder",
        "The encoder behind narrow tables, every hidden state and attention.",
        internals=True,
    ),
    Case(
        "encoder_same_size",
        "Tables as wide as the layers, so that there is no projection.",
        config=_SAME_SIZE,
    ),
    Case(
        "discriminator",
        "One logit a token; its layer has the configuration's activation. No generator.",
        task="pretraining",
        init=("generator",),
        edit_config=hub_config,
    ),
    Case(
        "discriminator_relu",
        "The activation is ReLU, in the head too.",
        task="pretraining",
        init=("generator",),
        config=_ONE_LAYER | {"hidden_act": "relu"},
    ),
    Case(
        "masked_lm",
        "A generator: its output layer is the word embedding; loss and gradients.",
        gradients=(
            *_ENCODER_GRADIENTS,
            "generator_predictions.dense.weight",
            "generator_predictions.LayerNorm.weight",
            "generator_lm_head.bias",
        ),
    ),
    Case(
        "masked_lm_relu",
        "ReLU in the layers; the head keeps its erf GELU.",
        config=_ONE_LAYER | {"hidden_act": "relu"},
    ),
    Case(
        "classification",
        "A layer with erf GELU over the first token, three named classes; classifier_dropout differs "
        "from the other rates; loss and gradients.",
        config={"problem_type": "single_label_classification", "classifier_dropout": 0.3}
        | labelled("contradiction", "neutral", "entailment"),
        gradients=(
            *_ENCODER_GRADIENTS,
            "classifier.dense.weight",
            "classifier.out_proj.weight",
            "classifier.out_proj.bias",
        ),
    ),
    Case(
        "classification_relu",
        "ReLU in the layers; the classifier keeps its erf GELU.",
        config=_ONE_LAYER | {"hidden_act": "relu"} | labelled("no", "yes"),
    ),
    Case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        make_inputs=longest_inputs,
    ),
    *head_cases(_ONE_LAYER, choice=", behind the layer that transformers calls a summary"),
)
