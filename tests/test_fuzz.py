"""Whatever the bytes of a file are, a reader gives a result or one clear error: see docs/reliability.md.

Every family's checkpoints, every kind of weight file, vocabulary and archive is damaged, one file at a
time: bytes are changed, lost, doubled and moved, values of JSON replaced by others, archives and
TensorFlow's tables written anew around what was damaged, so that no checksum tells.

- `BERT_ZOO_FUZZ_SECONDS=600 pytest tests/test_fuzz.py` takes that long for each of the `SUBJECTS`,
  in a process of its own that may crash, in place of a few cases. `-k` selects subjects.
- `BERT_ZOO_FUZZ_CASE=1234 pytest -s -k <subject> tests/test_fuzz.py` repeats one case, and says which
  file it damaged.
"""

import contextlib
import copy
import io
import json
import logging
import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import sys
import tarfile
import time
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers import GOLDEN, directory_of, load_case
from test_pickled_vocabulary import attributes
from test_wordpiece import SERIALIZED

import bert_zoo
import bert_zoo.runtime
from bert_zoo.config import ConfigError
from bert_zoo.families.transformer_xl.text import read_pickled_vocabulary
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.registry import registry
from bert_zoo.text import tokenizer_from_dir
from bert_zoo.weights import sources, tf1
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.hdf5 import write_hdf5
from bert_zoo.weights.sources import open_weights
from bert_zoo.weights.unpack import unpack

SECONDS = float(os.environ.get("BERT_ZOO_FUZZ_SECONDS", 0))
CASE = os.environ.get("BERT_ZOO_FUZZ_CASE")

# What readers may raise. No subclasses: Python's own UnicodeDecodeError and JSONDecodeError name no
# file.
REFUSALS = (WeightsError, ConfigError, ValueError, FileNotFoundError)
LONGEST_MESSAGE = 5_000
MOST_SECONDS = 60
MOST_BYTES = 1 << 30

# --- what is read --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """Files that belong together, and what reads them.

    Attributes:
        make: writes them into an empty directory.
        read: reads all that is in them.
        cases: how many are tried by default.
        damage: (random, name, content) -> a file's content with damage.
        files: patterns of those that are damaged.
    """

    make: Callable[[Path], None]
    read: Callable[[Path], object]
    cases: int
    damage: Callable[[np.random.Generator, str, bytes], bytes] | None = None
    files: str = "*"


def read_weights(directory: Path) -> None:
    for file in directory.iterdir():
        if file.name.endswith(tuple(sources._READERS)):
            source = open_weights(file)
            for key in source:
                source[key]


def read_tf_shards(directory: Path) -> None:
    dict(open_weights(directory / "tf_model.h5.index.json"))


def read_vocabulary(directory: Path) -> None:
    read_pickled_vocabulary(directory / "vocab.pkl")


def read_checkpoint(directory: Path) -> None:
    source = open_checkpoint(directory).source
    for key in source:
        source[key]


def read_model(directory: Path) -> None:
    model = bert_zoo.load(directory)
    if text_files(directory):
        model.preprocessor(["a text, or two"])


def exported(write: Callable[[Path], None], file: str, cases: int) -> Subject:
    """An export but for the model in it, which the runtime reads: damage to that ends the process."""

    def make(directory: Path) -> None:
        write(directory)
        for path in directory.iterdir():
            if path.suffix != ".json":
                path.rename(directory.parent / path.name)

    def read(directory: Path) -> None:
        shutil.copy(directory.parent / file, directory)
        model = bert_zoo.runtime.load(directory)
        for verb in ("classify", "tag", "embed"):
            if hasattr(model, verb):
                getattr(model, verb)(["a text, or two", "the cat"])

    return Subject(make, read, cases)


def exporter(case: str) -> Callable[[Path], None]:
    return lambda directory: bert_zoo.export(load_case(case), directory, format="onnx")


def run_encoders(directory: Path) -> None:
    """With its weights and without, each on five tokens."""
    for weights in ("pretrained", None):
        model = bert_zoo.load(directory, weights=weights)
        model({"token_ids": np.ones((1, 5), np.int32)})


def text_files(directory: Path) -> list[Path]:
    # "codes*" and "*.pth" are of XLM's program: merges, and what holds the words beside the weights.
    patterns = "*vocab* *.model merges.txt bpe.codes codes* *.pth itos*.pkl dict.txt encoder.json tokenizer*.json"
    return [file for pattern in patterns.split() for file in directory.glob(pattern)]


def copied(source: Path) -> Callable[[Path], None]:
    return lambda directory: shutil.copytree(
        source, directory, ignore=shutil.ignore_patterns("io.npz"), dirs_exist_ok=True
    )


def only_text(source: Path) -> Callable[[Path], None]:
    def make(directory: Path) -> None:
        for file in text_files(source):
            shutil.copy(file, directory)

    return make


def tokenizer_reader(family: str) -> Callable[[Path], None]:
    return lambda directory: tokenizer_from_dir(directory, family)(["a text, or two 1,000"])


def make_own(directory: Path) -> None:
    bert_zoo.save(bert_zoo.load(directory_of("classification"), "classification"), directory)


def make_sentence_transformers(directory: Path) -> None:
    bert_zoo.save(bert_zoo.load(directory_of("encoder"), "embedding"), directory, format="hf")


def make_tf_keras(directory: Path) -> None:
    """What transformers' TensorFlow classes leave."""
    shutil.copy(GOLDEN.parent / "tf_keras" / "gpt2.h5", directory / "tf_model.h5")
    shutil.copy(directory_of("gpt2/causal_lm") / "config.json", directory)


