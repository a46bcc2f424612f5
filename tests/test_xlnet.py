"""XLNet: two streams, orders, segments, memory, and how it fills in a text."""

import functools
import json
import re

import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same,
    assert_same_variables,
    directory_of,
    inputs_of,
    load_case,
    loaded,
    save_tf1,
    tensors_of,
)

import bert_zoo
from bert_zoo.data.questions import labelled_windows
from bert_zoo.tasks.answers_in_graph import best_answers
from bert_zoo.tasks.objectives import Draws, Permutations
from bert_zoo.tasks.pretraining import StatefulObjectives
from bert_zoo.tasks.question_answering import answer_questions
from bert_zoo.text.windows import answer_positions, model_inputs, question_windows
from bert_zoo.weights.tf1 import TF1Source

STREAMS = "xlnet/encoder_two_streams"
FILLED = "xlnet/masked_lm_targets"


def filled() -> tuple:
    """The model that fills in, its ids, and the positions that its targets stand at."""
    inputs = inputs_of(arrays(FILLED))
    ids = {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    return loaded(FILLED), ids, inputs["target_mapping"].argmax(2).astype("int32")


def test_positions_stand_for_the_mapping_and_the_mask():
    """Also where a row has fewer, and where the first token is one."""
    model, ids, positions = filled()
    logits = model({**ids, "mask_positions": positions})
    np.testing.assert_allclose(logits, arrays(FILLED)["logits"], atol=TOLERANCE)
    more = np.pad(positions, ((0, 0), (0, 1)))
    assert_same(model({**ids, "mask_positions": more})[:, :2], logits, TOLERANCE)


def test_a_target_does_not_see_its_token_nor_those_of_others():
    model, ids, positions = filled()
    logits = model({**ids, "mask_positions": positions})
    other = ids["token_ids"].copy()
    np.put_along_axis(other, positions, 20, axis=1)
    assert_same(model({**ids, "token_ids": other, "mask_positions": positions}), logits)
    other[:, 14] = 20  # <sep>
    found = model({**ids, "token_ids": other, "mask_positions": positions})
    assert np.abs(found - logits).max(2).min() > 1e-3
    # The content stream does see them.
    assert model({**ids, "token_ids": other}).shape == (*other.shape, 95)


def test_one_segment_is_as_none_but_for_a_memory_which_is_the_first():
    """What a query adds to all keys alike, the softmax does not show."""
    model, inputs = loaded("xlnet/encoder"), inputs_of(arrays("xlnet/encoder"))
    del inputs["segment_ids"]

    def within(segment: int) -> dict:
        return {**inputs, "segment_ids": np.full_like(inputs["token_ids"], segment)}

    assert_same(model(within(0)), model(within(4)))
    assert_same(model(within(0)), model(inputs), TOLERANCE)
    model = load_case("xlnet/encoder", mem_len=5)
    state = {name: model(inputs)[name] for name in ("memory", "memory_mask")}
    first, second = (model({**within(segment), **state}) for segment in (0, 1))
    assert_same(first, model({**inputs, **state}), TOLERANCE)
    difference = first["sequence_output"] - second["sequence_output"]
    assert np.abs(difference).max() > 0.01


def test_there_is_a_memory_only_where_it_has_a_length():
    inputs = inputs_of(arrays("xlnet/encoder"))
    without = loaded("xlnet/encoder")(inputs)
    assert set(without) == {"sequence_output"}
    found = load_case("xlnet/encoder", mem_len=5, reuse_len=9)(inputs)
    assert [layer.shape for layer in found["memory"]] == [(4, 5, 32)] * 2
    # The first nine tokens are kept, of which the row of six has none.
    np.testing.assert_array_equal(found["memory_mask"], inputs["padding_mask"][:, 4:9])
    assert_same(found["sequence_output"], without["sequence_output"], TOLERANCE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda io: {"perm_mask": io["token_ids"]}, "perm_mask has shape (4, 16) | ['batch', 'le"),
        (
            lambda io: {"target_mapping": io["target_mapping"] * 0 + 7},
            "target_mapping[0, 0, 0] is 7, outside of [0, 2)",
        ),
    ],
)
def test_wrong_shapes_are_named(change, words):
    inputs = inputs_of(arrays(STREAMS))
    assert_refused(lambda: loaded(STREAMS)({**inputs, **change(inputs)}), words)


def test_a_text_is_filled_in():
    model = loaded("xlnet/masked_lm")
    one, two = model.fill_mask("the cat <mask> on the <mask>", top_k=3)
    assert [len(one), len(two)] == [3, 3]
    assert sum(c.score for c in model.fill_mask("a <mask>", top_k=90)[0]) <= 1 + 1e-5
    (first,) = model.fill_mask("<mask> sat", targets=["▁the", "▁cat"])
    assert {c.token for c in first} == {"the", "cat"}
    # What stands in the place does not matter, so that another mark gives the same.
    (again,) = model.fill_mask("<mask> sat", targets=["▁the", "▁cat"])
    assert [c.score for c in first] == [c.score for c in again]


