"""What must hold for every family and task, shown on all golden checkpoints.

A new family or task is covered as soon as its golden lies in tests/golden. On JAX without
TensorFlow (`make test-jax`) all of it runs that needs no TensorFlow.
"""

import functools
import inspect
import json

import keras
import numpy as np
import pytest
from helpers import (
    CASES,
    COVER,
    ENCODERS,
    ONE_A_TASK,
    TEXTS,
    TOLERANCE,
    arrays,
    assert_equal_to_reference,
    assert_same,
    assert_same_variables,
    carried,
    carries_state,
    covering,
    directory_of,
    family_of,
    flat,
    has_text,
    load_case,
    loaded,
    main_input,
    slow_but,
    state_of,
    steps_of,
    stored_gradients,
    task_of,
    tensors_of,
    texts_for,
    vocabulary_of,
)

import bert_zoo
from bert_zoo import models
from bert_zoo.layers.common import FIRST
from bert_zoo.models.labels import LabelSets
from bert_zoo.registry import registry

needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras does not run on TensorFlow."
)


POSITIONS = 40  # of golden checkpoints
# The program that made a golden -> the format of its names.
FORMATS = {"hf": "hf", "tf": "tf1", "torch": "torch", "bert_zoo": "bert_zoo"}


def having(name: str) -> list[str]:
    """The cases whose io.npz has an array of the name, or one below it ("gradient/...")."""
    return [case for case in CASES if any(key.startswith(name) for key in arrays(case))]


def answers(model, case: str) -> list:
    return carried(model, steps_of(case))


def test_every_family_and_every_task_has_a_golden_checkpoint():
    assert set(registry().families) == set(map(family_of, CASES))
    # Models of vectors and of entities have directories of their own.
    of_vectors = {"embedding", "sparse_embedding", "late_interaction", "hybrid_embedding"}
    others = of_vectors | {"entity_recognition"}
    assert set(models.TASKS) - others == set(map(task_of, CASES))


# --- Outputs -------------------------------------------------------------------------------------


# Every operation of another shape is compiled on JAX: there, all cases take ten minutes.
SHOWN = CASES if keras.backend.backend() == "tensorflow" else slow_but(CASES, *COVER)


@pytest.mark.parametrize("case", SHOWN)
def test_outputs_equal_the_reference(case):
    io, model = arrays(case), loaded(case)
    for labels in {True, "vocab_log_probs" not in io}:
        outputs = carried(model, steps_of(case, labels))
        if "init" in CASES[case]:
            outputs = [{name: of[name] for name in of if name in io} for of in outputs]
            assert all(outputs)
        assert_equal_to_reference(outputs, io)


@pytest.mark.parametrize("case", having("hidden_states"))
def test_hidden_states_and_attentions_equal_the_reference(case):
    io = arrays(case)
    has_attentions = "attentions" in io
    model = load_case(case, "encoder", output_hidden_states=True, output_attentions=has_attentions)
    outputs = carried(model, steps_of(case, labels=False))
    assert {"sequence_output", "hidden_states"} <= set(outputs[0])
    assert ("attentions" in outputs[0]) == has_attentions
    assert_equal_to_reference(outputs, io)


@pytest.mark.parametrize("case", having("texts"))
@needs_tensorflow
def test_texts_become_the_references_ids(case):
    io = arrays(case)
    texts = tuple(io[name].tolist() for name in ("texts", "text_pairs") if name in io)
    packed = flat(loaded(case).preprocessor(texts if len(texts) > 1 else texts[0]))
    length, axis = io["padding_mask"].shape[-1], io["padding_mask"].ndim - 1
    assert not packed["padding_mask"][..., length:].any()
    begin = (slice(None),) * axis + (slice(length),)
    assert_same({name: packed[name][begin] for name in packed}, {n: io[n] for n in packed})