def make_tf_shards(directory: Path) -> None:
    arrays = {f"gpt2/wte/{number}:0": np.ones((2, 3), np.float32) for number in range(4)}
    write_hdf5(directory / "a.h5", arrays)
    weight_map = {f"tf_model/{name}": "a.h5" for name in arrays}
    (directory / "tf_model.h5.index.json").write_text(json.dumps({"weight_map": weight_map}))


def make_keras_hub(directory: Path) -> None:
    bert_zoo.save(bert_zoo.load(directory_of("encoder")), directory, format="keras_hub")


def make_model_garden(directory: Path) -> None:
    copied(GOLDEN.parent / "model_garden" / "bert")(directory)


def make_sharded(directory: Path) -> None:
    """A .bin in shards beside the .safetensors in shards of the golden case."""
    copied(directory_of("sharded"))(directory)
    shutil.copy(directory_of("bin_zip") / "pytorch_model.bin", directory / "a.bin")
    names = list(open_weights(directory / "a.bin"))
    index = {"weight_map": dict.fromkeys(names, "a.bin")}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))


def make_serialized_tokenizer(directory: Path) -> None:
    added = [{"id": 0, "content": SERIALIZED["model"]["unk_token"], "special": True}]
    tokens = list(SERIALIZED["model"]["vocab"])
    files = {
        "tokenizer": {**SERIALIZED, "added_tokens": [{**added[0], "content": tokens[0]}]},
        "tokenizer_config": {"do_lower_case": True, "unk_token": "[UNK]"},
        "special_tokens_map": {"mask_token": {"content": "[MASK]", "lstrip": False}},
        "added_tokens": {tokens[1]: 1},
    }
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content))


def make_pickled_vocabulary(directory: Path) -> None:
    (directory / "vocab.pkl").write_bytes(pickle.dumps(attributes(), 2))


def make_symbols(directory: Path) -> None:
    (directory / "vocab.txt").write_text("<eos>\n<unk>\nthe\ncat\n")
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"unit": "word", "eos_at": "never"})
    )


def archive_maker(name: str) -> Callable[[Path], None]:
    def make(directory: Path) -> None:
        files = {"model/config.json": b"{}" * 50, "model/vocab.txt": bytes(2000), "model/x/y": b"1"}
        if name.endswith(".zip"):
            with zipfile.ZipFile(directory / name, "w") as archive:
                for path, content in files.items():
                    archive.writestr(path, content)
            return
        with tarfile.open(directory / name, f"w:{name.partition('.tar')[2][1:]}") as archive:
            for path, content in files.items():
                info = tarfile.TarInfo(path)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))

    return make


def read_archive(directory: Path) -> None:
    (archive,) = directory.iterdir()
    unpack(archive, directory / "unpacked", "https://example.org/model")


SIZES = [-(2**63), -1, 0, 1, 2, 3, 7, 20, 10**9, 2**31, 2**63, 10**30]
# Fields that files may leave out.
MORE_SIZES = (
    *("inner_group_num", "num_hidden_groups", "conv_kernel_size", "max_relative_positions"),
    *("position_buckets", "mem_len", "clamp_len", "reuse_len", "type_vocab_size", "embedding_size"),
)


