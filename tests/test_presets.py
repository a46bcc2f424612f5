"""The published recipes, and the optimizers that are made of them."""

import re
from dataclasses import fields, replace

import keras
import numpy as np
import pytest
from helpers import assert_refused, first_config, load_task, refusals, task_inputs
from keras import ops

from bert_zoo import models
from bert_zoo.cli import finetune
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.config import UNLIMITED, EncoderConfig
from bert_zoo.presets import PRETRAINING_SIZES, ROWS, Recipe
from bert_zoo.registry import registry
from bert_zoo.tasks.presets import OF_TASKS, PRESETS, preset
from bert_zoo.training.presets import (
    default_preset,
    load_options,
    optimizer_for,
    prepare,
    presets_for,
)

TASKS = "classification regression token_classification question_answering multiple_choice".split()
WIDTH = {"num_layers": 1, "num_heads": 2, "intermediate_size": 8, "vocab_size": 12}


# --- The table ---


def test_presets_name_families_tasks_and_sources():
    families = registry().families
    for name, found in PRESETS.items():
        assert found.name == name and found.tasks, name
        if found in OF_TASKS:
            assert set(found.tasks) <= set(models.TASKS), name
        else:
            assert set(found.tasks) <= set(families[found.family].heads), name
        assert len(found.source) > 10, name
        assert set(found.grid) <= {setting.name for setting in fields(Recipe)}, name


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bert/original", "batch_size=32 learning_rate=5e-05 epochs=3 max_length=128"),
        ("bert/squad", "batch_size=12 learning_rate=3e-05 epochs=2 max_length=384"),
        ("bert/squad_large", "batch_size=24 stride=128 max_question_length=64"),
        ("roberta/rte", "batch_size=16 learning_rate=2e-05 weight_decay=0.1"),
        ("roberta/qqp", "total_steps=113272 warmup_steps=28318 epochs=10"),
        ("roberta/race", "schedule=constant batch_size=16 weight_decay=0.01"),
        ("albert/mnli", "total_steps=10000 warmup_steps=1000 batch_size=128"),
        ("albert/race", "total_steps=12000 learning_rate=1e-05 max_length=512"),
        ("spanbert/squad", "epochs=4 batch_size=32 learning_rate=2e-05"),
        ("longformer/classification", "epochs=15 batch_size=32 learning_rate=3e-05"),
        ("longformer/classification", "max_length=4096"),
        ("longformer/triviaqa", "epochs=5 batch_size=32 learning_rate=3e-05 warmup_steps=1000"),
        ("longformer/wikihop", "epochs=15 batch_size=32 learning_rate=3e-05 warmup_steps=200"),
        ("bigbird/natural_questions", "epochs=3 batch_size=128 learning_rate=5e-05 stride=2048"),
    ],
)
def test_presets_are_the_published_ones(name, settings):
    recipe, names = preset(name).recipe, re.findall(r"(\w+)=", settings)
    assert " ".join(f"{each}={getattr(recipe, each)}" for each in names) == settings


def test_published_updates_are_the_published_epochs():
    """RoBERTa's updates are ten passes over the training sets of GLUE."""
    # RTE's are 13 passes, in fairseq too.
    rows = {"cola": 8551, "mrpc": 3668, "sst2": 67349, "stsb": 5749}
    for benchmark, num_rows in rows.items():
        recipe = preset(f"roberta/{benchmark}").recipe
        updates = num_rows * recipe.epochs / recipe.batch_size
        assert recipe.total_steps == pytest.approx(updates, rel=0.01), benchmark
        assert recipe.warmup_steps == pytest.approx(0.06 * recipe.total_steps, rel=0.01)


