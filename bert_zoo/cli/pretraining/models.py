"""Models to pretrain: new ones, and checkpoints with the heads that their objective needs."""

from collections.abc import Mapping
from typing import Any

import bert_zoo
from bert_zoo.family import Family
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.loading.load import missing_parts
from bert_zoo.models import MaskedLM, Pretraining
from bert_zoo.models.encoder import Encoder
from bert_zoo.objectives import OBJECTIVES
from bert_zoo.tasks import TASKS
from bert_zoo.tasks.objectives import ObjectiveModel


def new_model(family: Family, config: Mapping[str, Any], preprocessor, dtype: str = "float32"):
    """A model with randomly initialised weights and all heads of its family's objectives.

    Args:
        family: whose page makes it.
        config: fields of its configuration; `vocab_size` is the vocabulary's.
        preprocessor: whose vocabulary the model predicts.
        dtype: a Keras dtype policy.
    """
    sizes = {**family.defaults, **config, "vocab_size": preprocessor.tokenizer.vocab_size}
    task = Pretraining.task if Pretraining.task in family.heads else MaskedLM.task
    config = family.config_class(**sizes).with_pooler(family.heads[task].pooler)
    return TASKS[task](Encoder(config, family.name, preprocessor=preprocessor, dtype=dtype))


def model_to_go_on_with(name: str, objective: str = "", dtype: str = "float32") -> ObjectiveModel:
    """A checkpoint with the heads that its objective needs; a log line says which of them are new.

    Heads for sentences (BERT's next sentence, ALBERT's order) are not made anew: without them, masked
    tokens alone are trained. A pooler that no loss reads stays as it is.

    Args:
        name: what `load` takes.
        objective: a key of `bert_zoo.objectives.OBJECTIVES`; empty for the family's.
        dtype: a Keras dtype policy.
    """
    opened = open_checkpoint(name, with_weights=False)
    family = opened.family
    objective = objective or family.pretraining_of(opened.config)
    if not objective or MaskedLM.task not in family.heads:
        raise ValueError(
            f"{name} was not pretrained with hidden tokens. Language models go on in "
            "`bert_zoo train_lm`; models of masked tokens are those of "
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