def other_sizes(random: np.random.Generator, name: str, content: bytes) -> bytes:
    """A configuration with another size, now and then of a field that it does not have."""
    values = json.loads(content)
    sizes = [key for key, value in values.items() if type(value) is int]
    keys = sizes if sizes and random.random() < 0.8 else MORE_SIZES
    values[str(random.choice(keys))] = SIZES[random.integers(len(SIZES))]
    return json.dumps(values).encode()


def golden_checkpoints() -> dict[str, Path]:
    """The first golden checkpoint of each family and kind of weight file."""
    found = {}
    for family in registry().families:
        for file in sorted((GOLDEN.parent / family).glob("*/*")):
            suffix = next((end for end in sources._READERS if file.name.endswith(end)), None)
            if suffix and file.stat().st_size < 2_000_000:
                found.setdefault(f"{family}-{suffix[1:]}", file.parent)
    return found


def subjects() -> dict[str, Subject]:
    rows = (
        ("weights-sharded", make_sharded, read_weights, 30),
        ("weights-tf_shards", make_tf_shards, read_tf_shards, 30),
        ("checkpoint-tf_keras", make_tf_keras, read_checkpoint, 30),
        ("checkpoint-keras_hub", make_keras_hub, read_checkpoint, 30),
        ("checkpoint-model_garden", make_model_garden, read_checkpoint, 30),
        ("checkpoint-own", make_own, read_checkpoint, 30),
        ("model-own", make_own, read_model, 0),
        ("checkpoint-sentence-transformers", make_sentence_transformers, read_checkpoint, 30),
        ("model-sentence-transformers", make_sentence_transformers, read_model, 0),
        ("pickled-vocabulary", make_pickled_vocabulary, read_vocabulary, 200),
        ("tokenizer-json", make_serialized_tokenizer, tokenizer_reader("bert"), 6),
        ("tokenizer-transformer_xl", make_symbols, tokenizer_reader("transformer_xl"), 3),
    )
    found = {name: Subject(make, read, cases) for name, make, read, cases in rows}
    texts = set()
    for name, directory in golden_checkpoints().items():
        family = name.partition("-")[0]
        found[f"weights-{name}"] = Subject(copied(directory), read_weights, 40)
        found[f"checkpoint-{name}"] = Subject(copied(directory), read_checkpoint, 15)
        # A model takes a second.
        found[f"model-{name}"] = Subject(copied(directory), read_model, 0)
        if list(directory.glob("*.json")):
            sizes = Subject(copied(directory), run_encoders, 0, other_sizes, "*config.json")
            found[f"sizes-{name}"] = sizes
        if text_files(directory):
            # The same files stand beside weights of several kinds.
            kind = (family, *sorted(file.name for file in text_files(directory)))
            cases = 0 if kind in texts else 1
            texts.add(kind)
            found[f"tokenizer-{name}"] = Subject(
                only_text(directory), tokenizer_reader(family), cases
            )
    for runtime, file in (("onnx", "tokens.onnx"), ("litert", "model.tflite")):
        if find_spec({"onnx": "onnxruntime", "litert": "ai_edge_litert"}[runtime]):
            saved = GOLDEN.parents[1] / "saved_by" / "0.1.0" / f"exported_{runtime}"
            found[f"export-{runtime}"] = exported(copied(saved), file, 40)
    if find_spec("tf2onnx"):
        # An export takes seconds.
        for case in ("bert/multi_label_classification", "roberta/token_classification"):
            found[f"export-{case}"] = exported(exporter(case), "tokens.onnx", 0)
    for name in ("a.zip", "a.tar", "a.tar.gz", "a.tar.xz", "a.tar.bz2"):
        found[f"archive-{name}"] = Subject(archive_maker(name), read_archive, 40)
    return found


SUBJECTS = subjects()

# --- damage --------------------------------------------------------------------------------------

# Stand for what Python's JSON would not write.
RAW = {"<deep>": "[" * 100_000 + "]" * 100_000, "<digits>": "9" * 5_000, "<half>": r'"\ud800"'}
ODD_VALUES = [
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**18, 0.5, 1e308),
    *(float("nan"), float("inf"), -float("inf"), "", "x", "x" * 100_000, "a\0b", "../../x"),
    *([], {}, [None], [[]], ["x"], {"x": 1}, {"x": {}}, list(range(1000)), *RAW),
]