@pytest.mark.parametrize(
    ("family", "size", "settings", "phases"),
    [
        ("bert", "base", (256, 1_000_000, 10_000, 1e-4, "adamw"), ((128, 0.9), (512, 0.1))),
        ("roberta", "large", (8192, 500_000, 30_000, 4e-4, "adamw"), ((512, 1.0),)),
        ("albert", "base", (4096, 125_000, 3125, 0.00176, "lamb"), ((512, 1.0),)),
        ("spanbert", "large", (256, 2_400_000, 10_000, 1e-4, "adamw"), ((512, 1.0),)),
        ("mobilebert", "base", (2048, 500_000, 10_000, 0.0015, "lamb"), ((512, 1.0),)),
        ("electra", "small", (128, 1_000_000, 10_000, 5e-4, "adamw"), ((128, 1.0),)),
        ("modernbert", "base", (4608, 364_000, 636, 8e-4, "adamw"), ((1024, 1.0),)),
        ("deberta", "base", (256, 1_000_000, 10_000, 1e-4, "adamw"), ((512, 1.0),)),
        ("deberta_v2", "base", (256, 1_000_000, 10_000, 1e-4, "adamw"), ((512, 1.0),)),
        ("t5", "base", (128, 524_288, 10_000, 0.01, "adafactor"), ((512, 1.0),)),
    ],
)
def test_pretraining_presets_are_the_published_ones(family, size, settings, phases):
    found, _ = registry().families[family].pretraining_preset.of_size(size)
    names = ("batch_size", "total_steps", "warmup_steps", "learning_rate", "optimizer")
    assert tuple(getattr(found.recipe, name) for name in names) == settings
    assert found.phases == phases


def test_pretraining_presets_have_every_size_and_rows_that_it_reads():
    presets = {n: f.pretraining_preset for n, f in registry().families.items()}
    for name, pretraining in presets.items():
        if pretraining is None:
            continue
        family = registry().families[name]
        rows = {*ROWS, *(own.name for own in pretraining.own_rows)}
        assert pretraining.rows in rows and tuple(pretraining.sizes) == PRETRAINING_SIZES
        for size in PRETRAINING_SIZES:
            preset, chosen = pretraining.of_size(size)
            config = family.config_class(**{**family.defaults, **chosen.config})
            longest = max(length for length, _ in preset.phases)
            assert longest <= config.longest_input
            # No position of the sizes of our own stays as it was initialised.
            if size in ("nano", "mini") and config.longest_input != UNLIMITED:
                assert longest == config.longest_input
        # A checkpoint of the smallest has a few megabytes.
        nano = family.config_class(**family.defaults | dict(pretraining.sizes["nano"].config))
        assert 4 * family.count(nano) < 8e6
    words = "size is 'tiny'; it must be one of ['nano', 'mini'"
    assert_refused(lambda: presets["bert"].of_size("tiny"), words)


def test_grids_give_every_candidate():
    found = list(preset("bert/original").candidates())
    assert len(found) == len(set(found)) == 2 * 3 * 3
    assert {recipe.learning_rate for recipe in found} == {5e-5, 3e-5, 2e-5}
    assert list(preset("bert/mrpc").candidates()) == [preset("bert/mrpc").recipe]


# --- Which one ---


def test_presets_of_a_family_and_task():
    names = [found.name for found in presets_for("bert", "question_answering")]
    assert names == ["bert/squad", "bert/squad_large"]
    assert presets_for("xlm_roberta") == presets_for("roberta")
    assert presets_for("transformer_xl") == []


def test_a_family_without_settings_is_trained_with_those_of_the_first(monkeypatch):
    family = replace(registry().families["mpnet"], presets=())
    monkeypatch.setitem(registry().families, "mpnet", family)
    config = family.config(family.checkpoints[0])
    assert default_preset("mpnet", config, "question_answering").name == "bert/squad"


def test_what_the_pages_of_families_can_train_has_settings():
    # Streams have presets of another kind.
    families = {n: f for n, f in registry().families.items() if not f.language_model_presets}
    for name, family in families.items():
        config = first_config(family)
        for task in {*TASKS, "multi_label_classification"} & set(family.tasks):
            assert task in default_preset(name, config, task).tasks


@pytest.mark.parametrize(
    ("family", "sizes", "task", "benchmark", "name"),
    [
        ("bert", (128, 1), "classification", "", "bert/miniatures"),
        ("bert", (384, 1), "classification", "", "bert/minilm"),
        ("bert", (384, 6), "classification", "", "bert/minilm_l6"),
        ("bert", (384, 2), "classification", "", "bert/minilm_nano"),
        ("bert", (384, 6), "multi_label_classification", "", "bert/minilm_l6"),
        ("bert", (384, 6), "regression", "", "bert/minilm_l6_scores"),
        ("bert", (768, 1), "classification", "", "bert/original"),
        ("bert", (768, 1), "question_answering", "", "bert/squad"),
        ("bert", (1024, 1), "question_answering", "", "bert/squad_large"),
        ("bert", (1024, 1), "classification", "boolq", "bert/boolq"),
        ("bert", (1024, 1), "multiple_choice", "copa", "bert/copa"),
        ("bert", (768, 1), "multiple_choice", "copa", "bert/swag"),
        ("electra", (128, 2), "classification", "", "electra/nano"),
        ("albert", (768, 12), "classification", "SST-2", "albert/sst2"),
        ("albert", (768, 12), "classification", "messages", "albert/glue"),
    ],
)
def test_default_fits_size_and_benchmark(family, sizes, task, benchmark, name):
    width, layers = sizes
    config = EncoderConfig(hidden_size=width, max_positions=4, **WIDTH | {"num_layers": layers})
    assert default_preset(family, config, task, benchmark).name == name
    words = f"no preset for task 'masked_lm' of the family {family}"
    assert_refused(lambda: default_preset(family, config, "masked_lm"), words)