@pytest.mark.parametrize("case", having("gradient"))
@needs_tensorflow
def test_loss_and_gradients_equal_the_reference(case):
    """Of the last segment given the state of the others, where there are segments."""
    import tensorflow as tf

    io, (*before, last) = arrays(case), steps_of(case)
    model = load_case(case, dropout=0.0)
    state = state_of(carried(model, before)[-1]) if before else {}
    labels = None if "labels" in last else io["labels"]
    with tf.GradientTape() as tape:
        outputs = model({**last, **state}, training=True)
        loss = model.compute_loss(x=last, y=labels, y_pred=outputs)
    np.testing.assert_allclose(loss, io["loss"], atol=TOLERANCE)
    fmt = FORMATS[CASES[case].get("reference", "hf")]
    stored = stored_gradients(model, loss, tape, fmt)
    renamed = registry().families[family_of(case)].formats[fmt].renamed
    names = [name for name in io if name.startswith("gradient")]
    assert len(names) > 5
    for name in names:
        theirs = name.removeprefix("gradient")[1:]
        ours = stored[theirs if theirs in stored else renamed(theirs)]
        np.testing.assert_allclose(ours, io[name], atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("case", [case for case in ONE_A_TASK if task_of(case) == "encoder"])
def test_tokens_computed_alone_are_as_among_all(case):
    model = load_case(case, output_hidden_states=True, output_attentions=True)
    if "positions" not in inspect.signature(model.call).parameters or carries_state(arrays(case)):
        pytest.skip("The whole of a segment is remembered.")
    (inputs,) = steps_of(case)
    rows, length = inputs[main_input(inputs)].shape[:2]
    some, whole = np.random.default_rng(0).integers(0, length, (rows, 3)), model(inputs)
    for positions, at in ((FIRST, np.zeros((rows, 1), int)), (some, some)):
        assert_are_as_among_all(model(inputs, positions=positions), at, whole)


def assert_are_as_among_all(alone: dict, at, whole: dict) -> None:
    assert set(alone) == set(whole)
    last = np.take_along_axis(np.asarray(whole["sequence_output"]), at[:, :, None], axis=1)
    # Other shapes round otherwise: by up to 1.5e-6, on JAX and on TensorFlow without oneDNN.
    atol = 3e-6
    assert_same(alone["sequence_output"], last, atol)
    assert_same(alone["hidden_states"][:-1], whole["hidden_states"][:-1])
    assert_same(alone["hidden_states"][-1], alone["sequence_output"])
    assert_same(alone["attentions"][:-1], whole["attentions"][:-1], 1e-7)
    for ours, theirs in zip(alone["attentions"][-1:], whole["attentions"][-1:], strict=True):
        attended = np.take_along_axis(np.asarray(theirs), at[:, None, :, None], axis=2)
        assert_same(ours, attended, atol)
    if "pooled_output" in whole:
        assert_same(alone["pooled_output"], whole["pooled_output"], atol)


PREDICTING = [case for case in CASES if task_of(case) in ("masked_lm", "pretraining")]


@pytest.mark.parametrize("case", slow_but(PREDICTING, *({*PREDICTING} & {*ONE_A_TASK})))
def test_masked_tokens_alone_have_the_logits_that_they_have_among_all(case):
    model, (inputs,) = loaded(case), steps_of(case)
    if "target_mapping" in model.encoder.backbone.inputs:
        pytest.skip("Its second stream does not see the tokens that it predicts.")
    if "mask_positions" in inputs:
        pytest.skip("The reference has their logits alone.")
    rows, length = inputs["token_ids"].shape
    positions = np.random.default_rng(0).integers(0, length, (rows, 3), "int32")
    whole = flat(model(inputs))
    some = flat(model({**inputs, "mask_positions": positions}))
    name = "mlm_logits" if "mlm_logits" in whole else ""
    whole[name] = np.take_along_axis(whole[name], positions[:, :, None], axis=1)
    assert_same(some, whole, TOLERANCE)


@pytest.mark.parametrize("case", slow_but(ONE_A_TASK, *COVER))
def test_padding_changes_nothing(case):
    """Neither what stands under it nor how much there is."""
    model, (inputs, *_) = loaded(case), steps_of(case)
    if "padding_mask" not in inputs:
        pytest.skip("Every row is as long as the others.")
    mask = inputs["padding_mask"]
    steps, axes = np.diff(mask, axis=-1), tuple(range(1, mask.ndim))
    chosen = (steps <= 0).all(axes)
    is_left = bool(mask[chosen].all())  # no row has any on the right
    chosen = (steps >= 0).all(axes) if is_left else chosen
    inputs = {name: value[chosen] for name, value in inputs.items()}
    mask = inputs["padding_mask"].astype(bool)
    assert not mask.all()
    more = min(3, POSITIONS - mask.shape[-1])
    sides = (more, 0) if is_left else (0, more)
    kept = np.s_[more:] if is_left else np.s_[: mask.shape[-1]]
    longer, main = {}, main_input(inputs)
    for name, value in inputs.items():
        if name == main or value.shape == mask.shape:
            rest = [(0, 0)] * (value.ndim - mask.ndim)
            value = np.pad(value, [(0, 0)] * (mask.ndim - 1) + [sides] + rest)
        longer[name] = value
    noise = np.random.default_rng(0).integers(5, 80, longer[main].shape, "int32")
    real = longer["padding_mask"].reshape(
        *longer["padding_mask"].shape, *[1] * (noise.ndim - mask.ndim)
    )
    longer[main] = np.where(real, longer[main], noise)
    expected = flat(model(inputs))
    for name, found in flat(model(longer)).items():
        value = expected[name]
        if value.shape[: mask.ndim] == mask.shape:
            value, found = value[mask], np.moveaxis(found, mask.ndim - 1, 0)[kept]
            found = np.moveaxis(found, 0, mask.ndim - 1)[mask]
        elif name.endswith("_positions"):
            found = found - is_left * more
        np.testing.assert_allclose(found, value, atol=TOLERANCE, rtol=0, err_msg=name)


# --- Ways of running -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", slow_but(COVER, *ENCODERS))
@needs_tensorflow
def test_xla_and_predict_equal_eager(case):
    import tensorflow as tf

    model, steps = loaded(case), steps_of(case)
    start = initial_state(model, case)
    eager = carried(model, steps, start)
    run = tf.function(model, jit_compile=True)
    assert_same(carried(run, [*map(as_tensors, steps)], start), eager, TOLERANCE)
    found = carried(functools.partial(model.predict, batch_size=2, verbose=0), steps, start)
    assert_same(found, eager, TOLERANCE)


def as_tensors(inputs: dict) -> dict:
    """Also where a memory is a list of layers."""
    return keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)


