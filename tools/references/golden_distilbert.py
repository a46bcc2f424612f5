"""The golden cases of DistilBERT."""

import functools

from golden_bert import TOKENS, VOCABULARY
from golden_case import POSITIONS, TINY_SIZES, Case, Family, head_cases, labelled, longest_inputs
from golden_files import write_wordpiece

DISTILBERT = Family(
    prefix="DistilBert",
    tiny_config={
        "dim": TINY_SIZES["hidden_size"],
        "hidden_dim": TINY_SIZES["intermediate_size"],
        "n_heads": TINY_SIZES["num_attention_heads"],
        "n_layers": TINY_SIZES["num_hidden_layers"],
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(VOCABULARY),
    },
    tokens=TOKENS,
    write_vocabulary=functools.partial(
        write_wordpiece, vocabulary=VOCABULARY, tokenizer="DistilBertTokenizer"
    ),
    has_segments=False,
)


def hub_config(config: dict) -> dict:
    """The config.json of the checkpoints in circulation."""
    keys = (
        *("activation", "architectures", "attention_dropout", "dim", "dropout", "hidden_dim"),
        *("initializer_range", "max_position_embeddings", "model_type", "n_heads", "n_layers"),
        *("pad_token_id", "qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds"),
        *("vocab_size", "id2label", "label2id"),
    )
    told = {key: config[key] for key in keys if key in config}
    return told | {"tie_weights_": True, "output_past": True}


_ONE_LAYER = {"n_layers": 1}  # enough for a head, and smaller
_ENCODER_GRADIENTS = (
    "distilbert.embeddings.word_embeddings.weight",
    "distilbert.embeddings.position_embeddings.weight",
    "distilbert.embeddings.LayerNorm.weight",
    "distilbert.transformer.layer.0.attention.q_lin.weight",
    "distilbert.transformer.layer.1.attention.v_lin.bias",
    "distilbert.transformer.layer.1.ffn.lin2.bias",
)


CASES = (
    Case("encoder", "The encoder, every hidden state and attention.", internals=True),
    Case(
        "encoder_sinusoidal",
        "A configuration with sinusoidal positions; the table of the file counts, which differs.",
        config=_ONE_LAYER | {"sinusoidal_pos_embds": True},
    ),
    Case(
        "masked_lm",
        "The output layer is the word embedding; loss and gradients.",
        gradients=(
            *_ENCODER_GRADIENTS,
            "vocab_transform.weight",
            "vocab_layer_norm.weight",
            "vocab_projector.bias",
        ),
        edit_config=hub_config,
    ),
    Case(
        "masked_lm_relu",
        "ReLU in the layers and in the head.",
        config=_ONE_LAYER | {"activation": "relu"},
    ),
    Case(
        "masked_lm_untied",
        "A decoder of its own.",
        config=_ONE_LAYER | {"tie_word_embeddings": False},
    ),
    Case(
        "classification",
        "A ReLU layer over the first token, with no dropout before it; two named classes, as the "
        "checkpoint for SST-2; loss and gradients.",
        config={"problem_type": "single_label_classification"} | labelled("NEGATIVE", "POSITIVE"),
        gradients=(
            *_ENCODER_GRADIENTS,
            "pre_classifier.weight",
            "classifier.weight",
            "classifier.bias",
        ),
        edit_config=hub_config,
    ),
    Case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        make_inputs=longest_inputs,
        edit_config=hub_config,
    ),
    *head_cases(_ONE_LAYER, choice=", behind the ReLU layer"),
)
