"""Pretraining from text to a model: going on, from nothing, stopped at any batch, and its program."""

import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import (
    WORDS,
    assert_refused,
    assert_same,
    directory_of,
    random_text,
    refusals,
    run_program,
    slow_but,
    tensors_of,
)
from huggingface_hub import ModelCard

import bert_zoo
from bert_zoo.cli import pretrain as pretrain_module
from bert_zoo.cli.report import write_pretraining_report
from bert_zoo.presets import LanguageModelPreset, Reading, Recipe
from bert_zoo.pretraining import batches as pretraining_batches
from bert_zoo.pretraining import run
from bert_zoo.pretraining.batches import PretrainingBatches
from bert_zoo.pretraining.causal import StreamSettings
from bert_zoo.pretraining.corpus import Corpus, ParallelLines
from bert_zoo.pretraining.masked import MaskedSettings, log_frequencies, masked_sentences
from bert_zoo.pretraining.models import (
    fitted,
    model_to_go_on_with,
    new_language_model,
    new_model,
)
from bert_zoo.pretraining.rows import FullSentences
from bert_zoo.pretraining.run import PretrainingRun
from bert_zoo.pretraining.tokens import TokenizedText, write_tokens
from bert_zoo.registry import registry
from bert_zoo.tasks.objectives import objective_for
from bert_zoo.text import WordLevelTokenizer, preprocessor_from_dir
from bert_zoo.text.preprocessor import LanguageModelPreprocessor
from bert_zoo.training.runs import TrainingDiverged
from bert_zoo.weights.sources import open_weights

pretrain = functools.partial(run.pretrain, report=write_pretraining_report)
PRETRAIN = ("-m", "bert_zoo", "pretrain")
SHORT = ("--batch_size", "8", "--length", "16", "--held_out", "0.2")
RECIPE = Recipe(
    total_steps=6, batch_size=8, gradient_accumulation_steps=2, learning_rate=1e-3, clip_norm=1.0
)
# The objectives' families, with a golden vocabulary and rows that they were trained with.
FAMILIES = (
    *("bert", "roberta", "albert", "spanbert", "electra", "modernbert", "deberta", "deberta_v2"),
    *("longformer", "t5"),
)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    """Documents of random words, which hold next to nothing to learn."""
    return random_text(tmp_path_factory.mktemp("text") / "text.txt", documents=120)


def small(family: str, dtype: str = "float32"):
    """Makes a model of two narrow layers with a golden vocabulary; and its preset's rows."""
    page = registry().families[family]
    preset, size = page.pretraining_preset.of_size("nano")
    config = {**size.config, "hidden_size": 32, "num_heads": 2, "intermediate_size": 64}
    if "embedding_size" in config:
        config["embedding_size"] = 16
    if "generator_hidden_size" in config:
        config["generator_hidden_size"] = 16
    preprocessor = preprocessor_from_dir(
        directory_of(f"{family}/encoder"), family, sequence_length=32
    )
    return lambda: new_model(page, config, preprocessor, dtype), preset.rows


def small_stream(**changes):
    """Makes a language model of two narrow layers; and its settings."""
    preset = LanguageModelPreset(
        "tiny",
        "transformer_xl",
        config={
            **{"num_layers": 2, "hidden_size": 16, "num_heads": 2, "head_size": 8},
            **{"intermediate_size": 32, "mem_len": 6, "cutoffs": (10,), "div_val": 2},
        },
        unit="word",
        batch_size=4,
        segment_length=8,
        total_steps=6,
        evaluation=Reading(8, 8),
        learning_rate=1e-2,
    )
    tokenizer = WordLevelTokenizer(["<eos>", "<unk>", *WORDS[:16]], eos_at="newlines")
    preprocessor = LanguageModelPreprocessor(tokenizer, sequence_length=64)
    settings = StreamSettings(dataclasses.replace(preset, **changes))
    return lambda: new_language_model(preset, preprocessor), settings


