"""Makes tests/golden/pseudo_log_likelihood.json: transformers' log-probabilities of each token of texts, given all others.

Of golden checkpoints with random weights, one forward pass a token, in float64; for "left_to_right" with the rest of the
token's word hidden too, by the tokenizer's own words. In an environment with torch, transformers and sentencepiece:

    python tools/references/make_scores.py --output_dir tests/golden
"""

import argparse
import json
import pathlib

import numpy as np
import torch
import transformers
from golden_case import torch_inputs
from golden_xlnet import with_streams

CASES = {
    "albert/masked_lm": ("one_by_one",),
    "bert/masked_lm": ("one_by_one", "left_to_right"),
    "electra/masked_lm": ("one_by_one",),
    "roberta/masked_lm": ("one_by_one",),
    "xlnet/masked_lm": ("one_by_one",),
}
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the uncatable house, and she saw it"]


def log_prob(model, row, position: int, hidden: list[int], mask_id: int) -> float:
    """The log-probability of the token at a position while those at the positions `hidden` are masked."""
    ids = row["input_ids"]
    inputs = {"token_ids": np.array([ids])}
    inputs["token_ids"][0, hidden] = mask_id
    if model.config.model_type == "xlnet":
        # Its last token, the class, is of a segment that transformers 5.24's tokenizer does not tell.
        inputs["segment_ids"] = np.array([[0] * (len(ids) - 1) + [2]])
        inputs |= streams_at(position, len(ids))
        logits = with_streams(model, inputs).logits[0, 0]
    else:
        logits = model(**torch_inputs(inputs)).logits[0, position]
    return round(logits.log_softmax(-1)[ids[position]].item(), 9)


def streams_at(position: int, length: int) -> dict[str, np.ndarray]:
    mapping = np.eye(length)[None, [position]]
    return {"target_mapping": mapping, "perm_mask": mapping.repeat(length, axis=1)}


def scores(directory: pathlib.Path, ways: tuple[str, ...]) -> dict:
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForMaskedLM
    if json.loads((directory / "config.json").read_text())["model_type"] == "xlnet":
        model = transformers.XLNetLMHeadModel
    model = model.from_pretrained(directory, dtype=torch.float32).double().eval()
    found = {"token_ids": [], **{way: [] for way in ways}}
    for text in TEXTS:
        row = tokenizer(text)
        words = row.word_ids()
        places = [i for i, word in enumerate(words) if word is not None]
        found["token_ids"].append([row["input_ids"][i] for i in places])
        for way in ways:
            in_word = {
                i: [
                    j
                    for j in places
                    if j == i or (way != "one_by_one" and j > i and words[j] == words[i])
                ]
                for i in places
            }
            found[way].append(
                [log_prob(model, row, i, in_word[i], tokenizer.mask_token_id) for i in places]
            )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    directory = parser.parse_args().output_dir
    with torch.no_grad():
        found = {case: scores(directory / case, ways) for case, ways in CASES.items()}
    content = {"transformers": transformers.__version__, "texts": TEXTS, "cases": found}
    path = directory / "pseudo_log_likelihood.json"
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
