"""The YAML head of a model card, as Hugging Face's hub reads it (https://huggingface.co/docs/hub/model-cards)."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from huggingface_hub import EvalResult, ModelCardData

from bert_zoo.registry import HUB_LICENCES

if TYPE_CHECKING:
    from bert_zoo.models.task_model import Use

SOURCE = re.compile(r"hf://([^@\s]+)")


def front_matter(
    name: str,
    use: "Use",
    base: Iterable[str],
    results: Iterable[tuple[str, str, float]],
    *,
    licence: str | None = None,
    split: str | None = None,
    dataset_type: str | None = None,
) -> str:
    """Returns the head of a card.

    Args:
        name: the model's name.
        use: the task's description.
        base: names and sources of the checkpoint that it was trained from. The card names the first source on the
            hub, if there is one.
        results: (data set, the hub's name of a metric, value) triples. Values that are not finite are left out.
        licence: the base's licence, which also applies to this model; "" if it is not known, None to leave it out.
        split: the split that was measured.
        dataset_type: the hub's name of the data set; its own name by default.
    """
    on_hub = next((found[1] for source in base if (found := SOURCE.match(source))), None)
    hub_licence = None
    if licence is not None:
        hub_licence = HUB_LICENCES.get(licence, "other" if licence else "unknown")
    measured: Sequence[EvalResult] = [
        EvalResult(
            task_type=use.pipeline,
            dataset_type=dataset_type or data,
            dataset_name=data,
            dataset_split=split,
            metric_type=metric,
            metric_value=round(float(value), 4),
        )
        for data, metric, value in results
        if math.isfinite(value)
    ]
    return ModelCardData(
        license=hub_licence,
        license_name=licence if hub_licence == "other" else None,
        base_model=on_hub,
        base_model_relation="finetune" if on_hub else None,
        library_name="bert_zoo",
        pipeline_tag=use.pipeline,
        tags=["bert_zoo", "keras", use.pipeline],
        metrics=list(dict.fromkeys(result.metric_type for result in measured)) or None,
        model_name=name,
        eval_results=measured or None,
    ).to_yaml()
