"""The real weights of minilm_l6 give Hugging Face's numbers on real sentences."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import WEIGHTS, needs_minilm, slow_but

import bert_zoo

GOLDEN = Path(__file__).parent / "golden" / "minilm_l6.npz"
DATA = Path(__file__).parents[2] / "shared" / "data"
TOLERANCE = 1e-5
# Of sentences: all take seconds.
NUMBERS = slow_but([40, 200], 40)

pytestmark = needs_minilm


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as file:
        return dict(file)


@pytest.fixture(scope="module")
def encoder():
    return bert_zoo.load("minilm_l6", output_hidden_states=True)


@pytest.mark.parametrize("number", NUMBERS)
def test_hidden_states_equal_the_reference_on_real_sentences(number, encoder, golden):
    names = ("token_ids", "segment_ids", "padding_mask")
    outputs = encoder({name: golden[name][:number] for name in names})
    states = np.stack([np.asarray(state) for state in outputs["hidden_states"]])
    places, features = (golden[f"sample_{kind}"][:number] for kind in ("positions", "features"))
    sampled = states[:, np.arange(number)[:, None], places, features]
    expected = golden["sample_hidden_states"][:, :number]
    np.testing.assert_allclose(sampled, expected, atol=TOLERANCE, rtol=0)
    for row in golden["whole_rows"]:
        if row < number:
            whole = golden[f"hidden_states/{row}"]
            found = states[:, row, : whole.shape[1]]
            np.testing.assert_allclose(found, whole, atol=TOLERANCE, rtol=0)
    expected = golden["pooled_output"][:number]
    np.testing.assert_allclose(outputs["pooled_output"], expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("number", NUMBERS)
def test_raw_text_gives_the_reference_ids_and_sentence_vectors(number, encoder, golden):
    if not DATA.is_dir():
        pytest.skip("the real texts are not here (../shared/data)")
    texts = [
        source_texts(file, line)
        for file, line in zip(golden["source_file"], golden["source_line"], strict=True)
    ]
    singles = [i for i, text in enumerate(texts) if len(text) == 1][:number]
    pairs = [i for i, text in enumerate(texts) if len(text) == 2][:number]
    for rows, batch in (
        (singles, [texts[i][0] for i in singles]),
        (pairs, tuple([texts[i][part] for i in pairs] for part in (0, 1))),
    ):
        inputs = encoder.preprocessor(batch)
        for name, values in inputs.items():
            wanted = golden[name][rows]
            length = max(values.shape[1], wanted.shape[1])
            np.testing.assert_array_equal(padded(values, length), padded(wanted, length), name)
        np.testing.assert_allclose(
            encoder.embed(batch), golden["sentence_embeddings"][rows], atol=TOLERANCE, rtol=0
        )


def source_texts(file: str, line: int) -> list[str]:
    """The one or two texts of a line (from 1) of a file under the data directory."""
    row = (DATA / str(file)).read_text(encoding="utf-8").split("\n")[line - 1]
    if "SST-2" in str(file):
        return [row.split("\t")[0]]
    return row.split("\t")[1:3] if "RTE" in str(file) else [row]


def padded(values, length: int) -> np.ndarray:
    values = np.asarray(values)
    return np.pad(values, ((0, 0), (0, length - values.shape[1])))


def test_similarity_ranks_what_means_the_same_first():
    scores = bert_zoo.similarity(
        "How do I get my money back?", ["I would like a refund.", "The weather is lovely today."]
    )
    assert scores.shape == (1, 2)
    assert scores[0, 0] > 0.5 > scores[0, 1]
    assert bert_zoo.similarity("one text", "one text") == pytest.approx(1.0, abs=1e-5)


def test_the_receipt_names_the_hash_and_the_count_of_the_card():
    receipt = json.loads((Path(__file__).parents[1] / "checkpoints" / "minilm_l6.json").read_text())
    card = bert_zoo.describe("minilm_l6")
    assert receipt["sha256"] == WEIGHTS.sha256["model.safetensors"]
    assert receipt["params"] == card["parameters"]
