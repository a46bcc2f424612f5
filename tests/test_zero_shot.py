"""Classes by name: scores of transformers' zero-shot pipeline, sentence encoders, SavedModels, and what is refused."""

import numpy as np
import pytest
from helpers import loaded

import bert_zoo

LABELS = ["dog", "the city", "red"]
TEXTS = ["the cat sat on the house", "a dog"]
THREE = ("contradiction", "neutral", "entailment")
REVERSED = ("entailment", "neutral", "contradiction")
IN_CAPITALS = ("CONTRADICTION", "ENTAILMENT", "NEUTRAL")
# transformers 5.16: pipeline("zero-shot-classification", model="tests/golden/{family}/classification")(
#     TEXTS, LABELS, multi_label=..., hypothesis_template="it is {}"), with the classes of config.json renamed.
# Family and classes -> scores that add up to 1, and with multi_label; the first of these is a single label's, too.
EXPECTED = {
    ("roberta", THREE): (
        [(0.287936, 0.486297, 0.225767), (0.554925, 0.176740, 0.268336)],
        [(0.300410, 0.324632, 0.177556), (0.206532, 0.077058, 0.149298)],
    ),
    ("roberta", REVERSED): (
        [(0.245800, 0.370858, 0.383342), (0.368991, 0.366378, 0.264631)],
        [(0.699591, 0.675368, 0.822444), (0.793468, 0.922942, 0.850702)],
    ),
    ("roberta", IN_CAPITALS): (
        [(0.325132, 0.365093, 0.309774), (0.450487, 0.202970, 0.346544)],
        [(0.052697, 0.039756, 0.032867), (0.031415, 0.014504, 0.033620)],
    ),
    ("deberta_v2", REVERSED): (
        [(0.196348, 0.593002, 0.210650), (0.341493, 0.373695, 0.284812)],
        [(0.111291, 0.288915, 0.128481), (0.103297, 0.086001, 0.093630)],
    ),
    ("deberta_v2", IN_CAPITALS): (
        [(0.303074, 0.455952, 0.240974), (0.326826, 0.387042, 0.286132)],
        [(0.712738, 0.552759, 0.647741), (0.826946, 0.837960, 0.833781)],
    ),
    ("distilbert", ("entailment", "not_entailment")): (
        [(0.385861, 0.270210, 0.343928), (0.401360, 0.337472, 0.261168)],
        [(0.163112, 0.131877, 0.142584), (0.110019, 0.056035, 0.084184)],
    ),
    ("distilbert", ("not_entailment", "entailment")): (
        [(0.339775, 0.305275, 0.354950), (0.275780, 0.482889, 0.241331)],
        [(0.836888, 0.868123, 0.857416), (0.889981, 0.943965, 0.915816)],
    ),
}


@pytest.fixture
def with_classes(monkeypatch):
    def rename(family: str, classes: tuple[str, ...]):
        model = loaded(f"{family}/classification")
        monkeypatch.setattr(model, "labels", classes)
        return model

    return rename


@pytest.mark.parametrize(("family", "classes"), EXPECTED)
def test_scores_are_those_of_transformers(family, classes, with_classes):
    model = with_classes(family, classes)
    together, alone = EXPECTED[family, classes]

    def assert_scores(found, expected, labels=LABELS):
        for row, scores in zip(found, expected, strict=True):
            assert row.scores == pytest.approx(dict(zip(labels, scores, strict=True)), abs=1e-5)

    options = {"labels": LABELS, "template": "it is {}"}
    found = model.classify(TEXTS, **options)
    assert_scores(found, together)
    assert [row.label for row in found] == [LABELS[np.argmax(scores)] for scores in together]
    found = model.classify(TEXTS, **options, multi_label=True)
    assert_scores(found, alone)
    assert [[*row.labels] for row in found] == [
        [name for score, name in sorted(zip(scores, LABELS, strict=True))[::-1] if score > 0.5]
        for scores in alone
    ]
    one = model.classify(TEXTS, labels="dog", template="it is {}")
    assert_scores(one, [scores[:1] for scores in alone], LABELS[:1])


