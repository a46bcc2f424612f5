"""Transformer-XL: a text in segments, each with the memory of those before it."""

import dataclasses
import functools
import logging
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    CASES,
    TOLERANCE,
    assert_refused,
    assert_same,
    assert_same_variables,
    carried,
    directory_of,
    flat,
    load_recurrent,
    loaded,
    recurrent_arrays,
    refusals,
    segments_of,
    state_of,
    tensors_of,
)
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.families.transformer_xl.family import RecurrentConfig
from bert_zoo.families.transformer_xl.layers import distance_embedding
from bert_zoo.family import Files
from bert_zoo.layers import heads
from bert_zoo.models import CausalLM, Encoder
from bert_zoo.registry import registry
from bert_zoo.weights.bind import named_variables

PROGRAMS = {
    case.partition("/")[2]: about["reference"]
    for case, about in CASES.items()
    if case.startswith("transformer_xl/")
}


def golden(case: str, task: str | None = None):
    """A golden model that several tests read and none changes."""
    return loaded(f"transformer_xl/{case}", task)


def labelled(case: str) -> list[dict[str, np.ndarray]]:
    return segments_of(recurrent_arrays(case), "token_ids", "labels")


# --- What the theory says of segments ------------------------------------------------------------

LENGTH = 12
SIZES = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "head_size": 3,
    "intermediate_size": 12,
    "cutoffs": (8, 18),
    "div_val": 2,
    "hidden_dropout": 0.0,
    "mem_len": LENGTH,
    "memory_start": "empty",
}


def fresh(**changes) -> CausalLM:
    """A model whose weights, the same for the same shapes, are all large enough to matter."""
    config = RecurrentConfig(**{**SIZES, **changes})
    model = CausalLM(Encoder(config, "transformer_xl", output_attentions=True))
    rng = np.random.default_rng(0)
    for variable in named_variables(model).values():
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return model


def text(rows: int = 2, length: int = LENGTH) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(1).integers(0, SIZES["vocab_size"], (2, rows, length))
    return {"token_ids": ids[0], "labels": ids[1]}


def cut(inputs: dict[str, np.ndarray], *places: int) -> list[dict[str, np.ndarray]]:
    """The text in segments, which start at `places` but the first."""
    parts = {name: np.split(value, places, axis=1) for name, value in inputs.items()}
    return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]


def log_probs(model, segments, state=None) -> np.ndarray:
    """Those of a text's labels, from its segments."""
    outputs = carried(model, segments, state)
    return np.concatenate([flat(one["log_probs"])[""] for one in outputs], axis=1)


@pytest.mark.parametrize("options", [{"num_layers": 1}, {"num_layers": 3}, {"pre_lnorm": True}])
def test_segments_with_all_of_the_past_in_memory_equal_one_long_segment(options):
    """In any number of layers: a hidden state does not depend on what comes after it, so that what a
    layer remembers is what it would compute again."""
    model, whole = fresh(**options), text()
    expected = log_probs(model, [whole])
    for places in [(1,), (7,), (3, 4, 11)]:
        np.testing.assert_allclose(log_probs(model, cut(whole, *places)), expected, atol=TOLERANCE)


@pytest.mark.parametrize("start", ["zeros", "empty"])
@pytest.mark.parametrize("keys", ["mem_len", "mem_len+1"])
def test_same_length_makes_predictions_independent_of_the_cuts(keys, start):
    options = {"mem_len": 4, "memory_start": start, "same_length_keys": keys, "clamp_len": 3}
    model, whole = fresh(same_length=True, **options), text()
    expected = log_probs(model, [whole])
    for places in [(6,), (1, 3, 9)]:
        np.testing.assert_allclose(log_probs(model, cut(whole, *places)), expected, atol=TOLERANCE)
    without = fresh(same_length=False, **options)
    assert np.abs(log_probs(without, [whole]) - expected).max() > 0.01


def keys_seen(model, segments) -> list[np.ndarray]:
    """For each segment, how many keys its queries see; they see as many in every layer and head."""
    found = []
    for outputs in carried(
        model.encoder, [{"token_ids": segment["token_ids"]} for segment in segments]
    ):
        counts = np.stack([(flat(layer)[""] > 0).sum(-1) for layer in outputs["attentions"]])
        assert (counts == counts[0, 0, 0]).all()
        found.append(counts[0, 0, 0])
    return found