def train(family, text, directory, recipe=RECIPE, rows=None, length=16, **options) -> dict:
    """Trains a small model from nothing, on rows of one length."""
    make_model, usual = small(family)
    settings = MaskedSettings(recipe, rows or usual, ((length, 1.0),))
    return pretrain("new", make_model, settings, [text], directory, **{"held_out": 0.2, **options})


def go_on(case, rows, text, directory, **options) -> dict:
    """Goes on with a golden checkpoint."""
    source = str(directory_of(case))
    settings = MaskedSettings(RECIPE, rows, ((16, 1.0),), starts_from_frequencies=True)
    make_model = functools.partial(model_to_go_on_with, source)
    return pretrain(source, make_model, settings, [text], directory, held_out=0.2, **options)


def run_here(*options) -> None:
    """Runs the program in this process."""
    for flag in pretrain_module.PROGRAM.flags:  # what other tests have set
        pretrain_module.PROGRAM.flags[flag].unparse()
    pretrain_module.PROGRAM.run(pretrain_module.main, [*map(str, options)])


def largest_changes(before, after) -> dict[str, float]:
    """The largest change of each weight of a model."""
    return {
        variable.path: np.abs(variable.numpy() - first.numpy()).max()
        for first, variable in zip(before.weights, after.weights, strict=True)
    }


@pytest.mark.parametrize("family", slow_but(FAMILIES, "albert"))
def test_every_family_is_pretrained_from_nothing_by_its_own_objective(family, text, tmp_path):
    make_model, rows = small(family)
    settings = MaskedSettings(RECIPE, rows, ((16, 0.5), (24, 0.5)))
    results = pretrain(family, make_model, settings, [text], tmp_path, held_out=0.2)
    assert results["steps"] == 6
    # Of the families that have several objectives.
    outputs = {
        **{"bert": "mlm nsp", "albert": "mlm sop", "spanbert": "mlm sbo"},
        **dict.fromkeys(("electra", "deberta_v2"), "mlm discriminator"),
    }.get(family, "")
    wanted = {"held out loss", *(f"held out {name}_logits_loss" for name in outputs.split())}
    assert results["before"].keys() == results["after"].keys() == wanted
    assert all(np.isfinite(value) for value in results["after"].values())
    assert results["after"]["held out loss"] != results["before"]["held out loss"]
    assert json.loads((tmp_path / "metrics.json").read_text())["steps"] == 6
    assert (tmp_path / "report.html").stat().st_size > 5000
    assert not (tmp_path / "checkpoint").exists()
    for task in ("encoder", "classification", "question_answering"):
        assert bert_zoo.load(tmp_path, task=task).task == task


def test_an_encoder_and_a_decoder_are_pretrained_on_rows_for_both(text, tmp_path):
    source = directory_of("t5/text_to_text")
    recipe = RECIPE.replace(gradient_accumulation_steps=1, learning_rate=0.01)
    settings = MaskedSettings(recipe, "packed_documents", ((32, 1.0),), "span_corruption")
    make_model = functools.partial(model_to_go_on_with, source)
    results = run.pretrain("t5", make_model, settings, [text], tmp_path, held_out=0.2)
    losses = [results[when]["held out loss"] for when in ("before", "after")]
    assert losses[1] < losses[0] - 0.1
    assert 0 < results["unigram loss"] < losses[1]
    before, after = (bert_zoo.load(path, task="text_to_text") for path in (source, tmp_path))
    moved = largest_changes(before, after)
    assert min(moved.values()) > 0, moved


