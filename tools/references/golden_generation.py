"""Goldens of generation: the targets that transformers writes for random sources, with models of tests/golden.

    python tools/references/golden_generation.py

Runs in an environment with torch and transformers. Writes `generated.npz` beside a model's files: `token_ids` and
`padding_mask` of the sources, `stops`, and for each way of searching in `OPTIONS` the new tokens, 0 after what stops
them.
"""

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
OPTIONS = {
    "greedy": {},
    "beams": {"num_beams": 4, "length_penalty": 0.0},
    "long_beams": {"num_beams": 3, "length_penalty": 1.5},
}


def sources() -> dict[str, np.ndarray]:
    """Rows of random tokens of different lengths that end in `</s>`, and their mask."""
    rng = np.random.default_rng(48)
    lengths = rng.integers(2, LONGEST + 1, (SOURCES, 1))
    places = np.arange(LONGEST)
    ids = rng.integers(3, ORDINARY, (SOURCES, LONGEST))
    ids = np.where(places == lengths - 1, 1, np.where(places < lengths, ids, 0))
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
    ids = found[:, 1:].numpy()
    is_stop = np.isin(ids, stops)
    return np.where(np.cumsum(is_stop, axis=1) - is_stop > 0, 0, ids).astype(np.uint8)


def main() -> None:
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