@pytest.mark.parametrize(
    ("changes", "first", "second"),
    [
        ({"same_length": False}, [5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 9, 10]),
        ({"same_length_keys": "mem_len+1"}, [5] * 6, [5] * 6),
        ({"same_length_keys": "mem_len"}, [4] * 6, [4] * 6),
        ({"memory_start": "empty"}, [1, 2, 3, 4, 5, 5], [5] * 6),
        ({"memory_start": "empty", "same_length": False}, range(1, 7), range(5, 11)),
    ],
)
def test_queries_see_the_keys_that_the_settings_say(changes, first, second):
    options = {"mem_len": 4, "memory_start": "zeros", "same_length": True, **changes}
    found = keys_seen(fresh(**options), cut(text(), 6))
    assert [counts.tolist() for counts in found] == [list(first), list(second)]


def test_an_empty_start_is_a_model_without_memory():
    expected = log_probs(fresh(mem_len=0), [text()])
    np.testing.assert_allclose(log_probs(fresh(), [text()]), expected, atol=TOLERANCE)
    with_zeros = fresh(memory_start="zeros")
    assert np.abs(log_probs(with_zeros, [text()]) - expected).max() > 0.01
    # Nothing to start with is the same either way.
    both = (log_probs(fresh(mem_len=0, memory_start=s), [text()]) for s in ("zeros", "empty"))
    np.testing.assert_array_equal(*both)


def test_distances_beyond_clamp_len_count_as_it():
    exact = flat(distance_embedding(9, 8, -1, "float32"))[""]
    clamped = flat(distance_embedding(9, 8, 4, "float32"))[""]
    np.testing.assert_array_equal(clamped[5:], exact[5:])
    np.testing.assert_array_equal(clamped[:5], np.broadcast_to(exact[5], (5, 8)))
    whole = text()
    expected = log_probs(fresh(), [whole])
    # The longest distance between two of 12 tokens is 11.
    np.testing.assert_array_equal(log_probs(fresh(clamp_len=11), [whole]), expected)
    difference = np.abs(log_probs(fresh(clamp_len=4), [whole]) - expected)
    assert difference[:, :5].max() < TOLERANCE
    assert difference[:, 5:].max() > 0.001


# --- Memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["zeros", "empty"])
def test_one_trace_serves_every_segment(start):
    model, traces = fresh(mem_len=5, memory_start=start), []

    @tf.function
    def step(inputs):
        traces.append(1)
        return model(inputs)

    def shapes(state):
        return keras.tree.map_structure(lambda x: (tuple(x.shape), x.dtype), state)

    segments, initial = cut(text(), 3, 6, 9), model.initial_memory(2)
    outputs = carried(step, segments, initial)
    assert len(traces) == 1
    assert [layer.shape for layer in initial["memory"]] == [(2, 5, 8)] * 2
    assert initial["memory_mask"].shape == (2, 5)
    assert all(shapes(state_of(one)) == shapes(initial) for one in outputs)
    joined = np.concatenate([flat(one["log_probs"])[""] for one in outputs], axis=1)
    np.testing.assert_allclose(joined, log_probs(model, segments), atol=TOLERANCE)


def test_no_gradient_runs_through_memory():
    model, (first, second) = fresh(), cut(text(), 6)
    values = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        before = model(first)
        remembered = tf.add_n([tf.reduce_sum(layer) for layer in before["memory"]])
        through = tf.reduce_sum(model({**second, **state_of(before)})["log_probs"])
    constant = tf.nest.map_structure(tf.convert_to_tensor, state_of(model(first)))
    with tf.GradientTape() as alone:
        direct = tf.reduce_sum(model({**second, **constant})["log_probs"])
    assert tape.gradient(remembered, values) == [None] * len(values)
    found, wanted = (
        [*map(tf.convert_to_tensor, of.gradient(loss, values))]
        for of, loss in ((tape, through), (alone, direct))
    )
    assert_same(found, wanted, TOLERANCE)


