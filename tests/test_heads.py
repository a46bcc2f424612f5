"""Attention heads: what they look at."""

import keras
import numpy as np
import pytest
from helpers import (
    ALL_GOLDEN,
    TEXTS,
    arrays,
    assert_refused,
    eager_steps,
    inputs_of,
    load_case,
    load_task,
    loaded,
    refusals,
    task_inputs,
    variables_of,
)

from bert_zoo.charts import attention_viewer
from bert_zoo.data.treebanks import ParsedSentence
from bert_zoo.probing import (
    attention_maps,
    head_distances,
    head_importance,
    head_patterns,
    head_relations,
    heads,
    prune_heads,
    pruning_curve,
)
from bert_zoo.probing.heads import SentenceAttention, attention_layers
from bert_zoo.text.preprocessor import NO_WORD

# As the program that made the golden file has them: words, heads, relations, sizes in pieces.
SENTENCES = (
    (
        "Ann 's big cat sat .",
        (4, 1, 4, 5, 0, 5),
        "poss possessive amod nsubj root punct",
        (1, 2, 1, 3, 1, 1),
    ),
    (
        "the men 's dog , it seems , ran",
        (2, 4, 2, 9, 4, 7, 4, 7, 0),
        "det poss possessive nsubj punct nsubj dep punct root",
        (1, 1, 2, 1, 1, 1, 3, 1, 2),
    ),
    ("go", (0,), "root", (2,)),
)
TREEBANK = [
    ParsedSentence(tuple(text.split()), tuple("X" * len(tree)), tree, tuple(relations.split()))
    for text, tree, relations, _ in SENTENCES
]
CLS, SEP = 1, 2
ATOL = 1e-6


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(ALL_GOLDEN / "attention_analysis.npz") as file:
        return dict(file)


def drawn():
    """The attention that the original's code was given, sentence by sentence."""
    for seed, (_, _, _, sizes) in enumerate(SENTENCES):
        word_ids = np.array([NO_WORD, *np.repeat(np.arange(len(sizes)), sizes), NO_WORD])
        token_ids = np.where(word_ids == NO_WORD, CLS, 3)
        token_ids[-1] = SEP
        shape = (12, 12, len(word_ids), len(word_ids))
        maps = np.random.RandomState(seed).gamma(0.3, size=shape) + 1e-9
        yield SentenceAttention(seed, token_ids, word_ids, maps / maps.sum(-1, keepdims=True))


@pytest.mark.parametrize("from_pieces", ["first", "mean"])
def test_relations_equal_the_original_codes(from_pieces, golden):
    """Syntax_Analysis.ipynb, and bpe_utils.py for words of several pieces."""
    labels = [sentence.relations for sentence in TREEBANK]
    found = heads._relations(drawn(), TREEBANK, labels, from_pieces)
    at = [found.labels.index(label) for label in golden["labels"]]
    np.testing.assert_allclose(
        found.accuracy[..., at], golden[f"{from_pieces}/heads"], atol=ATOL, rtol=0
    )
    np.testing.assert_allclose(found.offset_accuracy[:5, at], golden["offsets"], atol=ATOL, rtol=0)


def test_patterns_equal_the_original_codes(golden):
    """General_Analysis.ipynb, whose "right" is the next token."""
    words = [list(sentence.words) for sentence in TREEBANK]
    found = heads._patterns(drawn(), words, {"[CLS]": CLS, "[SEP]": SEP})
    names = {"left": "previous", "self": "same", "right": "next", "cls": "[CLS]", "sep": "[SEP]"}
    for theirs, ours in {**names, "punct": "periods and commas"}.items():
        expected = golden[f"shares/{theirs}"]
        np.testing.assert_allclose(found.shares[ours], expected, atol=ATOL, rtol=0, err_msg=ours)
    np.testing.assert_allclose(found.entropy, golden["entropy"], atol=ATOL, rtol=0)
    np.testing.assert_allclose(found.uniform_entropy, golden["uniform"], atol=ATOL, rtol=0)