@pytest.mark.parametrize("rows", slow_but(("languages", "translations"), "translations"))
def test_texts_in_several_languages_are_trained_with_their_languages(rows, text, tmp_path, capsys):
    lines = [line for line in Path(text).read_text().splitlines() if line]
    files = []
    for number, language in enumerate(("en", "fr")):
        path = tmp_path / f"text.{language}"
        path.write_text("\n".join(line[number:] for line in lines), encoding="utf-8")
        files.append(str(path))
    page = registry().families["xlm"]
    config = {**page.pretraining_preset.of_size("nano")[1].config, "num_languages": 3}
    config |= {"hidden_size": 32, "num_heads": 2, "intermediate_size": 128}
    preprocessor = preprocessor_from_dir(directory_of("xlm/encoder"), "xlm", sequence_length=32)
    settings = MaskedSettings(RECIPE, rows, ((24, 1.0),), languages=("en", "fr"))
    make_model = functools.partial(new_model, page, config, preprocessor)
    results = pretrain("tiny", make_model, settings, files, tmp_path / "run", held_out=0.2)
    assert results["steps"] == 6
    model = bert_zoo.load(tmp_path / "run" / "model")
    for language, number in (("de", 0), ("en", 1), ("fr", 2)):
        inputs = model.preprocessor.in_language(language)(["a tree"])
        assert set(inputs["language_ids"].numpy().ravel()) == {number}
    assert model.fill_mask("the <special1> sat")[0][0].token


def test_a_language_model_reads_the_text_as_one_stream(text, tmp_path):
    make_model, settings = small_stream(total_steps=40)
    results = pretrain("tiny", make_model, settings, [text], tmp_path, held_out=0.2)
    assert results["steps"] == 40 and results["tokens"] == 40 * 32
    assert results["before"].keys() == results["after"].keys() == {"held out loss"}
    # Words are random, but for ends of lines: what can be learnt is how often each occurs.
    assert results["before"]["held out loss"] == pytest.approx(np.log(18), rel=0.2)
    assert results["after"]["held out loss"] == pytest.approx(results["unigram loss"], rel=0.03)
    assert results["tokens_per_second"] > 0
    assert (tmp_path / "report.html").stat().st_size > 3000
    model = bert_zoo.load(tmp_path)
    tokens = TokenizedText(tmp_path / "tokens" / "train")
    card = ModelCard.load(tmp_path / "model" / "README.md")
    assert card.data.pipeline_tag == "text-generation" and card.data.base_model is None
    assert card.data.eval_results[0].metric_value == round(results["after"]["held out loss"], 4)
    for part in (text, tokens.index["text_sha256"], "randomly initialised", "generate("):
        assert part in card.text.replace("\\", "")
    ids = tokens.stream()
    assert len(ids) == tokens.num_tokens and model.task == "causal_lm"
    lines = [s for document in Corpus([text], held_out=0.2) for s in document]
    assert (ids == 0).sum() == len(lines)
    read = [model.preprocessor.tokenizer.id_to_token(i) for i in ids[: len(lines[0].split()) + 1]]
    assert read == [w if w in WORDS[:16] else "<unk>" for w in lines[0].split()] + ["<eos>"]


def test_a_language_model_whose_loss_stalls_is_the_average_of_its_weights(text, tmp_path):
    # So high a rate that the weights alone jump about.
    changes = {"learning_rate": 10.0, "measurements": 20, "patience": 1}
    make_model, settings = small_stream(total_steps=60, **changes)
    results = pretrain("tiny", make_model, settings, [text], tmp_path, held_out=0.2)
    *weights, average = (row["held out loss"] for row in results["measured"])
    assert len(weights) == 19 and average < min(weights)


def test_clusters_that_a_vocabulary_is_too_small_for_are_left_out(capsys):
    _, settings = small_stream()
    assert fitted(settings.recipe, 11) is settings.recipe
    assert fitted(settings.recipe, 10).config["cutoffs"] == ()
    assert "begin at (10,), none are left" in capsys.readouterr().out


