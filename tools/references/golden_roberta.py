"""The golden cases of RoBERTa and XLM-RoBERTa, RoBERTa's twins in fairseq's format, and what reads as they do."""

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
    head_cases,
    labelled,
    longest_inputs,
    minimal_config,
    position_ids,
    random_inputs,
    round_to_half,
    save_bin,
)
from golden_files import write_json, write_lines
from golden_sentencepiece import train_sentencepiece

# --- Vocabulary: byte-level BPE over a part of ASCII ---------------------------------------------

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_SPACE = "Ġ"  # how byte-level BPE writes a space
BPE_MERGES = tuple(
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
    *(merge.replace(" ", "") for merge in BPE_MERGES),
    "<|endoftext|>",
)
VOCABULARY = (*_SPECIAL, *BPE_TOKENS, *_FILLERS, "<mask>")
PAD = VOCABULARY.index("<pad>")


def write_bpe_vocabulary(directory: pathlib.Path) -> None:
    ids = {token: index for index, token in enumerate(VOCABULARY)}
    (directory / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False))
    write_lines(directory / "merges.txt", ("#version: 0.2", *BPE_MERGES))
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer"})
    tokens = transformers.AutoTokenizer.from_pretrained(directory).tokenize("the cat's dog<mask>")
    if tokens != ["t", "he", "Ġcat", "'s", "Ġdog", "<mask>"]:
        raise ValueError(f"transformers reads the vocabulary in {directory} as {tokens}.")


def write_sentencepiece_vocabulary(
    directory: pathlib.Path, tokenizer: str = "XLMRobertaTokenizer"
) -> None:
    train_sentencepiece(directory / "sentencepiece.bpe.model", _XLM_PIECES)
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": tokenizer})


# Of BERTweet: letters and signs within and at the end of a word, and what merges make.
TWEET_MERGES = (
    *("t h", "th e</w>", "c a", "ca t</w>", "d o", "do g</w>", "i s</w>", "' s</w>", "@ U", "S E"),
    *("SE R</w>", "@U SER</w>", "H T", "T P", "HT TP", "U R", "UR L</w>", "HTTP URL</w>"),
)
_LETTERS = "abcdefghijklmnopqrstuvwxyzHTPURLSE0123456789.,!?'#@_:"
TWEET_TOKENS = tuple(
    f"{symbol}@@".replace("</w>@@", "")
    for symbol in (
        *(letter + end for letter in _LETTERS for end in ("", "</w>")),
        *(merge.replace(" ", "") for merge in TWEET_MERGES),
    )
)


def write_tweet_vocabulary(directory: pathlib.Path) -> None:
    write_lines(directory / "vocab.txt", [f"{token} 1" for token in TWEET_TOKENS])
    write_lines(directory / "bpe.codes", [f"{merge} 1" for merge in TWEET_MERGES])
    config = {"tokenizer_class": "BertweetTokenizer", "normalization": True}
    write_json(directory / "tokenizer_config.json", config)
    tokens = transformers.AutoTokenizer.from_pretrained(directory).tokenize(
        "@me the cat's www.x.yz"
    )
    if tokens != ["@USER", "the", "cat", "'s", "HTTPURL"]:
        raise ValueError(f"transformers reads the vocabulary in {directory} as {tokens}.")


