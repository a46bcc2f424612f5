"""Makes the folder of a checkpoint of this project from the run that trained it.

bert_zoo pretrain --recipe bert --size nano --text ... --output_dir runs/nano/bert
python tools/nano_checkpoint.py --run runs/nano/bert --name bert_nano

copies the run's model to checkpoints/bert_nano with float16 weights, writes its card (README.md) from
the run's card, and prints the fields of its declaration on the family's page. It keeps "Fine-tuned" of
an earlier card of the same weights. The run may also be one of `bert_zoo distill`: then weights are rounded
to int8, and "How it was made" is kept.
"""

import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

_RUN = flags.DEFINE_string("run", None, "Directory of a finished pretraining.", required=True)
_NAME = flags.DEFINE_string("name", None, "Name of the checkpoint, with its tag.", required=True)

Tensors = Mapping[str, np.ndarray]
# (Float32 tensors by name, metadata) -> the tensors and metadata that are stored.
Rounding = Callable[[Tensors, Mapping[str, str]], tuple[Tensors, Mapping[str, str]]]

CHECKPOINTS = Path(__file__).resolve().parents[1] / "checkpoints"
WEIGHTS, CARD, CURVE = "model.safetensors", "README.md", "learning_curve.png"
# The unigram model's log-probabilities: float16 [vocabulary].
FREQUENCIES = "log_frequencies.npy"
# File -> description and licence.
TEXTS = {
    "movie_reviews.txt": (
        "film reviews, polarity dataset 2.0 (Pang and Lee 2004), from NLTK",
        "CC BY 4.0",
    ),
    "wikitext2_part.txt": (
        "Wikipedia articles, the validation part of WikiText-2 (Merity et al. 2016)",
        "CC BY-SA 3.0",
    ),
}
FINE_TUNED, MADE = "## Fine-tuned", "## How it was made"
# Examples on the card: our own sentences, since no training text may go into the project.
MASKED = (
    "It is one of the best {mask} of the year.",
    "He did not know what to {mask}.",
    "The government said it will {mask} the water supply.",
    "She looked at him and {mask} her head.",
    "The story is about a young {mask} who falls in love.",
    "There is no {mask} that the plan will work.",
)
PROMPT = "The film is about"
SENTINELS = ("<extra_id_0>", "<extra_id_1>")
# A word used twice as a verb and twice as a noun.
WORD = "play"
SENSES = (
    "the children play in the garden .",
    "he wants to play the part of a soldier .",
    "the play was written by a young woman .",
    "she saw the play at a small theatre .",
)
NOT_MEASURED = "\n\nNot measured.\n"
LIMITS = """## Limits

Use it for tests, examples and first tries: it has trained weights, heads and a vocabulary, loads fast and needs no network.
Do not use it for results. It was trained on a few million words of English and knows next to nothing of the world; for real work, start
from `minilm_l6` or `bert_tiny`. Its predictions reflect the opinions and gaps of the texts above.

The weights are licensed under Apache-2.0, like this project. The texts are not part of it."""
# Names of losses in a run -> on the card.
LOSSES = {
    "held out": "held-out",
    "mlm_logits_loss": "masked-token loss",
    "nsp_logits_loss": "next-sentence loss",
    "sop_logits_loss": "sentence-order loss",
    "sbo_logits_loss": "span-boundary loss",
    "discriminator_logits_loss": "replaced-token loss",
}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def copy_run(run: Path, directory: Path, rounded: Rounding) -> None:
    """Copies a run's model and curve, with the weights and metadata that `rounded` returns."""
    from bert_zoo.weights.safetensors_io import write_safetensors
    from bert_zoo.weights.sources import open_weights

    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(run / "model", directory)
    weights = open_weights(directory)
    stored = rounded({name: weights[name] for name in weights}, weights.metadata)
    write_safetensors(directory / WEIGHTS, *stored)
    shutil.copy(run / CURVE, directory)


def as_float16(tensors: Tensors, metadata: Mapping[str, str]) -> tuple[Tensors, Mapping[str, str]]:
    return {name: values.astype(np.float16) for name, values in tensors.items()}, metadata


def copy_frequencies(run: Path, directory: Path) -> None:
    """Writes the logarithm of each token's frequency in a run's text."""
    counts = np.load(run / "tokens" / "train" / "counts.npy")
    frequencies = np.log((counts + 1.0) / (counts.sum() + len(counts)))
    np.save(directory / FREQUENCIES, frequencies.astype(np.float16))


