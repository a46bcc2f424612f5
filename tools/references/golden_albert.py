"""The golden cases of ALBERT."""

import collections
import functools
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
    choice_inputs,
    class_labels,
    labelled,
    longest_inputs,
    masked_token_labels,
    random_inputs,
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
    config_class=transformers.AlbertConfig,
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
    """pytorch_model.bin of the hub: with a pooler, a buffer of positions, the tied tensors twice."""
    state = collections.OrderedDict(model.state_dict())
    size = model.config.hidden_size
    state["albert.pooler.weight"] = torch.full((size, size), 0.5)
    state["albert.pooler.bias"] = torch.full((size,), 0.5)
    state["albert.embeddings.position_ids"] = torch.arange(model.config.max_position_embeddings)[
        None
    ]
    torch.save(state, directory / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def hub_config(config: dict) -> dict:
    """The config.json of albert-base-v2 in circulation."""
    keys = (
        *("architectures", "attention_probs_dropout_prob", "bos_token_id"),
        *("classifier_dropout_prob", "embedding_size", "eos_token_id", "hidden_act"),
        *("hidden_dropout_prob", "hidden_size", "initializer_range", "inner_group_num"),
        *("intermediate_size", "layer_norm_eps", "max_position_embeddings", "model_type"),
        *("num_attention_heads", "num_hidden_groups", "num_hidden_layers", "pad_token_id"),
        *("type_vocab_size", "vocab_size"),
    )
    return {key: config[key] for key in keys} | {
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
_case = functools.partial(Case, task="encoder", model_class=transformers.AlbertModel)

CASES = (
    _case(
        "encoder",
        "The encoder with its pooler, every hidden state and attention; GELU by its tanh "
        "approximation and no dropout, as in version 2.",
        internals=True,
    ),
    _case(
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
    _case("encoder_relu", "ReLU.", config={"hidden_act": "relu"}),
    _case(
        "masked_lm",
        "The output layer is the word embedding, as wide as it is; loss and gradients.",
        task="masked_lm",
        model_class=transformers.AlbertForMaskedLM,
        make_labels=masked_token_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "predictions.dense.weight",
            "predictions.LayerNorm.weight",
            "predictions.bias",
        ),
    ),
    _case(
        "masked_lm_v1",
        "Dropout and GELU of version 1, which transformers takes as erf; the head follows it.",
        task="masked_lm",
        model_class=transformers.AlbertForMaskedLM,
        config={
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
        },
    ),
    _case(
        "pretraining",
        "Both heads of ALBERT's pretraining: masked tokens and sentence order.",
        task="pretraining",
        model_class=transformers.AlbertForPreTraining,
    ),
    _case(
        "classification",
        "Three named classes; classifier_dropout_prob differs from the other rates; loss and "
        "gradients.",
        task="classification",
        model_class=transformers.AlbertForSequenceClassification,
        config={
            "problem_type": "single_label_classification",
            "classifier_dropout_prob": 0.3,
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.05,
        }
        | labelled("negative", "neutral", "positive"),
        make_labels=class_labels,
        gradients=(*_ENCODER_GRADIENTS, "albert.pooler.weight", "classifier.weight"),
    ),
    _case(
        "regression",
        "One number for each text.",
        task="regression",
        model_class=transformers.AlbertForSequenceClassification,
        config={"num_labels": 1, "problem_type": "regression"},
    ),
    _case(
        "token_classification",
        "Five named tags for each token.",
        task="token_classification",
        model_class=transformers.AlbertForTokenClassification,
        config=labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    _case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        task="question_answering",
        model_class=transformers.AlbertForQuestionAnswering,
        make_inputs=longest_inputs,
    ),
    _case(
        "multiple_choice",
        "Three choices for each question.",
        task="multiple_choice",
        model_class=transformers.AlbertForMultipleChoice,
        make_inputs=choice_inputs,
    ),
    _case(
        "bin_legacy",
        "pytorch_model.bin in the format before torch 1.6 with position_ids, the tied tensors twice "
        "and a pooler that the class does not have, and albert-base-v2's config.json.",
        task="masked_lm",
        model_class=transformers.AlbertForMaskedLM,
        save=save_bin_2020,
        unused=("albert.pooler.weight", "albert.pooler.bias"),
        edit_config=hub_config,
    ),
)