# zihangdai/xlnet modeling.py: Hugging Face's name of a tensor -> Google's.
LAYER = r"^transformer\.layer\.(\d+)\."
GOOGLE = (
    (r"^transformer\.word_embedding\.weight$", "word_embedding/lookup_table"),
    (r"^transformer\.mask_emb$", "mask_emb/mask_emb"),
    (LAYER + r"rel_attn\.([qkvor])$", r"layer_\1/rel_attn/\2/kernel"),
    (LAYER + r"(rel_attn|ff)\.layer_norm\.weight$", r"layer_\1/\2/LayerNorm/gamma"),
    (LAYER + r"(rel_attn|ff)\.layer_norm\.bias$", r"layer_\1/\2/LayerNorm/beta"),
    (LAYER + r"ff\.(layer_[12])\.weight$", r"layer_\1/ff/\2/kernel"),
    (LAYER + r"ff\.(layer_[12])\.bias$", r"layer_\1/ff/\2/bias"),
)
STACKED = LAYER + r"rel_attn\.(r_._bias|seg_embed)$"


def write_archive(directory, case: str, head: dict[str, str]) -> None:
    """Writes a case's weights as Google's program does; `head` has Google's names for the head's."""
    stacks, google = {}, {"global_step": np.int64(7)}
    for key, tensor in tensors_of(directory_of(case)).items():
        if found := re.match(STACKED, key):
            stacks.setdefault(found[2], {})[int(found[1])] = tensor
            continue
        for pattern, name in GOOGLE:
            if re.match(pattern, key):
                dense = "/ff/" in (renamed := re.sub(pattern, name, key)) and "kernel" in renamed
                google[f"model/transformer/{renamed}"] = tensor.T if dense else tensor
                break
        else:
            google[head[key]] = tensor.T
    for name, layers in stacks.items():
        google[f"model/transformer/{name}"] = np.stack([layers[i] for i in range(len(layers))])
    save_tf1(directory / "xlnet_model.ckpt", google)
    config = json.loads((directory_of(case) / "config.json").read_text())
    sizes = {name: config[name] for name in ("d_inner", "d_model", "n_head", "n_layer")}
    sizes |= {"d_head": 8, "n_token": config["vocab_size"]}
    config = {**sizes, "ff_activation": "gelu", "untie_r": True}
    (directory / "xlnet_config.json").write_text(json.dumps(config))


def test_googles_archive_is_the_same_model(tmp_path):
    """Kernels by heads, biases of all layers in one tensor, GELU by its tanh approximation."""
    case = "xlnet/masked_lm"
    write_archive(tmp_path, case, {"lm_loss.bias": "model/lm_loss/bias"})
    model = bert_zoo.load(tmp_path, "masked_lm")
    assert_same_variables(model, loaded(case))
    assert model.encoder.config.activation == "gelu_tanh"
    inputs = inputs_of(arrays(case))
    exact = bert_zoo.load(tmp_path, "masked_lm", activation="gelu")
    assert_same(exact(inputs), loaded(case)(inputs))


# zihangdai/xlnet function_builder.py: the heads of its fine-tuning programs.
DENSE = {"weight": "kernel", "bias": "bias"}
NORM = {"weight": "gamma", "bias": "beta"}
SUMMARY = {"sequence_summary.summary": ("model/sequnece_summary/summary", DENSE)}
BEAM_LAYERS = ("answer_class/dense_0", "answer_class/dense_1", "end_logits/dense_0")
BEAM_LAYERS += ("end_logits/dense_1", "start_logits/dense")
FINE_TUNED = {
    "classification": {
        **SUMMARY,
        "logits_proj": ("model/classification_mnli_matched/logit", DENSE),
    },
    "regression": {**SUMMARY, "logits_proj": ("model/regression_sts-b/logit", DENSE)},
    "multiple_choice": {**SUMMARY, "logits_proj": ("logits/dense", DENSE)},
    "beam_question_answering": {
        **{name.replace("/", "."): (name, DENSE) for name in BEAM_LAYERS},
        "end_logits.LayerNorm": ("end_logits/LayerNorm", NORM),
    },
}


