"""Static vectors of words from files."""

import gzip

import numpy as np
import pytest

from bert_zoo.data.word_vectors import read_word_vectors

WORDS = ("the", "naïve", ". . .")
VECTORS = np.array([[1, -0.5, 0.25], [0, 2, 3e-5], [7, 8, 9]], "float32")
GLOVE = "".join(
    f"{w} {' '.join(map(str, v))}\n" for w, v in zip(WORDS, VECTORS.tolist(), strict=True)
)
BINARY = b"3 3\n" + b"".join(
    word.encode() + b" " + vector.tobytes() + b"\n"
    for word, vector in zip((*WORDS[:2], "so"), VECTORS, strict=True)
)


def written(tmp_path, name: str, content):
    path = tmp_path / name
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [("glove.txt", GLOVE), ("word2vec.txt", "3 3\n" + GLOVE), ("glove.txt.gz", GLOVE)],
)
def test_texts_are_read_with_and_without_a_header(name, content, tmp_path):
    words, vectors = read_word_vectors(written(tmp_path, name, content))
    assert words == WORDS
    np.testing.assert_array_equal(vectors, VECTORS)
    assert vectors.dtype == np.float32


def test_word2vecs_binary_form_is_read(tmp_path):
    words, vectors = read_word_vectors(written(tmp_path, "vectors.bin", BINARY))
    assert words == ("the", "naïve", "so")
    np.testing.assert_array_equal(vectors, VECTORS)
    with pytest.raises(ValueError, match="ends in word 3 of 3"):
        read_word_vectors(written(tmp_path, "cut.bin", BINARY[:-5]))
    with pytest.raises(ValueError, match="two whole numbers"):
        read_word_vectors(written(tmp_path, "other.bin", b"GGUF\n"))


def test_some_words_or_the_first_lines_are_kept_and_a_word_once(tmp_path):
    path = written(tmp_path, "glove.txt", GLOVE + "the 9 9 9\n")
    assert read_word_vectors(path, limit=1).words == ("the",)
    words, vectors = read_word_vectors(path, words={"the", "cat"})
    assert words == ("the",)
    np.testing.assert_array_equal(vectors, VECTORS[:1])
    with pytest.raises(ValueError, match="no vector for any"):
        read_word_vectors(path, words={"cat"})


@pytest.mark.parametrize("line", ["cat 1 2", "cat 1 two 3", "1 2 3"])
def test_a_line_of_another_length_is_named(line, tmp_path):
    path = written(tmp_path, "glove.txt", GLOVE + line + "\n")
    with pytest.raises(ValueError, match="line 4: expected a word and 3 numbers"):
        read_word_vectors(path)
