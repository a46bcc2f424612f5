"""The golden cases of RoBERTa and XLM-RoBERTa, and RoBERTa's twins in fairseq's format."""

import collections
import dataclasses
import functools
import json
import pathlib

import golden_fairseq
import numpy as np
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
    make_case,
    masked_token_labels,
    random_inputs,
    round_to_half,
)
from golden_files import write_json, write_lines
from golden_sentencepiece import train_sentencepiece

# --- Vocabulary: byte-level BPE over a part of ASCII ---------------------------------------------

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_SPACE = "Ġ"  # how byte-level BPE writes a space
_MERGES = tuple(
    line.replace("_", _SPACE)
    for line in (
        *("_ t", "h e", "_t he", "_ a", "i n", "_ s", "_a n", "_an d", "_ w", "_w a", "_wa s"),
        *("_ c", "a t", "_c at", "_ b", "i r", "_b ir", "_bir d", "_ d", "o g", "_d og", "e r"),
        *("in g", "_ o", "_o n", "_o f", "_ i", "_i s", "_i t", "_s at", "_s a", "' s", "' t"),
    )
)
# fairseq fills a dictionary up with such words, which no text has.
_FILLERS = ("madeupword0000", "madeupword0001", "madeupword0002")
BPE_TOKENS = (
    *"abcdefghijklmnopqrstuvwxyz0123456789.,!?'-",
    _SPACE,
    *(merge.replace(" ", "") for merge in _MERGES),
    "<|endoftext|>",
)
VOCABULARY = (*_SPECIAL, *BPE_TOKENS, *_FILLERS, "<mask>")
PAD = VOCABULARY.index("<pad>")


def write_bpe_vocabulary(directory: pathlib.Path) -> None:
    ids = {token: index for index, token in enumerate(VOCABULARY)}
    (directory / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False))
    write_lines(directory / "merges.txt", ("#version: 0.2", *_MERGES))
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer"})
    tokens = transformers.AutoTokenizer.from_pretrained(directory).tokenize("the cat's dog<mask>")
    if tokens != ["t", "he", "Ġcat", "'s", "Ġdog", "<mask>"]:
        raise ValueError(f"transformers reads the vocabulary in {directory} as {tokens}.")


def write_sentencepiece_vocabulary(directory: pathlib.Path) -> None:
    train_sentencepiece(directory / "sentencepiece.bpe.model", _XLM_PIECES)
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"})


