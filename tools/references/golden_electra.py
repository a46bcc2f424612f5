"""The golden cases of ELECTRA as Hugging Face keeps it: discriminators and generators apart.

Both networks in one TensorFlow checkpoint: `golden_electra_tf1.py`.
"""

import functools

import transformers
from golden_bert import CLS, MASK, PAD, SEP, VOCABULARY, write_vocabulary
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    choice_inputs,
    class_labels,
    labelled,
    longest_inputs,
    masked_token_labels,
)

ELECTRA = Family(
    config_class=transformers.ElectraConfig,
    # As small: tables narrower than the layers.
    tiny_config={
        **TINY_SIZES,
        "embedding_size": 16,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(VOCABULARY),
    },
    tokens=Tokens(pad=PAD, first=CLS, last=SEP, first_ordinary=MASK + 1),
    write_vocabulary=write_vocabulary,
)


def hub_config(config: dict) -> dict:
    """The config.json of the released discriminators."""
    keys = (
        *("architectures", "attention_probs_dropout_prob", "embedding_size", "hidden_act"),
        *("hidden_dropout_prob", "hidden_size", "initializer_range", "intermediate_size"),
        *("layer_norm_eps", "max_position_embeddings", "model_type", "num_attention_heads"),
        *("num_hidden_layers", "type_vocab_size", "vocab_size"),
    )
    return {key: config[key] for key in keys}


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

_case = functools.partial(Case, task="encoder", model_class=transformers.ElectraModel)

CASES = (
    _case(
        "encoder",
        "The encoder behind narrow tables, every hidden state and attention.",
        internals=True,
    ),
    _case(
        "encoder_same_size",
        "Tables as wide as the layers, so that there is no projection.",
        config=_SAME_SIZE,
    ),
    _case(
        "discriminator",
        "One logit a token; its layer has the configuration's activation. No generator.",
        task="pretraining",
        model_class=transformers.ElectraForPreTraining,
        init=("generator",),
        edit_config=hub_config,
    ),
    _case(
        "discriminator_relu",
        "The activation is ReLU, in the head too.",
        task="pretraining",
        model_class=transformers.ElectraForPreTraining,
        init=("generator",),
        config=_ONE_LAYER | {"hidden_act": "relu"},
    ),
    _case(
        "masked_lm",
        "A generator: its output layer is the word embedding; loss and gradients.",
        task="masked_lm",
        model_class=transformers.ElectraForMaskedLM,
        make_labels=masked_token_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "generator_predictions.dense.weight",
            "generator_predictions.LayerNorm.weight",
            "generator_lm_head.bias",
        ),
    ),
    _case(
        "masked_lm_relu",
        "ReLU in the layers; the head keeps its erf GELU.",
        task="masked_lm",
        model_class=transformers.ElectraForMaskedLM,
        config=_ONE_LAYER | {"hidden_act": "relu"},
    ),
    _case(
        "classification",
        "A layer with erf GELU over the first token, three named classes; classifier_dropout differs "
        "from the other rates; loss and gradients.",
        task="classification",
        model_class=transformers.ElectraForSequenceClassification,
        config={"problem_type": "single_label_classification", "classifier_dropout": 0.3}
        | labelled("contradiction", "neutral", "entailment"),
        make_labels=class_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "classifier.dense.weight",
            "classifier.out_proj.weight",
            "classifier.out_proj.bias",
        ),
    ),
    _case(
        "classification_relu",
        "ReLU in the layers; the classifier keeps its erf GELU.",
        task="classification",
        model_class=transformers.ElectraForSequenceClassification,
        config=_ONE_LAYER | {"hidden_act": "relu"} | labelled("no", "yes"),
    ),
    _case(
        "regression",
        "One number for each text.",
        task="regression",
        model_class=transformers.ElectraForSequenceClassification,
        config=_ONE_LAYER | {"num_labels": 1, "problem_type": "regression"},
    ),
    _case(
        "token_classification",
        "Five named tags for each token.",
        task="token_classification",
        model_class=transformers.ElectraForTokenClassification,
        config=_ONE_LAYER | labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    _case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        task="question_answering",
        model_class=transformers.ElectraForQuestionAnswering,
        make_inputs=longest_inputs,
    ),
    _case(
        "multiple_choice",
        "Three choices for each question, behind the layer that transformers calls a summary.",
        task="multiple_choice",
        model_class=transformers.ElectraForMultipleChoice,
        config=_ONE_LAYER,
        make_inputs=choice_inputs,
    ),
)
