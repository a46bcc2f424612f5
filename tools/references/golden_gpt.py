"""The golden cases of GPT and GPT-2."""

import json
import pathlib

import numpy as np
import torch
import transformers
from golden_case import (
    POSITIONS,
    TINY_SIZES,
    Case,
    Family,
    Tokens,
    batch_inputs,
    labelled,
    load_checkpoint,
    random_inputs,
    torch_inputs,
    write_checkpoint,
)
from golden_files import random_generator, write_json, write_lines
from golden_roberta import BPE_MERGES, BPE_TOKENS

# --- Vocabularies --------------------------------------------------------------------------------

END = "<|endoftext|>"
_MORE_MERGES = ("Ġs he", "Ġ he", "Ġt o", "r e", "Ġ re")
_GPT2_MERGES = (*BPE_MERGES, *_MORE_MERGES)
GPT2_VOCABULARY = (
    *(token for token in BPE_TOKENS if token != END),
    *(merge.replace(" ", "") for merge in _MORE_MERGES),
    END,
)

_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
_WORD_MERGES = (
    *("t h", "th e</w>", "i n", "a n", "an d</w>", "a t</w>", "c at</w>", "s at</w>", "b i"),
    *("bi r", "bir d</w>", "r e", "h e</w>", "s he</w>", "in g</w>", "d o", "do g</w>"),
)
GPT_VOCABULARY = (
    "<unk>",
    *_CHARACTERS,
    *(f"{character}</w>" for character in _CHARACTERS),
    *(merge.replace(" ", "") for merge in _WORD_MERGES),
)


def _write_vocabulary(directory, vocabulary, merges, tokenizer: str, text: str, wanted) -> None:
    ids = {token: index for index, token in enumerate(vocabulary)}
    (directory / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False))
    write_lines(directory / "merges.txt", ("#version: 0.2", *merges))
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": tokenizer})
    tokens = transformers.AutoTokenizer.from_pretrained(directory).tokenize(text)
    if tokens != wanted:
        raise ValueError(f"transformers reads the vocabulary in {directory} as {tokens}.")


def write_gpt2_vocabulary(directory: pathlib.Path) -> None:
    text, tokens = f"the cat's dog{END}", ["t", "he", "Ġcat", "'s", "Ġdog", END]
    _write_vocabulary(directory, GPT2_VOCABULARY, _GPT2_MERGES, "GPT2Tokenizer", text, tokens)


def write_gpt_vocabulary(directory: pathlib.Path) -> None:
    text, tokens = "The bIrd: sat", ["the</w>", "bird</w>", "<unk>", "sat</w>"]
    _write_vocabulary(directory, GPT_VOCABULARY, _WORD_MERGES, "OpenAIGPTTokenizer", text, tokens)


# --- Families ------------------------------------------------------------------------------------

# Rows are padded with a token that no row has besides, by which transformers finds their last one.
_TOKENS = Tokens(pad=0, first=3, last=4, first_ordinary=5)
_SIZES = {
    "n_embd": TINY_SIZES["hidden_size"],
    "n_layer": TINY_SIZES["num_hidden_layers"],
    "n_head": TINY_SIZES["num_attention_heads"],
    "n_positions": POSITIONS,
}
GPT = Family(
    prefix="OpenAIGPT",
    tiny_config=_SIZES | {"vocab_size": len(GPT_VOCABULARY)},
    tokens=_TOKENS,
    write_vocabulary=write_gpt_vocabulary,
    has_segments=False,
)
_LAST = len(GPT2_VOCABULARY) - 1
GPT2 = Family(
    prefix="GPT2",
    tiny_config=_SIZES
    | {"vocab_size": len(GPT2_VOCABULARY), "bos_token_id": _LAST, "eos_token_id": _LAST},
    tokens=_TOKENS,
    write_vocabulary=write_gpt2_vocabulary,
    has_segments=False,
)


# --- Language models -----------------------------------------------------------------------------


