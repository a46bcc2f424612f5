"""Makes what byte-level BPE is measured against, from Hugging Face's Rust tokenizers.

    python tools/references/byte_bpe_references.py tables                   # "byte_bpe" in bert_zoo/text/unicode_tables.json
    python tools/references/byte_bpe_references.py golden                   # tests/golden/text/byte_bpe.json.gz
    python tools/references/byte_bpe_references.py compare OTHER_PYTHON [CONFIGURATION...]   # every code point
    python tools/references/byte_bpe_references.py speed OTHER_PYTHON TEXTS # texts a second, turn by turn

Needs `tokenizers` and `transformers`, which neither the package nor its tests do; OTHER_PYTHON is an
interpreter with TensorFlow that runs the package. All but `tables` use the vocabulary and texts in
../shared/data. `tables` asks the library about every code point, so that the tables hold what the
reference does, whatever version of Unicode it was built with.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "text" / "byte_bpe.json.gz"
SHARED_DATA = ROOT.parent / "shared" / "data"
VOCABULARY = SHARED_DATA / "vocab" / "roberta"

sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
import byte_bpe_samples as samples  # noqa: E402
import text_samples  # noqa: E402
import unicode_file  # noqa: E402

CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
BATCH = 512
TURNS = 4


def main(arguments: list[str]) -> None:
    commands: dict[str, Callable[..., None]] = {
        "tables": write_tables,
        "golden": write_golden,
        "compare": compare,
        "speed": measure_speed,
        "ours": serve,
    }
    if not arguments or arguments[0] not in commands:
        sys.exit(f"usage: byte_bpe_references.py {'|'.join(commands)} ...; got {arguments}")
    commands[arguments[0]](*arguments[1:])


# ---------------------------------------------------------------------------------------------
# The reference
# ---------------------------------------------------------------------------------------------


def reference(directory: Path, *, lstrip_mask: bool = True, add_prefix_space: bool = False):
    """Returns the library's tokenizer with the options of ByteBpeTokenizer."""
    from tokenizers import AddedToken
    from transformers import RobertaTokenizer

    return RobertaTokenizer.from_pretrained(
        str(directory),
        mask_token=AddedToken("<mask>", lstrip=lstrip_mask, normalized=False, special=True),
        add_prefix_space=add_prefix_space,
    ).backend_tokenizer


def encoder(directory: Path, **options: bool) -> Callable[[list[str]], list[list[int]]]:
    """Returns the reference as a function from texts to ids without special tokens."""
    encode = reference(directory, **options).encode_batch
    return lambda texts: [encoding.ids for encoding in encode(texts, add_special_tokens=False)]


def write_tables() -> None:
    """Writes the section "byte_bpe" of unicode_tables.json."""
    import tokenizers
    from tokenizers.pre_tokenizers import ByteLevel

    split = ByteLevel(add_prefix_space=False).pre_tokenize_str
    contexts = {"LETTERS": "a{}a", "NUMBERS": "1{}1", "WHITESPACE": "\n{}\n", "": "!{}!"}
    codes: dict[str, list[int]] = {name: [] for name in contexts}
    for code in CODE_POINTS:
        kinds = [name for name, text in contexts.items() if len(split(text.format(chr(code)))) == 1]
        if len(kinds) != 1:
            raise AssertionError(f"U+{code:04X} is of the kinds {kinds}, not of one")
        codes[kinds[0]].append(code)
    tables = {
        name.lower(): unicode_file.ranges_of(codes[name])
        for name in ("LETTERS", "NUMBERS", "WHITESPACE")
    }
    unicode_file.write_section(
        "byte_bpe", f"tokenizers {tokenizers.__version__}, ByteLevel", tables
    )


