"""Fine-tunes a checkpoint on GLUE, or on the messages that ship with bert_zoo.

python tools/finetune.py --model minilm_l6 --task messages
python tools/finetune.py --model minilm_l6 --task sst2 --data_dir ../shared/data/glue --seeds 3
"""

from pathlib import Path

from absl import app, flags, logging

from bert_zoo.data import glue

MESSAGES = "messages"
_MODEL = flags.DEFINE_string(
    "model", "minilm_l6", "A name of bert_zoo.list_models(), or a directory."
)
_TASK = flags.DEFINE_enum(
    "task", MESSAGES, [MESSAGES, *glue.TASKS], "The labelled texts to train on."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder with GLUE's folders; without it, TensorFlow Datasets."
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Run directory; runs/<model>-<task> if not set."
)
_SEEDS = flags.DEFINE_integer("seeds", 1, "Runs, each with a seed of its own.", lower_bound=1)
_FIRST_SEED = flags.DEFINE_integer("first_seed", 0, "The first of these seeds.", lower_bound=0)
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Passes over the data.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Texts a step.", lower_bound=1)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 5e-5, "The peak.", lower_bound=0)
_WARMUP = flags.DEFINE_float("warmup_proportion", 0.1, "Part of the steps that warms up.")
_MAX_LENGTH = flags.DEFINE_integer("max_length", 128, "Tokens a text is cut to.", lower_bound=3)
_BIAS_CORRECTION = flags.DEFINE_bool("bias_correction", False, "Adam's; BERT was trained without.")
_GROUP = flags.DEFINE_bool("group_by_length", True, "Batches of similar length, to save padding.")
_DTYPE = flags.DEFINE_string("dtype", "float32", "A Keras dtype policy, such as mixed_bfloat16.")
_EXPORT = flags.DEFINE_bool("export", True, "Whether to write the kept model as a SavedModel.")
NUM_SHOWN = 6


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    # TensorFlow's remarks on how it writes a SavedModel would bury what this program prints.
    logging.set_verbosity(logging.WARNING)
    import bert_zoo
    from bert_zoo.training import finetuning

    name = _TASK.value
    if name == MESSAGES:
        task = finetuning.messages_task()
    else:
        task = finetuning.glue_task(name, _DATA_DIR.value)
    recipe = finetuning.Recipe(
        epochs=_EPOCHS.value,
        batch_size=_BATCH_SIZE.value,
        learning_rate=_LEARNING_RATE.value,
        warmup_proportion=_WARMUP.value,
        max_length=_MAX_LENGTH.value,
        bias_correction=_BIAS_CORRECTION.value,
        group_by_length=_GROUP.value,
        dtype=_DTYPE.value,
    )
    model_name = Path(_MODEL.value).name
    output = Path(_OUTPUT_DIR.value or f"runs/{model_name}-{name}")
    runs = []
    for seed in range(_FIRST_SEED.value, _FIRST_SEED.value + _SEEDS.value):
        directory = output / f"seed_{seed}" if _SEEDS.value > 1 else output
        print(f"Fine-tuning {_MODEL.value} on {name}: {task.num_train:,} texts, seed {seed}.")
        runs.append(
            finetuning.finetune(
                _MODEL.value, task, recipe, directory, seed=seed, export=_EXPORT.value
            )
        )
    summary = finetuning.summarize(runs)
    if _SEEDS.value > 1:
        finetuning.write_json(output / "metrics.json", summary)
    print(f"\n{name}, {task.measured_on} set, {_SEEDS.value} seed(s):")
    for figure, values in summary.items():
        # What a test set calls the best epoch is no result.
        if isinstance(values, dict) and figure.startswith(("last", task.keeps)):
            spread = f" ± {values['sd']:.4f}" if _SEEDS.value > 1 else ""
            which, metric = figure.split(" ", maxsplit=1)
            print(f"  {f'{metric}, {which} epoch':<34} {values['mean']:.4f}{spread}")
    print(f"  {'seconds of training':<34} {', '.join(map(str, summary['seconds']))}")
    if task.label_names:
        show_predictions(bert_zoo.load(directory / "model"), task)
    print(
        f"\nThe run is in {output}. Ask it: python tools/predict.py --run {directory} 'some text'"
    )


def show_predictions(model, task) -> None:
    """Prints some measured texts, evenly spread, with their predicted and true labels."""
    texts, labels = task.measured
    rows = range(0, len(labels), max(1, len(labels) // NUM_SHOWN))[:NUM_SHOWN]
    if isinstance(texts, tuple):
        chosen = tuple([column[i] for i in rows] for column in texts)
    else:
        chosen = [texts[i] for i in rows]
    print("\nSome predictions (label, probability, text):")
    for i, line in zip(rows, str(model.classify(chosen)).split("\n"), strict=True):
        truth = task.label_names[labels[i]]
        wrong = "" if line.split()[0] == truth else f"   (wrong: {truth})"
        print(f"  {line}{wrong}")


if __name__ == "__main__":
    app.run(main)
