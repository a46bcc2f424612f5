"""Writes tests/golden/contextual_geometry.npz: the measures of kawine/contextual's `analyze.py` for given vectors.

    git clone https://github.com/kawine/contextual
    pip install h5py numpy scikit-learn scipy
    python tools/references/golden_contextual.py contextual

The code rounds to three digits and draws sentences, words and pairs. Here it does not round; it takes all sentences,
the last word of each, and all pairs of those.
"""

import argparse
import csv
import itertools
import json
import os
import pathlib
import sys
import tempfile
import types

import h5py
import numpy as np
from golden_files import GOLDEN, random_generator, stand_in

SENTENCES = (
    "she will play the new play",
    "the play was the play of the year",
    "a year of rain",
    "boys play in the rain all year",
    "new rules of the game",
    "the rain and the game and the play",
    "in the year of the new game",
    "they say it was new",
)
LAYERS, SIZE = 3, 104  # the code asks for 100 components
MIN_OCCURRENCES = 5


def all_pairs(sentences: int) -> types.SimpleNamespace:
    """In place of the module `random`: everything in its order."""
    pairs = itertools.cycle(
        itertools.chain.from_iterable(itertools.permutations(range(sentences), 2))
    )

    def choice(values):
        return values[-1] if isinstance(values[0], int) else values[next(pairs)]

    return types.SimpleNamespace(sample=lambda values, number: values, choice=choice)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contextual_dir", type=pathlib.Path)
    arguments = parser.parse_args()
    # analyze.py imports a progress bar of allennlp's.
    stand_in("allennlp")
    stand_in("allennlp.common")
    stand_in("allennlp.common.tqdm", Tqdm=types.SimpleNamespace(tqdm=iter))
    sys.path.insert(0, str(arguments.contextual_dir))
    import analyze

    analyze.round = lambda value, digits: float(value)
    analyze.random = all_pairs(len(SENTENCES))
    np.random.seed(0)  # scikit-learn's TruncatedSVD begins with random directions

    words = [sentence.split() for sentence in SENTENCES]
    rng = random_generator("contextual")
    kinds = sorted({word for sentence in words for word in sentence})
    by_kind = dict(zip(kinds, rng.normal(0, 1, (len(kinds), SIZE)), strict=True))
    # Layers differ in how much is common to all words and how much to those of one kind.
    common = rng.normal(0, 1, (LAYERS, 1, SIZE)) * np.array([0.1, 0.7, 2])[:, None, None]
    vectors = np.stack([by_kind[word] for sentence in words for word in sentence])[None]
    vectors = common + vectors + rng.normal(0, 1, (LAYERS, *vectors.shape[1:])) * 0.8
    vectors = vectors.astype(np.float16)
    rows = iter(range(vectors.shape[1]))
    where = {}
    for number, sentence in enumerate(words):
        for position, word in enumerate(sentence):
            where.setdefault(word, []).append((number, position, next(rows)))
    frequent = {w: [o[:2] for o in found] for w, found in where.items()}
    frequent = {w: found for w, found in frequent.items() if len(found) >= MIN_OCCURRENCES}

    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        splits = np.cumsum([0, *map(len, words)])
        with h5py.File("vectors.hdf5", "w") as file:
            for number, (start, end) in enumerate(itertools.pairwise(splits)):
                file[str(number)] = vectors[:, start:end].astype(np.float64)
        pairs = len(SENTENCES) * (len(SENTENCES) - 1)
        analyze.calculate_word_similarity_across_sentences("vectors.hdf5", frequent, "self.csv")
        analyze.variance_explained_by_pc("vectors.hdf5", frequent, "variance.csv", "pc.")
        analyze.explore_embedding_space("vectors.hdf5", "space.json", num_samples=pairs)
        space = json.loads(pathlib.Path("space.json").read_text())

        def table(name: str) -> np.ndarray:
            with open(name) as file:
                return np.array([[*row.values()][1:] for row in csv.DictReader(file)], float)

        np.savez(
            GOLDEN / "contextual_geometry.npz",
            sentences=np.array(SENTENCES),
            vectors=vectors,
            words=np.array([*frequent]),
            self_similarity=table("self.csv"),
            explained_variance=table("variance.csv"),
            intra_sentence=[*space["mean cosine similarity between sentence and words"].values()],
            random_cosine=[*space["mean cosine similarity across words"].values()],
            random_variance=[*space["variance explained for random words"].values()],
        )


if __name__ == "__main__":
    main()
