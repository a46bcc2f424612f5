"""The flag --strategy of the programs that run on several devices."""

from absl import flags

_STRATEGY = flags.DEFINE_string(
    "strategy",
    "one",
    "Devices to run on: one, cpu:N, mirrored, multi_worker, tpu, tpu:NAME or auto. They share a "
    "batch, so that batch_size stays that of all together.",
)


def named_strategy(model_parallel: int = 1):
    """What --strategy names. To be asked before anything runs on the devices that it divides."""
    from bert_zoo.training import strategy

    return strategy(_STRATEGY.value, model_parallel=model_parallel)
