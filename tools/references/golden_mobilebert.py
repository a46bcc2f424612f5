"""The golden cases of MobileBERT."""

import dataclasses
import functools

import torch
from golden_bert import TOKENS, VOCABULARY
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    head_cases,
    labelled,
    longest_inputs,
    position_ids,
    random_inputs,
    save_bin,
    torch_inputs,
)
from golden_files import write_wordpiece

MOBILEBERT = Family(
    prefix="MobileBert",
    tiny_config={
        **TINY_SIZES,
        "vocab_size": len(VOCABULARY),
        "embedding_size": 12,
        "intra_bottleneck_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_feedforward_networks": 2,
        "max_position_embeddings": POSITIONS,
        "classifier_activation": False,
    },
    tokens=TOKENS,
    write_vocabulary=functools.partial(
        write_wordpiece, vocabulary=VOCABULARY, tokenizer="MobileBertTokenizer"
    ),
)


full_rows = functools.partial(random_inputs, lengths=(9, 9, 9))


def calm(model) -> None:
    """Smaller kernels in the blocks, whose sums no norm bounds on their way up."""
    for parameter in model.base_model.encoder.layer.parameters():
        parameter.data *= 0.5 if parameter.ndim == 2 else 1.0


def trained_by_transformers(model) -> None:
    """With zeros for padding, whose vector transformers never trains, so that none of it is seen."""
    calm(model)
    model.base_model.embeddings.word_embeddings.weight.data[TOKENS.pad] = 0


def without_padding(model, inputs, **options):
    """What transformers computes where padding has no vector, which is what it computes of each text alone."""
    padding = model.embeddings.word_embeddings.weight[TOKENS.pad]
    stored = padding.clone()
    padding.zero_()
    result = model(**torch_inputs(inputs), **options)
    padding.copy_(stored)
    for row, mask in enumerate(inputs["padding_mask"] == 1):
        alone = {name: values[row : row + 1, mask] for name, values in inputs.items()}
        found = model(**torch_inputs(alone)).last_hidden_state[0]
        torch.testing.assert_close(found, result.last_hidden_state[row, mask])
    return result


def save_bin_2020(model, directory):
    """As the released file: names of both heads, and every tied tensor twice."""
    save_bin(model.state_dict() | position_ids(model), directory)


def hub_config(config: dict) -> dict:
    """The keys of the released config.json."""
    unsaid = ("dtype", "tie_word_embeddings", "classifier_dropout", "architectures")
    kept = {key: value for key, value in config.items() if key not in unsaid}
    return kept | {"true_hidden_size": config["intra_bottleneck_size"]}


# Without that of the tokens' table, of whose row for padding transformers leaves out what comes from neighbours.
_ENCODER_GRADIENTS = (
    "mobilebert.embeddings.position_embeddings.weight",
    "mobilebert.embeddings.token_type_embeddings.weight",
    "mobilebert.embeddings.embedding_transformation.weight",
    "mobilebert.embeddings.LayerNorm.weight",
    "mobilebert.encoder.layer.0.bottleneck.input.dense.weight",
    "mobilebert.encoder.layer.0.bottleneck.attention.LayerNorm.weight",
    "mobilebert.encoder.layer.0.attention.self.key.weight",
    "mobilebert.encoder.layer.0.attention.self.value.weight",
    "mobilebert.encoder.layer.0.ffn.0.intermediate.dense.weight",
    "mobilebert.encoder.layer.0.ffn.0.output.LayerNorm.bias",
    "mobilebert.encoder.layer.0.output.dense.weight",
    "mobilebert.encoder.layer.0.output.bottleneck.dense.bias",
)
_LABELS = labelled("negative", "neutral", "positive")


def cases() -> tuple[Case, ...]:
    """All of them; where nothing else is said, of a model that padding says nothing to."""
    listed = (
        Case(
            "encoder",
            "Every hidden state and attention; the pooled output is the first token.",
            config={"num_hidden_layers": 2, "num_feedforward_networks": 3},
            internals=True,
        ),
        Case(
            "encoder_trained_padding",
            "A vector for padding that is not zero, as in the released model: texts are as if each stood alone.",
            edit_weights=calm,
            call=without_padding,
        ),
        Case(
            "encoder_tanh",
            "A pooler with its layer, one feed-forward layer, GELU, three segments.",
            config={
                "classifier_activation": True,
                "num_feedforward_networks": 1,
                "hidden_act": "gelu",
                "type_vocab_size": 3,
            },
        ),
        Case(
            "masked_lm",
            "Part of the output layer is the word embedding; loss and gradients.",
            gradients=(
                *_ENCODER_GRADIENTS,
                "cls.predictions.transform.dense.weight",
                "cls.predictions.dense.weight",
                "cls.predictions.bias",
            ),
        ),
        Case(
            "masked_lm_untied",
            "A decoder of its own beside the extra matrix; rows without padding, loss and gradients.",
            config={"tie_word_embeddings": False},
            make_inputs=full_rows,
            gradients=(
                "mobilebert.embeddings.word_embeddings.weight",
                *_ENCODER_GRADIENTS,
                "cls.predictions.decoder.weight",
                "cls.predictions.decoder.bias",
            ),
        ),
        Case("pretraining", "Both heads of its pretraining, BERT's.", edit_config=hub_config),
        Case(
            "classification",
            "Three named classes; classifier_dropout differs from the other rates; loss and gradients.",
            config={
                "problem_type": "single_label_classification",
                "classifier_dropout": 0.3,
                "hidden_dropout_prob": 0.2,
                "attention_probs_dropout_prob": 0.05,
            }
            | _LABELS,
            gradients=(*_ENCODER_GRADIENTS, "classifier.weight", "classifier.bias"),
        ),
        Case(
            "question_answering",
            "Start and end of the answer, up to the last position that the model has.",
            make_inputs=longest_inputs,
        ),
        *head_cases({}, choice=""),
        Case(
            "bin_legacy",
            "pytorch_model.bin in the format before torch 1.6 with position_ids and the tied tensors "
            "twice, and the released config.json.",
            task="pretraining",
            save=save_bin_2020,
            edit_config=hub_config,
        ),
    )
    return tuple(
        case
        if case.edit_weights
        else dataclasses.replace(case, edit_weights=trained_by_transformers)
        for case in listed
    )


CASES = cases()