def shown(run: Path, directory: Path) -> tuple[str, float]:
    """Returns a model's predictions, in Markdown, and their largest difference from those of the run's model."""
    import bert_zoo

    task = read_json(directory / "bert_zoo.json")["task"]
    if task == "encoder":
        stored, trained = (senses(bert_zoo.load(path)) for path in (directory, run / "model"))
        unit = stored / np.linalg.norm(stored, axis=1, keepdims=True)
        rows = [
            (text, *(f"{cosine:.2f}" for cosine in cosines))
            for text, cosines in zip(SENSES, unit @ unit.T, strict=True)
        ]
        text = f"Cosine similarities of its vectors for \u201c{WORD}\u201d; the columns are numbered like the rows:\n\n"
        heads = ["text", *map(str, range(1, len(SENSES) + 1))]
        return text + table(heads, rows), float(np.abs(stored - trained).max())
    if task == "causal_lm":
        stored, trained = (bert_zoo.load(path, task=task) for path in (directory, run / "model"))
        found = [np.exp(model.score([PROMPT])[0].log_probs) for model in (stored, trained)]
        written = stored.generate(PROMPT, max_new_tokens=40, sampler="top_k", seed=0)
        return f"It continues \u201c{PROMPT}\u201d:\n\n> {written}", float(
            np.ptp(found, axis=0).max()
        )
    if task == "text_to_text":
        stored, trained = (bert_zoo.load(path, task=task) for path in (directory, run / "model"))
        sources = [text.format(mask=SENTINELS[0]) for text in MASKED]
        targets = stored.generate(sources, max_new_tokens=8, sentinels=True)
        rows = [(s, filled_in(target)) for s, target in zip(sources, targets, strict=True)]
        scored = [model.score(sources, targets) for model in (stored, trained)]
        found = [np.exp(np.concatenate([score.log_probs for score in of])) for of in scored]
        return table(["text", "what it fills in"], rows), float(np.ptp(found, axis=0).max())
    stored, trained = (bert_zoo.load(path, task="masked_lm") for path in (directory, run / "model"))
    tokenizer = stored.preprocessor.tokenizer
    texts = [text.format(mask=tokenizer.id_to_token(tokenizer.mask_id)) for text in MASKED]
    rows, difference = [], 0.0
    for text in texts:
        words = stored.fill_mask(text, top_k=3)[0]
        # By id, because two tokens can look alike, one at the start of a word and one inside.
        probability = {c.token_id: c.score for c in trained.fill_mask(text, top_k=10)[0]}
        difference = max(difference, *(abs(c.score - probability[c.token_id]) for c in words))
        rows.append((text, ", ".join(f"{c.token.strip()} {c.score:.2f}" for c in words)))
    return table(["text", "three most likely tokens"], rows), difference


def senses(encoder) -> np.ndarray:
    """The vectors of `WORD` in `SENSES`, [texts, width]."""
    rows = encoder.embed_words(SENSES)
    return np.stack([row.vectors[row.words.index(WORD)] for row in rows])


def filled_in(target: str) -> str:
    """The text between the first two sentinels of a target."""
    return target.removeprefix(SENTINELS[0]).partition(SENTINELS[1])[0].strip()


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = (" | ".join(map(str, cells)) for cells in (heads, ["---"] * len(heads), *rows))
    return "\n".join(f"| {line} |" for line in lines)


def scores(results: Mapping[str, Any]) -> dict[str, float]:
    """The scores of the declaration: losses, and for comparison those of a unigram model and before training."""
    before, after = results["before"], results["after"]
    masked = "held out mlm_logits_loss"
    masked = masked if masked in after else "held out loss"
    found = {named(name): round(loss, 3) for name, loss in sorted(after.items())}
    found[f"{named(masked)} before training"] = round(before[masked], 3)
    found[f"{named(masked)} of a unigram model"] = round(results["unigram loss"], 3)
    return found


def named(loss: str) -> str:
    """The card's name of a loss."""
    for old, new in LOSSES.items():
        loss = loss.replace(old, new)
    return loss


