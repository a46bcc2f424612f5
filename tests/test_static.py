"""Tables of token vectors: equal to sentence-transformers and model2vec, on their files and on ours."""

import json
import shutil

import keras
import numpy as np
import pytest
from helpers import (
    ALL_GOLDEN,
    TEXTS,
    TOLERANCE,
    assert_refused,
    directory_of,
    load_case,
    loaded,
    read_json,
)
from safetensors.numpy import load_file, save_file

import bert_zoo
import bert_zoo.runtime
from bert_zoo.cli import distill as program
from bert_zoo.distillation import static_from

CASES = ("static/encoder", "static/encoder_model2vec")


def expected(case: str) -> tuple[list[str], np.ndarray]:
    stored = np.load(directory_of(case) / "vectors.npz")
    return stored["texts"].tolist(), stored["vectors"]


@pytest.mark.parametrize("case", CASES)
def test_vectors_equal_the_programs(case):
    """Of unknown words, which one program counts and the other leaves out, of nothing, and of a text of 700 tokens."""
    texts, vectors = expected(case)
    np.testing.assert_allclose(loaded(case).embed(texts), vectors, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.usefixtures("eager")
def test_a_table_in_a_folder_is_read(tmp_path):
    """As sentence-transformers wrote it before version 6."""
    copy = shutil.copytree(directory_of(CASES[0]), tmp_path / "model")
    folder = copy / "0_StaticEmbedding"
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (copy / name).rename(folder / name)
    texts, vectors = expected(CASES[0])
    np.testing.assert_allclose(
        bert_zoo.load(copy).embed(texts), vectors, atol=TOLERANCE, rtol=TOLERANCE
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fmt", ["bert_zoo", "hf", "model2vec"])
@pytest.mark.usefixtures("eager")
def test_saved_tables_are_the_same(case, fmt, tmp_path, caplog):
    model = load_case(case)
    model.pooling = type(model.pooling)(normalize=True)
    bert_zoo.save(model, tmp_path, format=fmt)
    again = bert_zoo.load(tmp_path)
    counts = {"hf": None, "model2vec": 1}.get(fmt, model.config.unk_id)
    assert again.config.unk_id == counts
    assert ("outputs will differ" in caplog.text) == (counts != model.config.unk_id)
    texts = ["the cat sat on a tree", "", "a " * 600]
    np.testing.assert_allclose(again.embed(texts), model.embed(texts), atol=TOLERANCE)


def json_of(change):
    """Changes a JSON file's content."""

    def write(path):
        path.write_text(json.dumps(change(read_json(path))))

    return write


def tensors_with(**tensors):
    def write(path):
        save_file({**load_file(path), **tensors}, path)

    return write


REFUSED = (
    *(
        (
            0,
            "tokenizer.json",
            json_of(lambda t: t | {"truncation": {"direction": "Left"}}),
            "direction",
        ),
    ),
    (
        0,
        "modules.json",
        json_of(lambda m: [*m, {"type": "x.WordWeights", "path": ""}]),
        "WordWeights",
    ),
    (0, "modules.json", json_of(lambda m: [{"type": "x.Transformer"}]), "config.json is missing"),
    (1, "config.json", json_of(lambda c: c | {"layers": 2}), "layers (= 2)"),
    (1, "model.safetensors", tensors_with(mapping=np.full(120, 20)), "the rows 20 to 20 | has 20"),
    (1, "model.safetensors", tensors_with(mapping=np.zeros(120, "f4")), "must be whole numbers"),
    (1, "model.safetensors", tensors_with(embeddings=np.zeros((20, 32), "i1")), "quantized"),
)


@pytest.mark.parametrize(("case", "file", "change", "words"), REFUSED, ids=[r[3] for r in REFUSED])
def test_files_that_mean_something_else_are_refused(case, file, change, words, tmp_path):
    copy = shutil.copytree(directory_of(CASES[case]), tmp_path / "model")
    change(copy / file)
    errors = (ValueError, FileNotFoundError)
    assert_refused(lambda: bert_zoo.load(copy), words, errors)


def test_a_table_is_trained_and_its_unknown_words_are_not(tmp_path):
    """Of rows with words that the vocabulary lacks, the gradient moves the others alone."""
    model = load_case(CASES[1], "embedding")
    table = model.encoder.embeddings.token_weights
    before = np.array(table)
    texts = ["the cat sat xylophone", "a dog ran", "it was good", "red house"]
    model.compile(keras.optimizers.SGD(1.0), loss=model.default_loss())
    model.fit((texts, texts[::-1]), batch_size=4, verbose=0)
    moved = np.array(table) != before
    ids = model.preprocessor(texts)["token_ids"]
    assert set(np.flatnonzero(moved)) <= {*np.array(ids).ravel()} - {model.encoder.config.unk_id}
    assert moved.sum() > 5


@pytest.mark.parametrize("case", CASES)
def test_a_classifier_reads_sentence_vectors(case):
    model = load_case(case, "classification", num_classes=2)
    inputs = model.preprocessor(["the cat sat xylophone", "a dog"])
    vectors = model.encoder.embed(["the cat sat xylophone", "a dog"])
    dense = model.classifier.dense
    np.testing.assert_allclose(model(inputs), vectors @ np.array(dense.kernel), atol=TOLERANCE)


def test_a_distilled_table_is_model2vecs(tmp_path):
    """Of vocab.txt's tokens in their order, of which 5 are special; pca_dims=8, quantize_to="float32"."""
    table = static_from(loaded("bert/encoder"), 8)
    expected = np.load(ALL_GOLDEN / "static" / "distilled.npz")
    assert table.preprocessor.tokenizer.vocabulary == tuple(expected["tokens"])
    found = np.array(table.encoder.embeddings.token_embedding.embeddings)
    np.testing.assert_allclose(found, expected["vectors"], atol=TOLERANCE, rtol=TOLERANCE)
    bert_zoo.save(table, tmp_path, format="model2vec")
    again = bert_zoo.load(tmp_path)
    assert again.config == table.encoder.config
    texts = ["the cat [CLS] sat", "xylophone ~", "UNABLE"]
    np.testing.assert_allclose(again.embed(texts), table.embed(texts), atol=TOLERANCE)


@pytest.mark.usefixtures("eager")
def test_other_vocabularies_are_distilled_or_refused(tmp_path):
    table = static_from(loaded("roberta/classification"), None, sif=None)
    assert table.encoder.config.hidden_size == 32
    for fmt in ("bert_zoo", "hf", "model2vec"):
        bert_zoo.save(table, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt)
        np.testing.assert_allclose(again.embed(TEXTS), table.embed(TEXTS), atol=TOLERANCE)
    with pytest.raises(ValueError, match="dimensions is 33"):
        static_from(loaded("bert/encoder"), 33)
    with pytest.raises(TypeError, match="cannot be"):
        static_from(loaded("albert/classification"), 8)


def test_the_program_writes_a_table(tmp_path):
    arguments = ["--teacher", directory_of("bert/encoder"), "--table", 8, "--output_dir", tmp_path]
    program.PROGRAM.run(program.main, [*map(str, arguments)])
    table = static_from(loaded("bert/encoder"), 8)
    np.testing.assert_array_equal(bert_zoo.load(tmp_path).embed(TEXTS), table.embed(TEXTS))


@pytest.mark.parametrize("case", CASES)
def test_an_onnx_file_reads_strings_of_any_length(case, tmp_path):
    pytest.importorskip("onnxruntime")
    texts, vectors = expected(case)
    bert_zoo.export(load_case(case, "embedding"), tmp_path, format="onnx")
    found = bert_zoo.runtime.load(tmp_path).embed(texts)
    np.testing.assert_allclose(found, vectors, atol=TOLERANCE, rtol=TOLERANCE)


def test_unigrams_of_sentencepiece_are_read(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    bert_zoo.save(loaded("xlm_roberta/classification"), tmp_path / "other", format="hf")
    copy = shutil.copytree(directory_of(CASES[0]), tmp_path / "model")
    shutil.copy(tmp_path / "other" / "tokenizer.json", copy)
    theirs = tokenizers.Tokenizer.from_file(str(copy / "tokenizer.json"))
    table = np.random.default_rng(0).normal(size=(theirs.get_vocab_size(), 8)).astype("float32")
    save_file({"embedding.weight": table}, copy / "model.safetensors")
    model, texts = bert_zoo.load(copy), [*TEXTS, "  the <s> cat~ ", "\u732b"]
    rows = theirs.encode_batch(texts, add_special_tokens=False)
    vectors = [table[row.ids].mean(axis=0) for row in rows]
    np.testing.assert_allclose(model.embed(texts), vectors, atol=TOLERANCE)
    for fmt in ("bert_zoo", "hf"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt)
        np.testing.assert_allclose(again.embed(texts), vectors, atol=TOLERANCE)
