"""Sentence encoders that sentence-transformers writes and bert_zoo reads, and the other way round.

    reference-env/bin/python tools/references/sentence_transformers_directories.py write DIRECTORY ENCODER...
    python tools/references/sentence_transformers_directories.py load DIRECTORY
    reference-env/bin/python tools/references/sentence_transformers_directories.py open DIRECTORY

`write`, in an environment with sentence-transformers, puts poolings, Dense layers with each activation, prompts,
similarities and shorter vectors behind each encoder (a directory of transformers or sentence-transformers, which
is taken as it is too), and keeps their vectors and similarities. `load` has bert_zoo read them, trains each for two
steps, and saves it with `format="hf"`. `open` reads these with sentence-transformers. Both print a line a model, with
the largest difference of vectors and similarities.
"""

import itertools
import json
from pathlib import Path

import numpy as np
from hugging_face_tokenizers import run

TEXTS = (
    "How do I get my money back?",
    "I would like a refund, please, for the blue shoes that came on Monday.",
    "the cat sat on the tree",
    "Wo ist der n\u00e4chste Bahnhof?",
)
PROMPTS = {"query": "query: ", "document": "passage: "}
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU")
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
TOLERANCE = 1e-5


def kept(model, embed, similarity) -> dict[str, np.ndarray]:
    """Vectors of the texts by the prompt, "" without one, and how alike they are."""
    vectors = {name: embed(name) for name in ("", *PROMPTS)}
    return vectors | {"similarity": np.asarray(similarity(vectors[""]))}


# --- sentence-transformers' side -------------------------------------------------------------------


def answers_of(model) -> dict[str, np.ndarray]:
    return kept(
        model,
        lambda name: model.encode(TEXTS, prompt_name=name or None, show_progress_bar=False),
        lambda vectors: model.similarity(vectors, vectors),
    )


def write(directory: str, *encoders: str) -> None:
    """Writes models, and what sentence-transformers gives for texts."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    torch.manual_seed(0)
    similarities = itertools.cycle(("cosine", "dot", "euclidean", "manhattan"))
    for encoder in map(Path, encoders):
        below = Path(directory, "theirs", encoder.name)
        models = {"as_it_is": SentenceTransformer(str(encoder), prompts=PROMPTS, device="cpu")}
        for number, (mode, activation) in enumerate(zip(MODES, ACTIVATIONS, strict=True)):
            transformer = Transformer(str(encoder))
            modes = (mode,) if number % 2 else (mode, "mean")
            width = transformer.get_embedding_dimension()
            pooling, width = Pooling(width, modes), width * len(modes)
            function = getattr(torch.nn, activation)()
            dense = Dense(width, 24, bias=bool(number % 3), activation_function=function)
            models[f"{'_'.join(modes)}_{activation}"] = SentenceTransformer(
                modules=[transformer, pooling, dense, *[Normalize()] * (number % 2)],
                prompts=PROMPTS,
                default_prompt_name=(None, "query")[number % 2],
                similarity_fn_name=next(similarities),
                truncate_dim=(None, 16)[number // 2 % 2],
                device="cpu",
            )
        for name, model in models.items():
            model.save(str(below / name))
            np.savez(below / f"{name}.npz", **answers_of(model))
    print(f"wrote {len(models)} models of each of {len(encoders)} encoders")


def open_(directory: str) -> None:
    """Reads what bert_zoo wrote, and compares with what it gave."""
    from sentence_transformers import SentenceTransformer, __version__

    print(f"bert_zoo's directories in sentence-transformers {__version__}")
    for file in sorted(Path(directory, "ours").glob("*/*.npz")):
        model = SentenceTransformer(str(file.with_suffix("")), device="cpu")
        print_line(file, answers_of(model))


# --- Our side --------------------------------------------------------------------------------------


def our_answers(model) -> dict[str, np.ndarray]:
    from bert_zoo.loading.similarity import SCORES

    compare = SCORES[model.encoder.pooling.similarity]
    return kept(
        model,
        lambda name: model.embed(list(TEXTS), prompt=name or None),
        lambda vectors: compare(vectors, vectors),
    )


def load(directory: str) -> None:
    """Reads what sentence-transformers wrote, compares, and writes it again."""
    import bert_zoo

    print("sentence-transformers' directories in bert_zoo")
    for file in sorted(Path(directory, "theirs").glob("*/*.npz")):
        model = bert_zoo.load(file.with_suffix(""), "embedding")
        print_line(file, our_answers(model))
        model.compile(model.optimizer, run_eagerly=True)
        model.fit((TEXTS[::2], TEXTS[1::2]), epochs=2, verbose=0)
        ours = Path(directory, "ours", file.parent.name)
        bert_zoo.save(model, ours / file.stem, format="hf")
        np.savez(ours / file.name, **our_answers(model))


def print_line(file: Path, found: dict[str, np.ndarray]) -> None:
    with np.load(file) as expected:
        worst = {name: float(np.abs(found[name] - expected[name]).max()) for name in expected}
    largest = max(worst.values())
    said = "equal" if largest <= TOLERANCE else f"DIFFERS: {json.dumps(worst)}"
    print(f"{file.parent.name}/{file.stem}: {said}, within {largest:.1e}", flush=True)


if __name__ == "__main__":
    run({"write": write, "load": load, "open": open_})