def damaged(random: np.random.Generator, name: str, content: bytes) -> bytes:
    """A file's content with damage of one kind or another."""
    if name.endswith(".json") and random.random() < 0.7:
        return damaged_json(random, content)
    if name.endswith(".index") and random.random() < 0.7:
        return with_checksums(damaged_bytes(random, content), content)
    if zipfile.is_zipfile(io.BytesIO(content)) and random.random() < 0.5:
        return damaged_member(random, content)
    return damaged_bytes(random, content)


def damaged_bytes(random: np.random.Generator, content: bytes) -> bytes:
    changed = bytearray(content)

    def span() -> tuple[int, int]:
        start = int(random.integers(len(changed) + 1))
        return start, start + int(random.integers(1, 2 ** random.integers(1, 10)))

    for _ in range(random.integers(1, 5)):
        start, end = span()
        match random.integers(9):
            case 0:
                del changed[start:]
            case 1:
                del changed[start:end]
            case 2:
                changed[start:start] = random.bytes(end - start)
            case 3:
                changed[start:end] = random.choice([b"\0", b"\xff"]) * len(changed[start:end])
            case 4:
                other, other_end = span()
                changed[start:end] = changed[other:other_end]
            case 5:
                other, other_end = span()
                changed[start:start] = changed[other:other_end]
            case _ if changed:
                changed[start % len(changed)] ^= 1 << random.integers(8)
    return bytes(changed)


def damaged_json(random: np.random.Generator, content: bytes) -> bytes:
    value = json.loads(content)
    for _ in range(random.integers(1, 3)):
        places = list(places_in(value))
        if not places:
            break
        container, key = places[random.integers(len(places))]
        odd = copy.deepcopy(ODD_VALUES[random.integers(len(ODD_VALUES))])
        if random.random() < 0.15:
            del container[key]
        elif isinstance(container, dict) and random.random() < 0.1:
            container[str(random.choice(["x", "", "../x", "y" * 10_000]))] = odd
        else:
            container[key] = odd
    text = json.dumps(value)
    for mark, raw in RAW.items():
        text = text.replace(json.dumps(mark), raw)
    return text.encode()


def places_in(value: object) -> Iterator[tuple[dict | list, object]]:
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(rows):
        yield value, key
        if isinstance(item, dict | list):
            yield from places_in(item)


def damaged_member(random: np.random.Generator, content: bytes) -> bytes:
    """An archive whose checksums fit, with a damaged member."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(written, "w") as changed:
        chosen = archive.infolist()[random.integers(len(archive.infolist()))].filename
        pickled = [info.filename for info in archive.infolist() if info.filename.endswith(".pkl")]
        chosen = pickled[0] if pickled and random.random() < 0.8 else chosen
        for info in archive.infolist():
            data = archive.read(info)
            data = damaged_bytes(random, data) if info.filename == chosen else data
            changed.writestr(info.filename, data)
    return written.getvalue()


def with_checksums(changed: bytes, whole: bytes) -> bytes:
    """A table of TensorFlow that was changed, with the checksums of its blocks as they should be."""
    changed = bytearray(changed)
    position = len(whole) - tf1._FOOTER_BYTES
    first, size, position = tf1._handle(whole, position)
    blocks = [
        (0, first - tf1._BLOCK_TRAILER_BYTES),
        (first, size),
        tf1._handle(whole, position)[:2],
    ]
    for start, length in blocks:
        end = start + length
        if end + tf1._BLOCK_TRAILER_BYTES <= len(changed):
            checksum = tf1._masked_crc(changed[start : end + 1])
            changed[end + 1 : end + tf1._BLOCK_TRAILER_BYTES] = checksum.to_bytes(4, "little")
    return bytes(changed)


# --- what must hold ------------------------------------------------------------------------------


class Misbehaviour(BaseException):
    """A reader did what none may do."""


WATCHED: list[Path] = []  # the directory that is read, while it is
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "eval")


def audit(event: str, arguments: tuple) -> None:
    if not WATCHED:
        return
    if event in FORBIDDEN:
        raise Misbehaviour(f"it did {event}{arguments}")
    if event == "open":
        path, _, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        inside = not isinstance(path, int) and Path(os.fsdecode(path)).is_relative_to(WATCHED[0])
        if writes and not isinstance(path, int) and not inside:
            raise Misbehaviour(f"it opened {path} for writing")


@contextlib.contextmanager
def watched(directory: Path) -> Iterator[None]:
    def too_long(*_):
        raise Misbehaviour(f"it took more than {MOST_SECONDS} seconds")

    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handler = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(MOST_SECONDS)
    WATCHED.append(directory)
    try:
        yield
    finally:
        WATCHED.clear()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory)
    if grown > MOST_BYTES:
        raise Misbehaviour(f"it took {grown:,} bytes of memory")


def misbehaviour(read: Callable[[Path], object], directory: Path) -> str:
    """What a reader does that none may do; nothing if it gives a result or a clear error."""
    try:
        with watched(directory):
            read(directory)
    except REFUSALS as error:
        if type(error) not in REFUSALS:
            return traceback.format_exc()
        if len(str(error)) > LONGEST_MESSAGE:
            return f"a message of {len(str(error)):,} characters: {str(error)[:500]}..."
    except (Exception, Misbehaviour):
        return traceback.format_exc()
    return ""


def run_case(name: str, number: int, directory: Path, whole: dict[str, bytes]) -> str:
    """Damages one of a subject's files and reads it; what was wrong with that, and how to see it."""
    for path in directory.rglob("*"):
        if path.is_file() and str(path.relative_to(directory)) not in whole:
            path.unlink()
    random = np.random.default_rng([zlib.crc32(name.encode()), number])
    subject = SUBJECTS[name]
    files = [file for file in sorted(whole) if Path(file).match(subject.files)]
    file = files[random.integers(len(files))]
    try:
        (directory / file).write_bytes((subject.damage or damaged)(random, file, whole[file]))
        wrong = misbehaviour(subject.read, directory)
    finally:
        (directory / file).write_bytes(whole[file])
    if CASE:
        print(f"case {number} of {name} damaged {file}: {wrong or 'nothing wrong'}")
    again = f"BERT_ZOO_FUZZ_CASE={number} pytest -s -k {name} tests/test_fuzz.py"
    return f"{again}\n{file}: {wrong}" if wrong else ""