_TOKENS = Tokens(pad=PAD, first=0, last=2, first_ordinary=len(_SPECIAL))
_SIZES = TINY_SIZES | {
    "max_position_embeddings": PAD + 1 + POSITIONS,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
ROBERTA = Family(
    config_class=transformers.RobertaConfig,
    tiny_config=_SIZES | {"vocab_size": len(VOCABULARY)},
    tokens=_TOKENS,
    write_vocabulary=write_bpe_vocabulary,
    has_segments=False,
)
_XLM_PIECES = 90
XLM_ROBERTA = Family(
    config_class=transformers.XLMRobertaConfig,
    # <s>, <pad>, </s>, <unk>, the pieces behind SentencePiece's own first three, and <mask>.
    tiny_config=_SIZES | {"vocab_size": 4 + _XLM_PIECES - 3 + 1},
    tokens=_TOKENS,
    write_vocabulary=write_sentencepiece_vocabulary,
    has_segments=False,
)

# --- Inputs --------------------------------------------------------------------------------------


def padded_inputs(family, config, rng):
    """Rows that differ in where the pad id stands and what the mask says of it.

    Positions count the tokens that are not the pad id; the attention follows the mask.
    """
    inputs = random_inputs(family, config, rng, lengths=(12, 8, 12, 12, 12))
    token_ids, padding_mask = inputs["token_ids"], inputs["padding_mask"]
    padded_left, pad_as_token, masked_words = 2, 3, 4
    token_ids[padded_left] = np.roll(token_ids[1], 4)
    padding_mask[padded_left] = np.roll(padding_mask[1], 4)
    token_ids[pad_as_token, [3, 7, 8]] = family.tokens.pad  # and the mask stays 1
    padding_mask[masked_words, [4, 9]] = 0  # and the tokens stay
    return inputs


# --- Weight files as they are in circulation -----------------------------------------------------


def without_token_types(model: transformers.PreTrainedModel) -> None:
    """fairseq has no table of segments: a zero one says the same."""
    torch.nn.init.zeros_(model.roberta.embeddings.token_type_embeddings.weight)


def half_without_token_types(model: transformers.PreTrainedModel) -> None:
    """Values that half precision holds exactly, for a twin stored in it."""
    without_token_types(model)
    round_to_half(model)


def save_bin_2019(model, directory):
    """pytorch_model.bin of the first years: a buffer of positions, the tied tensors twice."""
    state = collections.OrderedDict(model.state_dict())
    state["roberta.embeddings.position_ids"] = torch.arange(model.config.max_position_embeddings)[
        None
    ]
    torch.save(state, directory / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def hub_config(config: dict) -> dict:
    """The config.json of roberta-base in circulation."""
    keys = (
        *("architectures", "attention_probs_dropout_prob", "bos_token_id", "eos_token_id"),
        *("hidden_act", "hidden_dropout_prob", "hidden_size", "initializer_range"),
        *("intermediate_size", "layer_norm_eps", "max_position_embeddings", "model_type"),
        *("num_attention_heads", "num_hidden_layers", "pad_token_id", "type_vocab_size"),
        "vocab_size",
    )
    return {key: config[key] for key in keys}


# --- The cases -----------------------------------------------------------------------------------

_ONE_LAYER = {"num_hidden_layers": 1}  # enough for a head, and smaller
_ENTAILMENT = labelled("contradiction", "neutral", "entailment")
_ENCODER_GRADIENTS = (
    "roberta.embeddings.word_embeddings.weight",
    "roberta.embeddings.position_embeddings.weight",
    "roberta.embeddings.LayerNorm.weight",
    "roberta.encoder.layer.0.attention.self.query.weight",
    "roberta.encoder.layer.1.attention.self.value.bias",
    "roberta.encoder.layer.1.output.dense.bias",
)

_case = functools.partial(Case, task="encoder", model_class=transformers.RobertaModel)

HF_CASES = (
    _case(
        "encoder",
        "The encoder with its pooler, every hidden state and attention; pad ids right, left and "
        "as tokens, and words that the mask leaves out.",
        make_inputs=padded_inputs,
        internals=True,
    ),
    _case(
        "encoder_no_pooler",
        "An encoder file without a pooler.",
        model_arguments={"add_pooling_layer": False},
    ),
    _case(
        "masked_lm",
        "The output layer is the word embedding; loss and gradients. Twin of fairseq_old.",
        task="masked_lm",
        model_class=transformers.RobertaForMaskedLM,
        make_labels=masked_token_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "lm_head.dense.weight",
            "lm_head.layer_norm.weight",
            "lm_head.bias",
        ),
        edit_weights=half_without_token_types,
    ),
    _case(
        "masked_lm_untied",
        "A decoder of its own: decoder.bias counts, and lm_head.bias, which differs, does not.",
        task="masked_lm",
        model_class=transformers.RobertaForMaskedLM,
        config={"tie_word_embeddings": False},
    ),
    _case(
        "masked_lm_relu",
        "ReLU in the layers; the head keeps its erf GELU.",
        task="masked_lm",
        model_class=transformers.RobertaForMaskedLM,
        config={"hidden_act": "relu"},
    ),
    _case(
        "classification",
        "RoBERTa's own head, three named classes; classifier_dropout differs from the other rates; "
        "loss and gradients. Twin of fairseq_new.",
        task="classification",
        model_class=transformers.RobertaForSequenceClassification,
        config={"problem_type": "single_label_classification", "classifier_dropout": 0.3}
        | _ENTAILMENT,
        make_labels=class_labels,
        gradients=(
            *_ENCODER_GRADIENTS,
            "classifier.dense.weight",
            "classifier.out_proj.weight",
            "classifier.out_proj.bias",
        ),
        edit_weights=without_token_types,
    ),
    _case(
        "regression",
        "One number for each text.",
        task="regression",
        model_class=transformers.RobertaForSequenceClassification,
        config=_ONE_LAYER | {"num_labels": 1, "problem_type": "regression"},
    ),
    _case(
        "token_classification",
        "Five named tags for each token.",
        task="token_classification",
        model_class=transformers.RobertaForTokenClassification,
        config=_ONE_LAYER | labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    _case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        task="question_answering",
        model_class=transformers.RobertaForQuestionAnswering,
        make_inputs=longest_inputs,
    ),
    _case(
        "multiple_choice",
        "Three choices for each question, from the pooler's output.",
        task="multiple_choice",
        model_class=transformers.RobertaForMultipleChoice,
        config=_ONE_LAYER,
        make_inputs=choice_inputs,
    ),
    _case(
        "bin_legacy",
        "pytorch_model.bin in the format before torch 1.6 with position_ids and the tied tensors "
        "twice, and roberta-base's config.json.",
        task="masked_lm",
        model_class=transformers.RobertaForMaskedLM,
        save=save_bin_2019,
        edit_config=hub_config,
    ),
)


@dataclasses.dataclass(frozen=True)
class FairseqCase:
    """A checkpoint in fairseq's format.

    Attributes:
        twin: The case that holds the same model in transformers' format.
        names: How the weights are called.
        dtype: The type that the weights are stored in.
        zipped: Whether torch.save writes its newer format.
    """

    name: str
    about: str
    twin: str
    names: golden_fairseq.Names
    dtype: torch.dtype
    zipped: bool

    @property
    def _twin_case(self) -> Case:
        return next(case for case in HF_CASES if case.name == self.twin)

    @property
    def task(self) -> str:
        return self._twin_case.task

    @property
    def model_class(self) -> type:
        return self._twin_case.model_class


FAIRSEQ_CASES = (
    FairseqCase(
        "fairseq_old",
        "As fairseq 0.7 trained it, the year of RoBERTa: root `decoder.`, one matrix for query, "
        "key and value, half precision, the format before torch 1.6.",
        twin="masked_lm",
        names=golden_fairseq.RELEASE_2019,
        dtype=torch.float16,
        zipped=False,
    ),
    FairseqCase(
        "fairseq_new",
        "As fairseq of 2021 fine-tuned it: root `encoder.`, layernorm_embedding, a head named "
        "mnli beside the head of the language model.",
        twin="classification",
        names=golden_fairseq.MAIN_2021,
        dtype=torch.float32,
        zipped=True,
    ),
)

CASES = (*HF_CASES, *FAIRSEQ_CASES)


def make_roberta_case(case: Case | FairseqCase, directory: pathlib.Path) -> None:
    """Makes a case; a twin in fairseq's format out of the files of its twin beside it."""
    if isinstance(case, Case):
        make_case(ROBERTA, case, directory)
        return
    golden_fairseq.write_twin(
        directory.parent / case.twin, directory, case.names, case.dtype, case.zipped
    )
    golden_fairseq.write_bpe_files(directory, BPE_TOKENS, _MERGES, _FILLERS, VOCABULARY)


_xlm_case = functools.partial(Case, task="encoder", model_class=transformers.XLMRobertaModel)

XLM_CASES = (
    _xlm_case("encoder", "The encoder with its pooler.", make_inputs=padded_inputs),
    _xlm_case(
        "masked_lm",
        "The output layer is the word embedding.",
        task="masked_lm",
        model_class=transformers.XLMRobertaForMaskedLM,
    ),
    _xlm_case(
        "classification",
        "Three named classes.",
        task="classification",
        model_class=transformers.XLMRobertaForSequenceClassification,
        config=_ENTAILMENT,
    ),
)
