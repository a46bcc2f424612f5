"""Which characters tokens stand for: equal to Hugging Face's, in the graph, beside the same ids."""

import gzip
import json
import tempfile
from pathlib import Path

import offset_samples as samples
import pytest
import tensorflow as tf
from helpers import ids_and_spans, slow_but

from bert_zoo import text

ENGLISH = "The quick brown fox jumps over the lazy dog, and nobody saw it leave."
# Hard ones: blanks, a special token, accents as marks, a Hangul syllable, one word of two scripts.
MIXED = ["", "  Caf\u0065\u0301 noir [MASK]<mask> \uac01 \ufb01n\u4e2d", ENGLISH]


@pytest.fixture(scope="module")
def references():
    return json.loads(gzip.decompress((samples.GOLDEN / "offsets.json.gz").read_bytes()))


# Nobody else gives offsets of XLM's tokens: tests/test_word_bpe.py.
CASES = {**samples.CASES, "word_bpe": samples.Case("xlm", "word_bpe", {})}


@pytest.fixture(scope="module")
def tokenizers():
    """Makes tokenizers of cases, each once."""
    made = {}

    def tokenizer_of(name):
        case = CASES[name]
        if case.vocabulary not in samples.OWN_VOCABULARIES and not samples.SHARED_DATA.is_dir():
            pytest.skip("needs the vocabularies and corpora in ../shared/data")
        if name not in made:
            with tempfile.TemporaryDirectory() as scratch:
                directory = samples.vocabulary_directory(case, Path(scratch))
                made[name] = text.tokenizer_from_dir(directory, case.family, **case.options)
        return made[name]

    return tokenizer_of


@pytest.fixture(
    params=[
        *("uncased", "byte_bpe_released", "xlm_roberta_small", "albert"),
        pytest.param("word_bpe", marks=pytest.mark.slow),
    ]
)
def tokenizer(request, tokenizers):
    return tokenizers(request.param)


def answers(tokenizer, texts):
    """Returns ids, starts and ends of each text."""
    columns = [column.to_list() for column in tokenizer.tokenize_with_offsets(texts)]
    return [list(row) for row in zip(*columns, strict=True)]


# Of each family one runs by default, with a vocabulary of its own where there is one.
SLOW = {"uncased_with_accents", "cased_without_accents", "byte_bpe_prefix_space"}
SLOW |= {"bert_uncased", "bert_cased", "roberta"}


@pytest.mark.parametrize(
    "name",
    slow_but(samples.CASES, *(n for n in samples.CASES if n not in SLOW)),
)
def test_offsets_are_the_references(name, tokenizers, references):
    case, tokenizer = samples.CASES[name], tokenizers(name)
    same_ids, different = 0, []
    for kind, texts in samples.text_sets(case):
        rows = answers(tokenizer, texts)
        assert [row[0] for row in rows] == tokenizer(texts).to_list()
        got, wanted = samples.checksums(case, rows), references[name][kind]
        assert len(got) == len(wanted)
        for place, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
            same_ids += ours[0] == theirs[0]
            if ours[0] == theirs[0] and ours[1] != theirs[1]:
                different.append((kind, place))
    total = sum(map(len, references[name].values()))
    if case.has_reference_ids:
        assert (same_ids, different) == (total, [])
    else:
        # docs/text.md says which those are: none in what people write.
        assert same_ids > 0.8 * total
        assert {kind for kind, _ in different} <= {"marks", "random"}, different
        assert len(different) < 0.1 * total, different


def test_offsets_count_characters_of_the_text_as_it_was_passed(tokenizers):
    tokenizer = tokenizers("uncased")
    for written, spans in {
        "\u00c9a \u4e2d!": [(0, 1), (1, 2), (3, 4), (4, 5)],
        "[MASK]\u00e9[SEP]": [(0, 6), (6, 7), (7, 12)],
        "e\u0301\u0323 \U0001f469": [(0, 1), (4, 5)],
        "x" * 101 + " a": [(0, 101), (102, 103)],
        "\x00\u0301 \ufffd": [],
    }.items():
        _, (found,) = ids_and_spans(tokenizer, [written])
        assert sorted({*found}) == spans, written


@pytest.mark.slow
def test_blanks_are_trimmed_from_the_tokens_of_byte_bpe(tokenizers):
    """The figures are Hugging Face's."""
    without, with_prefix = tokenizers("byte_bpe_released"), tokenizers("byte_bpe_prefix_space")
    for written, spans, spans_with_prefix in [
        (" <mask>", [(1, 7)], [(0, 7)]),
        ("  \u3000<mask>", [(3, 9)], [(3, 9)]),
        ("  ", [(1, 1), (2, 2)], [(0, 0), (2, 2)]),
        ("<mask>x", [(0, 6), (6, 7)], [(0, 6), (7, 7), (6, 7)]),
    ]:
        for tokenizer, wanted in ((without, spans), (with_prefix, spans_with_prefix)):
            assert ids_and_spans(tokenizer, [written])[1] == [wanted], written


def test_offsets_are_those_of_each_text_alone_also_in_maps_and_of_malformed_bytes(tokenizer):
    columns = tokenizer.tokenize_with_offsets(MIXED)
    for column in columns:
        assert column.dtype == tf.int32 and column.shape.as_list() == [3, None]
        assert column.row_splits.numpy().tolist() == columns[0].row_splits.numpy().tolist()
    wanted = answers(tokenizer, MIXED)
    assert wanted == [answers(tokenizer, each)[0] for each in MIXED]
    rows = []
    batches = tf.data.Dataset.from_tensor_slices(MIXED * 4).batch(5)
    for columns in batches.map(tokenizer.tokenize_with_offsets, num_parallel_calls=2):
        rows += map(list, zip(*(column.to_list() for column in columns), strict=True))
    assert rows == wanted * 4
    # Few of these have a token.
    for empty in ([], ["", ""], [" \u3000"], ["\ufffd"]):
        found = answers(tokenizer, empty)
        assert [ids for ids, _, _ in found] == tokenizer(empty).to_list()
        assert all(len({*map(len, row)}) == 1 for row in found)
    # Each malformed sequence of bytes is one replacement character.
    raw = [b"caf\xe9 [MASK] noir", b"\xff\xfe a \xf0\x9f b", b"\xed\xa0\x80<mask>x"]
    assert answers(tokenizer, raw) == answers(
        tokenizer, [r.decode("utf-8", "replace") for r in raw]
    )


def test_a_plain_savedmodel_does_not_carry_what_gives_offsets(tokenizers):
    tokenizer = tokenizers("uncased")
    tokenizer.tokenize_with_offsets(ENGLISH)
    children = tokenizer._trackable_children(save_type="savedmodel")
    assert "_tokenize" in children
    assert not [name for name in children if "offsets" in name or "untracked" in name]


def test_tokenizers_of_symbols_say_that_they_have_no_offsets():
    tokenizer = text.WordLevelTokenizer(["<eos>", "<unk>", "a"])
    with pytest.raises(NotImplementedError, match=r"WordLevelTokenizer has no offsets.*BERT"):
        tokenizer.tokenize_with_offsets(["a"])
