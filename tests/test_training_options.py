"""Options of a training: rates by layer, accumulated gradients, less memory, frozen parts, LoRA."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ENCODERS,
    WITH_LAYERS,
    arrays,
    assert_refused,
    assert_same,
    assert_same_variables,
    inputs_of,
    load_case,
    load_recurrent,
    load_task,
    recurrent_arrays,
    refusals,
    segments_of,
    task_inputs,
    tensors_of,
    variables_of,
)

import bert_zoo
from bert_zoo.layers import block as block_module
from bert_zoo.models.base import encoder_of
from bert_zoo.training import (
    add_lora,
    bert_adamw,
    compile_for_task,
    freeze,
    optimizers,
    reinitialize,
    rematerialize,
    set_head_range,
)
from bert_zoo.training.freezing import without_lora
from bert_zoo.training.optimizers import WarmupThenConstant, WarmupThenLinearDecay
from bert_zoo.weights.bind import named_variables

LABELS = np.array([2, 1, 1, 0])
CLASSIFIERS = ("classification", "albert/classification", "roberta/classification")


def labelled(case: str = "classification"):
    inputs = inputs_of(arrays(case))
    return inputs, np.arange(len(inputs["token_ids"])) % 2


def train(model, inputs, labels, steps: int = 3, *, graph: bool = False, **options) -> list[float]:
    """The losses of some steps on one batch; in a graph, as in real trainings, where that matters."""
    compile_for_task(model, bert_adamw(1e-3, **options))
    # Tracing a graph takes longer than a few steps without one.
    model.run_eagerly = not graph
    return [float(model.train_on_batch(inputs, labels)[0]) for _ in range(steps)]


def trainable_paths(model) -> set[str]:
    return {path for path, v in named_variables(model).items() if v.trainable}


# --- Learning rates by layer ---


def electra_level(path: str, num_layers: int) -> int:
    """n + 2 - depth, as in google-research/electra model/optimization.py; a pooler in between."""
    if match := re.match(r"encoder/stack/layer_(\d+)/", path):
        depth = int(match[1]) + 1
    elif path.startswith("encoder/"):
        depth = {"embeddings": 0, "stack": 1, "pooler": num_layers + 1}[path.split("/")[1]]
    else:
        depth = num_layers + 2
    return num_layers + 2 - depth


@pytest.mark.parametrize("case", [*CLASSIFIERS, "transformer_xl/hf_plain"])
def test_rates_fall_by_the_layer_as_in_electra(case):
    """Without gradients a variable shrinks by its own rate, times the decay of weights."""
    task = "causal_lm" if case.startswith("transformer_xl/") else None
    model = load_case(case, task)
    model.compile(optimizer=bert_adamw(0.5, weight_decay=0.5, layer_decay=0.8), loss=model.loss)
    for variable in model.trainable_variables:
        variable.assign(tf.ones(variable.shape))
    zeros = [tf.zeros(v.shape) for v in model.trainable_variables]
    model.optimizer.apply(zeros, model.trainable_variables)
    num_blocks, seen = len(model.encoder.stack.blocks), set()
    for path, value in variables_of(model).items():
        if re.search(r"(^|/)(bias|gamma|beta)$", path):
            assert (value == 1).all()
            continue
        level = electra_level(path, num_blocks)
        seen.add(level)
        np.testing.assert_allclose(value, 1 - 0.25 * 0.8**level, atol=1e-6, err_msg=path)
    assert {0, num_blocks + 1, num_blocks + 2} <= seen


def test_rate_of_a_layer_acts_on_the_gradient_too():
    inputs, _ = labelled()
    moved = {}
    for layer_decay in (None, 0.5):
        model = load_task("classification", dropout=0.0)
        before = variables_of(model)
        options = {"weight_decay": 0.0, "layer_decay": layer_decay}
        train(model, inputs, LABELS, steps=1, **options)
        moved[layer_decay] = {k: v - before[k] for k, v in variables_of(model).items()}
    num_layers = model.encoder.config.num_layers
    for path, plain in moved[None].items():
        expected = plain * 0.5 ** electra_level(path, num_layers)
        np.testing.assert_allclose(moved[0.5][path], expected, atol=1e-6, err_msg=path)


# --- Schedules ---


@pytest.mark.parametrize("step", [0, 1, 4, 5, 9, 10, 30])
def test_schedules_equal_their_originals(step):
    # fairseq's updates count from 0 where ours do, and warmup includes its last.
    fairseq = step / 4 if step <= 4 else max(1 - (step - 4) / (10 - 4), 0)
    assert float(WarmupThenLinearDecay(1.0, 10, 4)(step)) == pytest.approx(fairseq, abs=1e-6)
    assert float(WarmupThenConstant(2.0, 10, 4)(step)) == pytest.approx(2 * min(step / 4, 1))


# --- Accumulated gradients ---


def test_accumulated_batches_train_as_one_batch_does():
    """Under clipping, warmup and decay, for three updates of four rows."""
    inputs, _ = labelled()
    models = {}
    for batches in (1, 4):
        model = load_task("classification", dropout=0.0)
        parts = {"gradient_accumulation_steps": batches if batches > 1 else None}
        schedule = {"total_steps": 4, "warmup_proportion": 0.5, "weight_decay": 0.1}
        compile_for_task(model, bert_adamw(0.01, clip_norm=0.1, **schedule, **parts))
        model.run_eagerly = batches == 1
        rows = 4 // batches
        model.fit(inputs, LABELS, batch_size=rows, epochs=3, shuffle=False, verbose=0)
        assert int(model.optimizer.iterations) == 3
        assert float(model.optimizer.learning_rate) == pytest.approx(0.01 * (1 - 3 / 4))
        models[batches] = variables_of(model)
    start = variables_of(load_task("classification"))
    assert max(np.abs(models[1][path] - start[path]).max() for path in start) > 0.005
    assert_same(models[4], models[1], 2e-5)


@pytest.mark.slow
def test_batches_accumulate_where_replicas_update_together():
    """Such a strategy cannot update variables within a branch."""
    inputs, _ = labelled()
    found = []
    for strategy in (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0"])):
        with strategy.scope():
            model = load_task("classification", dropout=0.0)
            options = {"total_steps": 4, "clip_norm": 0.1, "gradient_accumulation_steps": 2}
            compile_for_task(model, bert_adamw(1e-4, **options))
            assert optimizers._merges_replicas() == tf.distribute.has_strategy()
        dataset = tf.data.Dataset.from_tensor_slices((inputs, LABELS)).batch(2)
        losses = model.fit(dataset, epochs=3, verbose=0).history["loss"]
        assert int(model.optimizer.iterations) == 3
        found.append((losses, variables_of(model)))
    (one, weights), (other, other_weights) = found
    np.testing.assert_allclose(other, one, atol=1e-5)
    assert_same(other_weights, weights, 1e-6)


# --- Compiled by XLA ---


def test_xla_trains_as_tensorflows_kernels_do():
    inputs, _ = labelled()
    found = []
    for jit_compile in (False, True):
        model = load_task("classification", dropout=0.0)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = bert_adamw(1e-3, total_steps=10, clip_norm=0.1)
        model.compile(optimizer=optimizer, loss=loss, jit_compile=jit_compile)
        assert model.jit_compile is jit_compile
        options = {"batch_size": 4, "epochs": 3, "shuffle": False, "verbose": 0}
        found.append((model.fit(inputs, LABELS, **options).history["loss"], variables_of(model)))
    (plain, weights), (compiled, compiled_weights) = found
    np.testing.assert_allclose(compiled, plain, atol=1e-5)
    assert_same(compiled_weights, weights, 2e-5)


# --- Less memory ---


@pytest.fixture
def recomputed_blocks(monkeypatch) -> list:
    """The blocks that were recomputed, in order."""
    blocks, recomputed = [], block_module.recomputed

    def counted(block, *args, **kwargs):
        blocks.append(block.name)
        return recomputed(block, *args, **kwargs)

    monkeypatch.setattr(block_module, "recomputed", counted)
    return blocks


@pytest.mark.parametrize(("case", "graph"), [(CLASSIFIERS[0], True), (CLASSIFIERS[1], False)])
def test_rematerialized_training_is_the_same_with_dropout(case, graph, recomputed_blocks):
    inputs, labels = labelled(case)
    results = []
    for recomputes in (False, True):
        keras.utils.set_random_seed(1)
        model = load_case(case, dropout=0.2)
        if recomputes:
            rematerialize(model)
        losses = train(model, inputs, labels, graph=graph)
        results.append((losses, variables_of(model), model))
    (plain, plain_weights, one), (again, again_weights, other) = results
    assert {"layer_0"} <= set(recomputed_blocks)
    np.testing.assert_allclose(again, plain, atol=1e-5)
    assert max(plain) - min(plain) > 1e-4
    assert_same(again_weights, plain_weights, 2e-5)
    # The states of dropout have moved alike, so that later steps agree too.
    for ours, theirs in zip(one.variables, other.variables, strict=True):
        if "seed" in ours.path:
            assert np.array_equal(ours.numpy(), theirs.numpy()), ours.path


@pytest.mark.slow
def test_rematerialized_language_model_has_the_same_gradients(recomputed_blocks):
    ids = segments_of(recurrent_arrays("hf_adaptive"), "token_ids")[0]["token_ids"]
    results = []
    for recomputes in (False, True):
        keras.utils.set_random_seed(1)
        model = load_recurrent("hf_adaptive", dropout=0.2)
        if recomputes:
            rematerialize(model)
        with tf.GradientTape() as tape:
            outputs = model({"token_ids": ids, "labels": ids}, training=True)
            loss = -tf.reduce_mean(outputs["log_probs"])
        variables = [v.value for v in model.trainable_variables]
        results.append([loss, *filter(lambda g: g is not None, tape.gradient(loss, variables))])
    assert recomputed_blocks
    assert_same(*([tf.convert_to_tensor(each) for each in found] for found in results), 1e-6)


def test_rematerialization_leaves_inference_alone(recomputed_blocks):
    model, inputs = load_task("classification"), task_inputs("classification")
    expected = model.predict(inputs, verbose=0)
    rematerialize(model)
    assert_same(model.predict(inputs, verbose=0), expected)
    assert not recomputed_blocks


# --- The first weights of heads ---


@pytest.mark.parametrize(
    ("case", "head"),
    [*((case, "classifier") for case in CLASSIFIERS), ("question_answering", "span")],
)
def test_a_wider_head_is_the_same_draw_times_a_factor(case, head):
    def variables(factor: float) -> dict[str, np.ndarray]:
        keras.utils.set_random_seed(0)
        model = load_case(case, init=[head])
        set_head_range(model, [head], factor * model.encoder.config.initializer_range)
        return variables_of(model)

    usual, wide = variables(1), variables(10)
    kernel = f"{head}/dense/kernel"
    np.testing.assert_allclose(wide.pop(kernel), 10 * usual.pop(kernel), rtol=1e-6)
    assert_same(wide, usual)


# --- Frozen parts ---


def test_frozen_parts_stay_as_they_are(tmp_path, capsys):
    model, (inputs, _) = load_task("classification", max_length=24), labelled()
    freeze(model, layers=1)
    before = variables_of(model)
    train(model, inputs, LABELS)
    moved = {path for path, v in variables_of(model).items() if (v != before[path]).any()}
    frozen = ("encoder/embeddings/", "encoder/stack/layer_0/")
    assert moved == {path for path in before if not path.startswith(frozen)}
    assert trainable_paths(model) == moved
    model.summary()
    trainable = sum(v.size for path, v in before.items() if path in moved)
    assert f"Trainable params: {trainable:,}" in capsys.readouterr().out

    bert_zoo.save(model, tmp_path / "saved")
    again = bert_zoo.load(tmp_path / "saved")
    assert_same_variables(again, model)
    assert trainable_paths(again) == set(before)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert trainable_paths(again) == moved
    assert len(again.optimizer.variables) == len(model.optimizer.variables)


@pytest.mark.slow
def test_frozen_parts_are_frozen_in_a_saved_model(tmp_path):
    model = load_task("classification", max_length=24)
    freeze(model, layers=1)
    trainable = [v for v in named_variables(model).values() if v.trainable]
    bert_zoo.export(model, tmp_path, text=False)
    served = tf.saved_model.load(str(tmp_path)).trainable_variables
    assert len(served) == len(trainable)
    assert sum(int(tf.size(v)) for v in served) == sum(
        v.value.shape.num_elements() for v in trainable
    )


def test_layers_that_share_weights_are_frozen_together_or_not_at_all():
    model = load_case("albert/classification")
    layers = model.encoder.config.num_layers
    words = f"layers above share | Freeze all {layers} layers"
    assert_refused(lambda: freeze(model, layers=1), words)
    freeze(model, embeddings=False, layers=layers)
    parts = {path.split("/")[1] for path in trainable_paths(model)}
    assert parts == {"embeddings", "pooler", "dense"}


# --- Layers that begin anew ---

SHARED = [case for case in ENCODERS if case.startswith("albert/")]


@pytest.mark.parametrize("case", [case for case in WITH_LAYERS if case not in SHARED])
def test_reinitialized_layers_are_those_of_a_new_model_and_the_others_stay(case):
    model = load_case(case)
    encoder, before = encoder_of(model), variables_of(model)
    keras.utils.set_random_seed(7)
    reinitialize(model, 1)
    groups = encoder.backbone.groups()
    anew = {id(v) for layer in (groups.stack.blocks[-1], *groups.top) for v in layer.weights}
    paths = {path for path, v in named_variables(model).items() if id(v) in anew}
    after = variables_of(model)
    moved = {path for path in before if (after[path] != before[path]).any()}
    assert moved and moved <= paths
    keras.utils.set_random_seed(7)
    new = variables_of(type(encoder)(encoder.config, encoder.family))
    found = variables_of(encoder)
    same = {path for path in found if (found[path] == new[path]).all()}
    assert len(paths) == len(anew)
    assert {path for path, v in named_variables(encoder).items() if id(v) in anew} <= same


@pytest.mark.parametrize("case", SHARED)
def test_layers_that_share_weights_begin_anew_together_or_not_at_all(case):
    model = load_case(case)
    layers = encoder_of(model).config.num_layers
    words = f"lower layers share | Reinitialize all {layers} layers"
    assert_refused(lambda: reinitialize(model, 1), words)
    before = variables_of(model)
    reinitialize(model, layers)
    assert any((v != before[path]).any() for path, v in variables_of(model).items())


def test_no_layer_begins_anew_where_none_is_asked_for():
    model = load_task("classification")
    before = variables_of(model)
    reinitialize(model, 0)
    assert_same(variables_of(model), before, 0)


# --- LoRA ---


@pytest.mark.parametrize(
    ("case", "targets"),
    [(CLASSIFIERS[0], "attention"), (CLASSIFIERS[1], "all"), (CLASSIFIERS[2], "attention")],
)
def test_lora_trains_thin_matrices_and_the_head_alone(case, targets):
    inputs, labels = labelled(case)
    model = load_case(case, dropout=0.0)
    expected = model.predict(inputs, verbose=0)
    add_lora(model, rank=2, alpha=4, targets=targets)
    assert_same(model.predict(inputs, verbose=0), expected, 1e-6)
    kernels = {"qkv", "attention/output"}
    if targets == "all":
        kernels |= {"intermediate", "feed_forward/output"}
    trained = trainable_paths(model)
    thin = {path for path in trained if "lora" in path}
    num_blocks = len(model.encoder.stack.blocks)
    assert len(thin) == 2 * num_blocks * len(kernels)
    assert all(path.startswith(("encoder/pooler/", "classifier/")) for path in trained - thin)
    before = variables_of(model)
    losses = train(model, inputs, labels, steps=3)
    assert losses[-1] < losses[0]
    moved = {path for path, v in variables_of(model).items() if (v != before[path]).any()}
    assert moved == trained


@pytest.mark.slow
def test_lora_is_merged_into_what_is_saved_and_exported(tmp_path):
    model, (inputs, _) = load_task("classification", max_length=24), labelled()
    add_lora(model, rank=2, alpha=4, targets="all")
    plain = load_task("classification")
    train(model, inputs, LABELS, steps=5)
    weights, expected = variables_of(model), model(inputs)
    assert np.abs(expected - plain(inputs)).max() > 1e-3
    for form in ("bert_zoo", "hf"):
        bert_zoo.save(model, tmp_path / form, format=form)
        again = bert_zoo.load(tmp_path / form, "classification")
        assert_same(again(inputs), expected, 1e-5)
        assert trainable_paths(again) == set(variables_of(plain))
    assert not [name for name in tensors_of(tmp_path / "hf") if "lora" in name]
    bert_zoo.export(model, tmp_path / "exported", text=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    ids = {name: tf.constant(value, tf.int32) for name, value in inputs.items()}
    outputs = served.signatures["tokens"](**{k: v for k, v in ids.items() if k != "position_ids"})
    np.testing.assert_allclose(outputs["logits"], expected, atol=1e-5)
    assert not [v.name for v in served.variables if "lora" in v.name]
    assert len(served.trainable_variables) == len(variables_of(plain))
    model.save(tmp_path / "model.keras")
    with pytest.warns(UserWarning, match="Skipping variable loading for optimizer"):
        again = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(again(inputs), expected, 1e-5)
    # Nothing of this has touched the model in training.
    assert_same(variables_of(model), weights)
    assert without_lora(plain) is plain


def test_lora_of_a_language_model_is_merged():
    model = load_recurrent("hf_adaptive")
    add_lora(model, rank=2)
    for path, variable in named_variables(model).items():
        if "lora" in path:
            variable.assign(np.random.default_rng(0).standard_normal(variable.shape) * 0.1)
    segment = segments_of(recurrent_arrays("hf_adaptive"), "token_ids")[0]
    ours, merged = model(segment), without_lora(model)(segment)
    assert_same(ours, merged, 1e-5)
    before = load_recurrent("hf_adaptive")(segment)
    assert np.abs(ours["log_probs"] - before["log_probs"]).max() > 0.01


# --- What is refused ---


def classifier():
    return load_task("classification")


def frozen(**options):
    model = classifier()
    freeze(model, **options)
    return model


def frozen_throughout():
    return frozen(layers=classifier().encoder.config.num_layers)


def with_lora():
    model = classifier()
    add_lora(model, rank=2)
    return model


@refusals(
    (lambda: bert_adamw(total_steps=10, warmup_proportion=10), "warmup_proportion is 10"),
    (lambda: WarmupThenConstant(1.0, 0, 0), "warmup_steps is 0 and total_steps is 0;"),
    (lambda: WarmupThenConstant(1.0, 10, 11), "warmup_steps is 11 and total_steps is 10;"),
    (lambda: bert_adamw(layer_decay=1.5), "layer_decay is 1.5; it must be a number above 0"),
    (lambda: bert_adamw(layer_decay=0.8).build([]), "layer_decay=0.8 requires a model's layers"),
    (
        lambda: frozen(layers=99),
        "layers is 99; it must be a whole number from 0 to | layers to freeze",
    ),
    (lambda: reinitialize(classifier(), -1), "layers is -1; | layers to reinitialize"),
    (lambda: reinitialize(classifier(), True), "layers is True; it must be a whole number"),
    (lambda: reinitialize(frozen_throughout(), 1), "have frozen weights, which would stay random"),
    (lambda: reinitialize(with_lora(), 1), "or leave LoRA out"),
    (lambda: add_lora(classifier(), rank=0), "rank is 0; it must be a whole number of at least 1"),
    (lambda: add_lora(classifier(), targets="heads"), "targets is 'heads'; it must be one of"),
    (lambda: add_lora(with_lora()), "already has LoRA"),
    (lambda: add_lora(frozen()), "LoRA freezes the encoder itself"),
    (lambda: rematerialize(load_task("encoder", output_attentions=True)), "without output_att"),
    # A head of several layers of logits has no single range.
    (
        lambda: set_head_range(load_case("xlnet/beam_question_answering"), ["span"], 0.2),
        "is 0.2, | 'beam_question_answering' | Leave it out",
    ),
)
def test_what_makes_no_training_is_refused(call, words):
    assert_refused(call, words)