# --- What is made of a recipe ---


def test_small_data_gets_more_epochs():
    recipe = Recipe(epochs=3, least_updates=150)
    assert (recipe.epochs_of(100), recipe.updates_of(100)) == (3, 300)
    assert (recipe.epochs_of(19), recipe.updates_of(19)) == (8, 152)
    parts = recipe.replace(gradient_accumulation_steps=4)
    assert (parts.epochs_of(19 * 4), parts.updates_of(19 * 4)) == (8, 152)
    assert recipe.replace(total_steps=100).updates_of(19) == 100


def test_small_data_gets_smaller_batches_before_more_epochs():
    recipe = Recipe(epochs=3, batch_size=32, least_updates=90, least_batch_size=16)
    rows = {n: recipe.for_examples(n).batch_size for n in (10_000, 930, 928, 500, 20)}
    assert rows == {10_000: 32, 930: 32, 928: 16, 500: 16, 20: 16}
    few = recipe.for_examples(20)
    assert (few.epochs_of(2), few.updates_of(2)) == (45, 90)
    assert recipe.replace(least_batch_size=8).for_examples(20).batch_size == 8
    # No update has fewer rows than parts; a number of updates is of the batches it was given with.
    for told in ({"gradient_accumulation_steps": 32}, {"total_steps": 50}, {"least_updates": 0}):
        assert recipe.replace(**told).for_examples(20).batch_size == 32
    assert recipe.replace(least_batch_size=None).for_examples(20).batch_size == 32