def run(name: str, directory: Path, first: int, seconds: float, now) -> list[str]:
    """What was wrong with a subject's cases, from the first on, and in `now` which one is tried."""
    logging.disable(logging.CRITICAL)
    subject = SUBJECTS[name]
    directory.mkdir(exist_ok=True)
    subject.make(directory)
    whole = {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    subject.read(directory)  # what is whole can be read, and all is imported
    end = time.monotonic() + seconds
    found = []
    numbers = range(first, sys.maxsize if seconds else first + (1 if CASE else subject.cases))
    for number in numbers:
        now.value = number
        if wrong := run_case(name, number, directory, whole):
            found.append(wrong)
        if len(found) == 10 or (seconds and time.monotonic() > end):
            break
    return found


def run_in_child(name: str, directory: Path, first: int, seconds: float, now, found) -> None:
    sys.addaudithook(audit)
    found.extend(run(name, directory, first, seconds, now))


@pytest.fixture(scope="module", autouse=True)
def _audited():
    sys.addaudithook(audit)  # for good: Python has no way to take it away
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(0 if SECONDS else 600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [name for name, subject in SUBJECTS.items() if subject.cases or SECONDS or CASE]
)
def test_a_damaged_file_gives_a_result_or_one_clear_error(name, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    now = spawn.Value("q", int(CASE or 0))
    if not SECONDS:
        found = run(name, tmp_path / "files", now.value, 0, now)
        assert not found, "\n".join(found)
        return
    end = time.monotonic() + SECONDS
    with spawn.Manager() as manager:
        found = manager.list()
        while (left := end - time.monotonic()) > 0 and len(found) < 10:
            arguments = (name, tmp_path / "files", now.value, left, now, found)
            child = spawn.Process(target=run_in_child, args=arguments)
            child.start()
            child.join()
            if child.exitcode:
                found.append(f"case {now.value} ended the process: {child.exitcode}")
            now.value += 1
        print(f"{name}: {now.value:,} cases")
        assert not found, "\n".join(found)


def test_every_family_and_kind_of_file_is_damaged():
    checkpoints = [name.split("-", 1) for name in golden_checkpoints()]
    assert {family for family, _ in checkpoints} == set(registry().families)
    # In weights-sharded, weights-tf_shards, and checkpoint-tf_keras and -keras_hub.
    others = {".bin.index.json", ".h5", ".h5.index.json", ".weights.h5"}
    assert others.union(f".{suffix}" for _, suffix in checkpoints) == set(sources._READERS)
    assert all(
        any(f"tokenizer-{family}" in name for name in SUBJECTS) for family in registry().families
    )