def test_left_padded_row_is_the_row_alone():
    """Also in the next segment, from whose memory the padding is gone."""
    model, whole = fresh(mem_len=8), text(rows=1, length=9)
    expected = log_probs(model, cut(whole, 5))
    other = text(rows=1, length=12)
    padded = {
        name: np.concatenate([other[name], np.pad(whole[name], [(0, 0), (3, 0)])]) for name in whole
    }
    padded["padding_mask"] = np.array([[1] * 12, [0] * 3 + [1] * 9])
    segments = cut(padded, 8)
    outputs = carried(model, segments)
    assert flat(outputs[0]["memory_mask"])[""].tolist() == [[1] * 8, [0] * 3 + [1] * 5]
    found = np.concatenate([flat(one["log_probs"])[""] for one in outputs], axis=1)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1:, 3:], expected, atol=TOLERANCE)
    np.testing.assert_allclose(found[:1], log_probs(model, cut(other, 8)), atol=TOLERANCE)


def test_memory_may_have_any_length():
    """The text's own: what the memory of 12 positions, 5 of them filled, is."""
    model, (first, second) = fresh(), cut(text(), 5)
    state = state_of(model(first))
    short = keras.tree.map_structure(lambda x: x[:, -5:], state)
    assert_same(model({**second, **short}), model({**second, **state}), TOLERANCE)


# --- Adaptive softmax ----------------------------------------------------------------------------

SOFTMAXES = {
    "plain": {"cutoffs": (), "div_val": 1},
    "one table": {"div_val": 1},
    "one projected table": {"div_val": 1, "embedding_size": 6},
    "own projections": {"div_val": 1, "embedding_size": 6, "tie_projs": (False,) * 3},
    "narrow tables": {},
    "own tables": {"tie_word_embeddings": False},
    "first not projected": {"proj_same_dim": False, "tie_projs": (False,) * 3},
}


@pytest.mark.parametrize("changes", SOFTMAXES.values(), ids=SOFTMAXES)
def test_labels_have_the_probabilities_of_the_distribution_which_sum_to_one(changes):
    model = fresh(**changes)
    # A row for each label.
    ids = {"token_ids": np.repeat(text(rows=1)["token_ids"], 30, axis=0)}
    distribution = flat(model(ids)["log_probs"])[""]
    assert distribution.shape == (30, LENGTH, 30)
    np.testing.assert_allclose(np.exp(distribution).sum(-1), 1, atol=1e-5)
    labels = np.repeat(np.arange(30)[:, None], LENGTH, axis=1)
    found = flat(model({**ids, "labels": labels})["log_probs"])[""]
    np.testing.assert_allclose(found.T, distribution[0], atol=TOLERANCE)


# Labels that leave clusters empty, and that are all of one cluster; clusters are 0-7, 8-17, 18-29.
LABELS = {
    "mixed": text(rows=1)["labels"],
    "first": np.arange(LENGTH)[None] % 8,
    "second": 8 + np.arange(LENGTH)[None] % 10,
    "third": 18 + np.arange(LENGTH)[None],
    "none of the second": np.where(np.arange(LENGTH) % 2, 3, 20)[None],
    "ignored": np.full((1, LENGTH), -100),
    "some ignored": np.where(np.arange(LENGTH) % 3, text(rows=1)["labels"], -100),
}


@pytest.mark.parametrize(
    ("softmax", "labels"),
    [
        *(pytest.param("narrow tables", labels, id=name) for name, labels in LABELS.items()),
        pytest.param("one projected table", LABELS["mixed"], id="one table"),
        pytest.param("one projected table", LABELS["second"], id="one table-second"),
    ],
)
def test_members_alone_give_the_values_and_gradients_of_all_rows(softmax, labels, monkeypatch):
    """And both those of the whole distribution."""
    model, ids = fresh(**SOFTMAXES[softmax]), {"token_ids": text(rows=1)["token_ids"]}
    values = [variable.value for variable in model.trainable_variables]

    def of_labels():
        return model({**ids, "labels": labels})["log_probs"]

    def of_all():
        found = model(ids)["log_probs"]
        found = tf.gather(found, np.maximum(labels, 0), axis=-1, batch_dims=2)
        return tf.where(labels == -100, 0.0, found)

    results = []
    for function, members in (
        (of_labels, heads._gathered),
        (of_labels, heads._over_all),
        (of_all, None),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(heads, "_gathered", members)
            with tf.GradientTape() as tape:
                found = function()
                # Weights, so that rows cannot be mixed up.
                loss = tf.reduce_sum(found * np.arange(1, LENGTH + 1, dtype="float32"))
            gradients = tape.gradient(loss, values, unconnected_gradients="zero")
        results.append([found, *map(tf.convert_to_tensor, gradients)])
    assert (results[0][0].numpy()[labels == -100] == 0).all()
    assert (results[0][0].numpy()[labels != -100] < 0).all()
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-4, rtol=1e-5)


