"""Writes the README.md of `save(format="hf")`: a model card that Hugging Face's hub can read."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_zoo.config import Pooling, Prompts
from bert_zoo.family import HF, Checkpoint, Family
from bert_zoo.models.base import ZooModel
from bert_zoo.registry import HUB_LICENCES
from bert_zoo.weights.formats import Description

CARD = "README.md"
# Marks a card that may be replaced; any other was written by the user.
_SIGNATURE = "<!-- Written by bert_zoo.save. -->"


def write_card(directory: Path, model: ZooModel, family: Family, description: Description) -> None:
    """Writes the card, unless the directory has one from elsewhere.

    It names the purpose, the base checkpoint with its licence, and the metrics of the last epoch of `fit`, if any.
    """
    path = directory / CARD
    if path.is_file() and _SIGNATURE not in path.read_text(encoding="utf-8", errors="replace"):
        return
    base, checkpoint = base_of(model, family)
    use = getattr(model, "use", None)
    metrics = _metrics(model)
    head: dict[str, Any] = {"library_name": "transformers", "tags": ["bert_zoo"]}
    if description.pooling is not None:
        head = {
            "library_name": "sentence-transformers",
            "tags": ["sentence-transformers", "bert_zoo"],
        }
    if checkpoint is not None:
        # The base's licence also applies to models trained from it.
        head["license"] = HUB_LICENCES.get(checkpoint.licence, "other")
        if head["license"] == "other":
            head["license_name"] = checkpoint.licence
    if base is not None:
        head["base_model"] = base
    if pipeline := _pipeline(model, description):
        head["pipeline_tag"] = pipeline
    if metrics:
        head["metrics"] = [*metrics]
    (hf_class,) = description.classes
    lines = [
        "---",
        *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()),
        "---",
        _SIGNATURE,
        "",
        f"# {hf_class}",
        "",
        f"A model of the {family.name} family"
        + (f", based on {base}" if base is not None else "")
        + (f". It {use.purpose}." if use is not None else "."),
    ]
    if description.lacks_pooler:
        lines += [
            "",
            "It has no pooler. transformers would add a randomly initialised one, with a warning; load it with "
            f"`{hf_class}.from_pretrained(directory, add_pooling_layer=False)`. sentence-transformers needs no "
            "such option.",
        ]
    if description.pooling is not None:
        lines += ["", *_of_vectors(description.pooling, description.prompts)]
    if metrics:
        lines += ["", "| metric | last epoch |", "|---|---|"]
        lines += [f"| {name} | {value:.4f} |" for name, value in metrics.items()]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def base_of(model: ZooModel, family: Family) -> tuple[str | None, Checkpoint | None]:
    """The repository that a model was loaded from and its checkpoint; None where unknown."""
    base = getattr(model, "encoder", model).loaded_from
    checkpoint = next((c for c in family.checkpoints if _comes_from(c, base)), None)
    # A local path means nothing to others.
    return None if base is None or Path(base).is_absolute() else base, checkpoint


def _comes_from(checkpoint: Checkpoint, origin: str | None) -> bool:
    return origin is not None and any(
        isinstance(source, HF) and source.repo == origin for source in checkpoint.sources
    )


def _pipeline(model: ZooModel, description: Description) -> str | None:
    """Hugging Face's name for the model's task."""
    if getattr(model, "use", None) is not None:
        return model.use.pipeline
    if description.generates:
        return "text-generation"
    if getattr(model, "predicts_tokens", False):
        return "fill-mask"
    return "sentence-similarity" if description.pooling is not None else None


def _of_vectors(pooling: Pooling, prompts: Prompts) -> list[str]:
    """How sentence vectors are made and compared, and the prompts."""
    steps = [f"pooled by {' and '.join(pooling.modes)}"]
    steps += [
        f"passed through a dense layer of {layer.units} units ({layer.activation})"
        for layer in pooling.dense
    ]
    steps += ["L2-normalised"] * pooling.normalize
    if pooling.truncate_dim is not None:
        steps.append(f"cut to {pooling.truncate_dim} dimensions")
    lines = [f"Sentence vectors: {', '.join(steps)}. Compare them by {pooling.similarity}."]
    if prompts.texts:
        default = {prompts.default: " (default)"}
        lines += ["", "| prompt | text put before the input |", "|---|---|"]
        lines += [
            f"| {n}{default.get(n, '')} | {json.dumps(t, ensure_ascii=False)} |"
            for n, t in prompts.texts.items()
        ]
    return lines


def _metrics(model: ZooModel) -> Mapping[str, float]:
    """Metrics of the last epoch: on validation data if there was any, else on training data."""
    history = getattr(getattr(model, "history", None), "history", None) or {}
    last = {name: values[-1] for name, values in history.items() if values}
    measured = {name.removeprefix("val_"): v for name, v in last.items() if name.startswith("val_")}
    numbers = {name: v for name, v in (measured or last).items() if isinstance(v, int | float)}
    return {name: float(v) for name, v in numbers.items() if math.isfinite(v)}