def initial_state(model, case: str) -> dict:
    """Of the shape of all later ones, so that one graph serves all segments."""
    if not carries_state(arrays(case)):
        return {}
    return model.initial_memory(len(steps_of(case)[0]["token_ids"]))


@pytest.mark.parametrize("case", slow_but(ONE_A_TASK, *COVER))
def test_mixed_bfloat16_is_close(case):
    model = load_case(case, dtype="mixed_bfloat16")
    assert {variable.dtype for variable in model.trainable_variables} == {"float32"}
    for found, exact in zip(answers(model, case), answers(loaded(case), case), strict=True):
        state, found, exact = state_of(found), flat(found), flat(exact)
        if "start_positions" in found:
            # Of two starts that are about as likely, rounding decides which comes first.
            starts = found.pop("start_positions"), exact["start_positions"]
            rows, ours, theirs = np.nonzero(starts[0][:, :, None] == starts[1][:, None])
            assert len(rows) > 0.8 * starts[1].size
            found["end_logits"] = found["end_logits"][rows, :, ours]
            exact["end_logits"] = exact["end_logits"][rows, :, theirs]
        for name, value in found.items():
            if name.partition(".")[0] not in state:
                # Eight bits of mantissa: a relative error of 2**-9 a rounding, on values of up to 5, and
                # of 7.5 for MPNet. Masked ones are -1e30.
                largest = np.abs(exact[name][exact[name] > -1e9]).max()
                difference = np.abs(value.astype("float32") - exact[name]).max()
                assert 0 < difference < 0.3 * max(1, largest / 5), name
                assert task_of(case) == "encoder" or value.dtype == "float32", name


# test_training.py and the tasks' own tests train the others.
TRAINED = ("masked_lm", "pretraining")
TRAINED = [case for case in covering(COVER, task_of) if task_of(case) in TRAINED]