_TOKENS = Tokens(pad=PAD, first=0, last=2, first_ordinary=len(_SPECIAL))
_SIZES = TINY_SIZES | {
    "max_position_embeddings": PAD + 1 + POSITIONS,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
ROBERTA = Family(
    prefix="Roberta",
    tiny_config=_SIZES | {"vocab_size": len(VOCABULARY)},
    tokens=_TOKENS,
    write_vocabulary=write_bpe_vocabulary,
    has_segments=False,
)
_XLM_PIECES = 90
XLM_ROBERTA = Family(
    prefix="XLMRoberta",
    # <s>, <pad>, </s>, <unk>, the pieces behind SentencePiece's own first three, and <mask>.
    tiny_config=_SIZES | {"vocab_size": 4 + _XLM_PIECES - 3 + 1},
    tokens=_TOKENS,
    write_vocabulary=write_sentencepiece_vocabulary,
    has_segments=False,
)

CAMEMBERT = Family(
    prefix="Camembert",
    # <s>NOTUSED, <pad>, </s>NOTUSED, <unk>, all pieces, and <mask>.
    tiny_config=_SIZES | {"vocab_size": 4 + _XLM_PIECES + 1, "bos_token_id": 5, "eos_token_id": 6},
    tokens=Tokens(pad=PAD, first=5, last=6, first_ordinary=7),
    write_vocabulary=functools.partial(
        write_sentencepiece_vocabulary, tokenizer="CamembertTokenizer"
    ),
    has_segments=False,
)
BERTWEET = Family(
    prefix="Roberta",
    tiny_config=_SIZES | {"vocab_size": len(_SPECIAL) + len(TWEET_TOKENS) + len(("<mask>",))},
    tokens=_TOKENS,
    write_vocabulary=write_tweet_vocabulary,
    has_segments=False,
)
MULTILINGUAL_MINILM = Family(
    prefix="Bert",
    # Two rows more than there are tokens, as in the released files.
    tiny_config=TINY_SIZES
    | {
        "max_position_embeddings": POSITIONS,
        "vocab_size": XLM_ROBERTA.tiny_config["vocab_size"] + 2,
    },
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
    save_bin(model.state_dict() | position_ids(model), directory)


def hub_config(config: dict) -> dict:
    """The config.json of roberta-base in circulation."""
    tokens = ("bos_token_id", "eos_token_id", "pad_token_id")
    return minimal_config(config, "architectures", "layer_norm_eps", "model_type", *tokens)


def make_fairseq_twin(family, case, directory, *, names, dtype, zipped):
    golden_fairseq.write_twin(directory.parent / case.twin, directory, names, dtype, zipped)
    golden_fairseq.write_bpe_files(directory, BPE_TOKENS, BPE_MERGES, _FILLERS, VOCABULARY)


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


CASES = (
    Case(
        "encoder",
        "The encoder with its pooler, every hidden state and attention; pad ids right, left and "
        "as tokens, and words that the mask leaves out.",
        make_inputs=padded_inputs,
        internals=True,
    ),
    Case(
        "encoder_no_pooler",
        "An encoder file without a pooler.",
        model_arguments={"add_pooling_layer": False},
    ),
    Case(
        "masked_lm",
        "The output layer is the word embedding; loss and gradients. Twin of fairseq_old.",
        gradients=(
            *_ENCODER_GRADIENTS,
            "lm_head.dense.weight",
            "lm_head.layer_norm.weight",
            "lm_head.bias",
        ),
        edit_weights=half_without_token_types,
    ),
    Case(
        "masked_lm_untied",
        "A decoder of its own: decoder.bias counts, and lm_head.bias, which differs, does not.",
        config={"tie_word_embeddings": False},
    ),
    Case(
        "masked_lm_relu",
        "ReLU in the layers; the head keeps its erf GELU.",
        config={"hidden_act": "relu"},
    ),
    Case(
        "classification",
        "RoBERTa's own head, three named classes; classifier_dropout differs from the other rates; "
        "loss and gradients. Twin of fairseq_new.",
        config={"problem_type": "single_label_classification", "classifier_dropout": 0.3}
        | _ENTAILMENT,
        gradients=(
            *_ENCODER_GRADIENTS,
            "classifier.dense.weight",
            "classifier.out_proj.weight",
            "classifier.out_proj.bias",
        ),
        edit_weights=without_token_types,
    ),
    Case(
        "question_answering",
        "Start and end of the answer, up to the last position that the model has.",
        make_inputs=longest_inputs,
    ),
    *head_cases(_ONE_LAYER, choice=", from the pooler's output"),
    Case(
        "bin_legacy",
        "pytorch_model.bin in the format before torch 1.6 with position_ids and the tied tensors "
        "twice, and roberta-base's config.json.",
        task="masked_lm",
        save=save_bin_2019,
        edit_config=hub_config,
    ),
    Case(
        "fairseq_old",
        "As fairseq 0.7 trained it, the year of RoBERTa: root `decoder.`, one matrix for query, "
        "key and value, half precision, the format before torch 1.6.",
        task="masked_lm",
        twin="masked_lm",
        make=functools.partial(
            make_fairseq_twin,
            names=golden_fairseq.RELEASE_2019,
            dtype=torch.float16,
            zipped=False,
        ),
    ),
    Case(
        "fairseq_new",
        "As fairseq of 2021 fine-tuned it: root `encoder.`, layernorm_embedding, a head named "
        "mnli beside the head of the language model.",
        task="classification",
        twin="classification",
        make=functools.partial(
            make_fairseq_twin, names=golden_fairseq.MAIN_2021, dtype=torch.float32, zipped=True
        ),
    ),
)

XLM_CASES = (
    Case("encoder", "The encoder with its pooler.", make_inputs=padded_inputs),
    Case(
        "masked_lm",
        "The output layer is the word embedding.",
    ),
    Case(
        "classification",
        "Three named classes.",
        config=_ENTAILMENT,
    ),
)

CAMEMBERT_CASES = (
    Case("encoder", "The encoder with its pooler."),
    Case("masked_lm", "The output layer is the word embedding."),
)


def says_tokenizer(name: str):
    """Has config.json name the tokenizer, as the hub's does, by which the family is told from others."""
    return lambda config: config | {"tokenizer_class": name}


_OF_TWEETS = says_tokenizer("BertweetTokenizer")
BERTWEET_CASES = (
    Case("encoder", "The encoder with its pooler.", edit_config=_OF_TWEETS),
    Case("masked_lm", "The output layer is the word embedding.", edit_config=_OF_TWEETS),
)
MULTILINGUAL_MINILM_CASES = (
    Case(
        "encoder",
        "BERT's encoder with its pooler.",
        edit_config=says_tokenizer("XLMRobertaTokenizer"),
    ),
)