def test_a_checkpoint_without_a_head_gets_a_new_one_that_is_said(text, tmp_path, caplog):
    source = directory_of("bert/encoder")
    results = go_on(
        *("bert/encoder", "full_sentences", text, tmp_path), goes_on=True, general_text=[text]
    )
    assert "has no trained masked_lm; it is randomly initialised" in caplog.text
    assert {"held out loss", "general text loss"} == results["after"].keys()
    model = bert_zoo.load(tmp_path)
    assert model.task == "masked_lm"
    counts = TokenizedText(tmp_path / "tokens" / "train").counts
    page = tmp_path / "model" / "README.md"
    written, card = page.read_text(encoding="utf-8"), ModelCard.load(page)
    assert "It continues" in card.text and "![Losses by step](learning_curve.png)" in card.text
    assert card.data.license is None and "# license: name one" in written
    assert (tmp_path / "model" / "learning_curve.png").is_file()
    began = log_frequencies(counts)
    np.testing.assert_allclose(np.exp(began).sum(), 1.0)
    assert np.abs(model.masked_lm.bias - began).max() < 6 * 3.2 * RECIPE.learning_rate
    encoders = (bert_zoo.load(path, task="encoder") for path in (source, tmp_path / "model"))
    moved = largest_changes(*encoders)
    # Nothing was said of the pooler; six steps of at most about three times the rate.
    assert {name for name in moved if "pooler" in name} == {n for n, m in moved.items() if m == 0}
    assert 1e-5 < max(moved.values()) < 6 * 3.2 * RECIPE.learning_rate
    bert_zoo.save(model, tmp_path / "model")
    assert page.read_text(encoding="utf-8") == written


@pytest.mark.slow
@pytest.mark.parametrize("has_generator", [True, False])
def test_a_discriminator_goes_on_with_its_generator_or_a_new_one(
    has_generator, text, tmp_path, capsys
):
    source = tmp_path / "source"
    shutil.copytree(directory_of("deberta_v2/pretraining"), source)
    if not has_generator:
        (source / "pytorch_model.generator.bin").unlink()
    directory = tmp_path / "run"
    options = (f"--model={source}", f"--text={text}", f"--output_dir={directory}", "--steps=4")
    run_here(*options, *SHORT)
    printed = capsys.readouterr().out
    assert "held out discriminator_logits_loss" in printed
    assert ("head starts from the frequency" in printed) == (not has_generator)
    assert f"bert_zoo finetune --model {directory / 'model'}" in printed
    model = bert_zoo.load(tmp_path / "run")
    before = open_weights(source)["deberta.embeddings.word_embeddings.weight"]
    moved = np.abs(model.encoder.embeddings.token_embedding.whole - before).max()
    assert 1e-5 < moved < 1e-2


@pytest.mark.slow
def test_ngrams_are_trained_on_with_the_decoder_before_the_head(text, tmp_path, capsys):
    source = directory_of("deberta/masked_lm")
    options = (f"--model={source}", f"--text={text}", f"--output_dir={tmp_path / 'run'}")
    run_here(*options, *SHORT, "--steps=8", "--length=24")
    assert "After: held out loss" in capsys.readouterr().out
    before, after = (bert_zoo.load(path, task="masked_lm") for path in (source, tmp_path / "run"))
    moved = largest_changes(before, after)
    assert objective_for(after) == objective_for(before, "windowed_ngrams")
    assert any("masked_lm/position_embedding" in path for path in moved)
    # No row is as long as there are positions, and the rest of the weights all learn.
    assert all(1e-5 < change < 1e-2 for change in moved.values()), moved


class Killed(BaseException):
    """As a signal would end a program, at any place."""


