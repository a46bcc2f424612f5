"""SentencePiece's BPE with bytes for unknown characters gives the ids of Hugging Face's library on every text."""

import functools
import json
from collections import Counter
from itertools import pairwise
from random import Random

import byte_bpe_samples as samples
import numpy as np
import pytest
import tensorflow as tf
import text_samples
from helpers import assert_refused, ids_and_spans, in_rust

import bert_zoo
from bert_zoo.families.modernbert.family import FAMILY
from bert_zoo.models import Encoder
from bert_zoo.text import preprocessor_from_dir, tokenizer_from_dir
from bert_zoo.text.numpy_packing import Reader
from bert_zoo.text.preprocessor import word_pieces
from bert_zoo.text.sentencepiece_bpe import BYTES, SPACE, SentencePieceBpeTokenizer
from bert_zoo.text.windows import NumpyPreprocessor

# The first tokens of Gemma's vocabulary, and some of those that it adds.
FIRST = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
ADDED = [*("\n" * number for number in range(1, 6)), *(SPACE * number for number in (2, 3)), "<h1>"]


@functools.cache
def vocabulary() -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens, and all pairs of them that make a token, in the order of the tokens, as in Gemma's file."""
    text = " ".join([*samples.WRITTEN[3:12], "the theory of the other cats and dogs", "aaaa  bb--"])
    words = [[*word] for word in text.replace(" ", "\0" + SPACE).split("\0")]
    letters = sorted(
        {letter for word in words for letter in word if letter < "Ā"} | {*"中\U0001f468"}
    )
    tokens = dict.fromkeys([*FIRST, *BYTES, SPACE, *letters, *ADDED])
    for _ in range(120):
        counts = Counter(pair for word in words for pair in pairwise(word) if {*pair} <= {*tokens})
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        words = [samples._merged(word, best) for word in words]
        tokens["".join(best)] = None
    tokens = [*tokens]
    known = {*tokens}
    splits = [(token[:i], token[i:]) for token in tokens for i in range(1, len(token))]
    return tokens, [pair for pair in splits if known.issuperset(pair)]


def gemma(**options) -> SentencePieceBpeTokenizer:
    return SentencePieceBpeTokenizer(*vocabulary(), added_tokens=ADDED, **options)


@functools.cache
def texts() -> list[str]:
    draw = Random(8)
    parts = [
        *"abthe \n▁<>é中日Ω\0\U0001f468\u0301",
        "  ",
        "\n\n",
        "<mask>",
        "the ",
        "<0x41>",
        "<h1>",
    ]
    drawn = ["".join(draw.choices(parts, k=draw.randrange(30))) for _ in range(1500)]
    written = [*samples.WRITTEN, *text_samples.WRITTEN_TEXTS, " " * 40, "\n" * 40, "a" * 300]
    malformed = b"\xff \xe2\x28\xa1 the \xf0\x9f".decode(errors="replace")
    return [*written, *drawn, *text_samples.random_texts(400), malformed, "theory" * 200]


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_ids_and_offsets_are_the_librarys(add_prefix_space):
    pytest.importorskip("tokenizers")
    tokenizer = gemma(add_prefix_space=add_prefix_space)
    ids, spans = ids_and_spans(tokenizer, texts())
    assert tokenizer(texts()).to_list() == ids
    wanted = in_rust(tokenizer).encode_batch(texts(), add_special_tokens=False)
    for text, row, reference in zip(texts(), ids, wanted, strict=True):
        assert row == reference.ids, text
    if not add_prefix_space:
        assert spans == [reference.offsets for reference in wanted]
    assert tokenizer([b"\xff \xe2\x28\xa1 the \xf0\x9f"]).to_list() == [ids[-2]]
    back = [row.decode() for row in tokenizer.detokenize(tokenizer(texts())).numpy()]
    # Padding is not shown.
    readable = [text.replace(SPACE, " ").replace("<pad>", "") for text in texts()]
    assert add_prefix_space or back == readable


