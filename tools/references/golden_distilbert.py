"""The golden cases of DistilBERT."""

import functools
import json
import pathlib

import transformers
from golden_bert import CLS, MASK, PAD, SEP, VOCABULARY
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
from golden_files import write_json, write_lines


def write_vocabulary(directory: pathlib.Path) -> None:
    write_lines(directory / "vocab.txt", VOCABULARY)
    write_json(
        directory / "tokenizer_config.json",
        {"do_lower_case": True, "tokenizer_class": "DistilBertTokenizer"},
    )


DISTILBERT = Family(
    config_class=transformers.DistilBertConfig,
    tiny_config={
        "dim": TINY_SIZES["hidden_size"],
        "hidden_dim": TINY_SIZES["intermediate_size"],
        "n_heads": TINY_SIZES["num_attention_heads"],
        "n_layers": TINY_SIZES["num_hidden_layers"],
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(VOCABULARY),
    },
    tokens=Tokens(pad=PAD, first=CLS, last=SEP, first_ordinary=MASK + 1),
    write_vocabulary=write_vocabulary,
    has_segments=False,
)


def hub_config(config: dict) -> dict:
    """The config.json of the checkpoints in circulation."""
    keys = (
        *("activation", "architectures", "attention_dropout", "dim", "dropout", "hidden_dim"),
        *("initializer_range", "max_position_embeddings", "model_type", "n_heads", "n_layers"),
        *(
            "pad_token_id",
            "qa_dropout",
            "seq_classif_dropout",
            "sinusoidal_pos_embds",
            "vocab_size",
        ),
    )
    told = {key: config[key] for key in keys}
    if "id2label" in config:
        told |= {key: config[key] for key in ("id2label", "label2id")}
    return json.loads(json.dumps(told)) | {"tie_weights_": True, "output_past": True}


_ONE_LAYER = {"n_layers": 1}  # enough for a head, and smaller
_ENCODER_GRADIENTS = (
    "distilbert.embeddings.word_embeddings.weight",
    "distilbert.embeddings.position_embeddings.weight",
    "distilbert.embeddings.LayerNorm.weight",
    "distilbert.transformer.layer.0.attention.q_lin.weight",
    "distilbert.transformer.layer.1.attention.v_lin.bias",
    "distilbert.transformer.layer.1.ffn.lin2.bias",
)

_case = functools.partial(Case, task="encoder", model_class=transformers.DistilBertModel)

CASES = (
    _case("encoder", "The encoder, every hidden state and attention.", internals=True),
    _case(
        "encoder_sinusoidal",
        "A configuration with sinusoidal positions; the table of the file counts, which differs.",
        config=_ONE_LAYER | {"sinusoidal_pos_embds": True},
    ),
    _case(
        "masked_lm",
        "The output layer is the word embedding; loss and gradients.",
        task="masked_lm",
        model_class=transformers.DistilBertForMaskedLM,
        make_labels=masked_token_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "vocab_transform.weight",
            "vocab_layer_norm.weight",
            "vocab_projector.bias",
        ),
        edit_config=hub_config,
    ),
    _case(
        "masked_lm_relu",
        "ReLU in the layers and in the head.",
        task="masked_lm",
        model_class=transformers.DistilBertForMaskedLM,
        config=_ONE_LAYER | {"activation": "relu"},
    ),
    _case(
        "masked_lm_untied",
        "A decoder of its own.",
        task="masked_lm",
        model_class=transformers.DistilBertForMaskedLM,
        config=_ONE_LAYER | {"tie_word_embeddings": False},
    ),
    _case(
        "classification",
        "A ReLU layer over the first token, with no dropout before it; two named classes, as the "
        "checkpoint for SST-2; loss and gradients.",
        task="classification",
        model_class=transformers.DistilBertForSequenceClassification,
        config={"problem_type": "single_label_classification"} | labelled("NEGATIVE", "POSITIVE"),
        make_labels=class_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "pre_classifier.weight",
            "classifier.weight",
            "classifier.bias",
        ),
        edit_config=hub_config,
    ),
    _case(
        "regression",
        "One number for each text.",
        task="regression",
        model_class=transformers.DistilBertForSequenceClassification,
        config=_ONE_LAYER | {"num_labels": 1, "problem_type": "regression"},
    ),
    _case(
        "token_classification",
        "Five named tags for each token.",
        task="token_classification",
        model_class=transformers.DistilBertForTokenClassification,
        config=_ONE_LAYER | labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    _case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        task="question_answering",
        model_class=transformers.DistilBertForQuestionAnswering,
        make_inputs=longest_inputs,
        edit_config=hub_config,
    ),
    _case(
        "multiple_choice",
        "Three choices for each question, behind the ReLU layer.",
        task="multiple_choice",
        model_class=transformers.DistilBertForMultipleChoice,
        config=_ONE_LAYER,
        make_inputs=choice_inputs,
    ),
)
