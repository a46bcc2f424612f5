"""Longformer's goldens: rows with global tokens, and files as allenai's program has them."""

import json
import pathlib

import numpy as np
import safetensors.torch
import torch
from golden_case import Case, Family, random_inputs, save_bin
from golden_files import write_json


def with_global_tokens(*lengths: int):
    """Rows of these lengths, in each of which other tokens are global: none, one or several."""

    def make_inputs(family, config, rng):
        inputs = random_inputs(family, config, rng, lengths)
        mask = np.zeros_like(inputs["token_ids"])
        for row, length in enumerate(lengths):
            mask[row, rng.choice(length, 2 * row, replace=False)] = 1
        # Of padding, none is.
        mask[-1, -1] = 1
        return inputs | {"global_attention_mask": mask}

    return make_inputs


def pairs(*lengths: int, choices: int = 0):
    """Pairs of texts, with two separators between them; in as many `choices` a row."""

    def make_inputs(family, config, rng):
        inputs = random_inputs(family, config, rng, lengths)
        for row, length in enumerate(lengths):
            between = rng.integers(2, length - 3)
            inputs["token_ids"][row, between : between + 2] = family.tokens.last
        if not choices:
            return inputs
        return {name: ids.reshape(-1, choices, max(lengths)) for name, ids in inputs.items()}

    return make_inputs


def run_with_internals(model, inputs: dict[str, torch.Tensor]):
    """The outputs, and attentions with a place for every token of the row as a global one.

    transformers has as many places as the row with most global tokens needs, and fills those that other
    rows leave empty with equal numbers or NaN; the padding that it adds to rows is among the keys.
    """
    result = model(**inputs, output_hidden_states=True, output_attentions=True)
    length, mask = inputs["input_ids"].shape[1], inputs["global_attention_mask"]
    counts = (mask * inputs["attention_mask"]).sum(dim=1)
    most = int(counts.max())
    local, by_globals = [], []
    is_taken = torch.arange(most) < counts[:, None]
    for attention, of_globals in zip(result.attentions, result.global_attentions, strict=True):
        empty = attention.new_zeros(*attention.shape[:3], length - most)
        local.append(torch.cat([attention[..., :most], empty, attention[..., most:]], dim=-1))
        of_globals = of_globals[:, :, :length].masked_fill(~is_taken[:, None, None], 0)
        by_globals.append(torch.cat([of_globals, empty], dim=-1))
    return result, {
        "hidden_states": torch.stack(result.hidden_states),
        "attentions": torch.stack(local),
        "global_attentions": torch.stack(by_globals),
    }


def make_original(family: Family, case: Case, directory: pathlib.Path) -> None:
    """The weights of a twin in allenai's directories: RoBERTa's names, windows counted on one side."""
    twin = directory.parent / case.twin
    config = json.loads((twin / "config.json").read_text())
    state = safetensors.torch.load_file(twin / "model.safetensors")
    state = {name.replace("longformer.", "roberta."): tensor for name, tensor in state.items()}
    state["lm_head.decoder.weight"] = state["roberta.embeddings.word_embeddings.weight"]
    state["roberta.embeddings.position_ids"] = torch.arange(config["max_position_embeddings"])[None]
    save_bin(state, directory)
    keys = """attention_probs_dropout_prob bos_token_id eos_token_id hidden_act hidden_dropout_prob
        hidden_size initializer_range intermediate_size layer_norm_eps max_position_embeddings
        num_attention_heads num_hidden_layers pad_token_id type_vocab_size vocab_size"""
    layers = config["num_hidden_layers"]
    windows = config["attention_window"]
    told = {
        "architectures": ["RobertaForMaskedLM"],
        **{key: config[key] for key in keys.split()},
        "attention_window": [window // 2 for window in windows],
        "attention_dilation": [1] * layers,
        "attention_mode": "tvm",
        "autoregressive": False,
    }
    write_json(directory / "config.json", told)
    family.write_vocabulary(directory)
    with np.load(twin / "io.npz") as of_twin:
        kept = {name: of_twin[name] for name in ("token_ids", "padding_mask", "logits")}
    np.savez_compressed(directory / "io.npz", **kept)


GRADIENTS = tuple(
    f"longformer.{name}.weight"
    for name in """embeddings.word_embeddings embeddings.position_embeddings embeddings.LayerNorm
    encoder.layer.0.attention.self.query encoder.layer.0.attention.self.query_global
    encoder.layer.0.attention.self.key_global encoder.layer.1.attention.self.value_global
    encoder.layer.1.output.dense""".split()
)
LOCAL_GRADIENTS = tuple(name for name in GRADIENTS if "_global" not in name)
