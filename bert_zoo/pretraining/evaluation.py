"""How well a recurrent language model predicts a stream."""

import time

import numpy as np

from bert_zoo.models import CausalLM, StatefulLM
from bert_zoo.models.task_model import under_settings
from bert_zoo.presets import Reading
from bert_zoo.pretraining.streams import segments
from bert_zoo.registry import registry


def evaluate(model: CausalLM, token_ids: np.ndarray, reading: Reading) -> dict[str, float]:
    """Measures how well a model predicts a stream, averaged over all tokens except the first.

    Args:
        model: a recurrent language model. Where its family has the settings in `reading`, they replace its own.
        token_ids: int [tokens].

    Returns:
        dict of `perplexity`, `bits` (per token), `tokens` (the number predicted) and `seconds`.
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
