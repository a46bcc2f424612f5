"""A text classifier and sentence vectors for scikit-learn's searches, cross-validation and pipelines."""

import math
import os
from typing import Any

import keras
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bert_zoo.loading.load import load
from bert_zoo.tasks.classification import Classifier
from bert_zoo.training import bert_adamw, compile_for_task


class TextClassifier(ClassifierMixin, BaseEstimator):
    """Fine-tunes a checkpoint on texts and their labels.

    Each call of `fit` starts again from the checkpoint, with a new head. Texts are a list, an array or
    a column of strings; labels are of any type that NumPy can sort.

    Args:
        checkpoint: a name or a directory, as for `bert_zoo.load`.
        learning_rate: the peak of `bert_adamw`'s schedule.
        epochs, batch_size: as for Keras's `fit`.
        random_state: seed for the head, dropout and the order of texts.
        verbose: as for Keras's `fit`.
        load_options: further keyword arguments of `bert_zoo.load`, such as {"max_length": 128}.

    Attributes:
        model_: the fitted Keras model; `bert_zoo.save(estimator.model_, directory)` keeps it.
        classes_: the labels, sorted.
    """

    def __init__(
        self,
        checkpoint: str | os.PathLike = "minilm_l6",
        *,
        learning_rate: float = 5e-5,
        epochs: int = 3,
        batch_size: int = 32,
        random_state: int | None = None,
        verbose: int = 0,
        load_options: dict[str, Any] | None = None,
    ):
        self.checkpoint = checkpoint
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.random_state = random_state
        self.verbose = verbose
        self.load_options = load_options

    def fit(self, X, y, sample_weight=None) -> "TextClassifier":
        """Trains on texts [N] and labels [N], optionally with weights [N]."""
        self.classes_, numbers = np.unique(np.asarray(y), return_inverse=True)
        if self.random_state is not None:
            keras.utils.set_random_seed(self.random_state)
        names = [str(label) for label in self.classes_]
        options = {"init": ("classifier",), **(self.load_options or {})}
        self.model_ = load(self.checkpoint, Classifier.task, labels=names, **options)
        steps = math.ceil(len(numbers) / self.batch_size) * self.epochs
        compile_for_task(self.model_, bert_adamw(self.learning_rate, total_steps=steps))
        training = {"batch_size": self.batch_size, "epochs": self.epochs, "verbose": self.verbose}
        self.model_.fit(X, numbers, sample_weight=sample_weight, **training)
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Returns each class's probability, float32 [N, classes]."""
        check_is_fitted(self)
        logits = self.model_.predict(X, batch_size=self.batch_size, verbose=0)
        return keras.ops.convert_to_numpy(keras.ops.softmax(logits))

    def predict(self, X) -> np.ndarray:
        """Returns each text's likeliest class, [N]."""
        numbers = self.predict_proba(X).argmax(axis=1)
        return self.classes_[numbers]


class TextVectors(TransformerMixin, BaseEstimator):
    """Turns texts into sentence vectors for scikit-learn's estimators, without training.

    Args:
        checkpoint: a name or a directory, as for `bert_zoo.load`.
        prompt, batch_size: as for `embed`.
        load_options: further keyword arguments of `bert_zoo.load`, such as {"truncate_dim": 64}.

    Attributes:
        model_: the loaded Keras model.
    """

    def __init__(
        self,
        checkpoint: str | os.PathLike = "minilm_l6",
        *,
        prompt: str | None = None,
        batch_size: int = 32,
        load_options: dict[str, Any] | None = None,
    ):
        self.checkpoint = checkpoint
        self.prompt = prompt
        self.batch_size = batch_size
        self.load_options = load_options

    def fit(self, X, y=None) -> "TextVectors":
        """Loads the checkpoint."""
        self.model_ = load(self.checkpoint, "embedding", **(self.load_options or {}))
        return self

    def transform(self, X) -> np.ndarray:
        """Returns sentence vectors, float32 [N, size]."""
        check_is_fitted(self, "model_")
        return self.model_.embed([*X], self.batch_size, self.prompt)
