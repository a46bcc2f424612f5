"""Goldens of generation: the tokens that transformers writes for random rows, with models of tests/golden.

    python tools/references/golden_generation.py

Runs in an environment with torch and transformers. Writes beside a model's files

- `generated.npz`: `token_ids` and `padding_mask` of the sources, `stops`, and for each way of searching in `OPTIONS`
  the new tokens, 0 after what stops them;
- `generated_options.npz`: `token_ids` and `padding_mask` of sources or prompts, and for each set of options in
  tests/golden/generation.json the new tokens, one row after the other.
"""

import json
import pathlib

import numpy as np
import torch
import transformers

GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "golden"
# The models, and tokens that often come early in their targets, so that rows end at different places.
STOPS = {"t5/text_to_text": [1, 13, 30], "t5/text_to_text_gated": [1, 10, 12, 53]}
SEARCHES = {
    "t5/text_to_text": ("greedy",),
    "t5/text_to_text_gated": ("greedy", "beams", "long_beams"),
}
SOURCES, LONGEST, NEW_TOKENS = 200, 14, 16
# Of the models' vocabulary; sentinels are above, and rows of the table that are no tokens.
ORDINARY = 90
# Rows for each set of options, and ids of prompts.
ROWS, CAUSAL = 40, 81
OPTIONS = {
    "greedy": {},
    "beams": {"num_beams": 4, "length_penalty": 0.0},
    "long_beams": {"num_beams": 3, "length_penalty": 1.5},
}


def sources(rows: int = SOURCES, shortest: int = 2, end: int | None = 1) -> dict[str, np.ndarray]:
    """Rows of random tokens of different lengths that end in `</s>` or another token, and their mask."""
    rng = np.random.default_rng(48)
    lengths = rng.integers(shortest, LONGEST + 1, (rows, 1))
    places = np.arange(LONGEST)
    ids = rng.integers(3, ORDINARY if end else CAUSAL, (rows, LONGEST))
    ids = np.where(places < lengths, ids, 0)
    ids = np.where(places == lengths - 1, end, ids) if end else ids
    return {"token_ids": ids.astype(np.uint8), "padding_mask": (places < lengths).astype(np.uint8)}


def targets(model, inputs: dict[str, np.ndarray], stops: list[int], **options) -> np.ndarray:
    with torch.no_grad():
        found = model.generate(
            input_ids=torch.from_numpy(inputs["token_ids"]).long(),
            attention_mask=torch.from_numpy(inputs["padding_mask"]).long(),
            decoder_start_token_id=0,
            max_new_tokens=NEW_TOKENS,
            suppress_tokens=[0, *range(ORDINARY, model.config.vocab_size)],
            eos_token_id=stops,
            pad_token_id=0,
            **options,
        )
    return until(stops, found[:, 1:].numpy())


def until(stops: list[int], ids: np.ndarray) -> np.ndarray:
    """The ids with 0 after what stops them."""
    is_stop = np.isin(ids, stops)
    return np.where(np.cumsum(is_stop, axis=1) - is_stop > 0, 0, ids).astype(np.uint8)


def continued(model, inputs: dict[str, np.ndarray], stops: list[int], **options) -> np.ndarray:
    """The new tokens of each row alone, [rows * returned sequences, NEW_TOKENS].

    In a batch, transformers reads left padding as text where it looks for repeated tokens.
    """
    is_whole = model.config.is_encoder_decoder
    if is_whole:
        barred = {0, *range(ORDINARY, model.config.vocab_size)}
        suppressed = sorted(barred | set(options.pop("suppress_tokens", [])))
        options |= {"decoder_start_token_id": 0, "suppress_tokens": suppressed}
    found = []
    for row, mask in zip(inputs["token_ids"], inputs["padding_mask"], strict=True):
        ids = torch.from_numpy(row[mask > 0][None]).long()
        with torch.no_grad():
            texts = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW_TOKENS,
                eos_token_id=stops,
                pad_token_id=0,
                **options,
            )
        new = texts[:, 1 if is_whole else ids.shape[1] :].numpy()
        found.append(np.pad(new, ((0, 0), (0, NEW_TOKENS - new.shape[1]))))
    return until(stops, np.concatenate(found))


def write_options() -> None:
    told = json.loads((GOLDEN / "generation.json").read_text())
    beams = told["beams"]
    cases = {f"greedy {name}": options for name, options in told["greedy_and_beams"].items()}
    for name, options in (told["greedy_and_beams"] | told["beams_alone"]).items():
        cases[f"beams {name}"] = beams | options
    for case, model_options in told["models"].items():
        is_whole = case.startswith("t5")
        kind = transformers.AutoModelForSeq2SeqLM if is_whole else transformers.AutoModelForCausalLM
        model = kind.from_pretrained(GOLDEN / case).eval()
        inputs = sources(ROWS) if is_whole else sources(ROWS, shortest=1, end=None)
        stops = model_options["stops"]
        found = {
            name: continued(model, inputs, stops, **options) for name, options in cases.items()
        }
        for name, ids in found.items():
            plain = found[name.split(" ")[0] + " nothing"]
            same = (ids[: len(plain)] == plain).all() if len(ids) == len(plain) else False
            print(
                case,
                name,
                "mean length",
                (ids > 0).sum(axis=1).mean(),
                "as nothing" if same else "",
            )
        np.savez_compressed(GOLDEN / case / "generated_options.npz", **inputs, **found)


def main() -> None:
    write_options()
    for case, stops in STOPS.items():
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(GOLDEN / case).eval()
        inputs = sources()
        found = {name: targets(model, inputs, stops, **OPTIONS[name]) for name in SEARCHES[case]}
        for name, ids in found.items():
            print(case, name, "mean length", (ids > 0).sum(axis=1).mean())
        arrays = {**inputs, "stops": np.array(stops, np.uint8), **found}
        np.savez_compressed(GOLDEN / case / "generated.npz", **arrays)


if __name__ == "__main__":
    main()