@pytest.mark.parametrize("task", FINE_TUNED)
def test_what_googles_program_fine_tuned_is_read_with_its_head(task, tmp_path, caplog):
    """Such a checkpoint has no embedding for the second stream, which fine-tuning does not make."""
    names = {
        f"{module}.{ours}": f"{google}/{theirs}"
        for module, (google, variables) in FINE_TUNED[task].items()
        for ours, theirs in variables.items()
    }
    write_archive(tmp_path, f"xlnet/{task}", names)
    whole = bert_zoo.load(tmp_path, task)
    assert_same_variables(whole, loaded(f"xlnet/{task}"))
    assert not caplog.messages
    google = TF1Source(str(tmp_path / "xlnet_model.ckpt"))
    mask = "model/transformer/mask_emb/mask_emb"
    save_tf1(tmp_path / "xlnet_model.ckpt", {key: google[key] for key in google if key != mask})
    model, inputs = bert_zoo.load(tmp_path, task), inputs_of(arrays(f"xlnet/{task}"))
    assert_same(model(inputs), whole(inputs))
    (line,) = caplog.messages
    assert "no embedding of tokens to predict" in line
    assert not model.encoder.embeddings.mask_embedding.numpy().any()
    assert_refused(lambda: bert_zoo.load(tmp_path, "masked_lm"), "has no masked_lm")


def test_no_answer_is_the_last_token():
    """Whatever stands left of a row, in windows of a batch and in those that are padded anew."""

    model = loaded("xlnet/question_answering")
    windows = question_windows(model.preprocessor, sequence_length=30, stride=6)
    questions = ["was it red", "the cat"]
    contexts = ["the cat sat on the big red house, and she saw it in the city", "a bird"]
    answers = [(20, 26), (-1, -1)]  # "ig red", in the middle of words
    rows = windows(questions, contexts)
    starts, ends = answer_positions(rows, *map(list, zip(*answers, strict=True)), -1)
    width = rows["token_ids"].shape[1]
    shown = starts.numpy() != width - 1
    assert shown.any() and not shown.all() and not shown[-1]
    assert ((starts <= ends) & (rows["padding_mask"].numpy().argmax(1) <= starts)).numpy().all()
    spans = [
        (rows["starts"][row, start], rows["ends"][row, end])
        for row, (start, end) in enumerate(zip(starts, ends, strict=True))
        if shown[row]
    ]
    assert all(start <= 20 and end >= 26 for start, end in spans)
    table, batch = labelled_windows(windows, questions, contexts, answers, [0, 1])
    for number in range(len(table.lengths)):
        inputs, labels = batch(np.array([number]))
        shift = width - inputs["token_ids"].shape[1]
        assert labels["start_logits"] == starts[number] - shift
        assert labels["end_logits"] == ends[number] - shift
    found = model.answer(questions[0], contexts[0], n_best=5)
    assert found.no_answer_score is not None


# --- Answers whose ends are found given their starts -----------------------------------------------

BEAM = "xlnet/beam_question_answering"
CONTEXTS = ["the cat sat on the big red house, and she saw it in the city " * 3, "a bird", "a tree"]


def test_the_loss_of_given_starts_is_the_originals():
    """Half of the losses of starts, ends and answerability; gradients reach what each of them reads."""
    io = arrays(f"{BEAM}_training")
    model = load_case(f"{BEAM}_training", dropout=0.0)
    inputs = inputs_of(io)
    labels = {
        "start_logits": inputs.pop("start_positions"),
        "end_logits": io["end_positions"].astype("int32"),
    }
    last = np.full(4, inputs["token_ids"].shape[1] - 1, "int32")
    inputs, labels = model.as_trained(inputs, labels, last)
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        loss = model.compute_loss(x=inputs, y=labels, y_pred=outputs)
    assert float(loss) == pytest.approx(float(io["loss"]), abs=1e-5)
    variables = model.span.trainable_variables
    gradients = tape.gradient(loss, [v.value for v in variables])
    largest = {
        variable.path.partition("/span/")[2]: np.abs(np.asarray(gradient)).max()
        for variable, gradient in zip(variables, gradients, strict=True)
    }
    # What adds the same to the scores of all tokens changes no softmax.
    unread = {"start/bias", "end/bias", "end_norm/beta"}
    assert {name for name, value in largest.items() if value < 1e-3} == unread
    del inputs["start_positions"]
    loss = functools.partial(model.compute_loss, x=inputs, y=labels, y_pred=model(inputs))
    assert_refused(loss, "Add start_positions [batch] to the inputs")


