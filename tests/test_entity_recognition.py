"""Entities of named types: gliner's directories, logits, spans, loss and gradients; texts, training and errors."""

import functools
import json
import logging
import shutil
from dataclasses import asdict, replace
from itertools import chain

import keras
import numpy as np
import pytest
from helpers import ALL_GOLDEN, GOLDEN, TOLERANCE, change_json, eager_steps, load_case, read_json
from keras import ops

import bert_zoo
from bert_zoo.cli import finetuning
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.config import ConfigError, EntityHead
from bert_zoo.data.entities import AnnotatedText, Entity, read_annotated
from bert_zoo.family import HF
from bert_zoo.presets import Recipe
from bert_zoo.registry import registry
from bert_zoo.runtime.answers import TaggedSpan, Tagging
from bert_zoo.tasks.entity_rows import (
    Candidate,
    Prompt,
    budget_of,
    chosen,
    inputs_of,
    tokens_of,
    training_rows,
    windows_of,
    word_ranges,
)
from bert_zoo.weights import cache
from bert_zoo.weights.bind import named_variables, to_stored
from bert_zoo.weights.download import DownloadError
from bert_zoo.weights.files import write_json

STORED = ALL_GOLDEN / "gliner"
CASES = ("deberta_v2", "modernbert")
TYPES = ["cat", "house"]
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


@functools.cache
def stored(case: str):
    return bert_zoo.load(STORED / case)


@functools.cache
def answers_of(case: str) -> dict:
    return read_json(STORED / case / "answers.json")


@functools.cache
def arrays_of(case: str) -> dict[str, np.ndarray]:
    with np.load(STORED / case / "arrays.npz") as file:
        return dict(file)


def inputs_for(model, texts, types):
    words = [[text[start:end] for start, end in word_ranges(text)] for text in texts]
    tokens = tokens_of(model, [*types, *chain(*words)])
    prompt = Prompt.of(model, types, tokens)
    windows = [*windows_of(model, words, tokens, budget_of(model) - len(prompt.ids))]
    return inputs_of(model, windows, [prompt] * len(windows))


def assert_answers_are_theirs(model, case: str) -> None:
    answers = answers_of(case)
    for found in answers["found"]:
        rows = model.tag(answers["texts"], found["types"], found["threshold"], found["flat"])
        for row, wanted in zip(rows, found["spans"], strict=True):
            spans = [[span.start, span.end, span.type] for span in row.spans]
            assert spans == [span[:3] for span in wanted]
            assert all(row.text[span.start : span.end] == span.text for span in row.spans)
            scores = [span.score for span in row.spans]
            np.testing.assert_allclose(scores, [span[3] for span in wanted], atol=TOLERANCE, rtol=0)


def small(**head):
    """A model with random weights."""
    keras.utils.set_random_seed(0)
    return load_case("encoder", "entity_recognition", entity_head=EntityHead(**head))


def annotated(text: str, *entities: tuple[int, int, str]) -> AnnotatedText:
    return AnnotatedText(text, [Entity(*entity) for entity in entities], "x[0]")


