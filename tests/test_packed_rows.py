"""Rows of several documents, each encoded as if it stood alone."""

import functools

import numpy as np
import pytest
from helpers import (
    CASES,
    TOLERANCE,
    assert_refused,
    covering,
    family_of,
    loaded,
    loaded_task,
    slow_but,
    task_of,
)

from bert_zoo.registry import registry

ENCODERS = sorted(case for case in CASES if task_of(case) == "encoder")
KINDS = covering(ENCODERS, lambda case: registry().families[family_of(case)].config_class)
LENGTHS = ((4, 5, 3), (1, 9, 0))
WIDTH = 14


def packed_row(config) -> tuple[dict[str, np.ndarray], list]:
    """Rows of documents, and where each is: (row, first token, end)."""
    random = np.random.default_rng(0)
    # No id of a special token, among them RoBERTa's padding, which has no position.
    token_ids = random.integers(5, config.vocab_size, (len(LENGTHS), WIDTH), dtype="int32")
    document_ids = np.zeros_like(token_ids)
    places = []
    for row, lengths in enumerate(LENGTHS):
        ends = np.cumsum(lengths)
        for number, (length, end) in enumerate(zip(lengths, ends, strict=True), start=1):
            document_ids[row, end - length : end] = number
            if length:
                places.append((row, end - length, end))
    token_ids[document_ids == 0] = config.pad_id or 0  # decoders have none
    return {"token_ids": token_ids, "document_ids": document_ids}, places


@pytest.mark.parametrize("case", slow_but(ENCODERS, *KINDS))
def test_documents_of_a_row_are_encoded_as_if_each_stood_alone(case):
    model = loaded(case)
    if "document_ids" not in model.backbone.inputs:
        with pytest.raises(ValueError, match=r"unknown here: .*document_ids"):
            model({"token_ids": np.ones((1, 3), "int32"), "document_ids": np.ones((1, 3), "int32")})
        return
    inputs, places = packed_row(model.config)
    offset = model.config.position_offset
    positions = np.zeros_like(inputs["token_ids"])
    for row, start, end in places:
        positions[row, start:end] = np.arange(end - start) + offset
    padding_mask = np.minimum(inputs["document_ids"], 1)
    given = [{}, {"padding_mask": padding_mask}]
    if "position_ids" in model.backbone.inputs:
        given.append({"position_ids": positions})
    for more in given:
        outputs = model({**inputs, **more})
        assert "pooled_output" not in outputs
        for row, start, end in places:
            alone = model({"token_ids": inputs["token_ids"][row : row + 1, start:end]})
            np.testing.assert_allclose(
                outputs["sequence_output"][row, start:end],
                alone["sequence_output"][0],
                atol=TOLERANCE,
            )


def test_numbers_of_documents_are_checked_and_what_reads_one_token_a_row_takes_none():
    model = loaded_task("encoder")
    ids = np.ones((1, 3), "int32")
    most = model.config.max_positions
    for other, numbers, words in (
        (model, [[1, most + 1, 2]], f"document_ids[0, 1] is {most + 1}"),
        (model, [[1, 1]], "document_ids has shape"),
        (loaded_task("classification"), [[1, 1, 1]], "several documents"),
    ):
        inputs = {"token_ids": ids, "document_ids": np.array(numbers)}
        assert_refused(functools.partial(other, inputs), words)


def test_objectives_of_sentences_are_left_out_of_packed_rows():
    ids = np.ones((1, 3), "int32")
    outputs = loaded_task("pretraining")({"token_ids": ids, "document_ids": ids})
    assert set(outputs) == {"mlm_logits"}