def test_updates_and_warmup_are_counted():
    recipe = Recipe(epochs=3, batch_size=32)
    assert (recipe.updates_of(3), recipe.warmup_of(9)) == (9, 0)
    assert recipe.warmup_of(100) == 10
    # 33 batches of 8 rows an epoch; four make an update, across the end of an epoch.
    parts = recipe.replace(gradient_accumulation_steps=4)
    assert (parts.micro_batch_size, parts.updates_of(33)) == (8, 99 // 4)
    published = preset("albert/rte").recipe
    assert (published.updates_of(78), published.warmup_of(800)) == (800, 200)
    # Ten epochs end before the updates are done.
    short = preset("roberta/rte").recipe
    assert short.updates_of(10) == 100
    assert short.warmup_of(100) == 122 * 100 // 2036


@refusals(
    (lambda: Recipe(batch_size=0), "batch_size is 0; it must be a whole number of at least 1"),
    (lambda: Recipe(schedule="cosine"), "schedule is 'cosine'; it must be one of ['linear"),
    *(
        (
            lambda parts=parts: Recipe(gradient_accumulation_steps=parts),
            f"gradient_accumulation_steps is {parts}; it must be a {wanted}",
        )
        for parts, wanted in {
            0: "whole number of at least 1",
            5: "divisor of batch_size, 32",
        }.items()
    ),
    (
        lambda: Recipe(warmup_proportion=1.0),
        "warmup_proportion is 1.0; it must be a number of at least 0 and below 1",
    ),
    (lambda: Recipe(learning_rate=0.0), "learning_rate is 0.0; it must be a number above 0."),
    (lambda: Recipe(head_initializer_range=0.0), "it must be a number above 0, or None"),
    (
        lambda: Recipe(total_steps=0),
        "total_steps is 0; it must be a whole number of at least 1, or None",
    ),
    (lambda: Recipe().replace(learn_rate=1), "no 'learn_rate'. The nearest are learning_rate"),
    (lambda: preset("roberta/ret"), "no preset 'roberta/ret'. The nearest are roberta/rte"),
)
def test_impossible_recipes_are_refused(call, words):
    assert_refused(call, words)


class FairseqAdam:
    """A transcription of fairseq/optim/adam.py and its polynomial decay into NumPy, in float64."""

    def __init__(self, rate, total, warmup, weight_decay):
        self.rate, self.total, self.warmup, self.weight_decay = rate, total, warmup, weight_decay
        self.m = self.v = 0.0
        self.updates = 0

    def apply(self, value, gradient):
        if self.updates <= self.warmup:
            rate = self.rate * self.updates / self.warmup
        else:
            rate = self.rate * (1 - (self.updates - self.warmup) / (self.total - self.warmup))
        self.updates += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.98 * self.v + 0.02 * gradient**2
        value = value - self.weight_decay * rate * value
        size = rate * np.sqrt(1 - 0.98**self.updates) / (1 - 0.9**self.updates)
        return value - size * self.m / (np.sqrt(self.v) + 1e-6)


def test_optimizer_of_roberta_is_fairseqs():
    """On a bias, which decays there, and under gradients that BERT would clip."""
    recipe = preset("roberta/glue").recipe.replace(
        learning_rate=0.01, total_steps=12, warmup_steps=3
    )
    optimizer, original = optimizer_for(recipe, 12), FairseqAdam(0.01, 12, 3, 0.1)
    rng = np.random.default_rng(0)
    variable = keras.Variable(rng.standard_normal(5).astype("float32"), name="bias")
    value = ops.convert_to_numpy(variable).astype("float64")
    for _ in range(10):
        gradient = rng.standard_normal(5).astype("float32") * 3
        optimizer.apply([ops.convert_to_tensor(gradient)], [variable])
        value = original.apply(value, gradient.astype("float64"))
        np.testing.assert_allclose(ops.convert_to_numpy(variable), value, atol=2e-5)


@pytest.mark.parametrize("name", ["bert/squad", "albert/rte"])
def test_optimizers_of_bert_and_albert_are_googles(name):
    optimizer = optimizer_for(preset(name).recipe, 800)
    assert not optimizer.bias_correction and not optimizer.decay_all
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.999, 1e-6)
    assert (optimizer.weight_decay, optimizer.global_clipnorm) == (0.01, 1.0)
    schedule, peak = optimizer._learning_rate, preset(name).recipe.learning_rate
    warmup = preset(name).recipe.warmup_of(800)
    assert float(schedule(warmup // 2)) == pytest.approx(peak / 2)
    assert float(schedule(warmup)) == pytest.approx(peak * (1 - warmup / 800))


def test_optimizer_of_spanbert_clips_each_gradient_alone():
    optimizer = optimizer_for(preset("spanbert/squad").recipe, 100)
    assert (optimizer.clipnorm, optimizer.global_clipnorm) == (1.0, None)
    assert float(optimizer._learning_rate(55)) == pytest.approx(2e-5 * 45 / 90)


@pytest.mark.usefixtures("eager")
def test_recipe_prepares_a_model_and_trains_it():
    options = {"layer_decay": 0.9, "rematerialize": True, "lora_rank": 2}
    recipe = Recipe(epochs=1, batch_size=4, gradient_accumulation_steps=2, **options)
    model = load_task("classification", **load_options(recipe) | {"max_length": 24})
    prepare(model, recipe)
    model.compile(optimizer=optimizer_for(recipe, recipe.updates_of(2)), loss=model.loss)
    inputs = task_inputs("classification")
    model.fit(inputs, np.array([2, 1, 1, 0]), batch_size=recipe.micro_batch_size, verbose=0)
    assert int(model.optimizer.iterations) == 1
    assert model.encoder.stack.rematerialize


def recipe_of(checkpoint: str, **told) -> Recipe:
    """What `bert_zoo finetune` trains a checkpoint with on messages, given settings as flags."""
    return finetune.recipe_for(checkpoint, make_task("messages"), None, told)


def test_a_small_model_reads_no_more_than_it_can(capsys):
    assert recipe_of("roberta_nano").max_length == 128
    assert "Recipe roberta/glue, with --max_length 128." in capsys.readouterr().out


@pytest.mark.parametrize("told", [{"batch_size": 32}, {"epochs": 3}, {"total_steps": 9}])
def test_rows_or_length_that_are_told_are_kept_for_small_data_too(told):
    assert recipe_of("minilm_l6", **told).for_examples(20).batch_size == 32


def test_small_data_gets_enough_updates_for_scores_too():
    for name in ("bert/minilm", "bert/minilm_l6_scores"):
        assert preset(name).recipe.updates_of(4) >= 150