# --- Training and metrics ------------------------------------------------------------------------


def some_ignored(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Labels of which every row has another number."""
    labels = inputs["labels"].copy()
    for row, counted in zip(labels, (6, 1, 4), strict=True):
        row[counted:] = -100
    return {**inputs, "labels": labels}


@pytest.mark.usefixtures("eager")
def test_quality_is_a_mean_over_tokens_whatever_the_batches():
    case = "hf_adaptive"
    model = golden(case)
    inputs = some_ignored(labelled(case)[0])
    kept = inputs["labels"] != -100
    nats = -recurrent_arrays(case)["log_probs"][0][kept].mean()
    for batch_size in (2, 3):
        found = model.evaluate(inputs, batch_size=batch_size, verbose=0, return_dict=True)
        np.testing.assert_allclose(found["perplexity"], np.exp(nats), rtol=1e-5)
        np.testing.assert_allclose(found["bits"], nats / np.log(2), rtol=1e-5)
        if batch_size == 3:
            np.testing.assert_allclose(found["loss"], nats, rtol=1e-5)


@pytest.mark.usefixtures("eager")
def test_memory_goes_into_fit_and_evaluate_too():
    first, second, _ = labelled("hf_adaptive")
    model = load_recurrent("hf_adaptive", dropout=0.0)
    inputs = {**second, **state_of(model(first))}
    found = model.evaluate(inputs, batch_size=3, verbose=0, return_dict=True)
    expected = -recurrent_arrays("hf_adaptive")["log_probs"][1].mean()
    np.testing.assert_allclose(found["bits"], expected / np.log(2), rtol=1e-5)
    losses = model.fit(inputs, batch_size=3, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, [expected], rtol=1e-5)


# --- Formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["tf1_wt103", "tf1_div1", "torch_same_length"])
def test_other_programs_models_in_hugging_faces_format_are_the_same(case, tmp_path, caplog):
    model, segments = golden(case), labelled(case)
    with caplog.at_level(logging.WARNING):
        bert_zoo.save(model, tmp_path, format="hf")
    config = model.encoder.config
    knows = config.same_length_keys == "mem_len" and config.memory_start == "zeros"
    assert ("does not support" in caplog.text) == (not knows)
    again = bert_zoo.load(tmp_path, "causal_lm")
    assert again.encoder.config == config
    assert_same_variables(again, model)
    assert_same(carried(again, segments), carried(model, segments))


@pytest.mark.parametrize("case", PROGRAMS)
def test_each_program_has_its_conventions(case):
    model = golden(case)
    config = getattr(model, "encoder", model).config
    found = (config.same_length_keys, config.memory_start, config.layer_norm_epsilon)
    assert (
        found
        == {
            "hf": ("mem_len", "zeros", 1e-5),
            "tf": ("mem_len+1", "zeros", 1e-12),
            "torch": ("mem_len", "empty", 1e-5),
        }[PROGRAMS[case]]
    )


def test_a_bare_encoder_has_no_softmax_to_give(tmp_path):
    words = "no softmax | init=('softmax',)"
    assert_refused(lambda: load_recurrent("hf_encoder", "causal_lm"), words)
    model = load_recurrent("hf_encoder", "causal_lm", init=("softmax",))
    assert_same_variables(model.encoder, golden("hf_encoder"))
    bert_zoo.save(golden("hf_adaptive").encoder, tmp_path)
    assert_same_variables(bert_zoo.load(tmp_path), golden("hf_adaptive").encoder)


# --- Settings at load ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"mem_len": 3},
        {"mem_len": 20, "clamp_len": -1},
        {"clamp_len": 2},
        {"same_length": False},
        {"same_length_keys": "mem_len+1"},
        {"memory_start": "empty"},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_settings_change_predictions_and_no_weights(settings):
    usual, io = golden("hf_adaptive"), recurrent_arrays("hf_adaptive")
    model = load_recurrent("hf_adaptive", **settings)
    assert model.encoder.config == usual.encoder.config.replace(**settings)
    assert_same_variables(model, usual)
    outputs = carried(model, labelled("hf_adaptive"))
    assert outputs[-1]["memory"][0].shape[1] == settings.get("mem_len", 8)
    for number in (0, -1):
        difference = np.abs(outputs[number]["log_probs"] - io["log_probs"][number])
        assert difference.max() > 1e-4


# --- Errors --------------------------------------------------------------------------------------


def given(**changes) -> None:
    golden("hf_adaptive")({"token_ids": np.zeros((3, 6), int), **changes})


def configured(**changes) -> RecurrentConfig:
    return RecurrentConfig(**{**SIZES, **changes})


def memory(*shapes: tuple[int, int, int]) -> list[np.ndarray]:
    return [np.zeros(shape, "float32") for shape in shapes]


EMPTY, NO_WORD = memory((3, 8, 16), (3, 8, 16)), np.full((3, 6), 50)
SAME_LENGTH = {"same_length": True, "mem_len": 0, "same_length_keys": "mem_len"}
load = functools.partial(load_recurrent, "hf_adaptive")


@refusals(
    # Inputs.
    (lambda: given(memory=EMPTY[:1]), "memory has 1 entries | a list of 2 tensors"),
    (
        lambda: given(memory=memory((3, 8, 16), (3, 8, 15))),
        "memory[1] has shape (3, 8, 15) | must be (3, 8, 16)",
    ),
    (
        lambda: given(memory=memory((2, 8, 16), (2, 8, 16))),
        "memory[0] has shape (2, 8, 16) | (3, 8, 16)",
    ),
    (lambda: given(memory=memory((3, 8, 16), (3, 7, 16))), "memory[1] | (3, 8, 16)"),
    (
        lambda: given(memory=EMPTY, memory_mask=np.ones((3, 7), int)),
        "memory_mask has shape (3, 7) | (3, 8)",
    ),
    (
        lambda: given(memory=EMPTY, memory_mask=np.full((3, 8), 2)),
        "memory_mask[0, 0] is 2 | padding",
    ),
    (lambda: given(padding_mask=np.ones((3, 5), int)), "padding_mask has shape (3, 5) | (3, 6)"),
    (lambda: given(labels=np.zeros((3, 5), int)), "labels have shape (3, 5) | (3, 6) | -100"),
    (lambda: given(labels=NO_WORD), "labels[0, 0] is 50 | [0, 50)"),
    (lambda: given(labels=NO_WORD - 51), "labels[0, 0] is -1 | vocabulary"),
    (lambda: given(token_ids=NO_WORD), "token_ids[0, 0] is 50 | vocabulary"),
    (
        lambda: given(segment_ids=np.zeros((3, 6), int)),
        "takes | 'memory', 'memory_mask' | unknown here: ['segment_ids']",
    ),
    (lambda: given(token_ids=np.zeros(6, int)), "[batch, length] | (6,)"),
    # Configurations.
    (lambda: configured(cutoffs=(18, 8)), "cutoffs are (18, 8) | rising | 30"),
    (lambda: configured(cutoffs=(8, 8)), "cutoffs are (8, 8)"),
    (lambda: configured(cutoffs=(8, 30)), "cutoffs are (8, 30)"),
    (lambda: configured(cutoffs=(0, 8)), "cutoffs are (0, 8)"),
    (lambda: configured(cutoffs=(8.0, 18)), "cutoffs is (8.0, 18)"),
    (lambda: configured(mem_len=-1), "mem_len is -1 | no memory"),
    (lambda: configured(div_val=4), "div_val 4 | no width"),
    (lambda: configured(tie_projs=(True,)), "tie_projs are (True,) | 3 clusters"),
    (lambda: configured(hidden_size=9), "hidden_size is 9 | even"),
    (lambda: configured(same_length_keys="all"), "same_length_keys is 'all' | mem_len"),
    (lambda: configured(**SAME_LENGTH), "no key | same_length_keys"),
    (lambda: configured(memory_start="none"), "memory_start is 'none' | zeros | empty"),
    # Settings at load.
    (lambda: load(mem_length=3), "mem_length is mem_len here"),
    (lambda: load(max_global_tokens=3), "['max_global_tokens'] | transformer_xl has: | mem_len"),
    (lambda: load(mem_len=-3), "mem_len is -3"),
    (lambda: bert_zoo.load("bert_tiny", weights=None, mem_len=3), "['mem_len'] | bert has: none"),
)
def test_what_is_wrong_is_refused(call, words):
    assert_refused(call, words)


@pytest.mark.usefixtures("eager")
def test_labels_are_inputs():
    model, inputs = golden("hf_plain"), labelled("hf_plain")[0]
    ids = {"token_ids": inputs["token_ids"]}
    for call in (
        lambda: model.fit(ids, inputs["labels"], verbose=0),
        lambda: model.fit(ids, verbose=0),
        lambda: model.evaluate(ids, verbose=0),
    ):
        assert_refused(call, "labels are inputs")


@pytest.mark.parametrize("label", [50, -1])
def test_labels_that_are_no_words_are_refused_where_there_are_graphs(label):
    """The softmax would take them for one of the last cluster, or for the first word."""
    model, inputs = golden("hf_adaptive"), labelled("hf_adaptive")[0]
    wrong = {**inputs, "labels": inputs["labels"].copy()}
    wrong["labels"][1, 2] = label
    for method in (model.fit, model.evaluate, model.predict):
        words = f"labels[1, 2] is {label} | vocabulary"
        assert_refused(functools.partial(method, wrong, verbose=0), words)
    batches = tf.data.Dataset.from_tensors(wrong)
    error = tf.errors.InvalidArgumentError
    assert_refused(lambda: model.evaluate(batches, verbose=0), "labels must lie in", error)
    ignored = {**inputs, "labels": np.where(inputs["labels"] % 2, -100, inputs["labels"])}
    found = model.evaluate(tf.data.Dataset.from_tensors(ignored), verbose=0, return_dict=True)
    assert found["bits"] > 0


def test_repeated_tensors_must_agree(tmp_path):
    """Files may hold a tied table under both of its names."""
    case, repeated = "transformer_xl/hf_adaptive", "crit.out_layers.1.weight"
    shutil.copy(directory_of(case) / "config.json", tmp_path)
    tensors = tensors_of(directory_of(case))
    table = tensors["transformer.word_emb.emb_layers.1.weight"]
    save_file({**tensors, repeated: table}, tmp_path / "model.safetensors")
    assert_same_variables(bert_zoo.load(tmp_path, "causal_lm"), golden("hf_adaptive"))
    save_file({**tensors, repeated: table + 1}, tmp_path / "model.safetensors")
    words = f"{repeated} should be a copy of"
    assert_refused(lambda: bert_zoo.load(tmp_path, "causal_lm"), words)


def test_a_released_directory_is_read_as_its_card_says(tmp_path, monkeypatch):
    """The CMU's directories tell no sizes: they come from the registry, as does how to evaluate."""
    from bert_zoo.loading import directories
    from bert_zoo.weights import cache

    case = "tf1_enwik8"
    (tmp_path / "model").mkdir()
    for path in directory_of(f"transformer_xl/{case}").glob("model.ckpt-*"):
        shutil.copy(path, tmp_path / "model")
    monkeypatch.setattr(cache, "fetch_files", lambda *arguments: tmp_path)
    family, card = registry().resolve("transformer_xl_enwik8")
    (source,) = (source for source in card.sources if isinstance(source, Files))
    assert source.url.endswith("tf_enwiki8")  # as it is spelled there
    sizes = load_recurrent(case).encoder.config.to_dict()
    small = dataclasses.replace(card, config=sizes)
    opened = directories._open_registered(family, small, True, None)
    assert opened.config.to_dict() == sizes
    assert opened.plan.format.name == "tf1"
    assert opened.config.same_length_keys == "mem_len+1"