def test_distances_equal_the_original_codes(golden):
    """head_distances.py, which gives sums over tokens."""
    found = heads._distances(drawn())
    tokens = sum(len(sentence.token_ids) for sentence in drawn())
    values = found.values.reshape(144, 144) * tokens
    np.testing.assert_allclose(values[::13], golden["distances"], atol=ATOL, rtol=0)
    np.testing.assert_allclose(values, values.T, atol=0, rtol=0)


def test_heads_in_the_plane_are_as_far_from_each_other_as_points_that_were_there():
    points = np.random.default_rng(0).normal(size=(6, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=-1)
    found = heads.HeadDistances(apart.reshape(2, 3, 2, 3), 1).coordinates()
    assert found.shape == (2, 3, 2)
    flat = found.reshape(6, 2)
    again = np.linalg.norm(flat[:, None] - flat, axis=-1)
    np.testing.assert_allclose(again, apart, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "xlnet"])
def test_maps_are_the_encoders_also_of_words(family):
    """XLNet's special tokens are the last ones, and its padding the first."""
    encoder = loaded(f"{family}/encoder")
    found = attention_maps(encoder, TEXTS[0])
    inputs = encoder.preprocessor([TEXTS[0]])
    length = len(found.tokens)
    for ours, theirs in zip(found.maps, encoder(inputs, internals=True)["attentions"], strict=True):
        whole = keras.ops.convert_to_numpy(theirs)[0]
        side = slice(-length, None) if family == "xlnet" else slice(length)
        np.testing.assert_allclose(ours, whole[:, side, side], atol=1e-6)
    words = attention_maps(encoder, TEXTS[0].split(), level="words")
    assert [word for word in words.tokens if word[0] not in "[<"] == TEXTS[0].split()
    np.testing.assert_allclose(words.maps.sum(-1), 1, atol=1e-5)
    assert attention_viewer([found, words]).startswith("<!DOCTYPE html>")


def test_relations_are_counted_by_relation_or_part_of_speech_and_long_sentences_left_out():
    encoder = loaded("bert/encoder")
    found = head_relations(encoder, TREEBANK, batch_size=2)
    assert found.labels[:3] == ("all", "nsubj", "root") and found.sentences == 3
    assert found.counts[:3].tolist() == [16, 3, 3]
    best = found.best("det")
    assert (best.count, best.offset, best.offset_accuracy) == (1, 1, 1)
    assert best.accuracy == found.accuracy[..., found.labels.index("det")].max()
    assert "root" not in [best.label for best in found.best_heads(least=1)]
    too_long = ParsedSentence(("a",) * 600, ("DT",) * 600, (0, *range(1, 600)), None)
    tagged = [ParsedSentence(("a", "cat"), ("DT", "NN"), (2, 0), None), too_long]
    found = head_relations(encoder, tagged)
    assert found.labels == ("all", "DT", "root") and found.counts.tolist() == [2, 1, 1]
    assert head_relations(encoder, tagged, labels=[["x", "y"], ["z"] * 600]).labels[1] == "x"
    found, short = head_relations(encoder, tagged), [["x", "y"], ["z"]]
    for call, words in (
        (lambda: head_relations(encoder, tagged, labels=short), "one label for each word"),
        (lambda: found.best("nsubj"), "No word has the label 'nsubj'; expected one of all, DT"),
        (lambda: head_patterns(encoder, [too_long.words, ()]), "no sentence that the model can"),
        (lambda: attention_maps(encoder, list(too_long.words)), "more than | tokens"),
    ):
        assert_refused(call, words)


@refusals(
    (lambda: head_distances(loaded("elmo/encoder"), TEXTS), "elmo has no attention maps"),
    (lambda: head_distances(loaded("longformer/encoder"), TEXTS), "longformer has no attention"),
    (lambda: prune_heads(loaded("elmo/encoder"), [(0, 0)]), "no attention heads to prune"),
    (
        lambda: prune_heads(load_case("bert/encoder"), [(3, 4)]),
        "no head (3, 4): layers are numbered 0 to 2, heads 0 to 3",
    ),
    (
        lambda: head_importance(loaded("bert/encoder"), task_inputs("encoder"), [0] * 4),
        "has no loss",
    ),
)
def test_an_encoder_without_heads_or_whole_maps_is_refused(call, words):
    assert_refused(call, words, ValueError)