def write_golden() -> None:
    """Writes the checked-in answers of the reference."""
    import tokenizers

    references: dict = {"tokenizers": tokenizers.__version__, "own": {}, "real": {}}
    with tempfile.TemporaryDirectory() as directory:
        samples.write_own_files(Path(directory))
        for name, options in samples.CONFIGURATIONS.items():
            encode = encoder(Path(directory), **options)
            references["own"][name] = {
                "written": encode(samples.WRITTEN),
                "random": text_samples.group_checksums(encode(samples.random_texts())),
            }
        encode = encoder(Path(directory))
        pages = map(samples.page_text, range(text_samples.NUM_PAGES))
        references["own"]["pages"] = [text_samples.checksum(encode([page])) for page in pages]
    for name, options in samples.CONFIGURATIONS.items():
        encode = encoder(VOCABULARY, **options)
        references["real"][name] = {
            "written": encode(samples.WRITTEN),
            "random": text_samples.group_checksums(encode(samples.random_texts())),
            "long": text_samples.checksum(encode(samples.long_texts())),
            "corpora": {
                corpus: text_samples.checksum(encode(texts))
                for corpus, texts in text_samples.corpora(SHARED_DATA)
            },
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

    def __init__(self, python: str, options: dict[str, bool]):
        command = [python, str(Path(__file__).resolve()), "ours", json.dumps(options)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request: dict) -> dict:
        """Sends a request that `serve` answers."""
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def serve(options: str) -> None:
    """Answers requests for ids of texts, or for the seconds that a pass over texts takes."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    from bert_zoo.text.byte_bpe import ByteBpeTokenizer
    from bert_zoo.text.byte_bpe_files import read_vocabulary_and_merges
    from bert_zoo.text.files import VocabularyFiles

    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    vocabulary, merges = read_vocabulary_and_merges(VocabularyFiles(VOCABULARY))
    tokenizer = ByteBpeTokenizer(vocabulary, merges, **json.loads(options))
    for line in sys.stdin:
        request = json.loads(line)
        if "seconds_for" in request:
            texts = tf.constant(json.loads(Path(request["seconds_for"]).read_text()))
            batches = tf.data.Dataset.from_tensor_slices(texts).batch(BATCH)
            tokenized = batches.map(tokenizer, num_parallel_calls=2)
            start = time.perf_counter()
            count = sum(1 for _ in tokenized)
            answer = {"seconds": time.perf_counter() - start, "batches": count}
        else:
            texts = json.loads(Path(request["ids_of"]).read_text())
            rows = []
            for start in range(0, len(texts), BATCH):
                rows += tokenizer(texts[start : start + BATCH]).to_list()
            answer = {"ids": rows}
        print(json.dumps(answer), flush=True)


def compare(python: str, *configurations: str) -> None:
    """Prints how many texts of each kind get other ids from bert_zoo than from the reference."""
    for options in map(samples.CONFIGURATIONS.get, configurations or samples.CONFIGURATIONS):
        encode, ours = encoder(VOCABULARY, **options), Ours(python, options)
        for name, texts in stress_texts():
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(texts, file)
                file.flush()
                got = ours.ask({"ids_of": file.name})["ids"]
            wanted = encode(texts)
            different = [t for t, a, b in zip(texts, got, wanted, strict=True) if a != b]
            print(
                f"{options} {name}: {len(different)} of {len(texts)} differ {different[:3]!a}",
                flush=True,
            )
        ours.close()


def stress_texts() -> Iterator[tuple[str, list[str]]]:
    """Yields a name and texts: code points in every context, random strings, corpora."""
    for seed in range(3):
        yield f"random strings, seed {seed}", samples.random_texts(20_000, seed)
    random = Random(5)
    for name, alphabet in samples.ALPHABETS.items():
        yield (
            f"strings of {name}",
            ["".join(random.choices(alphabet, k=random.randint(0, 40))) for _ in range(20_000)],
        )
    yield "long pieces", samples.long_texts()
    yield from text_samples.corpora(SHARED_DATA)
    for name, context in samples.CONTEXTS.items():
        yield f"every code point {name}", [context.format(chr(code)) for code in CODE_POINTS]


def measure_speed(python: str, path: str) -> None:
    """Prints texts a second of both sides, which take turns, with two threads each.

    Args:
        python: the interpreter for bert_zoo.
        path: a JSON list of texts, or a TSV file whose first column and row hold texts and a title.
    """
    raw = Path(path).read_text(encoding="utf-8")
    lines = raw.split("\n")
    texts = (
        json.loads(raw) if path.endswith(".json") else [s.split("\t")[0] for s in lines[1:] if s]
    )
    os.environ["RAYON_NUM_THREADS"] = "2"
    encode, ours = reference(VOCABULARY).encode_batch, Ours(python, {})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(texts, file)
        file.flush()
        for turn in range(TURNS + 1):
            seconds = ours.ask({"seconds_for": file.name})["seconds"]
            start = time.perf_counter()
            for first in range(0, len(texts), BATCH):
                encode(texts[first : first + BATCH], add_special_tokens=False)
            theirs = time.perf_counter() - start
            note = " (warm-up)" if turn == 0 else ""
            print(
                f"bert_zoo {len(texts) / seconds:.0f}, Hugging Face {len(texts) / theirs:.0f} "
                f"texts/s, ratio {theirs / seconds:.2f}{note}"
            )
    ours.close()


if __name__ == "__main__":
    main(sys.argv[1:])