@pytest.mark.parametrize(
    ("family", "rows", "every", "killed_at"),
    [
        pytest.param("electra", "packed_documents", 2, (9,), marks=pytest.mark.slow),
        ("transformer_xl", "", 4, (6,)),
        pytest.param("deberta_v2", "full_sentences", 2, (9,), marks=pytest.mark.slow),
        pytest.param("xlnet", "streamed_pairs", 2, (9,), marks=pytest.mark.slow),
        pytest.param("bert", "next_sentence", 2, (1, 6, 9), marks=pytest.mark.slow),
        pytest.param("t5", "joined_documents", 2, (9,), marks=pytest.mark.slow),
    ],
)
def test_a_training_that_was_killed_ends_with_the_same_bits(
    family, rows, every, killed_at, text, tmp_path, monkeypatch
):
    """Of two lengths, with accumulated gradients, dropout, and checkpoints that lag behind; or with memory
    and two batches an execution, of which the last has one; or with rows that a memory goes on behind."""
    if rows:
        make_model, _ = small(family)
        phases = ((24, 1.0),) if rows == "streamed_pairs" else ((16, 0.5), (24, 0.5))
        settings = MaskedSettings(RECIPE, rows, phases)
    else:
        make_model, settings = small_stream(total_steps=7)
        settings = dataclasses.replace(settings, steps_per_execution=2)

    def run(directory):
        return pretrain(
            family, make_model, settings, [text], directory, held_out=0.2, checkpoint_seconds=0
        )

    through = run(tmp_path / "through")
    left = list(killed_at)
    train, save = PretrainingRun.on_train_batch_end, PretrainingRun.save

    def killing(keeper, batch, logs=None):
        train(keeper, batch, logs)
        if left and keeper.progress.all_batches == left[0]:
            left.pop(0)
            raise Killed

    # Of some batches, so that others are trained again.
    monkeypatch.setattr(PretrainingRun, "on_train_batch_end", killing)
    monkeypatch.setattr(
        PretrainingRun, "save", lambda keeper: keeper.progress.all_batches % every or save(keeper)
    )
    for _ in killed_at:
        with pytest.raises(Killed):
            run(tmp_path / "stopped")
    stopped = run(tmp_path / "stopped")
    assert not left
    assert stopped["after"] == through["after"]
    assert stopped["tokens"] == through["tokens"] and stopped["steps"] == through["steps"]
    seen = [[(r["step"], r.get("loss")) for r in run["measured"]] for run in (through, stopped)]
    assert seen[0] == seen[1] and seen[0][-1][0] == settings.recipe.total_steps
    assert_same(*(tensors_of(tmp_path / d / "model") for d in ("stopped", "through")))


@pytest.mark.slow
def test_processes_that_are_killed_at_random_moments_leave_the_same_weights(text, tmp_path):
    """With a checkpoint after every step, so that some of the moments are within its writing."""
    random, steps = np.random.default_rng(0), 200
    through, stopped = tmp_path / "through", tmp_path / "stopped"
    command = [
        *(*PRETRAIN, "--recipe", "bert", "--size", "nano", "--text", text, *SHORT),
        *("--vocabulary", directory_of("bert/encoder"), "--steps", steps),
        *("--checkpoint_minutes", "0", "--output_dir"),
    ]
    run_program(*command, through)

    def step() -> int:
        """The step of the newest checkpoint; 0 where there is none."""
        names = [path.name for path in (stopped / "checkpoint").glob("step-*")]
        return max((int(name.split("-")[1]) for name in names), default=0)

    for moment in (20, 60, 100):
        began, arguments = step(), [sys.executable, *map(str, command), stopped]
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
            # A step of its own first: not while it starts.
            while step() < max(moment, began + 1):
                assert process.poll() is None, "It ended before it was to be killed."
                time.sleep(0.001)
            time.sleep(random.uniform(0, 0.5))
            process.kill()
        assert process.returncode == -signal.SIGKILL and began < step() < steps
    run_program(*command, stopped)
    assert_same(*(tensors_of(path / "model") for path in (stopped, through)))


def test_a_training_that_goes_on_plans_no_epoch_that_is_over(text, tmp_path, monkeypatch):
    make_model, _ = small("roberta")
    model = make_model()
    tokens = write_tokens(Corpus([text]), model.preprocessor, tmp_path)
    objective = objective_for(model, None, tokens.counts)
    planned, plan = [], pretraining_batches.EpochPlan

    def counted(tokens, scheme, seed, epoch):
        planned.append(epoch)
        return plan(tokens, scheme, seed, epoch)

    monkeypatch.setattr(pretraining_batches, "EpochPlan", counted)

    def batches():
        return PretrainingBatches(tokens, FullSentences(32), objective, 8, seed=0, mlm_only=True)

    first = batches()
    number = 5 * first.per_epoch
    wanted, _ = first.at(number)
    planned.clear()
    second = batches()
    second.starts = first.starts
    found, _ = second.at(number)
    assert len(planned) == 2 and planned[0] == 0 and planned[1] >= 4
    assert np.array_equal(found["token_ids"], wanted["token_ids"])


