"""Next sentence prediction: whether one text follows another."""

import keras

from bert_zoo.tasks.classification import Classifier


@keras.saving.register_keras_serializable("bert_zoo")
class NextSentenceClassifier(Classifier):
    """Predicts whether the second text of a pair follows the first, with a head from pretraining.

    Returns logits [batch, 2] of the classes "is_next" and "not_next".

    Source: Devlin et al. 2018 (arXiv:1810.04805), section 3.1; google-research/bert run_pretraining.py,
    get_next_sentence_output.
    """

    task = "next_sentence_prediction"
    use = None  # only used in pretraining
    problem_type = None
    fixed_labels = ("is_next", "not_next")

    def add_head(self, config):
        self.classifier = self.tuned_head(self.num_outputs, "next_sentence")
