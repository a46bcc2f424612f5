"""Multiple choice: the text that fits a prompt best."""

from collections.abc import Mapping

import keras
from keras import ops

from bert_zoo.layers.backbones import SECOND_TEXT_IS_GLOBAL
from bert_zoo.models.base import Interface
from bert_zoo.models.inputs import check_rank
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import class_loss
from bert_zoo.models.task_model import SentenceModel, Use
from bert_zoo.text.columns import as_list, column_names


@keras.saving.register_keras_serializable("bert_zoo")
class MultipleChoice(SentenceModel):
    """Chooses which of several texts goes best with a prompt.

    Takes a pair of prompts, strings [batch], and choices, strings [batch, choices]; or ids
    [batch, choices, length]. Returns logits [batch, choices]. Labels are the numbers of the right choices.

    Source: Hugging Face BertForMultipleChoice (Google's repository has no such program).
    """

    task = "multiple_choice"
    use = Use(
        "multiple-choice",
        "chooses the text that best fits another",
        'model.predict((["A prompt."], [["One choice.", "Another."]]))',
    )
    ids_rank = 3
    output_activation = "softmax"
    num_outputs = 1
    pools_windows = False
    global_tokens = SECOND_TEXT_IS_GLOBAL
    interface = Interface(texts=(("text", 1), ("choices", 2)), pairs=False)

    def default_loss(self):
        return class_loss()

    def default_metrics(self):
        return ["accuracy"]

    def served_answers(self, outputs):
        import tensorflow as tf

        logits = outputs["logits"]
        choice = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {"probabilities": tf.nn.softmax(logits), "choice": choice}

    def encoder_inputs(self, inputs):
        token_ids = ops.convert_to_tensor(inputs["token_ids"])
        check_rank(token_ids, 3, "[batch, choices, length]")
        shape = ops.shape(token_ids)
        return {name: ops.reshape(value, (-1, shape[2])) for name, value in inputs.items()}

    def head_outputs(self, encoded, inputs, training=None):
        logits = super().head_outputs(encoded, inputs, training)
        return ops.reshape(logits, (-1, ops.shape(inputs["token_ids"])[1]))

    def printed_predictions(self, texts, second=None, **others):
        """The likeliest of the choices that follow a prompt."""
        prompt, *choices = texts
        if len(choices) < 2:
            raise ValueError("Give a prompt and at least two choices.")
        return choices[self.predict(([prompt], [choices]), verbose=0)[0].argmax()]

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        choices = inputs["token_ids"] if isinstance(inputs, Mapping) else inputs[1]
        number = choices.shape[1]
        return {} if number is None else {"": LabelRange(number, "the number of choices")}

    def as_text_rows(self, x):
        from bert_zoo.data.batches import stack
        from bert_zoo.text.batches import text_batch

        if not isinstance(x, tuple) or len(x) != 2:
            raise TypeError(
                "Multiple choice takes a pair (prompts, choices): strings [batch], and the same number of "
                "choices for each, strings [batch, choices]."
            )
        choices = x[1]
        if (columns := column_names(choices)) is not None:  # looping over tables yields names
            choices = zip(*(as_list(choices[name]) for name in columns), strict=True)
        choices = [text_batch(row, "choices") for row in choices]
        if len({len(row) for row in choices}) != 1:
            raise ValueError("Every prompt needs the same number of choices.")
        return text_batch(x[0], "prompts"), stack(choices)

    def texts_to_inputs(self, texts, preprocessor):
        from bert_zoo.data.batches import repeat, reshape, shape

        prompts, choices = texts
        number = shape(choices)[1]
        flat = preprocessor((repeat(prompts, number), reshape(choices, [-1])))
        return {name: reshape(ids, [-1, number, shape(ids)[1]]) for name, ids in flat.items()}