def make_language_model(family: Family, case: Case, directory: pathlib.Path) -> None:
    """As `make_case`, with log-probabilities of all tokens and of those that follow."""
    rng = random_generator(case.name)
    written = write_checkpoint(family, case, rng, directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    model = load_checkpoint(case, directory, written)
    inputs = case.make_inputs(family, model.config, rng)
    token_ids, mask = inputs["token_ids"], inputs["padding_mask"]
    following = np.pad(token_ids[:, 1:], [(0, 0), (0, 1)])
    is_label = np.pad(mask[:, 1:], [(0, 0), (0, 1)]) & mask
    labels = np.where(is_label == 1, following, -100).astype(np.int32)

    logits = model(**torch_inputs(inputs)).logits
    of_all = torch.log_softmax(logits, -1)
    index = torch.from_numpy(np.maximum(labels, 0)).long()
    counted = torch.from_numpy(labels != -100)
    of_labels = torch.gather(of_all, 2, index[..., None])[..., 0] * counted
    loss = -of_labels.sum() / counted.sum()
    # transformers takes the tokens themselves, and leaves out those of -100 after its shift.
    theirs = torch.from_numpy(np.where(mask == 1, token_ids, -100)).long()
    of_theirs = model(**torch_inputs(inputs), labels=theirs).loss
    torch.testing.assert_close(loss.float(), of_theirs.float())
    arrays = {"labels": labels, "log_probs": of_labels, "vocab_log_probs": of_all}
    if case.gradients:
        loss.backward()
        parameters = dict(model.named_parameters())
        arrays |= {"loss": loss}
        arrays |= {f"gradient/{name}": parameters[name].grad for name in case.gradients}
    arrays = {
        name: value.detach().numpy().astype(np.float32) if torch.is_tensor(value) else value
        for name, value in arrays.items()
    }
    np.savez_compressed(directory / "io.npz", **inputs | arrays)


def without_padding(family, config, rng):
    return random_inputs(family, config, rng, lengths=(POSITIONS, POSITIONS))


def cases_of(table: str, positions: str, activation: dict, hub_keys: tuple[str, ...]):
    """The cases that both families have, by the names of their tables."""
    gradients = tuple(
        f"transformer.{name}"
        for name in (
            *(f"{table}.weight", f"{positions}.weight", "h.0.ln_1.weight", "h.0.ln_2.bias"),
            *("h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.1.attn.c_proj.weight"),
            *("h.1.mlp.c_fc.weight", "h.1.mlp.c_proj.bias"),
        )
    )
    one_layer = {"n_layer": 1}
    padded = {"pad_token_id": 0}

    def hub_config(config: dict) -> dict:
        """The config.json of the checkpoints in circulation."""
        kept = (
            *("architectures", "attn_pdrop", "embd_pdrop", "initializer_range", "model_type"),
            *("layer_norm_epsilon", "n_embd", "n_head", "n_layer", "n_positions", "resid_pdrop"),
            *("summary_activation", "summary_first_dropout", "summary_proj_to_labels"),
            *("summary_type", "summary_use_proj", "vocab_size", *hub_keys),
        )
        told = {key: config[key] for key in kept}
        return told | {
            "n_ctx": config["n_positions"],
            "n_special": 0,
            "predict_special_tokens": True,
            "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        }

    return (
        Case("encoder", "The encoder, every hidden state and attention.", internals=True),
        Case(
            "causal_lm",
            "Log-probabilities by the token table; loss and gradients; the hub's config.json.",
            make=make_language_model,
            make_inputs=batch_inputs,
            gradients=gradients,
            edit_config=hub_config,
        ),
        Case(
            "causal_lm_untied",
            "A table of its own for the softmax, another activation and another width.",
            task="causal_lm",
            config=one_layer | {"tie_word_embeddings": False} | activation,
            make=make_language_model,
            make_inputs=without_padding,
        ),
        Case(
            "classification",
            "The last token, without bias; three classes; loss and gradients.",
            config=padded
            | {"problem_type": "single_label_classification"}
            | labelled("a", "b", "c"),
            gradients=(*gradients, "score.weight"),
        ),
        Case(
            "multi_label_classification",
            "Any of three labels.",
            config=padded
            | one_layer
            | {"problem_type": "multi_label_classification"}
            | labelled("x", "y", "z"),
        ),
        Case(
            "regression",
            "One number for each text.",
            config=padded | one_layer | {"num_labels": 1, "problem_type": "regression"},
        ),
    )


GPT_CASES = cases_of("tokens_embed", "positions_embed", {"afn": "relu"}, ("afn",))
GPT2_CASES = (
    *cases_of(
        "wte",
        "wpe",
        {"activation_function": "relu", "n_inner": 48},
        ("activation_function", "bos_token_id", "eos_token_id"),
    ),
    Case(
        "token_classification",
        "Five named tags for each token.",
        config={"n_layer": 1} | labelled("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    Case(
        "question_answering",
        "Start and end of the answer, of tokens that see those before them.",
        config={"n_layer": 1},
    ),
)
