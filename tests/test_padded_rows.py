"""Padding changes nothing: outputs stay finite in every dtype, and heads do not read it."""

import logging

import numpy as np
import pytest
from helpers import (
    ONE_A_TASK,
    TOLERANCE,
    assert_same,
    flat,
    load_case,
    loaded,
    slow_but,
    steps_of,
    task_of,
)

from bert_zoo.models import inputs as checks

DTYPES = ("float32", "mixed_bfloat16", "bfloat16", "mixed_float16", "float16")
OF_TEXTS = [
    case
    for case in ONE_A_TASK
    if task_of(case)
    in ("classification", "multi_label_classification", "regression", "multiple_choice")
]
IDS = ("token_ids", "char_ids", "segment_ids", "language_ids")


def length_axis(name: str) -> int:
    return -2 if name == "char_ids" else -1


def padded(inputs, before: int, behind: int) -> dict[str, np.ndarray]:
    """Rows of ids alone, without their padding, with more padding around them."""
    ids = {name: value for name, value in inputs.items() if name in IDS}
    main = next(iter(ids))
    shape = ids[main].shape[:-1] if main == "char_ids" else ids[main].shape
    rows = {**ids, "padding_mask": np.ones(shape, "int32")}

    def around(name, value):
        widths = [(0, 0)] * value.ndim
        widths[length_axis(name)] = (before, behind)
        return np.pad(value, widths)

    return {name: around(name, value) for name, value in rows.items()}


@pytest.mark.parametrize("case", slow_but(ONE_A_TASK, "gpt/causal_lm", "deberta_v2/pretraining"))
def test_outputs_for_padded_rows_are_finite_in_every_dtype(case):
    inputs = dict(steps_of(case)[0])
    mask = np.array(inputs.get("padding_mask", padded(inputs, 0, 0)["padding_mask"]))
    mask[0, ..., :1] = mask[0, ..., -1:] = 0
    mask[-1] = 0
    inputs["padding_mask"] = mask
    for dtype in DTYPES:
        try:
            model = load_case(case, dtype=dtype)
        except ValueError as error:
            assert "float16" in dtype and "the range of float16" in str(error)
            continue
        for name, value in flat(model(inputs)).items():
            assert np.isfinite(value.astype("float32")).all(), (dtype, name)


@pytest.mark.parametrize("case", slow_but(OF_TEXTS, "gpt2/classification", "xlnet/classification"))
def test_padding_behind_a_text_is_not_read(case):
    model, inputs = loaded(case), steps_of(case)[0]
    # Some inputs are as long as the model's positions.
    inputs = {name: ids if name == "char_ids" else ids[..., :-3] for name, ids in inputs.items()}
    assert_same(model(padded(inputs, 0, 3)), model(padded(inputs, 0, 0)), atol=TOLERANCE)


def test_xlnets_answers_do_not_read_padding_behind_a_text():
    case = "xlnet/beam_question_answering"
    model, inputs = loaded(case), steps_of(case)[0]
    alone, beside = model(padded(inputs, 0, 0)), model(padded(inputs, 0, 3))
    length = inputs["token_ids"].shape[1]
    cut = {
        name: x[:, :length] if name.startswith(("start_l", "end")) else x
        for name, x in beside.items()
    }
    assert_same(cut, alone, atol=1e-4)


@pytest.mark.parametrize("case", ["gpt/classification", "gpt2/classification"])
def test_gpts_classifier_reads_the_last_token_other_than_padding(case):
    """As in transformers, which looks at ids alone: a text may end with the token that also pads."""
    model = loaded(case)
    pad_id = model.encoder.config.pad_id
    ids = pad_id + 1 + np.arange(4)[None]
    wanted = model({"token_ids": ids})
    for others, mask in (([pad_id, pad_id], None), ([pad_id, pad_id + 2], [[1] * 5 + [0]])):
        rows = np.concatenate([ids, [others]], axis=1)
        found = model({"token_ids": rows, "padding_mask": None if mask is None else np.array(mask)})
        assert_same(found, wanted, TOLERANCE)


def test_padding_in_front_is_reported_once_where_the_first_token_is_read(caplog):
    checks._warn_once_of_padding_first.cache_clear()
    for case, is_read in (("xlnet/classification", False), ("bert/classification", True)):
        model, inputs = loaded(case), steps_of(case)[0]
        model(padded(inputs, 0, 2))
        assert "begin with padding" not in caplog.text
        model(padded(inputs, 2, 0))
        model.predict(padded(inputs, 2, 0), verbose=0)
        assert caplog.text.count("Some rows begin with padding") == is_read


def test_what_mobilebert_reads_beside_padding_is_logged_at_load(caplog):
    with caplog.at_level(logging.WARNING):
        load_case("mobilebert/classification")
    assert "the last token has no right neighbour" in caplog.text