@pytest.mark.parametrize("case", slow_but(COVER, *TRAINED))
def test_training_lowers_the_loss(case):
    keras.utils.set_random_seed(0)
    model, (inputs, *_) = load_case(case, dropout=0.0), steps_of(case)
    if not model.compiled:
        pytest.skip("An encoder has no loss.")
    if task_of(case) == "beam_question_answering":
        pytest.skip("It is given starts in training, as test_xlnet.py does.")
    labels = None if "labels" in inputs else other_labels(model(inputs), model.label_ranges(inputs))
    if labels is not None:
        labels = arrays(case).get("labels", labels)
    model.optimizer.learning_rate = 3e-3
    history = model.fit(inputs, labels, epochs=15, verbose=0).history
    for name, losses in history.items():
        if name.endswith("loss"):
            assert losses[-1] < 0.8 * losses[0], name


LEARNERS = [
    case for case in COVER if task_of(case) != "encoder" and not carries_state(arrays(case))
]


# Whose labels are of rows, of tokens, by output, and inputs.
KINDS = ("classification", "token_classification", "question_answering", "causal_lm")
QUICK_LEARNERS = [case for case in covering(LEARNERS, task_of) if task_of(case) in KINDS]


@pytest.mark.parametrize("case", slow_but(LEARNERS, *QUICK_LEARNERS))
@pytest.mark.usefixtures("eager")
def test_a_rows_weight_multiplies_the_losses_of_all_its_labels(case):
    """A weight of 0 leaves the row out, however the rows are divided into batches."""
    model, (x, y) = load_case(case, dropout=0.0), learned_data(case)
    data = (x, y, model(x))
    number = len(x[main_input(x)])
    kept = np.arange(number) % 2 == 0
    weights = kept.astype("float32")

    def rows(data):
        return keras.tree.map_structure(lambda of: of if of is None else np.asarray(of)[kept], data)

    def loss(data, weights=None) -> float:
        return float(model.compute_loss(*data, weights))

    def measured(data, weights=None) -> float:
        options = {"sample_weight": weights, "batch_size": 1, "verbose": 0}
        return model.evaluate(*data[:2], **options, return_dict=True)["loss"]

    whole, some = loss(data), loss(rows(data))
    assert abs(whole - some) > 1e-4
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    close(loss(data, np.ones(number)), whole)
    close(loss(data, np.full((number, 1), 2)), 2 * whole)
    close([loss(data, w) for w in (weights, weights[:, None], 0 * weights)], [some, some, 0])
    close(measured(data, weights), measured(rows(data)))


def learned_data(case: str) -> tuple:
    """Inputs and labels that a model nearly gives, of a golden checkpoint."""
    model, (inputs, *_) = loaded(case), steps_of(case)
    if "labels" in inputs:
        return inputs, None
    if task_of(case) == "beam_question_answering":
        inputs = {**inputs, "start_positions": np.arange(len(inputs["token_ids"]))}
    labels = other_labels(model(inputs), model.label_ranges(inputs))
    if task_of(case) == "regression":
        labels += np.arange(len(labels))
    return inputs, labels


CLASSIFIERS = [case for case in ONE_A_TASK if task_of(case) == "classification" and has_text(case)]
# One of each kind of tokenizer; what has a tokenizer.json alone takes a minute.
BY_SPEED = sorted(CLASSIFIERS, key=lambda case: (directory_of(case) / "tokenizer.json").is_file())
QUICK_CLASSIFIERS = {vocabulary_of(case): case for case in reversed(BY_SPEED)}.values()


@pytest.mark.parametrize("case", slow_but(CLASSIFIERS, *QUICK_CLASSIFIERS))
@needs_tensorflow
def test_texts_are_trained_on(case):
    model, texts = load_case(case), TEXTS[:2]
    model.fit(texts, np.array([0, model.num_classes - 1]), epochs=2, verbose=0)
    assert [answer.label in model.labels for answer in model.classify(texts)] == [True, True]


def other_labels(outputs, ranges, name: str = ""):
    """Labels that a model nearly gives: its second choices, or numbers somewhat above its own."""
    if isinstance(outputs, dict):
        return {name: other_labels(logits, ranges, name) for name, logits in outputs.items()}
    logits = keras.ops.convert_to_numpy(outputs)
    labels = ranges.get(name)
    are_binary = isinstance(labels, LabelSets) or getattr(labels, "are_probabilities", False)
    if are_binary or (name and len(ranges[name].axes) == logits.ndim):
        return (logits < 0).astype("int32")  # one logit a label
    return logits[..., 0] + 1 if logits.shape[-1] == 1 else np.argsort(logits)[..., -2]


