"""Models made longer: they compute what the short ones do, and read long rows."""

import functools

import keras
import numpy as np
import pytest
from helpers import (
    ONE_A_TASK,
    arrays,
    assert_refused,
    assert_same,
    covering,
    family_of,
    flat,
    has_text,
    inputs_of,
    load_case,
    loaded,
    refusals,
    task_of,
    texts_for,
)

import bert_zoo
from bert_zoo import models
from bert_zoo.models.base import encoder_of
from bert_zoo.presets import Recipe
from bert_zoo.pretraining.masked import MaskedSettings
from bert_zoo.pretraining.models import model_to_go_on_with
from bert_zoo.pretraining.run import pretrain
from bert_zoo.registry import registry
from bert_zoo.weights.bind import variables_of

PAGE = registry().families["longformer"]
# Heads that no longer model has; ELECTRA's classifiers have GELU where the others have tanh.
REFUSED = {
    "albert/masked_lm",
    "electra/classification",
    "electra/regression",
    "electra/multiple_choice",
}
CASES = [
    case
    for case in ONE_A_TASK
    if family_of(case) in PAGE.lengthening.families
    and task_of(case) in PAGE.tasks
    and has_text(case)
    and case not in REFUSED
]
LENGTH = 120  # three times what the golden models read


def lengthened(case: str, window: int = 80):
    return bert_zoo.lengthen(loaded(case), LENGTH, window=window)


def of_tokens(outputs, mask) -> dict[str, np.ndarray]:
    """Outputs without those of padding."""
    return {
        name: value[mask > 0] if value.shape[:2] == mask.shape else value
        for name, value in flat(outputs).items()
    }


@pytest.mark.parametrize("case", [*covering(CASES, task_of, family_of), "albert/masked_lm"])
def test_short_rows_give_what_they_gave(case):
    model = loaded(case)
    if case in REFUSED:  # with the longer model's activation
        model = load_case(case, activation="gelu")
    longer = bert_zoo.lengthen(model, LENGTH, window=80)
    texts = texts_for(task_of(case))
    inputs = model.texts_to_inputs(model.as_text_rows(texts), model.preprocessor)
    mask = np.asarray(inputs["padding_mask"])
    assert_same(of_tokens(longer(inputs), mask), of_tokens(model(inputs), mask), 1e-5)


@pytest.mark.parametrize(
    ("case", "format"),
    [
        ("bert/classification", "hf"),
        ("bert/classification", "keras"),
        ("roberta/masked_lm", "hf"),
        ("xlm_roberta/masked_lm", "hf"),
        ("albert/question_answering", "bert_zoo"),
    ],
)
def test_directories_and_keras_files_keep_model_and_text(case, format, tmp_path):
    longer = lengthened(case, window=8)
    if format == "keras":
        longer.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
    else:
        bert_zoo.save(longer, tmp_path, format=format)
        again = bert_zoo.load(tmp_path, task_of(case))
    long_row = np.tile(inputs_of(arrays(case))["token_ids"][:1], (1, 3))
    assert_same(again({"token_ids": long_row}), longer({"token_ids": long_row}))
    texts = texts_for(task_of(case))
    assert_same(again.preprocessor(texts), longer.preprocessor(texts))
    assert again.preprocessor.sequence_length == LENGTH


@pytest.mark.parametrize(("case", "first"), [("bert/encoder", 0), ("roberta/encoder", 2)])
def test_positions_are_repeated_and_global_projections_are_the_local_ones(case, first):
    longer = lengthened(case)
    before, after = variables_of(loaded(case)), variables_of(longer)
    table, repeated = (
        np.asarray(of["encoder/embeddings/position_embedding/embeddings"]) for of in (before, after)
    )
    own, positions = table[first:], repeated[longer.config.position_offset :]
    assert len(positions) == LENGTH
    for start in range(0, LENGTH, len(own)):
        part = positions[start : start + len(own)]
        np.testing.assert_array_equal(part, own[: len(part)])
    block = "encoder/stack/layer_1/attention"
    query, rest = np.split(np.asarray(after[f"{block}/qkv/kernel"]), [32], axis=1)
    np.testing.assert_array_equal(after[f"{block}/query_global/kernel"], query)
    np.testing.assert_array_equal(after[f"{block}/key_value_global/kernel"], rest)


