"""Pickled vocabularies of Transformer-XL are read exactly, and without running what is in them."""

import logging
import pickle
import pickletools
import re
import sys
import tracemalloc
import types
from collections import Counter, OrderedDict

import numpy as np
import pytest
from helpers import assert_refused, run_program
from test_torch_bin import MODEL, Runs, stream_head, write_archive

from bert_zoo.families.transformer_xl import text as transformer_xl_text
from bert_zoo.families.transformer_xl.text import PickledVocabulary, read_pickled_vocabulary
from bert_zoo.weights.files import WeightsError

SYMBOLS = ["<eos>", "the", "<unk>", "Enquêtes", "–", "Łódź"]
# As transformers kept them: UTF-8 read as Latin-1.
GARBLED = [symbol.encode().decode("latin-1") for symbol in SYMBOLS]
EXPECTED = PickledVocabulary(SYMBOLS, False, "<eos>", "<unk>")


def attributes(symbols=SYMBOLS, **changes) -> dict:
    """What the programs' Vocab is made of; `symbols` in the order of their ids."""
    return {
        "counter": Counter(symbols),
        "special": ["<eos>"],
        "min_freq": 0,
        "max_size": None,
        "lower_case": False,
        "delimiter": None,
        "vocab_file": None,
        "idx2sym": list(symbols),
        "sym2idx": OrderedDict((symbol, index) for index, symbol in enumerate(symbols)),
        "eos_idx": 0,
        **changes,
    }


def instance(monkeypatch, full_name: str, values: dict):
    """An object that pickles as one of the class `full_name`."""
    module_name, _, name = full_name.rpartition(".")
    for package in (module_name.partition(".")[0], module_name):
        known = sys.modules.get(package) or types.ModuleType(package)
        monkeypatch.setitem(sys.modules, package, known)
    module = sys.modules[module_name]
    cls = type(name, (), {"__module__": module_name})
    monkeypatch.setattr(module, name, cls, raising=False)
    value = cls()
    value.__dict__.update(values)
    return value


@pytest.fixture
def corpus(monkeypatch):
    """What the TensorFlow program pickles, of the given classes."""

    def make(corpus_class="data_utils.Corpus", vocab_class="vocabulary.Vocab", **changes):
        values = {
            "dataset": "wt103",
            "vocab": instance(monkeypatch, vocab_class, attributes(**changes)),
            "train": np.arange(50_000),
            "valid": np.arange(300),
            "test": np.zeros(0, np.int64),
            "cutoffs": [0, 2, 4, len(SYMBOLS)],
        }
        return instance(monkeypatch, corpus_class, values)

    return make


def python_2(pickled: bytes) -> bytes:
    """The pickle with its strings as Python 2 writes its `str`, which holds UTF-8."""
    changed = bytearray(pickled)
    for opcode, _, position in pickletools.genops(pickled):
        if opcode.name == "BINUNICODE":
            changed[position : position + 1] = b"T"  # BINSTRING, with the same argument
    return bytes(changed)


def read(tmp_path, pickled: bytes, name="cache.pkl") -> PickledVocabulary:
    (tmp_path / name).write_bytes(pickled)
    return read_pickled_vocabulary(tmp_path / name)


# --- what the programs wrote ---------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_hugging_faces_pickle_is_read(protocol, tmp_path):
    assert read(tmp_path, pickle.dumps(attributes(), protocol), "vocab.pkl") == EXPECTED


@pytest.mark.parametrize("corpus_class", ["data_utils.Corpus", "__main__.Corpus"])
def test_the_tensorflow_programs_corpus_is_read(corpus_class, corpus, tmp_path):
    assert read(tmp_path, pickle.dumps(corpus(corpus_class), 2)) == EXPECTED


def test_python_2_wrote_bytes_that_are_utf_8(corpus, tmp_path, monkeypatch, caplog):
    pickled = pickle.dumps(corpus(), 2)
    assert b"numpy" in pickled
    with caplog.at_level(logging.INFO):
        assert read(tmp_path, python_2(pickled)) == EXPECTED
    assert "Latin-1" not in caplog.text


