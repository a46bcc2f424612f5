"""ULMFiT's last stage on any encoder: its schedule, gradual unfreezing, what the head reads."""

import keras
import numpy as np
import pytest
from helpers import TOLERANCE, load_case, variables_of

import bert_zoo
from bert_zoo.presets import ULMFIT
from bert_zoo.tasks.presets import preset
from bert_zoo.training.optimizers import BertAdamW, SlantedTriangular
from bert_zoo.training.presets import default_preset, load_options, optimizer_for

IDS = np.random.default_rng(0).integers(5, 80, (4, 9)).astype("int32")
LABELS = np.array([0, 1, 0, 1])


def test_the_slanted_triangle_is_the_papers():
    """Equation 3: cut = T / 10, p = t / cut, then 1 - (t - cut) / (cut (1 / 0.1 - 1))."""
    total, peak, ratio = 200, 0.01, 32
    schedule, cut = SlantedTriangular(peak, total, 20), 20
    for step in (0, 1, 10, 20, 21, 110, 199, 200):
        p = step / cut if step < cut else 1 - (step - cut) / (cut * 9)
        expected = peak * (1 + p * (ratio - 1)) / ratio
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5)
    again = SlantedTriangular.from_config(schedule.get_config())
    assert float(again(50)) == float(schedule(50))


def classifier(**options):
    keras.utils.set_random_seed(0)
    model = load_case("bert/encoder", "classification", dropout=0.0, **options)
    return model


def changed(model, steps: int, before=None) -> list[int]:
    """The levels whose variables move in steps; all of a level do, or none."""
    before = before or variables_of(model)
    for _ in range(steps):
        model.train_on_batch({"token_ids": IDS}, LABELS)
    levels, moved = model.levels_below_head(), {}
    for path, variable in bert_zoo.weights.bind.named_variables(model).items():
        is_moved = bool(np.abs(variables_of(model)[path] - before[path]).max() > 0)
        moved.setdefault(levels.get(id(variable), 0), {})[path] = is_moved
    return sorted(level for level, found in moved.items() if any(found.values()))


def test_groups_are_unfrozen_from_the_head_down_one_after_so_many_updates():
    model = classifier(head="concatenated")
    optimizer = BertAdamW(1e-2, weight_decay=0.1, updates_per_group=2, global_clipnorm=1.0)
    model.compile(optimizer=optimizer, loss=model.default_loss(), run_eagerly=True)
    levels = sorted(set(model.levels_below_head().values()))
    assert changed(model, 2) == [0]
    for number in range(len(levels)):
        # Weight decay, too, waits for its group.
        assert changed(model, 2) == [0, *levels[: number + 1]]


def test_moments_of_frozen_groups_stay_zero_and_training_goes_on_from_the_number_of_updates():
    def compiled():
        model = classifier()
        optimizer = BertAdamW(1e-2, updates_per_group=2, global_clipnorm=1.0)
        model.compile(optimizer=optimizer, loss=model.default_loss(), run_eagerly=True)
        optimizer.build(model.trainable_variables)
        return model, optimizer

    whole, optimizer = compiled()
    changed(whole, 2)
    for variable, group, m in zip(
        whole.trainable_variables, optimizer._groups, optimizer._momentums, strict=True
    ):
        assert bool(np.any(keras.ops.convert_to_numpy(m))) <= (group == 0), variable.path
    weights = whole.get_weights()
    state = [keras.ops.convert_to_numpy(v) for v in optimizer.variables]
    resumed, other = compiled()
    resumed.set_weights(weights)
    for variable, value in zip(other.variables, state, strict=True):
        variable.assign(value)
    for model in (whole, resumed):
        changed(model, 3)
    for path, value in variables_of(whole).items():
        np.testing.assert_array_equal(value, variables_of(resumed)[path])


def test_without_gradual_unfreezing_all_is_trained_from_the_start():
    model = classifier()
    model.compile(optimizer=BertAdamW(1e-2), loss=model.default_loss(), run_eagerly=True)
    assert changed(model, 1) == [0, *sorted(set(model.levels_below_head().values()))]


def test_the_concatenated_head_reads_last_token_maximum_and_mean_of_real_tokens(tmp_path):
    model = classifier(head="concatenated")
    mask = np.int32([[1] * 9, [1] * 6 + [0] * 3, [1] * 9, [1] * 9])
    inputs = {"token_ids": IDS, "padding_mask": mask}
    tokens = keras.ops.convert_to_numpy(model.encoder(inputs)["sequence_output"])
    rows = [row[real == 1] for row, real in zip(tokens, mask, strict=True)]
    read = np.stack([np.concatenate([r[-1], r.max(0), r.mean(0)]) for r in rows])
    kernel, bias = map(keras.ops.convert_to_numpy, model.classifier.dense.weights)
    np.testing.assert_allclose(model(inputs), read @ kernel + bias, atol=TOLERANCE)
    bert_zoo.save(model, tmp_path)
    np.testing.assert_allclose(bert_zoo.load(tmp_path)(inputs), model(inputs), atol=TOLERANCE)


def test_recipes_make_what_they_say():
    recipe = preset("ulmfit").recipe
    assert recipe == ULMFIT and load_options(recipe)["head"] == "concatenated"
    optimizer = optimizer_for(recipe, 150)
    assert optimizer.updates_per_group == 10 and optimizer.layer_decay == pytest.approx(1 / 2.6)
    assert isinstance(optimizer._learning_rate, SlantedTriangular)
    off = recipe.replace(gradual_unfreezing=False, layer_decay=1.0, schedule="constant", head=None)
    assert optimizer_for(off, 150).updates_per_group is None
    family, checkpoint = bert_zoo.registry.registry().resolve("awd_lstm_wt103")
    chosen = default_preset("awd_lstm", family.config(checkpoint), "classification")
    assert chosen.name == "awd_lstm/ulmfit" and load_options(chosen.recipe)["head"] is None


def test_rates_of_an_lstm_fall_from_the_head_on():
    model = load_case("awd_lstm/encoder", "classification")
    levels = model.levels_below_head()
    found = [{levels[id(v)] for v in block.weights} for block in model.encoder.stack.blocks]
    assert found == [{3}, {2}, {1}]
    assert {levels[id(v)] for v in model.encoder.embeddings.weights} == {4}
