"""Makes tests/golden/sentence_transformers: what sentence-transformers writes beside an encoder, and its vectors.

Each directory has `modules.json`, the folders of its modules, the prompts, and `vectors.npz`, by the name of the prompt,
of `TEXTS` and the encoder `tests/golden/bert/encoder`. Weights are random. In an environment with torch and
sentence-transformers:

    python tools/references/make_sentence_transformers.py --output_dir tests/golden
"""

import dataclasses
import pathlib
import shutil
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from golden_files import make_all
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

BASE = "bert/encoder"
# As tests/helpers.py has them.
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house, and she saw the city"]
PROMPTS = {"query": "the city ", "document": ""}
LITERAL = "she saw the "
OWN_FILES = ("modules.json", "config_sentence_transformers.json")


@dataclasses.dataclass(frozen=True)
class Case:
    """What stands behind the encoder."""

    modes: str | Sequence[str]
    # (Units, activation, bias) of each Dense.
    dense: Sequence[tuple[int, torch.nn.Module, bool]] = ()
    normalize: bool = False
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default: str | None = None
    include_prompt: bool = True
    truncate_dim: int | None = None
    similarity: str = "cosine"


CASES = {
    "joined": Case(("lasttoken", "cls", "mean", "max", "weightedmean", "mean_sqrt_len_tokens")),
    "dense": Case(
        ("cls", "mean"),
        [(16, torch.nn.Identity(), False), (8, torch.nn.GELU(), True)],
        normalize=True,
    ),
    "prompts": Case("mean", [(16, torch.nn.Tanh(), True)], prompts=PROMPTS, default="query"),
    "prompts_left_out": Case(
        ("mean", "weightedmean", "cls", "lasttoken"),
        normalize=True,
        prompts=PROMPTS,
        default="query",
        include_prompt=False,
    ),
    "truncated": Case(
        "cls",
        [(12, torch.nn.ReLU(), True)],
        normalize=True,
        truncate_dim=5,
        similarity="manhattan",
    ),
}


def make(name: str, case: Case, golden: pathlib.Path) -> None:
    torch.manual_seed(0)
    encoder = Transformer(str(golden / BASE), max_seq_length=20)
    width = encoder.get_word_embedding_dimension()
    modules = [encoder, Pooling(width, case.modes, include_prompt=case.include_prompt)]
    width *= 1 if isinstance(case.modes, str) else len(case.modes)
    for units, activation, bias in case.dense:
        modules.append(Dense(width, units, bias=bias, activation_function=activation))
        width = units
    modules += [Normalize()] * case.normalize
    model = SentenceTransformer(
        modules=modules,
        prompts=dict(case.prompts),
        default_prompt_name=case.default,
        similarity_fn_name=case.similarity,
        truncate_dim=case.truncate_dim,
        device="cpu",
    )
    vectors = {"": model.encode(TEXTS)}
    if case.prompts:
        vectors |= {prompt: model.encode(TEXTS, prompt_name=prompt) for prompt in case.prompts}
        vectors[LITERAL] = model.encode(TEXTS, prompt=LITERAL)
    directory, whole = golden / "sentence_transformers" / name, golden / "whole"
    shutil.rmtree(directory, ignore_errors=True)
    model.save(str(whole))
    directory.mkdir(parents=True)
    for path in sorted(whole.iterdir()):
        if path.name in OWN_FILES or (path.is_dir() and any(path.iterdir())):
            shutil.move(path, directory / path.name)
    shutil.rmtree(whole)
    np.savez(directory / "vectors.npz", **vectors)
    print(name, "done")


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_all(__doc__, CASES, make)