# --- Formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", slow_but(ONE_A_TASK, *ENCODERS))
def test_saved_directory_gives_the_same_model(case, tmp_path):
    bert_zoo.save(loaded(case), tmp_path)
    assert_same_model(bert_zoo.load(tmp_path), case)


@pytest.mark.parametrize(
    "case",
    slow_but(COVER),
)
def test_a_quantized_model_gives_nearly_the_same(case):
    model, steps = load_case(case), steps_of(case)
    if task_of(case) == "regression":  # of four scores, all may be near zero
        rolled = lambda value: np.concatenate([np.roll(value, by, -1) for by in range(8)])  # noqa: E731
        steps = [{name: rolled(value) for name, value in step.items()} for step in steps]
    before = carried(model, steps)
    model.quantize("int8")
    for step, quantized in zip(before, carried(model, steps), strict=True):
        for name, value in flat(step).items():
            ours = flat(quantized)[name].ravel().astype("float64")
            theirs = value.ravel().astype("float64")
            norms = np.linalg.norm(ours) * np.linalg.norm(theirs)
            assert ours @ theirs >= 0.99 * norms, name


@pytest.mark.parametrize("case", slow_but(ONE_A_TASK, *covering(COVER, task_of)))
def test_keras_file_gives_the_same_model(case, tmp_path):
    loaded(case).save(tmp_path / "model.keras")
    assert_same_model(keras.saving.load_model(tmp_path / "model.keras"), case)


def unnamed(config):
    """A configuration without the names of models, which no two of a process share."""
    if not isinstance(config, dict):
        return config
    return {key: unnamed(value) for key, value in config.items() if key != "name"}


def assert_same_model(again, case: str) -> None:
    model = loaded(case)
    assert type(again) is type(model)
    assert unnamed(again.get_config()) == unnamed(model.get_config())
    assert_same_variables(again, model)
    assert_same(answers(again, case), answers(model, case))
    assert getattr(again, "labels", None) == getattr(model, "labels", None)
    if reads_text(case):
        assert_same_preprocessor(again.preprocessor, model.preprocessor)


def reads_text(case: str) -> bool:
    return case in COVER and has_text(case) and keras.backend.backend() == "tensorflow"


def assert_same_preprocessor(one, other) -> None:
    """By what makes their ids: a graph of each would take a second. test_tokenizers.py compares ids."""
    assert type(one) is type(other) and one.get_config() == other.get_config()
    one, other = one.tokenizer, other.tokenizer
    assert type(one) is type(other) and one.get_config() == other.get_config()
    assert one.vocabulary == other.vocabulary
    assert getattr(one, "merges", None) == getattr(other, "merges", None)


def in_todays_hugging_face_format(case: str) -> bool:
    directory = directory_of(case)
    if (
        CASES[case].get("reference", "hf") != "hf"
        or not (directory / "model.safetensors").is_file()
    ):
        return False
    tensors = tensors_of(directory)
    parts = registry().families[family_of(case)].formats["hf"].parts
    is_of_today = all(
        tensor.dtype == np.float32 and [*parts(key)] == [key] and not key.endswith("position_ids")
        for key, tensor in tensors.items()
    )
    prefixed_encoder = task_of(case) == "encoder" and any("encoder.layer" in key for key in tensors)
    return is_of_today and not (prefixed_encoder and "bert.embeddings" in str([*tensors]))


TODAYS = [*filter(in_todays_hugging_face_format, CASES)]