def test_importance_is_the_derivative_to_a_factor_of_each_head():
    """Differences of losses with a little more and a little less of a head, of layer 1."""
    model, labels, step = load_task("classification"), np.array([0, 1]), 1e-2
    ids = {name: value[:2] for name, value in task_inputs("classification").items()}
    attention = attention_layers(model)[1]
    kernel, size = attention.output_dense.kernel, attention.head_size
    before, expected = keras.ops.convert_to_numpy(kernel), np.zeros(attention.num_heads)
    for row, head in np.ndindex(2, attention.num_heads):
        losses = []
        for factor in (1 + step, 1 - step):
            changed = before.copy()
            changed[head * size : (head + 1) * size] *= factor
            kernel.assign(changed)
            logits = model({name: value[row : row + 1] for name, value in ids.items()})
            losses.append(float(model.compute_loss(y=labels[row : row + 1], y_pred=logits)))
        expected[head] += abs(losses[0] - losses[1])
    kernel.assign(before)
    with eager_steps():
        found = head_importance(model, ids, labels)
    np.testing.assert_allclose(found[1], expected / np.linalg.norm(expected), atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)


def test_a_pruned_head_is_one_whose_values_are_zeros():
    pruned, other = load_case("bert/encoder"), load_case("bert/encoder")
    prune_heads(pruned, [(1, 2), (0, 0)])
    for layer, head in ((1, 2), (0, 0)):
        attention = attention_layers(other)[layer]
        for variable in (attention.qkv.kernel, attention.qkv.bias):
            value = keras.ops.convert_to_numpy(variable).copy()
            start = 2 * attention.inner_size + head * attention.head_size
            value[..., start : start + attention.head_size] = 0
            variable.assign(value)
    ids = inputs_of(arrays("bert/encoder"))
    ours, theirs = (model(ids)["sequence_output"] for model in (pruned, other))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("family", ["albert", "deberta", "t5", "transformer_xl"])
def test_without_any_head_a_token_does_not_see_the_others(family):
    name = "transformer_xl/hf_encoder" if family == "transformer_xl" else f"{family}/encoder"
    encoder = load_case(name)
    layers = attention_layers(encoder)
    ids = np.arange(5, 13, dtype="int32")[None]
    changed = ids.copy()
    changed[0, :4] += 20

    def last_tokens():
        rows = (encoder({"token_ids": row})["sequence_output"][:, -2:] for row in (ids, changed))
        return [keras.ops.convert_to_numpy(row) for row in rows]

    before = last_tokens()
    assert np.abs(before[0] - before[1]).max() > 1e-4
    prune_heads(encoder, np.ndindex(len(layers), layers[0].num_heads))
    np.testing.assert_array_equal(*last_tokens())


def test_the_least_important_heads_are_pruned_first_and_all_are_there_again():
    model = load_task("classification")
    data = (task_inputs("classification"), np.arange(4) % 3)
    before = variables_of(model)
    importance = np.arange(12).reshape(3, 4)[::-1]
    with eager_steps():
        curve = pruning_curve(model, *data, importance=importance, fractions=(0, 0.5))
        assert curve.heads[:5] == ((2, 0), (2, 1), (2, 2), (2, 3), (1, 0))
        assert curve.pruned.tolist() == [0, 6] and str(curve).splitlines()[2].split()[1] == "50%"
        for path, value in variables_of(model).items():
            np.testing.assert_array_equal(value, before[path], err_msg=path)
        prune_heads(model, curve.heads[:6])
        halved = model.evaluate(*data, verbose=0, return_dict=True)["loss"]
    np.testing.assert_allclose(curve.scores["loss"][1], halved, rtol=1e-6)
    assert abs(curve.scores["loss"][0] - halved) > 1e-3