def test_characters_without_a_token_are_bytes_and_runs_of_blanks_are_tokens():
    tokenizer = gemma()
    tokens = [tokenizer.id_to_token(i) for i in tokenizer(["aΩ   b\n\n"])[0].numpy()]
    assert tokens == ["a", "<0xCE>", "<0xA9>", SPACE * 3, "b", "\n\n"]
    assert tokenizer.word_starts[tokenizer.token_to_id(SPACE + "the")]


def test_words_that_are_tokenized_alone_have_a_blank_before_them():
    pytest.importorskip("tokenizers")
    words = ["the", "cats", "中", "(x)", "a<mask>b"]
    in_graph = word_pieces(tf.ragged.constant([words]), gemma()).to_list()[0]
    reader = Reader(in_rust(gemma()), unk_id=3, blank_before_words=True)
    assert in_graph == reader.words(words).rows()
    assert gemma().id_to_token(in_graph[0][0]).startswith(SPACE)


def written(directory, **changes):
    """Writes the tokenizer's files, with changes to tokenizer.json."""
    gemma().save(directory)
    file = directory / "tokenizer.json"
    content = json.loads(file.read_text())
    for name, change in changes.items():
        content[name] = {**content[name], **change} if isinstance(change, dict) else change
    file.write_text(json.dumps(content))
    return directory


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"normalizer": None}, "normalizer=None"),
        ({"model": {"ignore_merges": True}}, "model.ignore_merges=True"),
        ({"model": {"dropout": 0.1}}, "model.dropout=0.1"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer={'type': 'Whitespace'}"),
    ],
)
def test_other_files_are_refused(changes, words, tmp_path):
    changes = {**changes}
    if "pre_tokenizer" in changes:
        (tmp_path / "x").mkdir()
        content = json.loads((written(tmp_path / "x") / "tokenizer.json").read_text())
        (tmp_path / "x" / "tokenizer.json").write_text(json.dumps(content | changes))
    else:
        written(tmp_path / "x", **changes)
    assert_refused(lambda: tokenizer_from_dir(tmp_path / "x", "modernbert"), words)


def test_a_vocabulary_without_bytes_is_refused():
    tokens, merges = vocabulary()
    words = "lacks tokens of 1 bytes, such as <0xFF>"
    known = [token for token in tokens if token != "<0xFF>"]
    assert_refused(lambda: SentencePieceBpeTokenizer(known, merges), words)


def test_mmberts_rows_are_the_files_and_its_models_are_written_for_transformers(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    options = {"sequence_length": 48, "report_truncation": False}
    preprocessor = preprocessor_from_dir(written(tmp_path / "vocabulary"), "modernbert", **options)
    sizes = {"vocab_size": len(vocabulary()[0]), "hidden_size": 16, "num_heads": 2, "num_layers": 2}
    changes = {**sizes, "intermediate_size": 8, "pad_id": 0, "local_rope_theta": 160_000.0}
    config = FAMILY.config_class(**{**FAMILY.defaults, **changes})
    model = Encoder(config, "modernbert", preprocessor=preprocessor)
    bert_zoo.save(model, tmp_path / "saved", format="hf")
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    again = bert_zoo.load(str(tmp_path / "saved"))
    some = ["the other  cats\n\n", "Ω <mask>", ""]
    for read in (model.preprocessor, again.preprocessor.with_options(**options)):
        for batch in (some, (some, some[::-1])):
            pairs = zip(*batch, strict=True) if isinstance(batch, tuple) else ((t,) for t in some)
            wanted = [reference.encode(*pair).ids for pair in pairs]
            packed = read(batch)
            in_numpy = NumpyPreprocessor(read.tokenizer, **read.get_config())(batch)
            for name, values in packed.items():
                np.testing.assert_array_equal(in_numpy[name], values, err_msg=name)
            ids, mask = packed["token_ids"].numpy(), packed["padding_mask"].numpy()
            assert [row[:n].tolist() for row, n in zip(ids, mask.sum(1), strict=True)] == wanted
            assert {row[0] for row in wanted} == {2} and {row[-1] for row in wanted} == {1}
    first = np.array(model.embed(some))
    np.testing.assert_allclose(np.array(again.embed(some)), first, atol=1e-6)
