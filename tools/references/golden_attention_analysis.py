"""Makes tests/golden/attention_analysis.npz: what Clark et al.'s code gives for maps of attention drawn at random.

It runs the functions of their notebooks and scripts, from a clone of clarkkev/attention-analysis. It needs NumPy
alone:

    python tools/references/golden_attention_analysis.py attention-analysis
"""

import argparse
import collections
import json
import pathlib
import sys

import numpy as np
from golden_files import GOLDEN, stand_in

# Words, their heads, their relations, and how many pieces each has.
SENTENCES = (
    (
        "Ann 's big cat sat .",
        (4, 1, 4, 5, 0, 5),
        "poss possessive amod nsubj root punct",
        (1, 2, 1, 3, 1, 1),
    ),
    (
        "the men 's dog , it seems , ran",
        (2, 4, 2, 9, 4, 7, 4, 7, 0),
        "det poss possessive nsubj punct nsubj dep punct root",
        (1, 1, 2, 1, 1, 1, 3, 1, 2),
    ),
    ("go", (0,), "root", (2,)),
)
# The original's code has these numbers in it.
LAYERS = HEADS = 12
OFFSETS = (-3, -2, -1, 1, 2)


def maps_of(seed: int, tokens: int) -> np.ndarray:
    """Attention [layers, heads, tokens, tokens], as the test draws it too."""
    drawn = np.random.RandomState(seed).gamma(0.3, size=(LAYERS, HEADS, tokens, tokens)) + 1e-9
    return drawn / drawn.sum(-1, keepdims=True)


def sentence(seed: int, text: str, heads, relations: str, sizes) -> dict:
    """A sentence as the original's files hold it, with "pieces", the attention between pieces, and those of words."""
    words, sizes = ["[CLS]", *text.split(), "[SEP]"], [1, *sizes, 1]
    ends = np.cumsum(sizes).tolist()
    return {
        "words": words[1:-1],
        "heads": heads,
        "relns": relations.split(),
        "tokens": [
            ("##" if i else word) for word, n in zip(words, sizes, strict=True) for i in range(n)
        ],
        "pieces_of_words": [[*range(end - n, end)] for end, n in zip(ends, sizes, strict=True)],
        "pieces": maps_of(seed, ends[-1]),
    }


def run_cells(clone: pathlib.Path, notebook: str, *beginnings: str, **names) -> dict:
    """The names that the cells with these beginnings leave behind."""
    cells = json.loads((clone / f"{notebook}.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    for beginning in beginnings:
        (source,) = (source for source in sources if source.startswith(beginning))
        exec(source, names)
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clone", type=pathlib.Path)
    clone = parser.parse_args().clone
    documents = [sentence(seed, *given) for seed, given in enumerate(SENTENCES)]
    written, found = [], {}
    # In place of modules that need TensorFlow 1.
    stand_in("bert", tokenization=None)
    stand_in(
        "utils",
        load_pickle=lambda path: documents,
        write_pickle=lambda value, path: written.append(value),
        logged_loop=lambda rows, **options: rows,
    )
    sys.path.insert(0, str(clone))
    import bpe_utils
    import head_distances

    labels = ["all", *sorted({label for document in documents for label in document["relns"]})]
    found["labels"] = labels
    for mode in ("first", "mean"):
        for document in documents:
            by_head = document["pieces"].reshape(-1, *document["pieces"].shape[2:])
            of_words = [
                bpe_utils.get_word_word_attention(head, document["pieces_of_words"], mode)
                for head in by_head
            ]
            document["attns"] = np.reshape(of_words, (LAYERS, HEADS, *of_words[0].shape))
        names = run_cells(
            clone,
            "Syntax_Analysis",
            "# Code for evaluating",
            dev_data=documents,
            np=np,
            collections=collections,
        )
        # A label that is never missed has no entry there.
        found[f"{mode}/heads"] = [
            [
                [[scores.get(label, 1) for label in labels] for scores in layer.values()]
                for layer in names["attn_head_scores"][direction].values()
            ]
            for direction in ("dep->head", "head<-dep")
        ]
        found["offsets"] = [
            [names["baseline_scores"][offset].get(label, 1) for label in labels]
            for offset in OFFSETS
        ]
    for document in documents:
        document["attns"] = document["pieces"]
    names = run_cells(
        clone,
        "General_Analysis",
        "avg_attns = {",
        "uniform_attn_entropy",
        data_iterator=lambda: ((d["tokens"], d["attns"]) for d in documents),
        n_docs=len(documents),
        np=np,
    )
    found |= {f"shares/{name}": value for name, value in names["avg_attns"].items()}
    found |= {"entropy": names["entropies"], "uniform": names["uniform_attn_entropy"]}
    sys.argv = ["head_distances.py", "--attn-data-file", "-", "--outfile", "-"]
    head_distances.main()
    # Of some heads to all.
    found["distances"] = written[-1][:: HEADS + 1]
    np.savez_compressed(GOLDEN / "attention_analysis.npz", **found)


if __name__ == "__main__":
    main()
