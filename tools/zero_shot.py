"""Shows what translations are worth to XLM: a classifier that learned in English, in German and French.

    python tools/zero_shot.py --parallel_dir ../shared/data/parallel --output_dir runs/zero_shot

For each seed two models begin from nothing on the same captions in three languages, one with masked tokens
alone (`--rows languages`), one with translations too (`--rows translations`), on one vocabulary. Each
learns to tell what an English caption is about, and is then asked about captions that nobody trained on,
in each language. A caption's label is told by words of its English translation (`LABELS`), and captions
with words of several labels, or of none, are left out.

The table of means and standard deviations is printed. What is there already is not trained again, so that
processes can share the work (`--seeds 1 --rows languages`), once there is a vocabulary.
"""

import collections
import gzip
import json
import pathlib
import re
import statistics

from absl import app, flags, logging

from bert_zoo.weights.files import write_json

LANGUAGES = ("en", "de", "fr")
# Label -> words of English that speak for it.
LABELS = {
    "animal": "dog dogs puppy horse horses bird birds cat cow cows sheep",
    "sport": "soccer football baseball basketball tennis hockey race racing racer surfer surfing surfboard "
    "skateboard skateboarder skateboarding skier skiing snowboarder swimmer gymnast wrestling rugby golf",
    "music": "guitar band music musician musicians singing sings singer drum drums piano microphone violin",
    "food": "food eating eat eats cooking cook kitchen meal restaurant lunch dinner drinking drink beer",
    "work": "construction worker workers working hat shop store market office desk tools ladder hammer",
}
ROWS = {"languages": "masked tokens", "translations": "masked tokens and translations"}
_PARALLEL_DIR = flags.DEFINE_string("parallel_dir", None, "Folder with train.en.gz and the like.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/zero_shot", "For the runs and the results.")
_STEPS = flags.DEFINE_integer("steps", 1500, "Updates of each pretraining.", lower_bound=1)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 2e-3, "The highest of the pretraining.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 64, "Rows of an update.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("length", 48, "Tokens of a row.", lower_bound=16)
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Of the classifier.", lower_bound=1)
_SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Of the models of each kind.")
_ROWS = flags.DEFINE_list("rows", list(ROWS), "What models are trained on.")
_VOCABULARY_SIZE = 6000
flags.mark_flag_as_required("parallel_dir")


def captions(part: str) -> dict[str, list[str]]:
    """The lines of a part in each language."""
    found = {}
    for language in LANGUAGES:
        path = pathlib.Path(_PARALLEL_DIR.value) / f"{part}.{language}.gz"
        found[language] = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    return found


def labelled(part: str) -> tuple[dict[str, list[str]], list[int]]:
    """The lines with a label, in each language, and the labels' numbers."""
    words = [(number, set(text.split())) for number, text in enumerate(LABELS.values())]
    lines, labels, kept = captions(part), [], []
    for place, line in enumerate(lines["en"]):
        said = set(re.findall("[a-z]+", line.lower()))
        numbers = [number for number, meant in words if said & meant]
        if len(numbers) == 1:
            kept.append(place)
            labels.append(numbers[0])
    return {language: [of[i] for i in kept] for language, of in lines.items()}, labels


def pretrained(
    rows: str, seed: int, output: pathlib.Path, vocabulary: pathlib.Path
) -> pathlib.Path:
    """The directory of a model that is trained, or was."""
    from bert_zoo.cli import pretraining
    from bert_zoo.registry import registry
    from bert_zoo.text import preprocessor_from_dir

    family = registry().families["xlm"]
    preset, size = family.pretraining_preset.of_size("nano")
    config = {**size.config, "num_languages": len(LANGUAGES)}
    settings = pretraining.Settings(
        preset.recipe.replace(
            total_steps=_STEPS.value,
            batch_size=_BATCH_SIZE.value,
            learning_rate=_LEARNING_RATE.value,
            warmup_steps=None,
            warmup_proportion=0.1,
        ),
        rows=rows,
        phases=((_LENGTH.value, 1.0),),
        starts_from_frequencies=True,
        languages=LANGUAGES,
    )
    directory = output / f"{rows}_{seed}"
    preprocessor = preprocessor_from_dir(
        vocabulary, family.name, sequence_length=config["max_positions"]
    )
    pretraining.pretrain(
        "xlm_nano",
        lambda: pretraining.new_model(family, config, preprocessor),
        settings,
        [f"{_PARALLEL_DIR.value}/train.{language}.gz" for language in LANGUAGES],
        directory,
        held_out=0.02,
        seed=seed,
    )
    return directory / "model"


def accuracies(model_dir: pathlib.Path, seed: int) -> dict[str, float]:
    """Of a classifier that learned in English, on test captions by language."""
    import keras

    import bert_zoo

    keras.utils.set_random_seed(seed)
    train, train_labels = labelled("train")
    test, test_labels = labelled("test_2016_flickr")
    model = bert_zoo.load(
        model_dir, task="classification", labels=[*LABELS], max_length=_LENGTH.value
    )
    # English alone would move its own tokens away from those of the other languages.
    bert_zoo.training.freeze(model, embeddings=True)
    model.compile(
        optimizer=keras.optimizers.Adam(5e-4),
        loss=model.default_loss(),
        metrics=model.default_metrics(),
    )
    model.fit(train["en"], train_labels, batch_size=32, epochs=_EPOCHS.value, verbose=0)
    english, found = model.preprocessor, {}
    for language in LANGUAGES:
        model.preprocessor = english.in_language(language)
        found[language] = float(
            model.evaluate(test[language], test_labels, return_dict=True, verbose=0)["accuracy"]
        )
    return found


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    from bert_zoo.data.subword_vocabularies import train_vocabulary

    output = pathlib.Path(_OUTPUT_DIR.value)
    output.mkdir(parents=True, exist_ok=True)
    vocabulary = output / "vocabulary"
    if not vocabulary.is_dir():
        lines = captions("train")
        texts = (lines[language][i] for i in range(len(lines["en"])) for language in LANGUAGES)
        train_vocabulary(
            texts,
            "word_bpe",
            vocabulary,
            vocab_size=_VOCABULARY_SIZE,
            lowercase=True,
            languages=LANGUAGES,
        )
    results = {rows: [] for rows in _ROWS.value}
    for seed in map(int, _SEEDS.value):
        for rows, found in results.items():
            path = output / f"{rows}_{seed}" / "accuracies.json"
            if not path.is_file():
                write_json(path, accuracies(pretrained(rows, seed, output, vocabulary), seed))
            found.append(json.loads(path.read_text()))
            logging.info("%s, seed %d: %s", ROWS[rows], seed, found[-1])
    _, labels = labelled("test_2016_flickr")
    most = collections.Counter(labels).most_common(1)[0][1] / len(labels)
    print(f"{len(labels)} test captions; the commonest label is right for {most:.1%}.")
    for rows, found in results.items():
        cells = [summary([of[language] for of in found]) for language in LANGUAGES]
        print(f"| {ROWS[rows]} | {' | '.join(cells)} |")


def summary(values: list[float]) -> str:
    """Mean and standard deviation, and what they are of."""
    deviation = f" ± {statistics.stdev(values):.1%}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1%}{deviation} ({', '.join(f'{v:.1%}' for v in values)})"


if __name__ == "__main__":
    app.run(main)