def test_other_settings_do_not_go_on_and_a_finished_run_stays(text, tmp_path):
    recipe = RECIPE.replace(optimizer="lamb")
    first = train("roberta", text, tmp_path, recipe, held_out=0.0)
    assert first["before"] == first["after"] == {}
    assert train("roberta", text, tmp_path, recipe, held_out=0.0)["seconds"] == first["seconds"]
    other = recipe.replace(learning_rate=1e-4)
    words = "finished run | learning_rate was 0.001 and is 0.0001"
    assert_refused(lambda: train("roberta", text, tmp_path, other, held_out=0.0), words)


def test_a_loss_that_is_no_number_stops_with_step_and_rate(text, tmp_path):
    recipe = RECIPE.replace(learning_rate=1e38, clip_norm=None, warmup_proportion=0.0)
    with pytest.raises(TrainingDiverged, match=r"The loss is \S+ at step \d, .*learning rate"):
        train("roberta", text, tmp_path, recipe)


def test_a_budget_of_time_ends_the_training(text, tmp_path):
    """In mixed precision, too."""
    make_model, rows = small("roberta", dtype="mixed_bfloat16")
    recipe = RECIPE.replace(gradient_accumulation_steps=1)
    settings = MaskedSettings(recipe, rows, ((16, 0.9), (24, 0.1)), seconds=3.0)
    results = pretrain("new", make_model, settings, [text], tmp_path, held_out=0.2)
    assert results["steps"] >= 1
    assert results["measured"][-1]["rate"] < RECIPE.learning_rate
    for shown in (tmp_path / "report.html", tmp_path / "model" / "README.md"):
        said = shown.read_text(encoding="utf-8")
        assert "time budget" in said and "total steps" not in said


LATIN = {"encoding": "latin-1", "form": "documents"}
FILES = {
    "short.txt": "\n\n".join(f"the cat sat on {word}" for word in WORDS[:8]).encode(),
    "latin.txt": "the café sat on the tree\n".encode("latin-1"),
    "en": b"a\nb\n",
    "de": b"a\n",
}


def from_file(name: str, directory: Path, **options) -> dict:
    return train("roberta", str(directory / name), directory, held_out=0.0, **options)


def with_memory(family: str, directory: Path, text: str) -> None:
    flags = (f"--recipe={family}", "--mem_len=5", f"--text={text}")
    run_here(*flags, f"--output_dir={directory}/run")