def test_torch_saved_the_same(tmp_path, corpus):
    pickled = pickle.dumps(attributes(), 2)
    write_archive(tmp_path / "vocab.bin", pickled, b"")
    assert read_pickled_vocabulary(tmp_path / "vocab.bin") == EXPECTED
    assert read(tmp_path, stream_head() + pickled + pickle.dumps([], 2), "vocab.bin") == EXPECTED
    pickled = pickle.dumps(corpus(vocab_class="utils.vocabulary.Vocab"), 2)
    write_archive(tmp_path / "cache.pt", pickled, b"")
    assert read_pickled_vocabulary(tmp_path / "cache.pt") == EXPECTED


def test_other_attributes_of_hugging_faces_tokenizer_are_left_alone(tmp_path, monkeypatch):
    classes = [
        *("sacremoses.tokenize.MosesTokenizer", "transformers.tokenization_utils.Trie"),
        "tokenizers.AddedToken",
    ]
    others = {
        name: instance(monkeypatch, name, {"content": "x", "tokens": {"a"}}) for name in classes
    }
    values = attributes(unk_idx=2, pattern=re.compile(r"[^\s]"), max_len=int(1e30), **others)
    for protocol in (2, 4):
        assert read(tmp_path, pickle.dumps(values, protocol), "vocab.pkl") == EXPECTED


def test_utf_8_that_was_read_as_latin_1_is_put_right_and_logged(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        assert read(tmp_path, pickle.dumps(attributes(GARBLED), 2)) == EXPECTED
    assert "3 of 6 tokens were UTF-8 read as Latin-1" in caplog.text


@pytest.mark.parametrize("more", ["Ł", "é"])
def test_symbols_are_left_as_they_are_unless_all_can_be_put_right(more, tmp_path):
    symbols = [*GARBLED, more]
    assert read(tmp_path, pickle.dumps(attributes(symbols), 2)).tokens == symbols


@pytest.mark.parametrize(
    ("symbols", "changes", "eos_token", "unknown_token"),
    [
        (["<eos>", "<unk>", "a"], {}, "<eos>", "<unk>"),
        (["<S>", "</S>", "<UNK>", "a"], {"unk_idx": 2}, "<S>", "<UNK>"),
        (["a", "b", "odd"], {"unk_idx": 2}, None, "odd"),
        (["32", "101"], {"lower_case": True}, None, None),
    ],
)
def test_the_symbols_with_a_role_are_found(symbols, changes, eos_token, unknown_token, tmp_path):
    read_back = read(tmp_path, pickle.dumps(attributes(symbols, **changes), 2))
    assert (read_back.eos_token, read_back.unknown_token) == (eos_token, unknown_token)
    assert read_back.lowercase == changes.get("lower_case", False)


@pytest.mark.parametrize("as_python_2", [False, True])
def test_the_encoded_corpus_is_never_in_memory(as_python_2, corpus, tmp_path):
    value = corpus()
    value.train = np.full(1_000_000, 7)
    pickled = pickle.dumps(value, 2)
    assert len(pickled) > 8e6
    (tmp_path / "cache.pkl").write_bytes(python_2(pickled) if as_python_2 else pickled)
    del pickled
    tracemalloc.start()
    try:
        assert read_pickled_vocabulary(tmp_path / "cache.pkl") == EXPECTED
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_reading_needs_no_tensorflow():
    module = transformer_xl_text.__name__
    run_program("-c", f"import sys; sys.modules['tensorflow'] = None; import {module}")


# --- damaged -------------------------------------------------------------------------------------


def pickled(value) -> bytes:
    return pickle.dumps(value, 2)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cache.pkl", pickled([1]), "holds no vocabulary"),
        ("cache.pkl", pickled({"sym2idx": {}}), "holds no vocabulary"),
        ("cache.pkl", pickled(attributes([])), "idx2sym of | is not a list of strings"),
        ("cache.pkl", pickled(attributes(idx2sym=tuple(SYMBOLS))), "is not a list of strings"),
        ("cache.pkl", pickled(attributes(idx2sym=[*SYMBOLS[:-1], 3])), "is not a list of strings"),
        ("cache.pkl", pickled(attributes(idx2sym=SYMBOLS[::-1])), "do not agree"),
        ("cache.pkl", pickled(attributes(idx2sym=SYMBOLS[:-1])), "do not agree"),
        ("cache.pkl", pickled(attributes(sym2idx=None)), "do not agree"),
        ("cache.pkl", pickled(attributes(idx2sym=["a"] * 2, sym2idx={"a": 1})), "do not agree"),
        ("cache.pkl", pickled(attributes(lower_case=None)), "whether its words are in lower case"),
        ("cache.pkl", pickled(attributes(unk_idx=len(SYMBOLS))), "no token of the id 6"),
        ("cache.pkl", pickled(attributes(unk_idx=-1)), "no token of the id -1"),
        ("cache.pkl", pickled(attributes(unk_idx="<unk>")), "no token of the id '<unk>'"),
        (
            "cache.pkl",
            python_2(pickled(attributes(["é", "b"]))).replace("é".encode(), b"\xe9\xe9"),
            "not UTF-8",
        ),
        ("cache.pkl", b"", "empty"),
        ("vocab.pkl", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs"),
        ("vocab.txt", b"the\n", "known endings are .pkl, .bin, .pt"),
        ("vocab.bin", pickled(attributes()), "not a file that torch.save wrote"),
    ],
)
def test_what_is_no_whole_vocabulary_is_refused(name, content, words, tmp_path):
    assert_refused(lambda: read(tmp_path, content, name), words, WeightsError)


