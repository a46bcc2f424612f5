"""The golden cases of ALBERT."""

import pathlib

import sentencepiece
import torch
import transformers
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    head_cases,
    labelled,
    longest_inputs,
    minimal_config,
    position_ids,
    random_inputs,
    save_bin,
)
from golden_files import write_json
from golden_sentencepiece import train_sentencepiece

# --- Vocabulary and sizes ------------------------------------------------------------------------

_SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_PIECES = 90


def write_vocabulary(directory: pathlib.Path) -> None:
    path = directory / "spiece.model"
    train_sentencepiece(
        path,
        _PIECES,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=list(_SPECIAL[2:]),
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    first = [pieces.id_to_piece(i) for i in range(len(_SPECIAL))]
    if first != list(_SPECIAL) or len(pieces) != _PIECES:
        raise ValueError(f"{path} has {len(pieces)} pieces and begins with {first}.")
    write_json(
        directory / "tokenizer_config.json",
        {
            "do_lower_case": True,
            "keep_accents": False,
            "remove_space": True,
            "tokenizer_class": "AlbertTokenizer",
        },
    )


def run_with_internals(
    model: transformers.AlbertModel, inputs: dict[str, torch.Tensor]
) -> tuple[dict, dict[str, torch.Tensor]]:
    """The outputs, the hidden state behind each group of inner layers, and all attentions.

    transformers 5.23 records the hidden state behind each inner layer, and the embeddings before
    they are mapped to the hidden size; transformers 4 and Google's code have those wanted here.
    """
    states = []

    def keep(module, arguments, output):
        states.append(output)

    recorded = (model.encoder.embedding_hidden_mapping_in, *model.encoder.albert_layer_groups)
    hooks = [module.register_forward_hook(keep) for module in recorded]
    result = model(**inputs, output_attentions=True)
    for hook in hooks:
        hook.remove()
    config = model.config
    counts = (len(states), len(result.attentions))
    if counts != (config.num_hidden_layers + 1, config.num_hidden_layers * config.inner_group_num):
        raise ValueError(f"transformers records {counts} hidden states and attentions.")
    return result, {
        "hidden_states": torch.stack(states),
        "attentions": torch.stack(result.attentions),
    }


ALBERT = Family(
    prefix="Albert",
    tiny_config=TINY_SIZES
    | {
        "vocab_size": _PIECES,
        "embedding_size": 16,
        "max_position_embeddings": POSITIONS,
    },
    tokens=Tokens(pad=0, first=2, last=3, first_ordinary=len(_SPECIAL)),
    write_vocabulary=write_vocabulary,
    capture_internals=run_with_internals,
)


def short_inputs(family, config, rng):
    return random_inputs(family, config, rng, lengths=(8, 5))


# --- Files as they are in circulation ------------------------------------------------------------


def save_bin_2020(model, directory):
    """pytorch_model.bin of the hub, with a pooler that not every class has."""
    size = model.config.hidden_size
    pooler = {
        "albert.pooler.weight": torch.full((size, size), 0.5),
        "albert.pooler.bias": torch.full((size,), 0.5),
    }
    save_bin(model.state_dict() | pooler | position_ids(model), directory)


def hub_config(config: dict) -> dict:
    """The config.json of albert-base-v2 in circulation."""
    more = (
        *("architectures", "bos_token_id", "classifier_dropout_prob", "embedding_size"),
        *("eos_token_id", "inner_group_num", "layer_norm_eps", "model_type", "num_hidden_groups"),
        "pad_token_id",
    )
    return minimal_config(config, *more) | {
        "down_scale_factor": 1,
        "gap_size": 0,
        "net_structure_type": 0,
        "num_memory_blocks": 0,
    }


# --- The cases -----------------------------------------------------------------------------------

_ENCODER_GRADIENTS = (
    "albert.embeddings.word_embeddings.weight",
    "albert.embeddings.position_embeddings.weight",
    "albert.embeddings.token_type_embeddings.weight",
    "albert.embeddings.LayerNorm.weight",
    "albert.encoder.embedding_hidden_mapping_in.weight",
    *(
        f"albert.encoder.albert_layer_groups.0.albert_layers.0.{name}"
        for name in (
            *("attention.query.weight", "attention.value.bias", "attention.dense.weight"),
            *("attention.LayerNorm.bias", "ffn.weight", "ffn_output.bias"),
            "full_layer_layer_norm.weight",
        )
    ),
)

CASES = (
    Case(
        "encoder",
        "The encoder with its pooler, every hidden state and attention; GELU by its tanh "
        "approximation and no dropout, as in version 2.",
        internals=True,
    ),
    Case(
        "encoder_groups",
        "Four layers in two groups of two inner layers each; every hidden state and attention.",
        config={
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "inner_group_num": 2,
            "intermediate_size": 24,
        },
        make_inputs=short_inputs,
        internals=True,
    ),
    Case("encoder_relu", "ReLU.", config={"hidden_act": "relu"}),
    Case(
        "masked_lm",
        "The output layer is the word embedding, as wide as it is; loss and gradients.",
        gradients=(
            *_ENCODER_GRADIENTS,
            "predictions.dense.weight",
            "predictions.LayerNorm.weight",
            "predictions.bias",
        ),
    ),
    Case(
        "masked_lm_v1",
        "Dropout and GELU of version 1, which transformers takes as erf; the head follows it.",
        config={
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
        },
    ),
    Case(
        "pretraining",
        "Both heads of ALBERT's pretraining: masked tokens and sentence order.",
    ),
    Case(
        "classification",
        "Three named classes; classifier_dropout_prob differs from the other rates; loss and "
        "gradients.",
        config={
            "problem_type": "single_label_classification",
            "classifier_dropout_prob": 0.3,
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.05,
        }
        | labelled("negative", "neutral", "positive"),
        gradients=(*_ENCODER_GRADIENTS, "albert.pooler.weight", "classifier.weight"),
    ),
    Case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        make_inputs=longest_inputs,
    ),
    *head_cases({}, choice=""),
    Case(
        "bin_legacy",
        "pytorch_model.bin in the format before torch 1.6 with position_ids, the tied tensors twice "
        "and a pooler that the class does not have, and albert-base-v2's config.json.",
        task="masked_lm",
        save=save_bin_2020,
        unused=("albert.pooler.weight", "albert.pooler.bias"),
        edit_config=hub_config,
    ),
)
