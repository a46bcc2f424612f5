"""No texts give no results, of the shape of results of texts."""

import keras
import numpy as np
import pytest
from helpers import (
    COVER,
    covering,
    has_text,
    load_case,
    loaded,
    loaded_task,
    slow_but,
    task_of,
    texts_for,
)

import bert_zoo

CASES = [case for case in COVER if has_text(case) and task_of(case) != "text_to_text"]
QUICK = [
    case
    for case in covering(CASES, task_of)
    if task_of(case) in ("classification", "multiple_choice")
]


@pytest.mark.parametrize("case", slow_but(CASES, *QUICK))
def test_predictions_for_no_texts_have_no_rows(case):
    texts, model = texts_for(task_of(case)), loaded(case)
    nothing = ([], []) if isinstance(texts, tuple) else []
    found, some = (model.predict(x, verbose=0) for x in (nothing, texts))
    keras.tree.assert_same_structure(found, some)
    for empty, full in zip(keras.tree.flatten(found), keras.tree.flatten(some), strict=True):
        assert (len(empty), empty.ndim, empty.dtype) == (0, full.ndim, full.dtype)


VERBS = {
    "classify": lambda: loaded_task("classification").classify([]),
    "classify_pairs": lambda: loaded_task("classification").classify(([], [])),
    "classify_many": lambda: loaded_task("multi_label_classification").classify([]),
    "tag": lambda: loaded_task("token_classification").tag([]),
    "answer": lambda: loaded_task("question_answering").answer([], []),
    "answer_one_question": lambda: loaded_task("question_answering").answer("who?", []),
    "rank": lambda: loaded_task("reranking").rank("a query", []),
    "embed_words": lambda: loaded_task("encoder").embed_words([]),
    "score": lambda: load_case("gpt2/causal_lm").score([]),
    "score_masked": lambda: loaded_task("masked_lm").score([]),
    "generate": lambda: load_case("gpt2/causal_lm").generate([]),
    "generate_targets": lambda: load_case("t5/text_to_text").generate([]),
    "score_targets": lambda: load_case("t5/text_to_text").score([], []),
}


@pytest.mark.parametrize("verb", slow_but(VERBS, "classify", "tag", "rank", "answer"))
def test_verbs_say_nothing_of_no_texts(verb):
    found = VERBS[verb]()
    assert isinstance(found, list) and found == []


@pytest.mark.parametrize("case", ["gpt2/causal_lm", "t5/text_to_text"])
def test_a_stream_of_no_texts_has_no_pieces(case):
    assert [*load_case(case).generate([], stream=True)] == []


def test_vectors_of_no_texts_have_their_size():
    encoder = loaded_task("encoder")
    size = encoder.embed(["a"]).shape[1]
    for texts in ([], np.array([], str), np.array([], object)):
        vectors = encoder.embed(texts)
        assert vectors.shape == (0, size) and vectors.dtype == np.float32
    assert bert_zoo.similarity([], ["a", "b"], encoder).shape == (0, 2)
    assert bert_zoo.similarity(["a"], [], encoder).shape == (1, 0)
