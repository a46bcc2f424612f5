"""`bert_zoo.runtime` answers as the models do, without TensorFlow and Keras."""

import functools
import json
import logging
from importlib.util import find_spec

import numpy as np
import pytest
from helpers import (
    CHOICES,
    PAIRS,
    TEXTS,
    TOLERANCE,
    assert_refused,
    load_case,
    loaded,
    needs_minilm,
    run_program,
    slow_but,
    task_of,
)

import bert_zoo
import bert_zoo.runtime
from bert_zoo.data import messages

NEEDED = ("ai_edge_litert", "onnxruntime", "tf2onnx", "tokenizers")
needs_runtimes = pytest.mark.skipif(
    not all(map(find_spec, NEEDED)), reason="needs the extras: bert_zoo[litert,onnx]"
)
# Each task in one of the formats.
CASES = {
    "bert/classification": "litert",
    "bert/multi_label_classification": "onnx",
    "bert/question_answering": "onnx",
    "bert/token_classification": "litert",
    "bert/multiple_choice": "litert",
    "bert/regression": "litert",
    "bert/reranking": "onnx",
    "roberta/classification": "litert",
    "roberta/token_classification": "onnx",
    "roberta/question_answering": "litert",
    "albert/question_answering": "litert",
    "longformer/question_answering": "onnx",
}
QUICK = ("bert/classification", "bert/question_answering", "roberta/token_classification")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(case, task, format) -> a golden model and the directory of its export."""

    @functools.cache
    def export(case: str, task: str | None = None, format: str | None = None):
        model, directory = load_case(case, task), tmp_path_factory.mktemp("export")
        bert_zoo.export(model, directory, format=format or CASES[case])
        return model, directory

    return export


def assert_alike(ours, theirs) -> None:
    """Results of verbs are the same, numbers within the tolerance."""
    assert type(ours) is type(theirs)
    if isinstance(ours, float):
        assert ours == pytest.approx(theirs, abs=TOLERANCE)
    elif isinstance(ours, dict):
        assert_alike(list(ours.items()), list(theirs.items()))
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for pair in zip(ours, theirs, strict=True):
            assert_alike(*pair)
    elif hasattr(ours, "__dataclass_fields__"):
        assert_alike(vars(ours), vars(theirs))
    else:
        assert ours == theirs


@needs_runtimes
@pytest.mark.parametrize("case", slow_but(CASES, *QUICK))
def test_verbs_answer_as_the_models_do(case, exported):
    model, directory = exported(case)
    runtime = bert_zoo.runtime.load(directory, threads=1)
    texts = [*TEXTS, " ".join(TEXTS * 3), "", TEXTS[0].upper()]
    if hasattr(model, "classify"):
        for given in (texts, PAIRS, TEXTS[0]):
            assert_alike(runtime.classify(given, batch_size=2), model.classify(given))
        assert_alike(runtime.classify(texts, top_k=2), model.classify(texts, top_k=2))
        assert runtime.classify([]) == [] and runtime.predict([]) == {"logits": []}
    elif hasattr(model, "rank"):
        for query in texts:
            both = (m.rank(query, texts, top_k=None) for m in (runtime, model))
            assert_alike(*(sorted(found, key=lambda row: row.index) for found in both))
        with pytest.raises(ValueError, match="takes one query"):
            runtime.rank(texts, texts)
        assert runtime.rank("a", []) == []
    elif hasattr(model, "tag"):
        assert runtime.tag([]) == []
        for given in (texts, [["the", "cat"], ["a"]]):
            for strategy in ("first", "average", "max"):
                options = {"aggregation_strategy": strategy}
                ours = model.tag(given, **options)
                assert_alike(runtime.tag(given, batch_size=2, **options), ours)
    elif hasattr(model, "answer"):
        contexts = [
            " ".join(TEXTS),
            " ".join(TEXTS * 12),
            "a big  red house, in the\u3000city ",
            "",
        ]
        questions = ["the cat", "what did she see in the big red house", "", "where"]
        for threshold in (None, 0.0, float("inf")):
            expected = model.answer(questions, contexts, threshold)
            assert_alike(runtime.answer(questions, contexts, threshold), expected)
        assert_alike(
            runtime.answer(questions[0], contexts[0]), model.answer(questions[0], contexts[0])
        )
        assert runtime.answer([], []) == []
    else:
        given = CHOICES if model.task.startswith("multiple") else texts
        served = np.stack(runtime.predict(given)["logits"])
        np.testing.assert_allclose(served, model.predict(given, verbose=0), atol=TOLERANCE)


@needs_runtimes
def test_sentence_vectors_are_the_models(exported, caplog):
    model, directory = exported("bert/encoder", "embedding", "litert")
    runtime = bert_zoo.runtime.load(directory)
    texts = [*TEXTS, TEXTS[0] * 20]
    with caplog.at_level(logging.WARNING):
        served = runtime.embed(texts, batch_size=2)
    assert sum("was cut" in record.message for record in caplog.records) == 1
    np.testing.assert_allclose(served, model.embed(texts), atol=TOLERANCE)
    assert runtime.embed([]).shape == (0, served.shape[1])
    for call, words in (
        (lambda: runtime.embed("a\ud800b"), "lone surrogate"),
        (lambda: runtime.run({}, "step"), "signature"),
        (lambda: runtime.run({"token_ids": [[1]]}), "takes"),
    ):
        assert_refused(call, words)


@needs_runtimes
def test_only_the_packages_of_the_runtime_are_imported(exported):
    model, directory = exported("bert/classification")
    program = (
        "import json, sys; import bert_zoo.runtime; model = bert_zoo.runtime.load(sys.argv[1]);"
        "label = model.classify(sys.argv[2])[0].label;"
        "print(json.dumps([label, sorted({name.partition('.')[0] for name in sys.modules})]))"
    )
    printed = run_program("-c", program, directory, TEXTS[0])
    label, modules = json.loads(printed.splitlines()[-1])
    assert label == model.classify(TEXTS[0])[0].label
    others = {"tensorflow", "tensorflow_text", "keras", "jax", "safetensors", "scipy", "markupsafe"}
    assert not others & {*modules}


def test_what_is_no_export_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="one of the formats"):
        bert_zoo.runtime.load(tmp_path)


def test_tokenizer_json_composes_rows_as_the_model_does(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    from bert_zoo.serving.servable import text_description

    for case in ("bert/classification", "roberta/classification", "albert/classification"):
        model = loaded(case)
        assert task_of(case) == model.task
        text_description(model, tmp_path, text=True)
        written = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        for texts in (TEXTS, PAIRS):
            rows = [*zip(*texts, strict=True)] if isinstance(texts, tuple) else texts
            ids = model.preprocessor.with_options(sequence_length=256)(texts)
            for row, token_ids, mask in zip(
                written.encode_batch(rows),
                *map(np.asarray, (ids["token_ids"], ids["padding_mask"])),
                strict=True,
            ):
                assert row.ids == token_ids[mask == 1].tolist()


# --- A model of real size -------------------------------------------------------------------------


@pytest.mark.slow
@needs_minilm
@needs_runtimes
@pytest.mark.parametrize("format, least_in_int8", [("litert", 0.995), ("onnx", 0.975)])
def test_vectors_of_real_sentences_keep_their_directions(format, least_in_int8, tmp_path):
    model = bert_zoo.load("minilm_l6", task="embedding")
    texts = messages.load("test")[0]
    expected = model.embed(texts)
    for quantize, least in ((None, 1 - 1e-5), ("int8", least_in_int8)):
        directory = tmp_path / str(quantize)
        bert_zoo.export(model, directory, format=format, quantize=quantize)
        found = bert_zoo.runtime.load(directory).embed(texts)
        cosines = np.sum(found * expected, -1) / np.linalg.norm(found, axis=-1)
        print(f"{format} {quantize}: cosine {cosines.min():.4f} or more, {cosines.mean():.4f}")
        assert cosines.min() > least
        if quantize is None:
            np.testing.assert_allclose(found, expected, atol=TOLERANCE)
