"""Fine-tunes with KerasHub's BertTextClassifier, which pads every text to one fixed length.

One of three that `tools/benchmark.py --what finetuning` sets beside each other; see worker.py.
"""

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import worker
from keras import ops


class WarmupThenLinear(keras.optimizers.schedules.LearningRateSchedule):
    """The Trainer's schedule, which Keras 3.15 lacks: up to the peak, then down to zero."""

    def __init__(self, peak: float, total_steps: int, warmup_steps: int):
        super().__init__()
        self.peak = peak
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = step / self.warmup_steps
        falling = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        return self.peak * ops.minimum(rising, falling)


def load(settings):
    tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(settings["threads"])
    keras.utils.set_random_seed(settings["seed"])
    model = keras_hub.models.BertTextClassifier.from_preset(
        settings["model_dir"], num_classes=settings["num_classes"]
    )
    # In its favour: its default is 512, and 256 by the configuration of this checkpoint.
    model.preprocessor.sequence_length = settings["max_length"]
    return model


def encode(model, columns, settings):
    encoded = model.backbone(model.preprocessor(worker.one_or_pair(columns)), training=False)
    return np.hstack([encoded["sequence_output"][:, 0], encoded["pooled_output"]]).tolist()


def finetune(model, settings, watch):
    optimizer = keras.optimizers.AdamW(
        WarmupThenLinear(settings["learning_rate"], settings["steps"], settings["warmup_steps"]),
        weight_decay=settings["weight_decay"],
        epsilon=settings["epsilon"],
        global_clipnorm=settings["clip_norm"],
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer=optimizer, jit_compile=settings["jit_compile"])
    train = settings["train"]
    # Its `fit` leaves lists of texts in their order; shuffling is the dataset's part.
    texts = worker.one_or_pair(train["columns"])
    batches = tf.data.Dataset.from_tensor_slices((texts, train["labels"]))
    batches = batches.shuffle(len(train["labels"])).batch(settings["batch_size"])
    history = model.fit(batches, epochs=settings["epochs"], shuffle=False, verbose=0)
    watch.end_of("training, with tokenization")
    logits = model.predict(
        worker.one_or_pair(settings["measured"]["columns"]),
        batch_size=settings["batch_size"],
        verbose=0,
    )
    predictions = logits.argmax(axis=-1).tolist()
    watch.end_of("evaluation, with tokenization")
    return {
        "predictions": predictions,
        "loss": history.history["loss"][-1],
        "steps": int(optimizer.iterations),
        "versions": {
            "keras_hub": keras_hub.__version__,
            "keras": keras.__version__,
            "tensorflow": tf.__version__,
        },
    }


if __name__ == "__main__":
    worker.serve(load, encode, finetune)
