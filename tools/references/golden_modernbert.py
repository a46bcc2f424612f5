"""The golden cases of ModernBERT."""

import functools
import pathlib

import torch
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    choice_inputs,
    labelled,
    random_inputs,
)
from golden_files import write_json
from golden_roberta import BPE_MERGES, BPE_TOKENS
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers.models.modernbert import modeling_modernbert

# Runs of blanks are tokens that are looked for in normalised texts; so are the unused ones.
ADDED = (*(" " * number for number in range(6, 1, -1)), "|||EMAIL_ADDRESS|||", "[unused0]")
SPECIAL = ("<|padding|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
# Letters that NFC composes have no place of their own in the file's tiny alphabet.
BYTES = ("Ã", "©", "Ì", "ģ")
VOCABULARY = (*SPECIAL, *BPE_TOKENS, *BYTES, *ADDED)
PAD, CLS, SEP = map(VOCABULARY.index, ("[PAD]", "[CLS]", "[SEP]"))


def write_tokenizer(directory: pathlib.Path) -> None:
    """A tokenizer.json as the released one, of fewer tokens."""
    ids = {token: index for index, token in enumerate(VOCABULARY[: -len(ADDED)])}
    merges = [tuple(merge.split()) for merge in BPE_MERGES]
    tokenizer = Tokenizer(models.BPE(ids, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, lstrip=token == "[MASK]", normalized=False) for token in SPECIAL]
    )
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in ADDED])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    named = {f"{role}_token": f"[{role.upper()}]" for role in ("cls", "sep", "pad", "mask", "unk")}
    write_json(
        directory / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", **named},
    )


MODERNBERT = Family(
    prefix="ModernBert",
    tiny_config={
        **{name: TINY_SIZES[name] for name in ("hidden_size", "num_attention_heads")},
        "intermediate_size": 24,
        "num_hidden_layers": 4,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(VOCABULARY),
        "global_attn_every_n_layers": 3,
        "local_attention": 8,
        "pad_token_id": PAD,
        "cls_token_id": CLS,
        "bos_token_id": CLS,
        "sep_token_id": SEP,
        "eos_token_id": SEP,
    },
    tokens=Tokens(pad=PAD, first=CLS, last=SEP, first_ordinary=len(SPECIAL)),
    write_vocabulary=write_tokenizer,
    has_segments=False,
)


def attend(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """transformers' eager attention in float64 throughout.

    Its softmax is one in float32 always, where float64's least number, which hides keys, is minus
    infinity: rows that see nothing are not a number then, which they are not in a float32 model.
    """
    scores = query @ key.transpose(2, 3) * scaling
    probabilities = torch.softmax(scores if attention_mask is None else scores + attention_mask, -1)
    return (probabilities @ value).transpose(1, 2).contiguous(), probabilities


modeling_modernbert.eager_attention_forward = attend

# Padding that windows still reach from a token: what stands further off sees nothing, and attention to
# nothing has no meaning.
long_rows = functools.partial(random_inputs, lengths=(POSITIONS, POSITIONS - 3, POSITIONS - 4))
short_rows = functools.partial(random_inputs, lengths=(11, 10, 8))
odd_rows = functools.partial(random_inputs, lengths=(27, 23))


def calm(model) -> None:
    """Smaller weights in the blocks, whose sums no norm bounds on their way up."""
    for layer in model.base_model.layers.parameters():
        layer.data *= 0.5 if layer.ndim == 2 else 1.0


def hub_config(config: dict) -> dict:
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


_TWO_LAYERS = {"num_hidden_layers": 2}  # one of each kind
_ENCODER_GRADIENTS = (
    "model.embeddings.tok_embeddings.weight",
    "model.embeddings.norm.weight",
    "model.layers.0.attn.Wqkv.weight",
    "model.layers.1.attn_norm.weight",
    "model.layers.1.attn.Wqkv.weight",
    "model.layers.2.attn.Wo.weight",
    "model.layers.2.mlp.Wi.weight",
    "model.layers.3.mlp.Wo.weight",
    "model.final_norm.weight",
    "head.dense.weight",
    "head.norm.weight",
)
_LABELS = labelled("negative", "neutral", "positive")

CASES = (
    Case(
        "encoder",
        "Every hidden state and attention, of as many tokens as the model reads; the config.json of "
        "transformers 5, with layer_types and rope_parameters.",
        edit_weights=calm,
        make_inputs=long_rows,
        internals=True,
    ),
    Case(
        "encoder_short",
        "Rows so short that windows see most of them, with the released config.json's keys.",
        make_inputs=short_rows,
        edit_config=hub_config,
    ),
    Case(
        "masked_lm",
        "The output layer is the word embedding, with a bias; loss and gradients.",
        make_inputs=odd_rows,
        gradients=(*_ENCODER_GRADIENTS, "decoder.bias"),
        edit_weights=calm,
        edit_config=hub_config,
    ),
    Case(
        "masked_lm_untied",
        "A decoder of its own; ReLU in the layers, and the head keeps its GELU; other thetas.",
        config=_TWO_LAYERS
        | {
            "tie_word_embeddings": False,
            "hidden_activation": "relu",
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
            },
        },
        make_inputs=odd_rows,
        edit_weights=calm,
    ),
    Case(
        "classification",
        "The mean over real tokens, in rows with much padding; three named classes; loss and "
        "gradients.",
        config={"classifier_pooling": "mean", "problem_type": "single_label_classification"}
        | _LABELS,
        gradients=(*_ENCODER_GRADIENTS, "classifier.weight", "classifier.bias"),
        edit_config=hub_config,
    ),
    Case(
        "classification_cls",
        "The first token, in rows with much padding.",
        config=_TWO_LAYERS
        | {"classifier_pooling": "cls", "problem_type": "single_label_classification"}
        | _LABELS,
    ),
    Case(
        "question_answering",
        "Start and end of the answer, in a model that reads longer rows, for questions of many tokens.",
        make_inputs=long_rows,
        config=_TWO_LAYERS | {"max_position_embeddings": 3 * POSITIONS},
    ),
    Case(
        "regression",
        "One number for each text.",
        config=_TWO_LAYERS | {"num_labels": 1, "problem_type": "regression"},
    ),
    Case(
        "token_classification",
        "Five named tags for each token.",
        config=_TWO_LAYERS | labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
        make_inputs=odd_rows,
    ),
    Case(
        "multiple_choice",
        "Three choices for each question, from the mean over their tokens.",
        config=_TWO_LAYERS | {"classifier_pooling": "mean"},
        make_inputs=choice_inputs,
    ),
)
