"""Questions on contexts of any length: windows, labels, batches, answers, and the verb."""

import json
import logging
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ONE_A_TASK,
    assert_refused,
    directory_of,
    has_text,
    load_task,
    loaded,
    refusals,
    slow_but,
    task_of,
)

import bert_zoo
from bert_zoo.data.buckets import Batching
from bert_zoo.data.questions import question_batches
from bert_zoo.data.squad import Answer, SquadExample, SquadSplit
from bert_zoo.metrics.squad import Window, select_answers, squad_v1, squad_v2
from bert_zoo.tasks import question_answering
from bert_zoo.tasks.answers_in_graph import best_answers
from bert_zoo.tasks.question_answering import answer_questions, position_scores
from bert_zoo.text.numpy_packing import Layout, usual_stride
from bert_zoo.text.windows import (
    QuestionWindows,
    answer_positions,
    model_inputs,
    question_windows,
)
from bert_zoo.training import bert_adamw, compile_for_task

CASE = "question_answering"
FAMILY_CASES = [
    case for case in ONE_A_TASK if task_of(case) == "question_answering" and has_text(case)
]
WORDS = "the cat sat on a tree and she saw it was good big red house in the city we ran to".split()
QUESTION, CONTEXT = "the cat sat", "a big red  house was in the city, and é she ran"
LENGTH = 40  # of the golden models


def text_of(rng, words: int) -> str:
    return " ".join(rng.choice(WORDS, words))


