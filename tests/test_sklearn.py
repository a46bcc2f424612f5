"""The estimator does what scikit-learn asks of one."""

import pickle

import numpy as np
import pytest
from helpers import GOLDEN, TEXTS

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from bert_zoo.sklearn import TextClassifier, TextVectors

pytestmark = pytest.mark.usefixtures("eager")
CHECKPOINT = str(GOLDEN / "encoder")
TRAIN, ANIMALS = ["the cat sat", "a bird"] * 4, ["cat", "bird"] * 4
LEARNS = {"learning_rate": 3e-3, "epochs": 4, "load_options": {"dropout": 0.0}, "random_state": 0}


def test_a_fitted_estimator_answers_with_the_labels_that_it_was_given():
    estimator = clone(TextClassifier(CHECKPOINT, **LEARNS)).set_params(batch_size=2)
    estimator.fit(np.array(TRAIN, object), ANIMALS)
    assert estimator.classes_.tolist() == ["bird", "cat"] == list(estimator.model_.labels)
    assert estimator.score(TRAIN, ANIMALS) == 1
    probabilities = estimator.predict_proba(TRAIN)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert (probabilities.argmax(axis=1) == np.resize([1, 0], len(TRAIN))).all()
    assert estimator.predict(["a bird"]).tolist() == ["bird"]


def test_an_estimator_is_copied_by_its_parameters():
    pd, options = pytest.importorskip("pandas"), {"dropout": 0.0}
    estimator = TextClassifier(CHECKPOINT, epochs=1, load_options=options)
    again = clone(pickle.loads(pickle.dumps(estimator)))
    assert again.get_params() == estimator.get_params()
    with pytest.raises(ValueError, match="not fitted"):
        again.predict(TEXTS)
    again.fit(pd.Series(TEXTS, index=[4, 5, 6]), np.array([7, 3, 7]), sample_weight=[1.0, 0.5, 0.0])
    assert again.classes_.tolist() == [3, 7] and again.model_.labels == ("3", "7")
    assert again.model_.encoder.config.hidden_dropout == 0


@pytest.mark.slow
def test_searches_validation_and_pipelines_train_it():
    pipeline = make_pipeline(
        FunctionTransformer(lambda texts: [text.lower() for text in texts]),
        # A half of the texts has two batches.
        TextClassifier(CHECKPOINT, batch_size=2, **LEARNS | {"epochs": 8}),
    )
    rates = {"textclassifier__learning_rate": [1e-9, 3e-3]}
    search = GridSearchCV(pipeline, rates, cv=2).fit([text.upper() for text in TRAIN], ANIMALS)
    assert search.best_params_ == {"textclassifier__learning_rate": 3e-3}
    assert search.best_score_ == 1 and search.predict(["A BIRD"]).tolist() == ["bird"]
    scores = cross_val_score(
        search.best_estimator_, np.array(TRAIN), ANIMALS, cv=2, scoring="roc_auc"
    )
    np.testing.assert_allclose(scores, 1)


def test_vectors_are_what_a_pipeline_begins_with():
    vectors = TextVectors(CHECKPOINT, prompt="the ", load_options={"truncate_dim": 6})
    pipeline = clone(make_pipeline(vectors, LogisticRegression())).fit(np.array(TRAIN), ANIMALS)
    assert pipeline.predict(["a bird"]).tolist() == ["bird"]
    found = pipeline[0].transform(TRAIN)
    np.testing.assert_array_equal(found, pipeline[0].model_.embed(TRAIN, prompt="the "))
    assert found.shape == (8, 6) and pipeline[1].n_features_in_ == 6