@pytest.mark.parametrize("case", slow_but(TODAYS, *covering(TODAYS, task_of, family_of)))
def test_hugging_face_directory_comes_back_bit_for_bit(case, tmp_path):
    original = tensors_of(directory_of(case))
    bert_zoo.save(loaded(case), tmp_path, format="hf")
    saved = tensors_of(tmp_path)
    for key in original:
        if key.endswith(".bias") and (decoder := f"{key[:-4]}decoder.bias") in original:
            # Never read where the decoder's counts; saved as its repetition.
            original[key] = original[decoder]
    # A pooler that transformers' class has and the task does not read is not kept.
    kept = getattr(loaded(case), "encoder", loaded(case)).config.pooler
    unread = set() if kept else {key for key in original if ".pooler." in key} - saved.keys()
    original = {key: tensor for key, tensor in original.items() if key not in unread}
    assert saved.keys() == original.keys()
    for key, tensor in original.items():
        assert np.array_equal(saved[key], tensor) and saved[key].dtype == np.float32, key
    if not (directory_of(case) / "config.json").is_file():
        return  # of sentence-transformers alone
    ours, theirs = (
        json.loads((path / "config.json").read_text()) for path in (tmp_path, directory_of(case))
    )
    # What describes the labels of a regression is ours to say; and what fills rows, where the vocabulary
    # has no token for it and the file names any.
    said = (set(ours) & set(theirs)) - {"id2label", "label2id", "problem_type"}
    if family_of(case) == "gpt2":
        said.discard("pad_token_id")
    assert len(said) > 10
    assert {key: ours[key] for key in said} == {key: theirs[key] for key in said}
    again = bert_zoo.load(tmp_path, task_of(case), init=CASES[case].get("init", ()))
    if reads_text(case):  # from files that say more than those that were read
        texts = TEXTS if task_of(case) == "multiple_choice" else texts_for(task_of(case))
        assert_same(again.preprocessor(texts), loaded(case).preprocessor(texts))


@pytest.mark.parametrize("case", [case for case in CASES if "twin" in CASES[case]])
def test_twins_of_other_formats_are_the_same_model(case):
    twin = f"{family_of(case)}/{CASES[case]['twin']}"
    assert_same_variables(loaded(case), loaded(twin, task_of(case)))


# --- SavedModels ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """case -> the reloaded SavedModel, exported once."""
    import tensorflow as tf

    @functools.cache
    def export(case: str):
        directory = tmp_path_factory.mktemp("exported") / "model"
        bert_zoo.export(loaded(case), directory, text=has_text(case))
        return tf.saved_model.load(str(directory))

    return export


def assert_serves(served: dict, outputs) -> None:
    """Every output is served, that of a task with one under the name of what it is."""
    if not isinstance(outputs, dict):
        outputs = {next(name for name in ("logits", "embedding") if name in served): outputs}
    assert_same({name: served[name] for name in outputs}, outputs, TOLERANCE)


# Exporting takes longest: the tasks that are served as none of test_export.py and
# test_export_recurrent.py.
EXPORTED = ("masked_lm", "pretraining", "multiple_choice", "beam_question_answering")
EXPORTED += ("regression", "reranking", "multi_label_classification", "text_to_text")
SERVED = [case for case in covering(COVER, task_of) if task_of(case) in EXPORTED]


@pytest.mark.parametrize("case", slow_but(COVER, *SERVED))
@needs_tensorflow
def test_saved_model_answers_ids_as_the_model_does(case, exported):
    from bert_zoo.serving import HUB_NAMES

    model, reloaded, (step, *_) = loaded(case), exported(case), steps_of(case)
    step = as_tensors(step)
    ones = keras.ops.ones_like(step[main_input(step)])
    whole = {"padding_mask": ones, "segment_ids": 0 * ones}
    if main_input(step) == "char_ids":
        whole = {"padding_mask": ones[..., 0]}
    whole |= step
    # Each has a signature of its own, and ELECTRA's golden has two.
    apart = set(model.inputs_apart)
    signatures = [
        serve
        for serve in reloaded.signatures.values()
        if set(step) - apart <= set(arguments_of(serve)) <= set(whole)
    ]
    assert signatures
    for serve in signatures:
        names = arguments_of(serve)
        expected = stateless(model({name: step[name] for name in step if name in names}))
        assert_serves(serve(**{name: whole[name] for name in names}), expected)
    # The object takes what TF-Hub's encoders take, and what a head reads beside it.
    read = [name for name in whole if name in (*HUB_NAMES, "char_ids", *model.interface.labels)]
    expected = stateless(model({name: step[name] for name in read if name in step}))
    assert_serves(reloaded({HUB_NAMES.get(name, name): whole[name] for name in read}), expected)


