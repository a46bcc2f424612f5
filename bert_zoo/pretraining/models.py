"""Models to pretrain, and how well a recurrent one predicts a stream."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.family import Family
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.loading.load import missing_parts
from bert_zoo.models import CausalLM, Encoder, MaskedLM, Pretraining, StatefulLM
from bert_zoo.models.task_model import under_settings
from bert_zoo.presets import LanguageModelPreset, Reading
from bert_zoo.pretraining.streams import segments
from bert_zoo.registry import registry
from bert_zoo.tasks import TASKS
from bert_zoo.tasks.objectives import OBJECTIVES
from bert_zoo.tasks.objectives.objective import ObjectiveModel
from bert_zoo.tasks.text_to_text import TextToText


def new_model(family: Family, config: Mapping[str, Any], preprocessor, dtype: str = "float32"):
    """A randomly initialised model with all heads of its family's objectives.

    `config` has fields of its configuration; `vocab_size` comes from the vocabulary.
    """
    sizes = {**family.defaults, **config, "vocab_size": preprocessor.tokenizer.vocab_size}
    tasks = (Pretraining.task, MaskedLM.task, TextToText.task)
    task = next(task for task in tasks if task in family.heads)
    config = family.config_class(**sizes).with_pooler(family.heads[task].pooler)
    model = TASKS[task](Encoder(config, family.name, preprocessor=preprocessor, dtype=dtype))
    model.encoder.backbone.untrained_copies(make=True)()
    return model


def model_to_go_on_with(
    name: str, objective: str = "", dtype: str = "float32"
) -> ObjectiveModel | TextToText:
    """A checkpoint with the heads of its objective; "" is the family's own. New heads are reported in the log.

    Heads for sentences (BERT's next sentence, ALBERT's sentence order) are not created: without them, only masked
    tokens are trained. A pooler that no loss depends on stays unchanged.
    """
    opened = open_checkpoint(name, with_weights=False)
    family = opened.family
    if TextToText.task in family.heads:
        return bert_zoo.load(name, task=TextToText.task, dtype=dtype)
    objective = objective or family.pretraining_of(opened.config)
    if not objective or MaskedLM.task not in family.heads:
        raise ValueError(
            f"{name} was not pretrained on masked tokens. Choose a model from "
            "bert_zoo.list_models(provides='masked_lm')."
        )
    chosen = OBJECTIVES.get(objective)
    task = MaskedLM.task
    if Pretraining.task in family.heads:
        has_all = not missing_parts(name, Pretraining.task)
        if has_all or getattr(chosen, "replaced", False) or hasattr(chosen, "targets"):
            task = Pretraining.task
    model = bert_zoo.load(name, task=task, init=tuple(missing_parts(name, task)), dtype=dtype)
    if model.encoder.config.pooler:
        return model
    whole = bert_zoo.load(name, task="encoder", dtype=dtype)
    if not whole.config.pooler:
        return model
    # Masked tokens do not read the pooler; what is fine-tuned later does.
    with_pooler = TASKS[task](whole)
    with_pooler.masked_lm.set_weights(model.masked_lm.get_weights())
    whole.pooler.trainable = False
    return with_pooler


def new_language_model(
    preset: LanguageModelPreset, preprocessor, dtype: str = "float32"
) -> CausalLM:
    """A randomly initialised model that predicts the vocabulary of its preprocessor.

    `ConfigError` if the vocabulary is too small for the preset's clusters.
    """
    size = preprocessor.tokenizer.vocab_size
    cutoffs = preset.config.get("cutoffs", ())
    if any(cutoff >= size for cutoff in cutoffs):
        raise ConfigError(
            f"The vocabulary has {size:,} tokens and the preset's clusters begin at {cutoffs}. Name "
            "cutoffs that fit (`bert_zoo build_vocabulary` suggests some), or none."
        )
    family = registry().families[preset.family]
    config = family.config_class(vocab_size=size, **preset.config)
    return CausalLM(Encoder(config, family.name, preprocessor=preprocessor, dtype=dtype))


def fitted(preset: LanguageModelPreset, vocab_size: int) -> LanguageModelPreset:
    """The preset without the clusters that the vocabulary is too small for, which are reported."""
    cutoffs = preset.config.get("cutoffs", ())
    kept = tuple(cutoff for cutoff in cutoffs if cutoff < vocab_size)
    if kept == cutoffs:
        return preset
    print(f"The vocabulary has {vocab_size:,} tokens: of the clusters that begin at {cutoffs}, "
          f"{kept or 'none'} are left.")  # fmt: skip
    config = {**preset.config, "cutoffs": kept}
    if "tie_projs" in config:
        config["tie_projs"] = config["tie_projs"][: len(kept) + 1]
    return replace(preset, config=config)


def evaluate(model: CausalLM, token_ids: np.ndarray, reading: Reading) -> dict[str, float]:
    """Measures how well a recurrent model predicts a stream, int [tokens], on average over all tokens but the first.

    Where its family has the settings in `reading`, they replace its own. Returns `perplexity`, `bits` (per token),
    `tokens` (the number predicted) and `seconds`.
    """
    known = registry().families[model.encoder.family].settings
    settings = {name: value for name, value in reading.settings.items() if name in known}
    stateful = StatefulLM(under_settings(model, **settings), reading.batch_size)
    stateful.compile()
    start = time.perf_counter()
    metrics = stateful.evaluate(
        segments(token_ids, reading.batch_size, reading.segment_length),
        verbose=0,
        return_dict=True,
    )
    seconds = time.perf_counter() - start
    metrics = {name: float(metrics[name]) for name in ("perplexity", "bits")}
    return {**metrics, "tokens": len(token_ids) - 1, "seconds": round(seconds, 2)}
