"""Fine-tunes with bert_zoo, as tools/finetune.py --cores does: batches of similar length.

One of three that `tools/benchmark.py --what finetuning` sets beside each other; see worker.py.
"""

import keras
import numpy as np
import tensorflow as tf
import worker

import bert_zoo
from bert_zoo.cli.benchmarks.texts import TextBenchmark, accuracy
from bert_zoo.cli.finetuning import device_bucket
from bert_zoo.data.tables import LabelledTexts
from bert_zoo.models.cores import use_cores
from bert_zoo.training.compiling import compile_for_task
from bert_zoo.training.optimizers import WarmupThenLinearDecay, bert_adamw
from bert_zoo.training.presets import Recipe


def load(settings):
    use_cores(settings["threads"])
    keras.utils.set_random_seed(settings["seed"])
    model = bert_zoo.load(
        settings["model_dir"],
        task="classification",
        num_classes=settings["num_classes"],
        init=("classifier",),
        max_length=settings["max_length"],
    )
    model.preprocessor = model.preprocessor.with_options(bucket=device_bucket())
    return model


def encode(model, columns, settings):
    encoded = model.encoder(model.preprocessor(worker.one_or_pair(columns)), training=False)
    return np.hstack([encoded["sequence_output"][:, 0], encoded["pooled_output"]]).tolist()


def labelled(settings, split):
    part = settings[split]
    names = tuple(map(str, range(settings["num_classes"])))
    return LabelledTexts(worker.one_or_pair(part["columns"]), part["labels"], names)


def finetune(model, settings, watch):
    schedule = WarmupThenLinearDecay(
        settings["learning_rate"], settings["steps"], settings["warmup_steps"]
    )
    optimizer = bert_adamw(
        schedule,
        weight_decay=settings["weight_decay"],
        clip_norm=settings["clip_norm"],
        bias_correction=True,
    )
    compile_for_task(model, optimizer)
    task = TextBenchmark("glue", lambda split: labelled(settings, split), metric=accuracy)
    recipe = Recipe(batch_size=settings["batch_size"])
    batches = task.batches(model, recipe, settings["seed"])
    history = model.fit(batches.dataset, epochs=settings["epochs"], verbose=0)
    watch.end_of("training, with tokenization")
    logits = task.predict(model, task.data("measured"), recipe)
    predictions = logits.argmax(axis=-1).tolist()
    watch.end_of("evaluation, with tokenization")
    return {
        "predictions": predictions,
        "loss": history.history["loss"][-1],
        "steps": int(optimizer.iterations),
        "versions": {
            "bert_zoo": bert_zoo.__version__,
            "keras": keras.__version__,
            "tensorflow": tf.__version__,
        },
    }


if __name__ == "__main__":
    worker.serve(load, encode, finetune)