def test_the_contradiction_is_found_by_its_name(with_classes):
    # transformers would take the first class.
    model = with_classes("roberta", ("neutral", "contradiction", "entailment"))
    found = model.classify(TEXTS, labels=LABELS, template="it is {}", multi_label=True)
    premises = [text for text in TEXTS for _ in LABELS]
    pairs = (premises, [f"it is {label}" for label in LABELS] * len(TEXTS))
    _, against, entails = np.exp(model.predict(pairs, verbose=0)).T
    expected = (entails / (entails + against)).reshape(len(TEXTS), -1)
    scores = [[*row.scores.values()] for row in found]
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_zero_shot_is_classify_with_labels():
    model = loaded("roberta/classification")
    found = model.zero_shot(TEXTS, "dog, the city,red", hypothesis="it is {}")
    assert found == model.classify(TEXTS, labels=LABELS, template="it is {}")


def test_a_text_that_is_too_long_is_cut_and_the_hypothesis_is_not(caplog):
    model = loaded("roberta/classification")
    long, _ = model.classify(["a dog " * 200, "a dog " * 10], labels=LABELS)
    assert "were truncated" in caplog.text
    assert len(set(long.scores.values())) == len(LABELS)


def test_a_sentence_encoder_compares_texts_and_labels_by_cosine():
    model = loaded("bert/encoder", "embedding")
    sentences = [f"it is {label}" for label in LABELS]
    cosines = bert_zoo.similarity(model.embed(TEXTS), model.embed(sentences))
    expected = np.exp(20 * cosines)
    expected /= expected.sum(axis=1, keepdims=True)
    found = model.classify(TEXTS, LABELS, template="it is {}", top_k=3)
    for row, scores in zip(found, expected, strict=True):
        assert [*row.scores.values()] == pytest.approx(scores, abs=1e-5)
    assert [row.label for row in found] == [LABELS[index] for index in cosines.argmax(axis=1)]


@pytest.mark.parametrize(
    ("case", "numbers"),
    [(("roberta/classification",), (3, 1)), (("bert/encoder", "embedding"), (3, 2))],
)
def test_a_saved_model_takes_labels(case, numbers, tmp_path):
    tf = pytest.importorskip("tensorflow")
    model = loaded(*case)
    bert_zoo.export(model, tmp_path / "saved", label_template="it is {}, {}")
    serve = tf.saved_model.load(str(tmp_path / "saved")).signatures["zero_shot"]
    texts = [*TEXTS, "a dog " * 200]
    for number in numbers:
        labels = LABELS[:number]
        served = serve(text=tf.constant(texts), labels=tf.constant(labels))
        options = {"labels": labels, "template": "it is {}, {}"}
        ways = {"scores": {}}
        if "label_scores" in served:
            ways["label_scores"] = {"multi_label": True}
        for name, further in ways.items():
            expected = [
                [*row.scores.values()] for row in model.classify(texts, **options, **further)
            ]
            np.testing.assert_allclose(served[name], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("case", "options", "message"),
    [
        ("bert/classification", {}, r"'entailment'.*roberta_large_mnli"),
        ("roberta/classification", {"labels": []}, r"labels is \[\]"),
        ("roberta/classification", {"labels": ["a", "a"]}, "duplicate"),
        ("roberta/classification", {"template": "it is"}, r"template is 'it is'.*\{\}"),
        ("roberta/classification", {"top_k": 0}, "top_k is 0"),
        ("roberta/classification", {"texts": (TEXTS, TEXTS)}, "single texts"),
        ("roberta/classification", {"labels": None, "multi_label": True}, "needs labels="),
        ("roberta/classification", {"labels": "a,,b"}, "non-empty names"),
        (("bert/encoder", "embedding"), {"labels": ["a"]}, "there is only one: 'a'"),
    ],
)
def test_what_does_not_fit_is_refused(case, options, message):
    with pytest.raises(ValueError, match=message):
        loaded(*[case] if isinstance(case, str) else case).classify(
            **{"texts": TEXTS, "labels": LABELS} | options
        )


@pytest.mark.parametrize(
    ("case", "options", "message"),
    [
        ("bert/question_answering", {}, "the task 'question_answering'"),
        ("bert/classification", {}, "'entailment'"),
        ("roberta/classification", {"label_template": "a"}, "label_template is 'a'"),
        ("roberta/classification", {"format": "onnx"}, "format is 'onnx'"),
        ("roberta/classification", {"text": False}, "text is False"),
    ],
)
def test_a_signature_of_labels_that_cannot_be_is_refused(case, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        bert_zoo.export(loaded(case), tmp_path / "saved", **{"label_template": "{}"} | options)
    assert not (tmp_path / "saved").exists()