# --- Equal to gliner -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_logits_of_padded_batches_are_gliners_for_1_3_and_30_types(case):
    model, answers = stored(case), answers_of(case)
    assert model.task == "entity_recognition"
    for number in range(3):
        expected = arrays_of(case)[f"logits_{number}"]
        inputs = inputs_for(model, answers["texts"], answers["found"][2 * number]["types"])
        found = ops.convert_to_numpy(model(inputs))[:, : expected.shape[1]]
        there = expected != 0
        np.testing.assert_allclose(found[there], expected[there], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("case", CASES)
def test_flat_and_nested_spans_are_gliners(case):
    assert_answers_are_theirs(stored(case), case)


@pytest.mark.skipif(not ON_TENSORFLOW, reason="takes gradients with TensorFlow")
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_are_gliners(case):
    import tensorflow as tf

    model, training = stored(case), answers_of(case)["training"]
    texts = []
    for text, entities in zip(answers_of(case)["texts"], training["entities"], strict=True):
        at = word_ranges(text)
        texts.append(annotated(text, *((at[s][0], at[e][1], name) for s, e, name in entities)))
    inputs = inputs_for(model, [text.text for text in texts], training["types"])
    rows = training_rows(model, texts, measures=True)
    _, labels = rows.gather(np.arange(len(texts)))
    # Types in the order of the reference's.
    labels = labels[..., [sorted(training["types"]).index(name) for name in training["types"]]]
    with tf.GradientTape() as tape:
        loss = model.default_loss()(labels, model(inputs))
    np.testing.assert_allclose(float(loss), arrays_of(case)["loss"], rtol=1e-6)
    paths = {id(variable): path for path, variable in named_variables(model).items()}
    gradients = {
        paths[id(variable)]: tf.convert_to_tensor(gradient)
        for variable, gradient in zip(
            model.trainable_variables,
            tape.gradient(loss, [v.value for v in model.trainable_variables]),
            strict=True,
        )
    }
    plan = model.family.plan("gliner", model.encoder.config)
    bindings = [b for b in plan.bindings(model.task, False) if b.variable in gradients]
    as_variables = {path: tf.Variable(gradient) for path, gradient in gradients.items()}
    seen = set()
    for key, tensor in to_stored(as_variables, bindings).items():
        # Of torch's two biases, whose gradients are equal, ours is one.
        if "bias_hh" not in key:
            expected = arrays_of(case)[f"gradient/{key}"]
            atol = TOLERANCE * max(1, np.abs(expected).max())
            np.testing.assert_allclose(np.asarray(tensor), expected, atol=atol, rtol=0, err_msg=key)
            seen.add(key)
    assert any(key.startswith("rnn.lstm") for key in seen) and len(seen) > 40


@pytest.mark.parametrize("format", ["bert_zoo", "hf"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_saved_is_read_again_with_the_same_answers(case, format, tmp_path):
    bert_zoo.save(stored(case), tmp_path, format=format)
    again = bert_zoo.load(tmp_path)
    assert (again.task, again.entity_head) == ("entity_recognition", stored(case).entity_head)
    assert_answers_are_theirs(again, case)
    if format == "hf":
        theirs, ours = (read_json(d / "gliner_config.json") for d in (STORED / case, tmp_path))
        same = ("class_token_index", "vocab_size", "hidden_size", "span_mode", "ent_token")
        assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}
        assert not (tmp_path / "config.json").exists()


def test_a_keras_file_has_the_same_model(tmp_path):
    stored("deberta_v2").save(tmp_path / "model.keras")
    assert_answers_are_theirs(keras.saving.load_model(tmp_path / "model.keras"), "deberta_v2")


# --- Directories that name their encoder -----------------------------------------------------------


@pytest.fixture
def early(tmp_path, monkeypatch):
    """A directory as gliner's early versions wrote it: only weights, and a configuration that names its encoder, here a
    checkpoint whose repository has a vocabulary without markers."""
    directory = tmp_path / "model"
    directory.mkdir()
    shutil.copy(STORED / "deberta_v2" / "pytorch_model.bin", directory)
    said = read_json(STORED / "deberta_v2" / "gliner_config.json")
    kept = ("dropout", "fine_tune", "hidden_size", "max_len", "max_types", "max_width", "span_mode")
    values = {key: said[key] for key in kept} | {"gpu": "a100", "run_time": "05:30:00"}
    write_json(directory / "gliner_config.json", values | {"model_name": "zoo/small-encoder"})
    family, checkpoint = registry().resolve("deberta_v3_small")
    config = stored("deberta_v2").encoder.config.replace(vocab_size=100).to_dict()
    named = replace(checkpoint, name="named", config=config, sources=[HF("zoo/small-encoder")])
    monkeypatch.setitem(registry()._entries, "named", (family, named))

    def fetch_hub(repo, revision, *, with_weights):
        assert (repo, revision, with_weights) == ("zoo/small-encoder", "main", False)
        return ALL_GOLDEN / "deberta_v2" / "encoder"

    monkeypatch.setattr(cache, "fetch_hub", fetch_hub)
    return directory


def test_a_directory_that_names_a_checkpoint_takes_over_configuration_and_vocabulary(
    early, tmp_path
):
    model = bert_zoo.load(early)
    assert_answers_are_theirs(model, "deberta_v2")
    # As in the file that gliner wrote with its tokenizer.
    vocabulary = stored("deberta_v2").preprocessor.tokenizer.vocabulary
    assert model.preprocessor.tokenizer.vocabulary == vocabulary
    assert vocabulary[-4:] == ("[MASK]", "[FLERT]", "<<ENT>>", "<<SEP>>")
    assert model.encoder.config.vocab_size == len(vocabulary) == 94
    for format in ("bert_zoo", "hf"):
        bert_zoo.save(model, tmp_path / format, format=format)
        assert_answers_are_theirs(bert_zoo.load(tmp_path / format), "deberta_v2")
    # Without weights, the markers' rows are new.
    untrained = bert_zoo.load(early, weights=None)
    assert untrained.preprocessor.tokenizer.vocabulary[-2:] == ("<<ENT>>", "<<SEP>>")
    untrained.tag("a bird", TYPES)


@pytest.mark.parametrize("has_markers", [True, False])
def test_a_vocabulary_in_the_directory_comes_first(has_markers, early, monkeypatch):
    monkeypatch.setattr(cache, "fetch_hub", None)
    source = STORED / "deberta_v2" if has_markers else ALL_GOLDEN / "deberta_v2" / "encoder"
    for name in ("tokenizer.json", "spm.model", "added_tokens.json", "tokenizer_config.json"):
        if (source / name).is_file():
            shutil.copy(source / name, early)
    assert_answers_are_theirs(bert_zoo.load(early), "deberta_v2")


def test_a_vocabulary_that_is_not_there_or_not_of_these_weights_is_said(
    early, tmp_path, monkeypatch
):
    longer = shutil.copytree(ALL_GOLDEN / "deberta_v2" / "encoder", tmp_path / "longer")
    write_json(longer / "added_tokens.json", {"[MASK]": 90, "[MORE]": 91})
    monkeypatch.setattr(cache, "fetch_hub", lambda *_, **__: longer)
    with pytest.raises(ConfigError, match=r"has 95 tokens with .*FLERT.* has 94 rows"):
        bert_zoo.load(early)

    def unreachable(*_, **__):
        raise DownloadError("There is no network.")

    monkeypatch.setattr(cache, "fetch_hub", unreachable)
    with pytest.raises(FileNotFoundError, match=r"There is no network\. Or copy that"):
        bert_zoo.load(early)


# --- Directories that are refused ----------------------------------------------------------------


@pytest.mark.parametrize(
    "values, message",
    [
        ({"span_mode": "token_level"}, "span_mode 'token_level'.*'markerV0'"),
        ({"labels_encoder": "bert"}, "labels_encoder 'bert'"),
        ({"subtoken_pooling": "mean"}, "subtoken_pooling 'mean'"),
        ({"new_switch": 1}, "new_switch, which this version"),
        ({"max_width": 0}, "max_width"),
        (
            {"encoder_config": None, "model_name": "some/encoder"},
            "'some/encoder', no repository that",
        ),
    ],
)
def test_other_architectures_and_unknown_settings_are_refused(values, message, tmp_path):
    directory = shutil.copytree(STORED / "deberta_v2", tmp_path / "model")
    change_json(directory / "gliner_config.json", **values)
    with pytest.raises(ConfigError, match=message):
        bert_zoo.load(directory)


# --- A new model ---------------------------------------------------------------------------------


def test_a_new_model_says_that_it_is_untrained_and_has_the_markers(caplog):
    with caplog.at_level(logging.WARNING, logger="bert_zoo"):
        model = small()
    assert sum("no trained entities" in record.message for record in caplog.records) == 1
    tokenizer = model.preprocessor.tokenizer
    assert tokenizer.vocabulary[-2:] == ("<<ENT>>", "<<SEP>>")
    assert model.encoder.config.vocab_size == tokenizer.vocab_size
    # Each marker is one token, also in lower-casing models.
    inputs = inputs_for(model, ["a cat"], TYPES)
    marker = tokenizer.token_to_id("<<ENT>>")
    ids = np.asarray(inputs["token_ids"])
    assert (np.take_along_axis(ids, inputs["type_positions"], 1) == marker).all()


def test_a_long_text_is_read_whole_and_offsets_are_those_of_the_text():
    model = small(max_words=7, max_width=3)
    text = " ".join(["the cat sat on a tree ,"] * 6)
    (long,) = model.tag(text, TYPES, threshold=0.0, flat=True)
    covered = np.zeros(len(word_ranges(text)), bool)
    for span in long.spans:
        assert text[span.start : span.end] == span.text
        assert not covered[span.first_word : span.end_word].any()
        covered[span.first_word : span.end_word] = True
    assert covered.all()


def test_windows_share_as_many_words_as_a_span_may_have():
    model = small(max_words=8, max_width=3)
    words = [["cat"] * 20]
    windows = [*windows_of(model, words, tokens_of(model, ["cat"]), 100)]
    ends = [window.first + len(window.words) for window in windows]
    assert ends[-1] == 20
    for window, end in zip(windows[1:], ends, strict=False):
        assert end - window.first == 3


def test_batches_change_nothing():
    model = small()
    texts = ["the cat sat on the tree", "a bird", "", "it was good !", "we ran to the big city"]
    together = model.tag(texts, TYPES, threshold=0.3, batch_size=4)
    for text, row in zip(texts, together, strict=True):
        (alone,) = model.tag(text, TYPES, threshold=0.3)
        assert [s[:2] for s in map(_place, alone.spans)] == [s[:2] for s in map(_place, row.spans)]
        for one, other in zip(alone.spans, row.spans, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)


def _place(span):
    return span.start, span.end, span.type


def test_of_spans_that_meet_the_likeliest_stays():
    spans = [Candidate(0, 2, 0, 0.9), Candidate(1, 3, 0, 0.8), Candidate(0, 5, 1, 0.7)]
    assert chosen(spans, flat=True) == [spans[0]]
    assert chosen(spans, flat=False) == [spans[0], spans[2]]
    # A span has one type; of two windows, the higher score counts.
    twice = [Candidate(0, 2, 0, 0.6), Candidate(0, 2, 1, 0.8), Candidate(0, 2, 0, 0.7)]
    assert chosen(twice, flat=False) == [twice[1]]


def test_nested_spans_are_printed_within_each_other():
    text = "University of Oslo, Norway"
    spans = [(0, 18, "school", 0.9), (14, 18, "city", 0.8), (20, 26, "country", 0.7)]
    row = tuple(TaggedSpan(text[s:e], name, p, s, e, 0, 0) for s, e, name, p in spans)
    printed = str(Tagging(text, (), row))
    assert printed == "[University of [Oslo]city 0.80]school 0.90, [Norway]country 0.70"


@pytest.mark.parametrize(
    "labels, error, message",
    [
        ("person", TypeError, "list of types"),
        ([1], TypeError, "list of types"),
        ([], ValueError, "at least one type"),
        (["cat", " "], ValueError, "at least one type"),
        (["cat", "house", "cat"], ValueError, "cat.* more than once"),
        ([f"cat {i}" for i in range(30)], ValueError, "30 labels have"),
        (None, ValueError, "at least one type"),
    ],
)
def test_wrong_labels_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        small().tag("a cat", labels)


def test_exports_are_refused_with_the_reason(tmp_path):
    with pytest.raises(ValueError, match="types and words of their own"):
        bert_zoo.export(small(), tmp_path / "served")


# --- Training ------------------------------------------------------------------------------------

RECORDS = [
    ("the cat sat on the big tree", {"entities": [(4, 7, "animal"), (19, 27, "plant")]}),
    ("a bird", {"entities": [(2, 6, "animal")]}),
    ("it was good", {"entities": []}),
    ("she saw the city", {"entities": [(8, 16, "place")]}),
]


@pytest.mark.usefixtures("eager")
def test_training_lowers_the_loss_and_names_the_types():
    model = small(dropout=0.0, lstm_layers=0)
    model.compile(keras.optimizers.Adam(3e-3), loss=model.default_loss())
    history = model.fit(RECORDS, batch_size=4, epochs=8, verbose=0, validation_data=RECORDS).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert {"val_loss", "val_f1", "val_precision", "val_recall"} <= history.keys()
    # Without labels, tag looks for these.
    assert model.types == ("animal", "place", "plant")
    assert model.tag("a bird", threshold=1.0)[0].spans == ()


@pytest.mark.usefixtures("eager")
def test_spans_are_measured_by_start_end_and_type(monkeypatch):
    model = small(lstm_layers=0)

    def tag(texts, labels):
        assert labels == ["animal", "place", "plant"]
        spans = [[(4, 7, "animal"), (19, 27, "place")], [(2, 6, "animal")], [], []]
        rows = [[TaggedSpan("", name, 1.0, s, e, 0, 0) for s, e, name in row] for row in spans]
        return [Tagging(text, (), tuple(row)) for text, row in zip(texts, rows, strict=True)]

    monkeypatch.setattr(model, "tag", tag)
    found = model.evaluate(RECORDS, return_dict=True, verbose=0)
    assert (found["precision"], found["recall"]) == (2 / 3, 2 / 4)
    assert found["f1"] == pytest.approx(4 / 7)
    texts, entities = zip(*RECORDS, strict=True)
    apart = model.evaluate([*texts], [*entities], verbose=0)
    assert apart == pytest.approx([*found.values()])


def test_the_types_of_the_training_are_saved(tmp_path):
    model = load_case("encoder", "entity_recognition", labels=["animal", "place"])
    bert_zoo.save(model, tmp_path)
    assert bert_zoo.load(tmp_path).types == ("animal", "place")


def test_what_cannot_be_learned_is_counted(caplog):
    texts = [
        annotated("the cat sat", (4, 7, "animal"), (5, 7, "animal"), (0, 11, "scene")),
        annotated("a bird", (2, 6, "animal")),
    ]
    with caplog.at_level(logging.WARNING, logger="bert_zoo"):
        rows = training_rows(small(max_width=2), texts, measures=True)
    assert "Of 4 entities, 1 do not begin and end where words do, and 1 have more" in caplog.text
    _, labels = rows.gather(np.arange(2))
    assert (labels == 1).sum() == 2
    # Spans that reach beyond the last word have no label.
    assert (labels[1, 0] == 0).sum() + (labels[1, 0] == 1).sum() == 4
    assert (labels[1, 1, 1] == -100).all()


def test_each_text_gets_its_types_and_some_of_its_batch_in_a_seeded_order():
    model = small(max_types=2)
    texts = [annotated(text, *spans["entities"]) for text, spans in RECORDS]
    keras.utils.set_random_seed(1)
    rows = training_rows(model, texts, measures=False)
    keras.utils.set_random_seed(1)
    again = training_rows(model, texts, measures=False)
    numbers = np.arange(4)
    (inputs, labels), (same, _) = rows.gather(numbers), again.gather(numbers)
    assert all(np.array_equal(inputs[name], same[name]) for name in inputs)
    exists = (labels != -100).any(axis=(1, 2))
    assert exists[0].sum() == 2  # both of its own, no more than max_types
    assert (exists.sum(axis=1) >= 1).all()  # a text without entities has a negative
    assert (labels[2] != 1).all()
    # All types of the data, to measure with.
    short = [
        text._replace(entities=[e._replace(label="cat") for e in text.entities]) for text in texts
    ]
    short[3].entities[:] = [Entity(8, 16, "city")]
    _, labels = training_rows(model, short, measures=True).gather(numbers)
    assert (labels != -100).any(axis=(1, 2)).sum(axis=1).tolist() == [2] * 4


def test_wrong_data_are_refused():
    model = small()
    with pytest.raises(ValueError, match="no type to learn"):
        model.fit([("a cat", {"entities": []})])
    with pytest.raises(ValueError, match="take no weights"):
        model.fit(RECORDS, sample_weight=[1, 1, 1, 1])
    with pytest.raises(ValueError, match="y has 1 rows"):
        model.fit(["a cat", "a bird"], [[(0, 1, "animal")]])
    for entity, fault in (((2, 9, "animal"), "outside of"), ((2, 2, "animal"), "empty in")):
        with pytest.raises(ValueError, match=rf"y\[0\]: .*'animal'\) is {fault} 'a cat'"):
            model.fit(["a cat"], [[entity]])
    with pytest.raises(ValueError, match="lack word_positions"):
        model({"token_ids": np.ones((1, 4), np.int32)})


def test_a_run_of_finetune_is_measured_and_predicts(tmp_path, capsys):
    rows = [
        {
            "text": text,
            "spans": [dict(zip(("start", "end", "label"), e, strict=True)) for e in found],
        }
        for text, found in ((text, spans["entities"]) for text, spans in RECORDS * 3)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"name": "entities", "train_file": str(tmp_path / "rows.jsonl"), "held_out": 4}
    task, recipe = make_task(**options), Recipe(epochs=1, batch_size=4, max_length=40)
    with eager_steps():
        finetuning.finetune(str(GOLDEN / "encoder"), task, recipe, tmp_path / "run", data=options)
    assert "No SavedModel was written. They read types" in capsys.readouterr().out
    kept = read_json(tmp_path / "run" / "metrics.json")["kept"]
    model, data = bert_zoo.load(tmp_path / "run"), task.data("validation")
    assert model.types == tuple(task.label_names)
    predictions = task.predict(model, data, recipe)
    assert task.measure(data, predictions).metrics == {
        n: kept[n] for n in ("f1", "precision", "recall")
    }
    (path,) = task.write_predictions(tmp_path, "validation", data, predictions, {})
    assert [row.text for row in read_annotated(path)] == data.texts
    (found,), (row,) = model.tag(["a bird"]), model.prediction_rows(["a bird"])
    assert row == {"spans": [asdict(span) for span in found.spans]}
