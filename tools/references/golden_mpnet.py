"""The golden cases of MPNet."""

import functools

import golden_bert
import golden_fairseq
import torch
from golden_case import TINY_SIZES, Case, Family, Tokens, head_cases, labelled, random_inputs
from golden_files import write_lines, write_wordpiece
from golden_roberta import padded_inputs

# MPNet's vocabulary is BERT's behind fairseq's four tokens; BERT's own [UNK] is the unknown token.
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
VOCABULARY = [*_SPECIAL, *golden_bert.VOCABULARY, "<mask>"]
PAD = VOCABULARY.index("<pad>")
_LONGEST = 160  # beyond 128, from where on distances share a bucket


MPNET = Family(
    prefix="MPNet",
    tiny_config={
        **TINY_SIZES,
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": PAD + 1 + _LONGEST,
        "vocab_size": len(VOCABULARY),
    },
    tokens=Tokens(pad=PAD, first=0, last=2, first_ordinary=len(_SPECIAL)),
    write_vocabulary=functools.partial(
        write_wordpiece, vocabulary=VOCABULARY, tokenizer="MPNetTokenizer"
    ),
    has_segments=False,
)


def longest_inputs(family, config, rng):
    return random_inputs(family, config, rng, lengths=(_LONGEST, 140))


# --- The format of the authors' program ----------------------------------------------------------

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


def make_fairseq_twin(family, case, directory):
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


# --- The cases -----------------------------------------------------------------------------------

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


CASES = (
    Case(
        "encoder",
        "The encoder with its pooler, every hidden state and attention; pad ids right, left and "
        "as tokens, and words that the mask leaves out.",
        make_inputs=padded_inputs,
        internals=True,
    ),
    Case(
        "encoder_long",
        "Distances beyond the last bucket of the relative positions; no pooler.",
        config=_ONE_LAYER,
        model_arguments={"add_pooling_layer": False},
        make_inputs=longest_inputs,
    ),
    Case(
        "masked_lm",
        "The output layer is the word embedding; loss and gradients.",
        gradients=(
            *_ENCODER_GRADIENTS,
            "lm_head.dense.weight",
            "lm_head.layer_norm.weight",
            "lm_head.bias",
        ),
    ),
    Case(
        "masked_lm_relu",
        "ReLU in the layers; the head keeps its erf GELU.",
        config=_ONE_LAYER | {"hidden_act": "relu"},
    ),
    Case(
        "classification",
        "A tanh layer over the first token, three named classes; loss and gradients.",
        config={"problem_type": "single_label_classification"}
        | labelled("contradiction", "neutral", "entailment"),
        gradients=(
            *_ENCODER_GRADIENTS,
            "classifier.dense.weight",
            "classifier.out_proj.weight",
            "classifier.out_proj.bias",
        ),
    ),
    Case(
        "question_answering",
        "Start and end of the answer.",
    ),
    *head_cases(_ONE_LAYER, choice=", from the pooler's output"),
    Case(
        "fairseq",
        "Twin of masked_lm in the names of MPNet's own program.",
        task="masked_lm",
        twin="masked_lm",
        make=make_fairseq_twin,
    ),
)