def test_a_file_cut_anywhere_is_refused(corpus, tmp_path):
    for whole in (pickle.dumps(attributes(), 4), pickled(corpus())):
        for length in [*range(0, len(whole), len(whole) // 50), len(whole) - 1]:
            with pytest.raises(WeightsError, match=r"cache\.pkl"):
                read(tmp_path, whole[:length])


# --- hostile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("place", ["counter", "sym2idx", "vocab_file", "idx2sym"])
def test_a_vocabulary_that_runs_code_is_refused_without_running_it(place, protocol, tmp_path):
    hostile = pickle.dumps(attributes(**{place: Runs(tmp_path / "marker")}), protocol)
    message = r"refused.*builtin\w*\.eval, which is not allowed.*write the tokens"
    with pytest.raises(WeightsError, match=message):
        read(tmp_path, hostile)
    write_archive(tmp_path / "vocab.bin", hostile, b"")
    (tmp_path / "stream.bin").write_bytes(stream_head() + hostile)
    for name in ("vocab.bin", "stream.bin"):
        with pytest.raises(WeightsError, match=message):
            read_pickled_vocabulary(tmp_path / name)
    assert not (tmp_path / "marker").exists()
    pickle.loads(hostile)
    assert (tmp_path / "marker").exists(), "the pickle of this test must be a hostile one"


# What all pickles are refused for stands in test_torch_bin.py.
HOSTILE = {
    "a class of the weights' programs": (MODEL + b")\x81", "MemTransformerLM, which is not"),
    "another class of numpy": (b"cnumpy\nload\n", r"numpy\.load, which is not allowed"),
    "a reference to a storage": (b"U\x01a\x85Q", "a persistent id where there can be none"),
    "a dict whose key was passed over": (
        b"}X" + (100_000).to_bytes(4, "little") + bytes(100_000) + b"K\x01s",
        "is the key of a dict",
    ),
    "a long string that is not there": (b"X\xff\xff\xff\x7fabc", "cannot be read"),
    "a vocabulary of one long symbol 100,000 times": (
        b"}(U\x07idx2sym](X\x00\xff\x00\x00"
        + b"a" * 65_280
        + b"q\x00"
        + b"h\x00" * 10**5
        + b"eU\x07sym2idx}h\x00J\x9f\x86\x01\x00su",
        "do not agree",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_are_refused_quickly(name, tmp_path):
    program, message = HOSTILE[name]
    tracemalloc.start()
    try:
        with pytest.raises(WeightsError, match=message):
            read(tmp_path, b"\x80\x02" + program + b".")
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
