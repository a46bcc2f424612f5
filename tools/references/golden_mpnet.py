"""The golden cases of MPNet."""

import dataclasses
import functools
import pathlib

import golden_bert
import golden_fairseq
import torch
import transformers
from golden_case import (
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    choice_inputs,
    class_labels,
    labelled,
    make_case,
    masked_token_labels,
    random_inputs,
)
from golden_files import write_json, write_lines
from golden_roberta import padded_inputs

# MPNet's vocabulary is BERT's behind fairseq's four tokens; BERT's own [UNK] is the unknown token.
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
VOCABULARY = [*_SPECIAL, *golden_bert.VOCABULARY, "<mask>"]
PAD = VOCABULARY.index("<pad>")
_LONGEST = 160  # beyond 128, from where on distances share a bucket


def write_vocabulary(directory: pathlib.Path) -> None:
    write_lines(directory / "vocab.txt", VOCABULARY)
    write_json(
        directory / "tokenizer_config.json",
        {"do_lower_case": True, "tokenizer_class": "MPNetTokenizer"},
    )


MPNET = Family(
    config_class=transformers.MPNetConfig,
    tiny_config={
        **TINY_SIZES,
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": PAD + 1 + _LONGEST,
        "vocab_size": len(VOCABULARY),
    },
    tokens=Tokens(pad=PAD, first=0, last=2, first_ordinary=len(_SPECIAL)),
    write_vocabulary=write_vocabulary,
    has_segments=False,
)


def longest_inputs(family, config, rng):
    return random_inputs(family, config, rng, lengths=(_LONGEST, 140))


_ONE_LAYER = {"num_hidden_layers": 1}  # enough for a head, and smaller
_ENCODER_GRADIENTS = (
    "mpnet.embeddings.word_embeddings.weight",
    "mpnet.embeddings.position_embeddings.weight",
    "mpnet.embeddings.LayerNorm.weight",
    "mpnet.encoder.relative_attention_bias.weight",
    "mpnet.encoder.layer.0.attention.attn.q.weight",
    "mpnet.encoder.layer.1.attention.attn.v.bias",
    "mpnet.encoder.layer.1.output.dense.bias",
)

_case = functools.partial(Case, task="encoder", model_class=transformers.MPNetModel)

HF_CASES = (
    _case(
        "encoder",
        "The encoder with its pooler, every hidden state and attention; pad ids right, left and "
        "as tokens, and words that the mask leaves out.",
        make_inputs=padded_inputs,
        internals=True,
    ),
    _case(
        "encoder_long",
        "Distances beyond the last bucket of the relative positions; no pooler.",
        config=_ONE_LAYER,
        model_arguments={"add_pooling_layer": False},
        make_inputs=longest_inputs,
    ),
    _case(
        "masked_lm",
        "The output layer is the word embedding; loss and gradients.",
        task="masked_lm",
        model_class=transformers.MPNetForMaskedLM,
        make_labels=masked_token_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "lm_head.dense.weight",
            "lm_head.layer_norm.weight",
            "lm_head.bias",
        ),
    ),
    _case(
        "masked_lm_relu",
        "ReLU in the layers; the head keeps its erf GELU.",
        task="masked_lm",
        model_class=transformers.MPNetForMaskedLM,
        config=_ONE_LAYER | {"hidden_act": "relu"},
    ),
    _case(
        "classification",
        "A tanh layer over the first token, three named classes; loss and gradients.",
        task="classification",
        model_class=transformers.MPNetForSequenceClassification,
        config={"problem_type": "single_label_classification"}
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
        "regression",
        "One number for each text.",
        task="regression",
        model_class=transformers.MPNetForSequenceClassification,
        config=_ONE_LAYER | {"num_labels": 1, "problem_type": "regression"},
    ),
    _case(
        "token_classification",
        "Five named tags for each token.",
        task="token_classification",
        model_class=transformers.MPNetForTokenClassification,
        config=_ONE_LAYER | labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    _case(
        "question_answering",
        "Start and end of the answer.",
        task="question_answering",
        model_class=transformers.MPNetForQuestionAnswering,
    ),
    _case(
        "multiple_choice",
        "Three choices for each question, from the pooler's output.",
        task="multiple_choice",
        model_class=transformers.MPNetForMultipleChoice,
        config=_ONE_LAYER,
        make_inputs=choice_inputs,
    ),
)


@dataclasses.dataclass(frozen=True)
class FairseqCase:
    """The weights of another case in the format of the authors' program."""

    name: str
    about: str
    twin: str
    task: str
    model_class: type


FAIRSEQ_CASES = (
    FairseqCase(
        "fairseq",
        "Twin of masked_lm in the names of MPNet's own program.",
        twin="masked_lm",
        task="masked_lm",
        model_class=transformers.MPNetForMaskedLM,
    ),
)
CASES = (*HF_CASES, *FAIRSEQ_CASES)
_ARGUMENTS = {
    "arch": "mpnet_rel_base",
    "criterion": "masked_permutation_cross_entropy",
    "input_mode": "mpnet",
    "normalize_before": False,
    "pred_prob": 0.15,
    "task": "masked_permutation_lm",
    "use_relative_positions": True,
}
_ROBERTA_NAMES = (
    ("mpnet.", "roberta."),
    (".attention.attn.q.", ".attention.self.query."),
    (".attention.attn.k.", ".attention.self.key."),
    (".attention.attn.v.", ".attention.self.value."),
    (".attention.attn.o.", ".attention.output.dense."),
    (".attention.LayerNorm.", ".attention.output.LayerNorm."),
)


def _roberta_name(name: str) -> str:
    for theirs, robertas in _ROBERTA_NAMES:
        name = name.replace(theirs, robertas)
    return name


def make_mpnet_case(case: Case | FairseqCase, directory: pathlib.Path) -> None:
    """Makes a case; a twin in fairseq's format out of the files of its twin beside it."""
    if isinstance(case, Case):
        make_case(MPNET, case, directory)
        return
    golden_fairseq.write_twin(
        directory.parent / case.twin,
        directory,
        golden_fairseq.RELEASE_2019,
        torch.float32,
        True,
        _roberta_name,
        _ARGUMENTS,
    )
    words = golden_bert.VOCABULARY
    write_lines(directory / "dict.txt", (f"{word} {n}" for n, word in enumerate(words)))