def arguments_of(signature) -> list[str]:
    return [*signature.structured_input_signature[1]]


def stateless(outputs):
    state = state_of(outputs)
    return {name: outputs[name] for name in outputs if name not in state} if state else outputs


@pytest.mark.parametrize("case", slow_but([*filter(has_text, COVER)], *filter(has_text, SERVED)))
@needs_tensorflow
def test_saved_model_answers_texts_as_the_model_does(case, exported):
    serve = exported(case).signatures["serving_default"]
    names = sorted(arguments_of(serve), key=lambda name: name not in ("text", "question"))
    texts = texts_for(task_of(case)) if len(names) > 1 else TEXTS
    if task_of(case) == "question_answering":
        texts = read_whole(loaded(case), texts)
    columns = dict(zip(names, texts if len(names) > 1 else (texts,), strict=True))
    served = serve(**as_tensors(columns))
    if task_of(case) == "beam_question_answering":  # `predict` does not know where the context is
        found = loaded(case).answer(*texts, float("inf"))
        assert [text.decode() for text in served["answer"].numpy()] == [a.text for a in found]
        odds = [a.no_answer_score for a in found]
        np.testing.assert_allclose(served["no_answer_score"], odds, atol=TOLERANCE)
        return
    if task_of(case) == "text_to_text":
        written = [text.decode() for text in served["generated_text"].numpy()]
        assert written == loaded(case).generate(texts, max_new_tokens=256)
        return
    assert_serves(served, loaded(case).predict(texts, verbose=0))
    assert_names_are_served(loaded(case), texts, served)


def assert_names_are_served(model, texts, served) -> None:
    """What stands beside the outputs: values, choices, tokens, and labels with their probabilities."""
    found = {name: value.numpy() for name, value in served.items()}
    found |= {
        name: np.char.decode(value.astype(bytes))
        for name, value in found.items()
        if value.dtype == object
    }
    logits = found.get("logits")
    assert {"label", "labels"} & set(found) or not getattr(model, "labels", ())
    if "value" in found:
        assert np.array_equal(found["value"], logits[:, 0])
    if "choice" in found:
        assert np.array_equal(found["choice"], np.argmax(logits, -1))
    if "label" in found:
        assert np.array_equal(found["label"], np.array(model.labels)[np.argmax(logits, -1)])
    if "tokens" in found:
        real = found["padding_mask"] == 1
        tokens = np.array(model.preprocessor.tokenizer.vocabulary)[found["token_ids"]]
        assert np.array_equal(found["tokens"][real], tokens[real])
    if "labels" in found:
        answers = model.classify(texts)
        assert [{*row} - {""} for row in found["labels"]] == [{*row.labels} for row in answers]
        assert ((found["labels"] == "") | (found["labels"] == np.array(model.labels))).all()
        assert_same(found["probabilities"], 1 / (1 + np.exp(-logits)), TOLERANCE)
    elif "probabilities" in found:
        wanted = keras.ops.softmax(logits)
        assert_same(found["probabilities"], wanted, TOLERANCE)


def read_whole(model, pairs: tuple[list[str], list[str]]) -> tuple[list[str], ...]:
    """The pairs that need not be cut, as `predict` does where SavedModels read windows."""
    mask = np.asarray(model.preprocessor(pairs)["padding_mask"])
    whole = mask.sum(axis=-1) < model.preprocessor.sequence_length
    assert whole.any()
    return tuple([text for text, is_whole in zip(c, whole, strict=True) if is_whole] for c in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in COVER if carries_state(arrays(case))])
@needs_tensorflow
def test_saved_model_carries_its_state_as_the_model_does(case, exported):
    model, steps, signatures = loaded(case), steps_of(case), exported(case).signatures
    start = initial_state(model, case)
    state = signatures["initial_memory"](batch_size=len(steps[0]["token_ids"]))
    for step, expected in zip(steps, carried(model, steps, start), strict=True):
        name = "step_scores" if "labels" in step else "step"
        served = signatures[name](**as_tensors(step), **state)
        assert_serves(served, stateless(expected))
        state = {name: value for name, value in served.items() if name in state}