def card(name: str, run: Path, predictions: str, difference: float, fine_tuned: str) -> str:
    """The run's card, adapted to a checkpoint of the package."""
    config, results = read_json(run / "config.json"), read_json(run / "metrics.json")
    task = read_json(run / "model" / "bert_zoo.json")["task"]
    of_run = (run / "model" / CARD).read_text(encoding="utf-8")
    measured = of_run[of_run.index("## Losses") : of_run.index("## Limits")]
    given = [config["data"][option] or () for option in ("text", "general_text")]
    paths = list(itertools.chain(*given))
    for path in paths:  # of the machine that trained it
        measured = measured.replace(path, Path(path).name)
    files = [Path(path).name for path in paths]
    parts = [
        f"# {name}",
        f"`bert_zoo.load({name!r})` needs no network: the checkpoint comes with the package. "
        f"It has {results['parameters']:,} parameters with all heads. Storing them as float16 changed its outputs by "
        f"at most {difference:.0e}.",
        measured,
        "`tools/nano_checkpoint.py` made this folder from the run.",
        table(["text", "description", "licence"], [(f"`{file}`", *TEXTS[file]) for file in files]),
        "## What it predicts\n\n" + predictions,
        # Language models have no heads to fine-tune.
        FINE_TUNED + fine_tuned if task != "causal_lm" else "",
        LIMITS,
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def earlier_section(path: Path, heading: str) -> str:
    """The section of a card below a heading."""
    if not path.is_file():
        return NOT_MEASURED
    _, _, rest = path.read_text(encoding="utf-8").partition(heading)
    return rest.partition("\n## ")[0]


def card_of_student(name: str, run: Path, directory: Path, made: str) -> str:
    """The card of a distillation's run, adapted to a checkpoint of the package."""
    import keras

    import bert_zoo

    task = read_json(directory / "bert_zoo.json")["task"]
    stored, trained = (bert_zoo.load(path, task=task) for path in (directory, run / "model"))
    inputs = stored.preprocessor([text.format(mask="thing") for text in MASKED])
    outputs = (keras.tree.flatten(model(inputs)) for model in (stored, trained))
    difference = max(float(np.abs(a - b).max()) for a, b in zip(*outputs, strict=True))
    of_run = (run / "model" / CARD).read_text(encoding="utf-8")
    first = of_run.index("\n## ")
    # The licences are named below MADE.
    measured = of_run[first:].partition("\n## Base checkpoint")[0].partition("\n- The licence")[0]
    for path in {
        part for part in measured.replace("|", " ").replace(",", " ").split() if "/" in part
    }:
        if Path(path).is_absolute():  # of the machine that trained it
            measured = measured.replace(path, Path(path).name)
    parts = [
        f"# {name}",
        f"`bert_zoo.load({name!r})` needs no network: the checkpoint comes with the package. "
        f"It has {stored.count_params():,} parameters. Storing its matrices as int8, with a scale for each row, "
        f"changed its outputs for six sentences by at most {difference:.0e}.",
        MADE + made,
        measured,
        "`tools/nano_checkpoint.py` made this folder from the run.",
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def pretrained_folder(name: str, run: Path, directory: Path) -> dict[str, float]:
    """Makes the folder of a pretraining; returns the scores of its declaration."""
    from bert_zoo.weights.files import sha256_of

    earlier, fine_tuned = directory / WEIGHTS, earlier_section(directory / CARD, FINE_TUNED)
    sha256 = sha256_of(earlier) if earlier.is_file() else None
    copy_run(run, directory, as_float16)
    if read_json(directory / "bert_zoo.json")["task"] != "encoder":
        copy_frequencies(run, directory)
    if sha256_of(directory / WEIGHTS) != sha256:
        fine_tuned = NOT_MEASURED
    text = card(name, run, *shown(run, directory), fine_tuned)
    (directory / CARD).write_text(text, encoding="utf-8")
    return scores(read_json(run / "metrics.json"))


def student_folder(name: str, run: Path, directory: Path) -> dict[str, float]:
    """Makes the folder of a distillation; returns the scores of its declaration."""
    from bert_zoo.weights.safetensors_io import rounded_to_int8

    made = earlier_section(directory / CARD, MADE)
    copy_run(run, directory, rounded_to_int8)
    text = card_of_student(name, run, directory, made)
    (directory / CARD).write_text(text, encoding="utf-8")
    results = read_json(run / "metrics.json")
    found = results["kept"] if "kept" in results else results["after"]
    return {metric: round(value, 3) for metric, value in found.items()}


def main(_: Sequence[str]) -> None:
    import bert_zoo
    from bert_zoo.registry import registry
    from bert_zoo.weights.files import sha256_of

    run, directory = Path(_RUN.value), CHECKPOINTS / _NAME.value.replace(".", "_")
    distilled = read_json(run / "config.json").keys() & {"teacher", "lesson"}
    found = (student_folder if distilled else pretrained_folder)(_NAME.value, run, directory)
    family = registry().families[read_json(directory / "bert_zoo.json")["family"]]
    declaration = {
        "sha256": sha256_of(directory / WEIGHTS),
        "params": bert_zoo.load(directory, task=family.params_task).count_params(),
        "scores": found,
    }
    print(json.dumps(declaration, indent=4))


if __name__ == "__main__":
    app.run(main)