@pytest.mark.parametrize("stride", [6, 128])
def test_a_beams_answers_are_the_same_in_and_out_of_the_graph(stride):
    """And the best of all windows' spans, whose starts their beams hold."""

    model = loaded(BEAM)
    questions = ["was it red", "the cat", "it"]
    options = {"n_best": 4, "max_answer_length": 6}
    cut = {"stride": stride, "sequence_length": 30 if stride == 6 else 512}
    found = answer_questions(model, questions, CONTEXTS, **cut, **options)
    some = answer_questions(model, questions, CONTEXTS, batch_size=2, **cut, **options)
    rows = question_windows(model.preprocessor, **cut)(questions, CONTEXTS)
    rows |= model(model_inputs(rows, model.columns_read))
    served = best_answers(tf.constant(CONTEXTS), rows, no_answer=-1, **options)
    rows = {name: np.asarray(value) for name, value in rows.items()}
    assert (len(rows["example"]) > 5) == (stride == 6)
    for number, (selection, again) in enumerate(zip(found, some, strict=True)):
        best = selection.best
        assert (best.text, best.start) == (again.best.text, again.best.start)
        assert served["answer"][number].numpy().decode() == best.text
        assert served["start"][number] == best.start and served["end"][number] == best.end
        assert float(served["score"][number]) == pytest.approx(best.probability, abs=1e-5)
        odds = rows["no_answer_logits"][rows["example"] == number].min()
        assert selection.no_answer_score == pytest.approx(odds, abs=1e-5)
        assert float(served["no_answer_score"][number]) == pytest.approx(odds, abs=1e-5)
        scores = [
            rows["start_logits"][row, start] + rows["end_logits"][row, end, beam]
            for row in np.flatnonzero(rows["example"] == number)
            for beam, start in enumerate(rows["start_positions"][row])
            for end in range(start, min(start + 6, rows["end_logits"].shape[1]))
            if rows["context_mask"][row, start] and rows["context_mask"][row, end]
        ]
        bound = max(scores)
        assert best.score <= bound + 1e-5
        if stride == 128:  # every token's only window
            assert best.score == pytest.approx(bound, abs=1e-5)


def test_a_beam_is_trained_on_answers():
    model = bert_zoo.load(directory_of("xlnet/encoder"), "beam_question_answering", dropout=0.0)
    questions, answers = ["was it red", "the cat"], [("the big red house", 15), None]
    losses = model.fit((questions, CONTEXTS[:2]), answers, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    found = model.evaluate((questions, CONTEXTS[:2]), answers, return_dict=True, verbose=0)
    assert 0 < found["loss"] < losses[-1]
    assert model.answer(*questions, None).text


# --- Rows that go on, in both directions -----------------------------------------------------------


def test_spans_of_rows_read_backwards_are_those_of_their_text():
    rng = np.random.default_rng(0)
    special = np.zeros((9, 32), bool)
    special[:, [20, 30, 31]] = True
    batch = {
        "token_ids": rng.integers(9, 90, (9, 32), "int32"),
        "padding_mask": np.ones((9, 32), "int32"),
        "special": special,
        "word_starts": (rng.random((9, 32)) < 0.6) & ~special,
    }
    objective = Permutations(parts=1)
    forward = objective.choose(batch, Draws(0, 0, np.arange(9)))
    turned = {name: values[:, ::-1] for name, values in batch.items()}
    turned["reads_backwards"] = np.ones(9, "int32")
    backward = objective.choose(turned, Draws(0, 0, np.arange(9)))
    assert forward.any(1).all()
    np.testing.assert_array_equal(backward[:, ::-1], forward)


def test_a_memory_goes_from_batch_to_batch_of_a_training():
    model = load_case("xlnet/masked_lm", "pretraining", mem_len=9, reuse_len=8, dropout=0.0)
    training = StatefulObjectives(model, 4, 2)
    rng = np.random.default_rng(0)
    state, steps = {}, []
    for number in range(3):
        inputs = {
            "token_ids": rng.integers(9, 90, (4, 16), "int32"),
            "mask_positions": np.tile(np.array([3, 9], "int32"), (4, 1)),
            "reads_backwards": np.array([0, 0, 1, 1], "int32"),
        }
        steps.append(inputs)
        starts = np.full(4, number == 0, "int32")
        found = training({**inputs, "starts_stream": starts}, training=True)
        rows = {**inputs, **state}
        encoded = model.encoder(model.encoder_inputs(rows))
        assert_same(found, model.head_outputs(encoded, rows), TOLERANCE)
        state = {name: encoded[name] for name in ("memory", "memory_mask")}
        if number:
            alone = model(inputs)["mlm_logits"]
            assert np.abs(np.asarray(alone - found["mlm_logits"])).max() > 1e-3
    again = training({**steps[0], "starts_stream": np.ones(4, "int32")}, training=True)
    assert_same(again, model(steps[0]), TOLERANCE)
    two_rows = {n: v[:2] for n, v in steps[0].items()} | {"starts_stream": np.ones(2)}
    words = "rows, but the memory has 4. Create StatefulObjectives"
    assert_refused(lambda: training(two_rows, training=True), words)
    assert_refused(lambda: StatefulObjectives(loaded("xlnet/masked_lm"), 4), "its mem_len is 0")
    assert len(tf.nest.flatten(training.training_memory.memory)) == 3
