"""What a library does with texts and files, tried on tests/golden's tiny BERT, and the lines that its families take.

    python features.py LIBRARY GOLDEN FAMILY ...      prints a line of JSON

LIBRARY is a function below, GOLDEN the folder tests/golden. Runs in an environment with that library, so each imports
it within its function. `tools/comparison_page.py` starts it.
"""

import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

TEXTS, LABELS = ["the cat sat on the tree", "a bird"], [0, 1]


class Tried(NamedTuple):
    """What is asked of a library; each is called with nothing else before it."""

    tokenizer: Callable[[], Callable]  # gives what texts are put into
    classifier: Callable[[], Any]  # gives a model with `fit`
    save: Callable[[str], Any]  # writes a Hugging Face directory


def bert_zoo(directory: Path) -> Tried:
    import bert_zoo
    from bert_zoo.text import tokenizer_from_dir

    return Tried(
        lambda: tokenizer_from_dir(directory, "bert"),
        lambda: bert_zoo.load(directory, "classification"),
        lambda path: bert_zoo.save(bert_zoo.load(directory), path, format="hf"),
    )


def transformers(directory: Path) -> Tried:
    import transformers

    classifier = transformers.AutoModelForSequenceClassification
    return Tried(
        lambda: transformers.AutoTokenizer.from_pretrained(directory),
        lambda: classifier.from_pretrained(directory),
        lambda path: classifier.from_pretrained(directory).save_pretrained(path),
    )


def sentence_transformers(directory: Path) -> Tried:
    from sentence_transformers import CrossEncoder

    def classifier() -> CrossEncoder:
        return CrossEncoder(str(directory), device="cpu")

    return Tried(
        lambda: classifier().tokenizer, classifier, lambda path: classifier().save_pretrained(path)
    )


def keras_hub(directory: Path) -> Tried:
    from keras_hub import models

    def classifier() -> models.TextClassifier:
        preset = str(directory)
        preprocessor = models.TextClassifierPreprocessor.from_preset(preset, sequence_length=16)
        return models.TextClassifier.from_preset(preset, num_classes=3, preprocessor=preprocessor)

    return Tried(
        lambda: models.BertTokenizer(str(directory / "vocab.txt"), lowercase=True),
        classifier,
        lambda path: models.Backbone.from_preset(str(directory)).export_to_transformers(path),
    )


def kerasformers(directory: Path) -> Tried:
    from kerasformers.models import bert
    from tokenizers import BertWordPieceTokenizer

    config = json.loads((directory / "config.json").read_text())

    def classifier() -> bert.BertSequenceClassify:
        model_class = bert.BertSequenceClassify
        model = model_class(**model_class.config_from_hf(config))
        model.compile("sgd", "sparse_categorical_crossentropy")
        return model

    def tokenizer() -> bert.BertTokenizer:
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            BertWordPieceTokenizer(str(directory / "vocab.txt")).save(file.name)
            return bert.BertTokenizer(tokenizer_file=file.name)

    return Tried(tokenizer, classifier, lambda path: classifier().save_pretrained(path))


def tf_models_official(directory: Path) -> Tried:
    from official.nlp.modeling import layers, models, networks

    def classifier() -> models.BertClassifier:
        encoder = networks.BertEncoder(vocab_size=50, hidden_size=16, num_attention_heads=2)
        model = models.BertClassifier(encoder, num_classes=2)
        model.compile("sgd", "sparse_categorical_crossentropy")
        return model

    return Tried(
        lambda: layers.BertTokenizer(vocab_file=str(directory / "vocab.txt"), lower_case=True),
        classifier,
        lambda path: classifier().save_pretrained(path),
    )


def tokenizes_in_the_graph(tried: Tried) -> None:
    tokenizer = tried.tokenizer()
    import tensorflow as tf

    next(iter(tf.data.Dataset.from_tensor_slices([TEXTS]).map(tokenizer)))


def trains_on_strings(tried: Tried) -> None:
    import numpy as np

    tried.classifier().fit(np.array(TEXTS), np.array(LABELS))


def writes_hugging_face(tried: Tried) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tried.save(directory)
        for name in ("config.json", "model.safetensors"):
            if not Path(directory, name).is_file():
                raise FileNotFoundError(name)


def outcome(feature: Callable[[Tried], None], tried: Tried) -> str | None:
    """None where a library does it, else its error."""
    try:
        feature(tried)
    # Whatever a library says of what it does not do is the answer.
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


# What a family's folder or files are called, where it is not the family's name.
FOLDERS = {
    "transformers": {"gpt": "openai", "spanbert": ""},
    "keras_hub": {"distilbert": "distil_bert", "deberta_v2": "deberta_v3", "spanbert": ""},
    "kerasformers": {"spanbert": ""},
}
# Families of bert_zoo whose files begin with the name of another one.
FAMILIES_THAT_BEGIN_SO = {"gpt": "gpt2", "deberta": "deberta_v2", "xlm": "xlm_roberta"}


def lines_of(library: str, family: str) -> int:
    """Lines of code that a family has for itself; 0 where there is none."""
    package = Path(importlib.util.find_spec(library).origin).parent
    if library == "bert_zoo":
        ours = (package / "families").glob(f"{family}*.py")
        others = FAMILIES_THAT_BEGIN_SO.get(family, "no other")
        files = [file for file in ours if not file.stem.startswith(others)]
    else:
        folder = FOLDERS.get(library, {}).get(family, family)
        models = package / ("src/models" if library == "keras_hub" else "models")
        files = [*(models / folder).glob("*.py")] if folder else []
    left_out = ("checkpoints", "presets", "test", "modular", "__init__")
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#")
        for file in files
        if not any(word in file.stem for word in left_out)
        for line in file.read_text(encoding="utf-8").splitlines()
    )


def version_of(library: str) -> str:
    try:
        return version(library.replace("_", "-"))
    except PackageNotFoundError:  # a source tree
        return __import__(library).__version__


def main() -> None:
    library, golden, *families = sys.argv[1:]
    tried = globals()[library](Path(golden, "bert", "classification"))
    features = (tokenizes_in_the_graph, trains_on_strings, writes_hugging_face)
    found = {
        "version": version_of(library),
        "features": {feature.__name__: outcome(feature, tried) for feature in features},
        "lines": {family: lines_of(library, family) for family in families},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