def long_texts(number: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Questions, and contexts of up to some hundred tokens."""
    rng = np.random.default_rng(seed)
    questions = [text_of(rng, rng.integers(1, 8)) for _ in range(number)]
    return questions, [text_of(rng, rng.integers(1, 150)) for _ in range(number)]


def model_of(case: str = CASE):
    return loaded(case, "question_answering")


def windows_of(**options) -> QuestionWindows:
    return question_windows(model_of().preprocessor, **options)


def arrays_of(rows) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in rows.items()}


# ---------------------------------------------------------------------------------------------
# Windows
# ---------------------------------------------------------------------------------------------


def originals_windows(tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """First token and number of tokens of each window, as run_squad.py finds them."""
    found, start = [], 0
    while not found or sum(found[-1]) < tokens:
        length = min(room, tokens - start)
        found.append((start, length))
        start += min(length, stride)
    return found


@pytest.mark.parametrize("pair", ["cls A sep B", "cls A sep sep B sep", "A sep B:1 sep:1 cls:2"])
@pytest.mark.parametrize("stride", [1, 7, 128])
def test_windows_are_the_originals(stride, pair):
    side = "right" if pair.startswith("cls") else "left"
    windows = windows_of(stride=stride, layout=Layout(pair=pair, padding_side=side))
    questions, contexts = long_texts(12)
    contexts[0] = CONTEXT * 3
    question_ids = windows.tokenizer(questions).to_list()
    offsets = zip(
        *(c.to_list() for c in windows.tokenizer.tokenize_with_offsets(contexts)), strict=True
    )
    rows = arrays_of(windows(questions, contexts))
    cls, sep = windows.tokenizer.cls_id, windows.tokenizer.sep_id
    row = 0
    for number, (question, (context, *places)) in enumerate(
        zip(question_ids, offsets, strict=True)
    ):
        room = LENGTH - windows.packer.layout.specials(2) - len(question)
        for first, length in originals_windows(len(context), room, stride):
            second = context[first : first + length]
            parts = {"cls": [cls], "sep": [sep], "A": question, "B": second}
            expected = [i for name in pair.split() for i in parts[name.split(":")[0]]]
            assert rows["token_ids"][row][rows["padding_mask"][row] == 1].tolist() == expected
            inside = rows["context_mask"][row] == 1
            assert rows["token_ids"][row][inside].tolist() == second
            for name, of_tokens in zip(("starts", "ends"), places, strict=True):
                assert rows[name][row][inside].tolist() == of_tokens[first : first + length]
                assert not rows[name][row][~inside].any()
            assert (rows["example"][row], rows["first_token"][row]) == (number, first)
            row += 1
    assert row == len(rows["example"])
    assert row > 12


@pytest.mark.parametrize("padding", ["longest", "fixed"])
def test_windows_are_traceable(padding):
    windows = windows_of(stride=10, padding=padding)
    questions, contexts = long_texts(6)
    dataset = tf.data.Dataset.from_tensor_slices((questions, contexts)).batch(4).map(windows)
    for batch, some in zip(dataset, (slice(0, 4), slice(4, 6)), strict=True):
        expected = windows(questions[some], contexts[some])
        for name, value in batch.items():
            assert np.array_equal(value, expected[name]), name
        if padding == "fixed":
            assert batch["token_ids"].shape[1] == LENGTH


def test_an_empty_context_has_a_window_and_an_empty_batch_none():
    rows = arrays_of(windows_of()(["the cat", "a"], ["", "a tree"]))
    assert rows["example"].tolist() == [0, 1]
    assert rows["context_mask"].sum(1).tolist() == [0, 2]
    assert len(windows_of()(tf.zeros([0], tf.string), tf.zeros([0], tf.string))["example"]) == 0


def test_a_long_question_is_cut_and_the_log_says_so_once(caplog):
    windows = windows_of(max_question_length=5)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            rows = arrays_of(windows(["the cat sat on a tree and", "a cat"], ["it was", "it"]))
    assert caplog.text.count("1 of the 2 questions") == 1
    assert "max_question_length" in caplog.text
    assert (rows["padding_mask"].sum(1) - rows["context_mask"].sum(1) - 3).tolist() == [5, 2]


# ---------------------------------------------------------------------------------------------
# Labels
# ---------------------------------------------------------------------------------------------


def naive_positions(row: dict, start: int, end: int, context: str) -> tuple[int, int]:
    """By run_squad.py's rule, from one row and the tokens of its whole context."""
    _, starts, ends = model_of().preprocessor.tokenizer.tokenize_with_offsets([context])
    starts, ends = starts[0].numpy(), ends[0].numpy()
    touched = [i for i in range(len(starts)) if ends[i] > start and starts[i] < end]
    inside = np.flatnonzero(row["context_mask"])
    first, last = (touched[i] - row["first_token"] for i in (0, -1))
    return (inside[0] + first, inside[0] + last) if first >= 0 and last < len(inside) else (0, 0)


def test_positions_are_the_answers_in_rows_that_show_all_of_it():
    rng = np.random.default_rng(1)
    questions, contexts = long_texts(20, seed=1)
    starts = [int(rng.integers(0, len(context))) for context in contexts]
    ends = [
        int(rng.integers(start + 1, min(start + 40, len(context)) + 1))
        for start, context in zip(starts, contexts, strict=True)
    ]
    for number, context in enumerate(contexts):  # a space alone has no token
        if not context[starts[number] : ends[number]].strip():
            starts[number] -= 1
    starts[3] = ends[3] = -1
    rows = windows_of(stride=11)(questions, contexts)
    found = [p.numpy() for p in answer_positions(rows, tf.constant(starts), tf.constant(ends))]
    rows = arrays_of(rows)
    for i, (number, first, last) in enumerate(zip(rows["example"], *found, strict=True)):
        row = {name: value[i] for name, value in rows.items()}
        expected = (0, 0)
        if starts[number] >= 0:
            expected = naive_positions(row, starts[number], ends[number], contexts[number])
        assert (first, last) == expected
    pointed = rows["example"][found[0] > 0]
    assert len(set(pointed)) > 10 and len(pointed) > len(set(pointed))
    assert (found[0] == 0).sum() > 10


# ---------------------------------------------------------------------------------------------
# Batches to train on
# ---------------------------------------------------------------------------------------------


def example(number: int, context: str, answer: str | None, start: int | None = None):
    if answer is None:
        return SquadExample(f"q{number}", "", f"{QUESTION} {number}", context, (), True)
    start = context.index(answer) if start is None else start
    answers = (Answer(answer, start), Answer(context[:1], 0))
    return SquadExample(f"q{number}", "", QUESTION, context, answers, False)


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(2)
    examples = []
    for number in range(60):
        context = text_of(rng, rng.integers(4, 60))
        words = context.split()
        start = rng.integers(0, len(words) - 1)
        examples.append(
            example(number, context, " ".join(words[start : start + 2]) if number % 3 else None)
        )
    return SquadSplit("2.0", tuple(examples))


def rows_of(batches) -> list[tuple]:
    """(ids, mask, start, end) of each row, without padding."""
    return [
        (*ids[mask == 1].tolist(), int(start), int(end))
        for inputs, labels in batches
        for ids, mask, start, end in zip(
            inputs["token_ids"].numpy(),
            inputs["padding_mask"].numpy(),
            labels["start_logits"].numpy(),
            labels["end_logits"].numpy(),
            strict=True,
        )
    ]


def test_batches_hold_every_window_once_an_epoch_with_the_first_answer(split):
    windows = windows_of(stride=12)
    dataset = question_batches(split, windows, Batching(8, seed=3)).dataset
    columns = ([e.question for e in split.examples], [e.context for e in split.examples])
    answers = [e.answers[0] if e.answers else None for e in split.examples]
    spans = [(a.start, a.end) if a else (-1, -1) for a in answers]
    rows = windows(*columns)
    positions = answer_positions(
        rows, *(tf.constant(column) for column in zip(*spans, strict=True))
    )
    expected = rows_of([(rows, dict(zip(("start_logits", "end_logits"), positions, strict=True)))])
    batches = list(dataset)
    assert len(batches) == dataset.cardinality() == -(-len(expected) // 8)
    assert sorted(rows_of(batches)) == sorted(expected)
    assert any(row[-1] for row in expected)
    lengths = [batch["token_ids"].shape[1] for batch, _ in batches]
    assert len(set(lengths)) > 1 and max(lengths) <= LENGTH
    assert sum(lengths) < len(lengths) * max(lengths)
    epoch = rows_of(dataset)
    assert epoch != rows_of(batches) and sorted(epoch) == sorted(expected)


# ---------------------------------------------------------------------------------------------
# Answers
# ---------------------------------------------------------------------------------------------


def selected_by_hand(model, question: str, context: str, stride: int = 128, **options):
    """`select_answers` from the model on each window alone."""
    rows = question_windows(model.preprocessor, stride=stride)([question], [context])
    outputs = model(model_inputs(rows))
    rows = arrays_of(rows)
    offsets = np.stack([rows["starts"], rows["ends"]], axis=-1)
    columns = (*outputs.values(), rows["context_mask"], offsets, rows["first_token"])
    windows = [Window(*map(np.asarray, row)) for row in zip(*columns, strict=True)]
    return select_answers(context, windows, **options)


def assert_same_selection(ours, theirs) -> None:
    assert [c.text for c in ours.candidates] == [c.text for c in theirs.candidates]
    for a, b in zip(ours.candidates, theirs.candidates, strict=True):
        assert (a.start, a.end) == (b.start, b.end)
        assert a.score == pytest.approx(b.score, abs=1e-5)
        assert a.probability == pytest.approx(b.probability, abs=1e-5)
    assert ours.no_answer_score == pytest.approx(theirs.no_answer_score, abs=1e-5)


@pytest.mark.parametrize("case", slow_but(FAMILY_CASES, *FAMILY_CASES[:2]))
def test_answer_is_what_the_logits_of_question_and_context_say(case):
    model = model_of(case)
    inputs = model.preprocessor(([QUESTION], [CONTEXT]))
    outputs = model(inputs)
    ids, starts, ends = (
        values[0].numpy()
        for values in model.preprocessor.tokenizer.tokenize_with_offsets([CONTEXT])
    )
    row = np.asarray(inputs["token_ids"])[0]
    # Families differ in where the second text stands, and in where the padding is.
    (begin,) = (i for i in range(len(row)) if np.array_equal(row[i : i + len(ids)], ids))
    mask, offsets = np.zeros(len(row), int), np.zeros((len(row), 2), int)
    mask[begin : begin + len(ids)] = 1
    offsets[begin : begin + len(ids)] = np.stack([starts, ends], axis=1)
    logits = outputs["start_logits"][0], outputs["end_logits"][0]
    no_answer = model.preprocessor.packer.layout.cls_position
    expected = select_answers(CONTEXT, [Window(*logits, mask, offsets, no_answer=no_answer)])
    answer = model.answer(QUESTION, CONTEXT, float("inf"))
    assert (answer.text, answer.start, answer.end) == (
        expected.best.text,
        expected.best.start,
        expected.best.end,
    )
    assert answer.text == CONTEXT[answer.start : answer.end]
    assert answer.score == pytest.approx(expected.best.probability, abs=1e-5)
    assert answer.no_answer_score == pytest.approx(expected.no_answer_score, abs=1e-5)
    assert [c.text for c in answer.candidates] == [c.text for c in expected.candidates]


def test_long_contexts_are_answered_from_all_their_windows():
    model = model_of()
    questions, contexts = long_texts(9, seed=4)
    options = {"n_best": 5, "max_answer_length": 6}
    found = answer_questions(model, questions, contexts, batch_size=4, stride=9, **options)
    for question, context, selection in zip(questions, contexts, found, strict=True):
        assert_same_selection(selection, selected_by_hand(model, question, context, 9, **options))
    assert any(selection.best.start > 200 for selection in found)


@pytest.mark.parametrize("n_best", [1, 3, 20])
def test_the_graph_chooses_what_select_answers_chooses(n_best):
    rng = np.random.default_rng(n_best)
    # Words that come again and again, so that spans have the same text; odd white space; one token.
    contexts = [
        *(text_of(rng, 90) for _ in range(6)),
        *("a cat " * rng.integers(1, 50) for _ in range(4)),
        "\u3000 the\u2003 \x1f é \x85 中 cat\n\n " * 9,
        "tree",
        "a " * 200,
    ]
    rows = windows_of(stride=11)([QUESTION] * len(contexts), contexts)
    logits = rng.normal(size=(2, *rows["token_ids"].shape)).astype("float32")
    logits[:, rng.random(len(rows["example"])) < 0.5] = logits[:, :1].round()  # draws
    logits[:, :, 0] += rng.normal(1, 3, len(rows["example"]))
    served = rows | dict(zip(("start_logits", "end_logits"), map(tf.constant, logits), strict=True))
    choose = tf.function(
        lambda texts, served: best_answers(texts, served, n_best=n_best, max_answer_length=5)
    )
    found = arrays_of(choose(tf.constant(contexts), served))
    rows = arrays_of(rows)
    offsets = np.stack([rows["starts"], rows["ends"]], axis=-1)
    for number, context in enumerate(contexts):
        columns = (*logits, rows["context_mask"], offsets, rows["first_token"])
        windows = [
            Window(*row)
            for row in zip(*(c[rows["example"] == number] for c in columns), strict=True)
        ]
        expected = select_answers(context, windows, n_best=n_best, max_answer_length=5)
        assert found["answer"][number].decode() == expected.best.text
        assert (found["start"][number], found["end"][number]) == (
            expected.best.start,
            expected.best.end,
        )
        assert found["score"][number] == pytest.approx(expected.best.probability, abs=1e-6)
        assert found["no_answer_score"][number] == pytest.approx(expected.no_answer_score, abs=1e-5)


def test_one_or_many_questions_are_answered():
    model = model_of()
    one = model.answer(QUESTION, CONTEXT)
    many = model.answer([QUESTION, "it"], CONTEXT)
    pairs = model.answer([QUESTION, "it"], [CONTEXT, "a tree"])
    assert [a.question for a in many] == [QUESTION, "it"] and {a.context for a in many} == {CONTEXT}
    assert many[0].text == pairs[0].text == one.text
    assert pairs[1].context == "a tree"
    assert [a.context for a in model.answer("it", [CONTEXT, "a tree"])] == [CONTEXT, "a tree"]


def test_the_threshold_decides_whether_there_is_an_answer():
    model = model_of()
    never, always = (model.answer(QUESTION, CONTEXT, t) for t in (float("-inf"), float("inf")))
    assert (never.text, never.start, never.end) == ("", None, None)
    assert always.text and never.no_answer_score == always.no_answer_score
    log_odds = np.log(never.score) - np.log(always.score)
    assert never.no_answer_score == pytest.approx(log_odds, abs=1e-4)
    surely = model.answer(QUESTION, CONTEXT, None)
    assert surely.text == always.text and surely.no_answer_score is None
    assert all(candidate.text for candidate in surely.candidates)
    just_below = never.no_answer_score - 1e-3
    assert model.answer(QUESTION, CONTEXT, just_below).text == ""
    assert model.answer(QUESTION, CONTEXT, just_below + 2e-3).text == always.text


def test_answers_print_their_place_in_the_context():
    model = model_of()
    context = " ".join(WORDS * 9)
    answer = model.answer(QUESTION, context, float("inf"), max_answer_length=2, stride=10)
    shown = str(answer)
    assert shown.startswith(f"{answer.text}  {answer.score:.3f}  ")
    assert f"»{answer.text}«" in shown and len(shown) < 120
    none = model.answer(QUESTION, context, float("-inf"), max_answer_length=2, stride=10)
    assert str(none).startswith(f"no answer  {none.score:.3f}") and answer.text in str(none)
    table = str(model.answer([QUESTION, "it"], CONTEXT))
    assert table.splitlines()[0] == QUESTION and len(table.splitlines()) == 4


# ---------------------------------------------------------------------------------------------
# fit and evaluate
# ---------------------------------------------------------------------------------------------


def answered(split, form) -> tuple[tuple[list[str], list[str]], list]:
    """Questions, contexts and their answers in one of the forms that people have them in."""
    x = ([e.question for e in split.examples], [e.context for e in split.examples])
    return x, [form(e.answers) for e in split.examples]


FORMS = {
    "tuples": lambda answers: (answers[0].text, answers[0].start) if answers else None,
    "empty texts": lambda answers: (answers[0].text, answers[0].start) if answers else ("", None),
    "columns": lambda answers: {
        "text": [a.text for a in answers],
        "answer_start": np.array([a.start for a in answers], int),
    },
    "records": lambda answers: [{"text": a.text, "answer_start": a.start} for a in answers],
    "one record": lambda answers: (
        {"text": answers[0].text, "answer_start": answers[0].start} if answers else ""
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_answers_become_the_labels_of_all_windows(form, split):
    x, answers = answered(split, FORMS[form])
    model = model_of()
    dataset = model.training_arguments(x, answers, batch_size=8)["x"].epoch()
    of_programs = question_batches(split, windows_of(), Batching(8)).dataset
    assert sorted(rows_of(dataset)) == sorted(rows_of(of_programs))


def test_fit_evaluate_and_validation_take_answers(split):
    x, answers = answered(split, FORMS["tuples"])
    model = load_task("question_answering", dropout=0.0)
    compile_for_task(model, bert_adamw(1e-3, total_steps=60))
    ((inputs, labels),) = model.training_arguments(x, answers, batch_size=999)["x"].epoch()
    expected = np.mean(
        [
            keras.losses.sparse_categorical_crossentropy(labels[n], logits, from_logits=True)
            for n, logits in model(inputs).items()
        ]
    )
    before = model.evaluate(x, answers, batch_size=999, verbose=0, return_dict=True)["loss"]
    assert before == pytest.approx(expected, abs=1e-5)
    options = {"batch_size": 8, "validation_batch_size": 999, "epochs": 2, "verbose": 0}
    history = model.fit(x, answers, validation_data=(x, answers), **options).history
    after = model.evaluate(x, answers, batch_size=999, verbose=0, return_dict=True)["loss"]
    assert history["val_loss"][-1] == pytest.approx(after, abs=1e-5)
    assert after < before - 0.1
    logits = model.predict(x, verbose=0)
    assert logits["start_logits"].shape[0] == len(answers)


@pytest.mark.parametrize("has_unanswerable", slow_but([False, True], True))
def test_evaluate_scores_the_answers_as_squads_programs_do(split, has_unanswerable):
    model = load_task("question_answering", dropout=0.0)
    model.run_eagerly = True
    x, answers = answered(split, FORMS["tuples"])
    rows = [i for i, a in enumerate(answers) if a is not None or has_unanswerable][:8]
    questions, contexts, answers = ([column[i] for i in rows] for column in (*x, answers))
    if not has_unanswerable:  # another right answer, which is the best span
        best = model.answer(questions[0], contexts[0], None)
        answers[0] = [answers[0], (best.text, best.start)]
    found = model.evaluate((questions, contexts), answers, verbose=0, return_dict=True)
    threshold = 0.0 if has_unanswerable else None
    texts = {i: a.text for i, a in enumerate(model.answer(questions, contexts, threshold))}
    references = {
        i: [text for text, _ in a] if isinstance(a, list) else [a[0]] if a else []
        for i, a in enumerate(answers)
    }
    wanted = (squad_v2 if has_unanswerable else squad_v1)(references, texts)
    assert found["f1"] == pytest.approx(wanted["f1"])
    assert found["exact_match"] == pytest.approx(
        wanted["exact" if has_unanswerable else "exact_match"]
    )
    assert has_unanswerable or found["exact_match"] >= 5
    history = model.fit(
        (questions, contexts), answers, validation_data=((questions, contexts), answers), verbose=0
    ).history
    after = model.evaluate((questions, contexts), answers, verbose=0, return_dict=True)
    assert history["val_f1"] == [pytest.approx(after["f1"])]
    assert "val_exact_match" in history and "f1" not in history
    listed = model.evaluate((questions, contexts), answers, verbose=0)
    assert listed[0] == pytest.approx(after["loss"]) and len(listed) == len(after)


def test_positions_are_scored_on_ids():
    labels = {"start_logits": [1, 2, 3, 1], "end_logits": [2, 2, 5, 1]}
    logits = {"start_logits": np.eye(8)[[1, 4, 4, 3]], "end_logits": np.eye(8)[[2, 5, 5, 2]]}
    # Equal, apart, two of three and two tokens, and an end before its start.
    assert position_scores(labels, logits) == pytest.approx({"exact_match": 25, "f1": 45})
    model = model_of()
    inputs = {"token_ids": np.arange(5, 17).reshape(2, 6)}
    found = model.predict(inputs, verbose=0)
    labels = {name: values.argmax(-1) for name, values in found.items()}
    scores = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert scores["exact_match"] == 100.0


def test_weights_of_questions_are_those_of_their_windows(split):
    x, answers = answered(split, FORMS["tuples"])
    weights = np.arange(60.0)
    data = model_of().training_arguments(x, answers, weights, batch_size=999)
    ((_, labels, found),) = data["x"].epoch()
    expected = weights[windows_of()(*x)["example"].numpy()]
    assert len(expected) > 60 and found.keys() == labels.keys()
    assert all(np.array_equal(of_output, expected) for of_output in found.values())


@pytest.fixture
def long_model(tmp_path):
    """A randomly initialised model that reads 1,024 tokens."""
    directory = tmp_path / "model"
    shutil.copytree(directory_of("modernbert/question_answering"), directory)
    settings = json.loads((directory / "config.json").read_text())
    settings["max_position_embeddings"] = 1024
    (directory / "config.json").write_text(json.dumps(settings))
    return bert_zoo.load(directory, "question_answering", max_length=1024)


def test_an_answer_beyond_token_512_is_in_the_only_window(long_model):
    context = "the city " * 130 + "bird" + " she" * 4
    start = context.index("bird")
    rows = question_windows(long_model.preprocessor)(["where"], [context])
    first, last = answer_positions(rows, [start], [start + 4])
    (ids,) = rows["token_ids"].numpy()
    assert first[0] > 512 and len(rows["example"]) == 1
    of_answer = long_model.preprocessor.tokenizer([" bird"]).to_list()[0]
    assert ids[int(first[0]) : int(last[0]) + 1].tolist() == of_answer


def test_a_batch_has_fewer_windows_where_these_are_long(long_model, monkeypatch):
    sizes = []

    def of_one_batch(model, questions, contexts, batch_size, **reading):
        sizes.append(batch_size)
        raise InterruptedError

    monkeypatch.setattr(question_answering, "_of_one_batch", of_one_batch)
    for length in (512, 1024):
        reader = long_model.preprocessor.with_options(sequence_length=length)
        long_model.preprocessor = reader
        with pytest.raises(InterruptedError):
            long_model.answer("where", "in the city")
    assert sizes == [32, 16]


def test_windows_share_no_more_than_an_answer_needs():
    lengths = {384: 128, 512: 128, 1024: 640, 4096: 3712}
    assert {length: usual_stride(length) for length in lengths} == lengths


# ---------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------


def answered_by(*arguments, **options):
    return model_of().answer(*arguments, **options)


def batches_of(*examples):
    return question_batches(SquadSplit("2.0", examples), windows_of(), Batching(2))


def placed(start: int, end: int):
    rows = windows_of()(["a cat", QUESTION], ["it was", "a tree and a house"])
    place = tf.function(lambda s, e: answer_positions(rows, s, e))
    return place(tf.constant([-1, start]), tf.constant([-1, end]))


def fitted(answers):
    model = model_of()
    steps = int(model.optimizer.iterations)
    try:
        model.fit((["it", "she"], ["the tree", "a big tree"]), answers, verbose=0)
    finally:
        assert model.optimizer.iterations == steps, "refused before training"


TREE = "on a tree it sat"


@refusals(
    (lambda: windows_of(stride=0), "stride is 0"),
    (lambda: windows_of(sequence_length=4), "sequence_length is 4, and 3"),
    (lambda: windows_of()(["a", "b"], ["c"]), "2 questions and 1 contexts"),
    (lambda: QuestionWindows(object(), sequence_length=8), "no method tokenize_with_offsets"),
    *(
        (lambda span=span: placed(*span), "lie within its context")
        for span in [(4, 4), (5, 3), (-2, 3), (50, 55), (-1, 3)]
    ),
    (
        lambda: batches_of(example(7, TREE, "a tree", start=4), example(8, "a", None)),
        "'q7' | at character 4 | instead of the answer 'a tree'",
    ),
    (lambda: batches_of(example(7, TREE, "a tree", start=99)), "'q7' | at character 99"),
    (
        lambda: batches_of(SquadExample("q1", "", "a", "b", None, None)),
        "'q1' were not read | read_squad",
    ),
    (batches_of, "no questions"),
    (lambda: answered_by(["a", None], CONTEXT), "question[1] is None"),
    (lambda: answered_by(QUESTION, 3), "context is 3"),
    (lambda: answered_by(["a", "b"], ["c", "d", "e"]), "2 questions, but 3 contexts"),
    (lambda: answer_questions(model_of(), ["a"], [""], ["x7"]), "context of question 'x7' is ''"),
    (lambda: answered_by(QUESTION, CONTEXT, float("nan")), "no_answer_threshold is nan"),
    (lambda: answered_by(QUESTION, CONTEXT, n_best=0), "n_best is 0"),
    (lambda: answered_by(QUESTION, CONTEXT, stride=-1), "stride is -1"),
    (
        lambda: fitted([("tree", 3), None]),
        "answers[0] | at character 3 | instead of the answer 'tree' | at 4",
    ),
    (lambda: fitted([None, ("bird", 0)]), "answers[1] | does not contain it. Correct the answer"),
    (
        lambda: fitted([None, {"text": ["a", "b"], "answer_start": [0]}]),
        "answers[1] | 2 texts | 1 starts",
    ),
    (lambda: fitted([None, {"text": "a"}]), "answers[1]: 'answer_start' is missing"),
    (lambda: fitted([None, "a tree"]), "answers[1] is 'a tree'. An answer must be (text, start)"),
    (lambda: fitted([None]), "2 questions, but 1 answers"),
    (
        lambda: fitted({"text": ["a", "b"], "answer_start": [0, 1]}),
        "a list with one for each question",
    ),
)
def test_what_cannot_be_answered_or_learned_is_named(call, words):
    assert_refused(call, words, (TypeError, ValueError, tf.errors.InvalidArgumentError))


def test_answers_that_no_window_shows_are_said(caplog):
    context = " ".join(WORDS * 4)
    with caplog.at_level(logging.WARNING):
        batches_of(example(9, context, context[: len(context) // 2]), example(8, "a", None))
    assert "1 of 2 questions" in caplog.text and "'q9'" in caplog.text
    assert model_of().answer([], []) == []
