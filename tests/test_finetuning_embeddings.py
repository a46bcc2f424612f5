"""Sentence vectors and rerankers by `bert_zoo finetune`, and classifiers on sentence vectors."""

import keras
import numpy as np
import pytest
from helpers import TEXTS, load_case

import bert_zoo
from bert_zoo.tasks import Classifier


# RoBERTa's own head has a layer that one on sentence vectors lacks.
@pytest.mark.parametrize("case", ["bert/encoder", "roberta/encoder"])
def test_a_classifier_on_sentence_vectors_comes_back_as_it_was_saved(case, tmp_path):
    embedder = load_case(case, "embedding")
    model = Classifier(embedder.encoder, labels=("a", "b", "c"), reads_vectors=True)
    kernel = model.classifier.dense.kernel
    kernel.assign(np.random.default_rng(0).normal(size=kernel.shape))
    logits = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(logits, embedder.embed(TEXTS) @ kernel.numpy(), atol=1e-5)
    bert_zoo.save(model, tmp_path / "model")
    loaded = bert_zoo.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), logits)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), logits)
    with pytest.raises(ValueError, match="no class of Hugging Face transformers"):
        bert_zoo.save(model, tmp_path / "hf", format="hf")
