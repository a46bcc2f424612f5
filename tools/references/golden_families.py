"""The golden cases of families: how each is made, in a table that `make_golden.py` goes through.

A new family is an entry of FAMILIES. ModernBERT's stands here as an example, with what a family may need besides:
its own attention, weights and config.json. Entries of families whose files are made are in the repository's history
(tests/golden/README.md).
"""

import functools

import golden_vocabularies as vocabularies
import torch
from golden_case import POSITIONS, Case, Family, Tokens, choice_inputs, labelled, random_inputs
from transformers.models.modernbert import modeling_modernbert


def rows(*lengths: int):
    """Inputs of these lengths."""
    return functools.partial(random_inputs, lengths=lengths)


def under(root: str, names: str) -> tuple[str, ...]:
    """Names of parameters below a root."""
    return tuple(f"{root}{name}" for name in names.split())


REGRESSION = {"num_labels": 1, "problem_type": "regression"}
TAGS = labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
SENTIMENT = {
    "problem_type": "single_label_classification",
    **labelled("negative", "neutral", "positive"),
}
UNTIED = {"tie_word_embeddings": False}
TWO_LAYERS = {"num_hidden_layers": 2}  # enough for a head or a quirk of files

FAMILIES: dict[str, Family] = {}

# --- ModernBERT ----------------------------------------------------------------------------------


def attend(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """transformers' eager attention in float64 throughout.

    Its softmax is one in float32 always, where float64's least number, which hides keys, is minus
    infinity: rows that see nothing are not a number then, which they are not in a float32 model.
    """
    scores = query @ key.transpose(2, 3) * scaling
    probabilities = torch.softmax(scores if attention_mask is None else scores + attention_mask, -1)
    return (probabilities @ value).transpose(1, 2).contiguous(), probabilities


modeling_modernbert.eager_attention_forward = attend


def calm(model) -> None:
    """Smaller weights in the blocks, whose sums no norm bounds on their way up."""
    for layer in model.base_model.layers.parameters():
        layer.data *= 0.5 if layer.ndim == 2 else 1.0


def released_config(config: dict) -> dict:
    """The keys of the released config.json, which transformers 4.47 wrote."""
    ropes = config.pop("rope_parameters")
    del config["layer_types"]
    return config | {
        "global_rope_theta": ropes["full_attention"]["rope_theta"],
        "local_rope_theta": ropes["sliding_attention"]["rope_theta"],
        "gradient_checkpointing": False,
        "layer_norm_eps": 1e-05,
        "position_embedding_type": "absolute",
    }


# Padding that windows still reach from a token: what stands further off sees nothing, and attention to
# nothing has no meaning.
LONG_ROWS, ODD_ROWS = rows(POSITIONS, POSITIONS - 3, POSITIONS - 4), rows(27, 23)
PAD, CLS, SEP = map(vocabularies.MODERNBERT.index, ("[PAD]", "[CLS]", "[SEP]"))
GRADIENTS = under(
    "",
    """model.embeddings.tok_embeddings.weight model.embeddings.norm.weight
    model.layers.0.attn.Wqkv.weight model.layers.1.attn_norm.weight model.layers.1.attn.Wqkv.weight
    model.layers.2.attn.Wo.weight model.layers.2.mlp.Wi.weight model.layers.3.mlp.Wo.weight
    model.final_norm.weight head.dense.weight head.norm.weight""",
)
OTHER_ROPES = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
}
ALL_BIASES = dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), True) | {
    "decoder_bias": False
}
LAST_IS_GLOBAL = {"layer_types": ["sliding_attention", "full_attention"]}
FAMILIES["modernbert"] = Family(
    "ModernBert",
    {
        **{"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 24},
        **{"num_hidden_layers": 4, "global_attn_every_n_layers": 3, "local_attention": 8},
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(vocabularies.MODERNBERT),
        **{"pad_token_id": PAD, "cls_token_id": CLS, "bos_token_id": CLS},
        **{"sep_token_id": SEP, "eos_token_id": SEP},
    },
    Tokens(PAD, CLS, SEP, first_ordinary=len(vocabularies.MODERNBERT_SPECIAL)),
    vocabularies.write_modernbert,
    {
        "encoder": Case(make_inputs=LONG_ROWS, internals=True, edit_weights=calm),
        "encoder_short": Case(make_inputs=rows(11, 10, 8), edit_config=released_config),
        "masked_lm": Case(
            gradients=(*GRADIENTS, "decoder.bias"),
            make_inputs=ODD_ROWS,
            edit_weights=calm,
            edit_config=released_config,
        ),
        "masked_lm_untied": Case(
            TWO_LAYERS | UNTIED | {"hidden_activation": "relu", "rope_parameters": OTHER_ROPES},
            make_inputs=ODD_ROWS,
            edit_weights=calm,
        ),
        "classification": Case(
            SENTIMENT | {"classifier_pooling": "mean"},
            (*GRADIENTS, "classifier.weight", "classifier.bias"),
            edit_config=released_config,
        ),
        "classification_cls": Case(TWO_LAYERS | SENTIMENT | {"classifier_pooling": "cls"}),
        "masked_lm_biases": Case(
            TWO_LAYERS | ALL_BIASES | LAST_IS_GLOBAL, make_inputs=ODD_ROWS, edit_weights=calm
        ),
        "classification_biases": Case(
            TWO_LAYERS | SENTIMENT | ALL_BIASES | {"classifier_activation": "quick_gelu"}
        ),
        "question_answering": Case(
            TWO_LAYERS | {"max_position_embeddings": 3 * POSITIONS}, make_inputs=LONG_ROWS
        ),
        "regression": Case(TWO_LAYERS | REGRESSION),
        "token_classification": Case(TWO_LAYERS | TAGS, make_inputs=ODD_ROWS),
        "multiple_choice": Case(
            TWO_LAYERS | {"classifier_pooling": "mean"}, make_inputs=choice_inputs
        ),
    },
    has_segments=False,
)