def global_projections(model) -> np.ndarray:
    return np.array(variables_of(model)["encoder/stack/layer_0/attention/query_global/kernel"])


def test_pretraining_leaves_global_projections_copies_of_the_local_ones():
    longer = lengthened("bert/masked_lm")
    attention = longer.encoder.stack.blocks[0].attention
    copy = longer.encoder.backbone.untrained_copies()
    attention.qkv.kernel.assign_add(np.ones(attention.qkv.kernel.shape, "float32"))
    trained = np.array(attention.qkv.kernel)[:, :32]
    assert np.abs(global_projections(longer) - trained).min() > 0.5
    copy()
    np.testing.assert_array_equal(global_projections(longer), trained)
    # What was trained is not lost.
    attention.query_global.kernel.assign(trained + 1)
    longer.encoder.backbone.untrained_copies()()
    np.testing.assert_array_equal(global_projections(longer), trained + 1)


@pytest.mark.slow
def test_a_longer_model_goes_on_pretraining_on_whole_documents(tmp_path):
    bert_zoo.save(lengthened("roberta/masked_lm", window=16), tmp_path / "longer")
    words = "the cat sat on a tree and she saw it was good".split()
    rng = np.random.default_rng(0)
    documents = ["\n".join(" ".join(rng.choice(words, 9)) for _ in range(4)) for _ in range(60)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    recipe = Recipe(total_steps=2, batch_size=4, learning_rate=1e-3)
    results = pretrain(
        "longer",
        lambda: model_to_go_on_with(str(tmp_path / "longer")),
        MaskedSettings(recipe, "packed_documents", ((LENGTH, 1.0),)),
        [str(tmp_path / "text.txt")],
        tmp_path / "run",
        goes_on=True,
        held_out=0.2,
    )
    assert results["steps"] == 2 and np.isfinite(results["after"]["held out loss"])
    trained = bert_zoo.load(tmp_path / "run", task="masked_lm")
    local = np.array(variables_of(trained)["encoder/stack/layer_0/attention/qkv/kernel"])
    np.testing.assert_array_equal(global_projections(trained), local[:, :32])


def test_labels_pooling_and_compilation_are_kept():
    model = load_case("bert/classification")
    longer = bert_zoo.lengthen(model, LENGTH, window=16)
    assert longer.labels == model.labels and longer.compiled == model.compiled
    assert encoder_of(longer).pooling == model.encoder.pooling
    assert longer.preprocessor.sequence_length == longer.longest_input == LENGTH
    inputs = longer.preprocessor([" ".join(["the cat sat on the tree"] * 15)])
    assert inputs["token_ids"].shape[1] > model.longest_input
    assert np.isfinite(flat(longer(inputs))[""]).all()


def test_what_transformers_has_no_longformer_for_is_refused_before_anything_is_written(tmp_path):
    longer = lengthened("albert/encoder")
    assert isinstance(longer, models.Encoder)
    save = functools.partial(bert_zoo.save, longer, tmp_path / "model", format="hf")
    assert_refused(save, "tables as wide as its layers")
    assert not (tmp_path / "model").exists()


@refusals(
    (lambda: bert_zoo.lengthen(loaded("bert/encoder"), 40), "max_length is 40 | above 40"),
    (lambda: bert_zoo.lengthen(loaded("bert/encoder"), 80.0), "max_length is 80.0"),
    (lambda: bert_zoo.lengthen(loaded("bert/encoder"), 80, "all"), "attention is 'all'"),
    (lambda: bert_zoo.lengthen(loaded("bert/encoder"), 80, window=7), "attention_window is 7"),
    (lambda: bert_zoo.lengthen(loaded("modernbert/encoder"), 400), "family modernbert cannot"),
    (lambda: lengthened("bert/pretraining"), "task 'pretraining'"),
    (lambda: lengthened("electra/classification"), "'gelu' before its logits | 'tanh'"),
    (lambda: lengthened("albert/masked_lm"), "activation='gelu'"),
    (lambda: bert_zoo.lengthen(bert_zoo.load("bert_nano", weights=None)), "has no vocabulary"),
    (
        lambda: lengthened("albert/encoder").config.replace(attention_window=(8, 16)),
        "layers share their blocks",
    ),
)
def test_what_cannot_be_lengthened_says_why(call, words):
    assert_refused(call, words, ValueError)