@refusals(
    (
        lambda d, text: go_on("bert/masked_lm", "joined_documents", text, d),
        "rows=joined_documents have no special tokens",
    ),
    (
        lambda d, text: go_on("bert/encoder", "next_sentence", text, d),
        "needs a head for pairs | full_sentences",
    ),
    (lambda d, _: from_file("short.txt", d, length=64), "a batch has 4. Lower batch_size"),
    (lambda d, _: from_file("latin.txt", d), "line 1: this is not UTF-8 | --encoding latin-1"),
    (
        lambda d, _: train("roberta", f"{d}/latin.txt", d, held_out=0.99, reading=LATIN),
        "belongs to the part",
    ),
    (lambda d, _: [*ParallelLines([d / "en", d / "de"], ["en", "de"])], "de ends after 1 lines"),
    (lambda d, _: ParallelLines([d / "en", d / "de"], ["en"]), "2 files and 1 languages"),
    # Before a vocabulary is made.
    (lambda d, text: with_memory("elmo", d, text), "elmo do not use --mem_len. Leave"),
    (lambda d, text: with_memory("awd_lstm", d, text), "awd_lstm do not use --mem_len. Leave"),
)
def test_what_cannot_be_trained_on_is_refused(call, words, text, tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    assert_refused(lambda: call(tmp_path, text), words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("cut", [False, True])
def test_tokens_that_do_not_fit_are_named_with_the_next_step(text, tmp_path, cut):
    """A run of another model that failed, or a copy that broke off, left them."""
    too_large = dataclasses.replace(RECIPE, batch_size=1 << 16)
    left_by = "roberta" if cut else "bert"
    assert_refused(lambda: train(left_by, text, tmp_path, too_large, length=64), "a batch has")
    tokens = tmp_path / "tokens" / "train"
    words = f"{tokens} | another vocabulary | delete"
    if cut:
        path = tokens / "tokens.bin"
        os.truncate(path, path.stat().st_size // 2)
        words = f"{path} | bytes instead of | elete | {tokens}"
    assert_refused(lambda: train("roberta", text, tmp_path), words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "documents"),
    # How one document is divided is the same for all.
    [*((f, 10) for f in (*FAMILIES, "stream")), *((f, 1) for f in ("bert", "roberta", "stream"))],
)
def test_a_small_corpus_is_enough(family, documents, tmp_path, capsys):
    """Of which a twentieth is less than a document, and which has fewer rows than a batch."""
    lines = Path(random_text(tmp_path / "many.txt", documents=20)).read_text().split("\n\n")
    between = "\n\n" if documents > 1 else "\n"
    path = tmp_path / "few.txt"
    path.write_text(between.join(lines[:10]))
    if family == "stream":
        make_model, settings = small_stream(batch_size=256, total_steps=1)
    else:
        make_model, rows = small(family)
        recipe = RECIPE.replace(total_steps=1, batch_size=256)
        settings = MaskedSettings(recipe, rows, ((16, 1.0),))
    results = pretrain(
        *(family, make_model, settings, [str(path)], tmp_path / "run"),
        held_out=0.05,
        least_batch_size=1,
    )
    assert results["steps"] == 1 and np.isfinite(results["after"]["held out loss"])
    said = capsys.readouterr().out
    aside = "Of 10 documents 2 are held out" if documents > 1 else "too few documents to hold some"
    assert said.count(aside) == 1
    # A stream's rows may be shorter than a segment.
    shorter = said.count("The text is too short for batches of 256 rows, so they have")
    assert shorter == (family != "stream")


@pytest.mark.slow
@pytest.mark.parametrize("flags, backend", [(("--strategy", "cpu:2"), None), ((), "jax")])
@pytest.mark.parametrize(
    "source",
    [pytest.param(directory_of("bert/pretraining"), id="bert"), "spanbert_nano"],
)
def test_the_program_trains_the_same_on_two_devices_and_on_jax(
    source, flags, backend, text, tmp_path, monkeypatch
):
    """Without dropout, which draws other numbers there; spans have inputs of their own."""
    model = tmp_path / "model"
    bert_zoo.save(bert_zoo.load(source, task="pretraining", dropout=0.0), model)
    results = []
    for name, more in (("one", ()), ("other", flags)):
        if more == flags and backend:
            monkeypatch.setenv("KERAS_BACKEND", backend)
        run_program(
            *(*PRETRAIN, "--model", model, "--text", text, "--steps", "4", *SHORT),
            *("--learning_rate", "1e-3", "--output_dir", tmp_path / name, *more),
        )
        results.append(json.loads((tmp_path / name / "metrics.json").read_text()))
    one, other = results
    assert one["after"] != pytest.approx(one["before"], 1e-3)
    for moment in ("before", "after"):
        assert other[moment] == pytest.approx(one[moment], 1e-5)


def test_masked_sentences_are_the_same_ones_each_time():
    preprocessor = bert_zoo.load(directory_of("bert/encoder")).preprocessor
    documents = [[" ".join(WORDS[i : i + 8]) for i in range(10)]] * 2
    found = masked_sentences(iter(documents), preprocessor)
    assert found == masked_sentences(iter(documents), preprocessor)
    assert found
    for sentence, word in found:
        assert sentence.count("[MASK]") == 1
        assert len(word) > 3 and word not in ("[MASK]",)
