"""What an installed bert_zoo must be able to do, in a minute: `make dist-test` runs it outside of the checkout.

python tests/installed.py           in an environment into which the wheel was installed
python tests/installed.py jax       with what docs/installing.md names for JAX, and without TensorFlow
python tests/installed.py runtime   with what it names for running exports, and without TensorFlow and Keras

Each prints the megabytes of what is installed there, which docs/installing.md has.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np

CHECKOUT = Path(__file__).parents[1]
SAVED = Path(__file__).parent / "saved_by"
SERVE = """
import sys, tensorflow as tf, tensorflow_text
answers = tf.saved_model.load("served").signatures["serving_default"](text=tf.constant(["good"]))
assert answers["probabilities"].shape == (1, 2), answers
assert "bert_zoo" not in sys.modules
"""


def everything() -> None:
    import bert_zoo

    assert bert_zoo.__version__ == version("bert_zoo")
    assert len(bert_zoo.list_models()) > 100
    print(bert_zoo.describe("albert_base"))
    heavy = {"tensorflow", "keras", "tensorflow_datasets", "keras_hub", "jax"} & set(sys.modules)
    assert not heavy, f"`import bert_zoo` imports {heavy}."

    print(bert_zoo.load("roberta_nano", task="masked_lm").fill_mask("She looked at <mask> face ."))
    model = bert_zoo.load("bert_nano", task="classification", labels=["bad", "good"])
    model.fit(["good", "bad"] * 8, ["good", "bad"] * 8, epochs=2, verbose=0)
    bert_zoo.save(model, "saved")
    same = bert_zoo.load("saved").predict(["good"], verbose=0) - model.predict(["good"], verbose=0)
    assert np.abs(same).max() < 1e-6
    bert_zoo.export(model, "served")
    subprocess.run([sys.executable, "-c", SERVE], check=True)

    for directory in sorted(SAVED.glob("*/*")):
        if not is_export(directory):
            check_saved(directory)
    program = Path(sys.executable).with_name("bert_zoo")
    assert (
        "finetune" in subprocess.run([program], capture_output=True, text=True, check=True).stdout
    )
    shown = ("tensorflow", "keras", "tensorflow-text", "numpy")
    print("python", sys.version.split()[0], *(f"{name} {version(name)}" for name in shown))


def on_jax() -> None:
    """Models take texts and ids, train, save and load, and programs run."""
    os.environ["KERAS_BACKEND"] = "jax"
    import bert_zoo

    model = bert_zoo.load("bert_nano", task="classification", labels=["bad", "good"])
    model.fit(["good", "bad"] * 8, ["good", "bad"] * 8, epochs=2, verbose=0)
    most_probable = model.predict(["good", "bad"], verbose=0).argmax(-1)
    answers = [answer.label for answer in model.classify(["good", "bad"])]
    assert answers == [model.labels[index] for index in most_probable]
    ids = np.arange(10, 26).reshape(2, 8)
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": np.ones_like(ids)}
    model.fit(inputs, np.array([0, 1]), epochs=2, verbose=0)
    bert_zoo.save(model, "saved")
    same = bert_zoo.load("saved").predict(inputs, verbose=0) - model.predict(inputs, verbose=0)
    assert np.abs(same).max() < 1e-6
    assert "tensorflow" not in sys.modules
    Path("rows.csv").write_text("text,label\n" + "it was good,yes\nit was bad,no\n" * 8)
    settings = ["--task=table", "--train_file=rows.csv", "--held_out=4", "--epochs=1"]
    program = Path(sys.executable).with_name("bert_zoo")
    for arguments in (
        ["finetune", "--model=bert_nano", *settings, "--output_dir=run"],
        ["predict", "--run=run", "it was good"],
    ):
        subprocess.run([program, *arguments], check=True)


def runtime_alone() -> None:
    """Checks that exports of earlier releases run."""
    for directory in sorted(SAVED.glob("*/*")):
        if is_export(directory):
            check_saved(directory)
    assert not {"tensorflow", "keras"} & set(sys.modules)


def print_sizes() -> None:
    """Prints the size in megabytes of all installed packages, and of the largest ones."""
    root = Path(sysconfig.get_paths()["purelib"])
    sizes = {
        part.name: sum(path.stat().st_size for path in (part, *part.rglob("*")) if path.is_file())
        for part in root.iterdir()
    }
    largest = sorted(sizes, key=sizes.get, reverse=True)[:5]
    parts = ", ".join(
        f"{name} {sizes[name] / 1e6:,.0f}" for name in dict.fromkeys(["bert_zoo", *largest])
    )
    print(f"MB installed: {sum(sizes.values()) / 1e6:,.0f}; {parts}")


def check_saved(directory: Path) -> None:
    """Checks that a release's saved models give the same outputs as when they were saved."""
    expected = dict(np.load(directory / "outputs.npz"))
    texts = expected.pop("texts").tolist()
    # Questions and contexts.
    texts = tuple(texts) if isinstance(texts[0], list) else texts
    for model in _models(directory):
        outputs = outputs_of(model, texts)
        assert outputs.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_allclose(outputs[name], array, atol=1e-5)


def is_export(directory: Path) -> bool:
    """Whether `bert_zoo.runtime` opens it."""
    return (directory / "runtime.json").exists()


def _models(directory: Path) -> Iterator:
    if is_export(directory):
        import bert_zoo.runtime

        yield bert_zoo.runtime.load(directory)
        return
    import keras

    import bert_zoo

    yield bert_zoo.load(directory)
    yield from map(keras.models.load_model, directory.glob("*.keras"))


def outputs_of(model, texts) -> dict[str, np.ndarray]:
    """Returns the outputs of `predict` by name, for a Keras model or an export."""
    outputs = model.predict(texts)
    outputs = outputs if isinstance(outputs, dict) else {"outputs": outputs}
    return {name: np.stack([*rows]) for name, rows in outputs.items()}


KINDS = {"": everything, "jax": on_jax, "runtime": runtime_alone}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        KINDS["".join(sys.argv[1:])]()
        assert not Path(sys.modules["bert_zoo"].__file__).is_relative_to(CHECKOUT)
        print_sizes()
        os.chdir(CHECKOUT)
