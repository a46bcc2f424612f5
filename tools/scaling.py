"""Draws how training scales with devices, from a step's seconds and the bytes that it reduces.

    python tools/scaling.py --model minilm_l6 --batch 32 --length 128
    python tools/scaling.py --model bert_base --batch 32 --length 128 --step_seconds 0.036

Without --step_seconds, steps are timed on this machine. Each device computes the same rows, however many
there are (weak scaling). Gradients, four bytes a trained weight, are summed by rings: each of N devices
sends 2 (N - 1) / N of them (Patarasuk and Yuan 2009). A step takes at least the longer of computing
and sending, where both go on at once, and at most their sum: the figure shows the band between.
"""

import math
import statistics
import time
from pathlib import Path

from absl import app, flags

_MODEL = flags.DEFINE_string("model", "minilm_l6", "A name of bert_zoo.list_models().")
_TASK = flags.DEFINE_enum("task", "classification", ["classification", "masked_lm"], "The head.")
_BATCH = flags.DEFINE_integer("batch", 32, "Rows on each device.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens a row.", lower_bound=1)
_SECONDS = flags.DEFINE_float("step_seconds", None, "Of a step on one device.", lower_bound=1e-9)
_STEPS = flags.DEFINE_integer("steps", 5, "Steps to time, after one.", lower_bound=1)
_OUTPUT = flags.DEFINE_string("output", "scaling.png", "The figure to write.")

FLOAT32 = 4  # bytes
DEVICES = [2**k for k in range(11)]
# Gigabits that a device sends in a second. A v5e chip's are those of its four links to others, Cloud
# TPU's system architecture pages.
NETWORKS = {"1 Gbit/s": 1, "10 Gbit/s": 10, "100 Gbit/s": 100, "a TPU v5e's 1,600 Gbit/s": 1600}


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    import bert_zoo

    model = bert_zoo.load(_MODEL.value, _TASK.value, weights=None)
    reduced = FLOAT32 * sum(math.prod(weight.shape) for weight in model.trainable_variables)
    seconds = _SECONDS.value or timed_step(model)
    how = "given" if _SECONDS.value else f"median of {_STEPS.value}, timed here"
    print(
        f"{_MODEL.value} for {_TASK.value}, {_BATCH.value} rows of {_LENGTH.value} tokens a device: "
        f"{seconds:.3f} s a step ({how}), {reduced / 1e6:.1f} MB to reduce."
    )
    for network, gigabits in NETWORKS.items():
        row = [f"{n}: {_percent(efficiency(n, seconds, reduced, gigabits))}" for n in (2, 8, 64)]
        print(f"  {network:<26} {', '.join(row)}")
    draw_scaling(seconds, reduced, Path(_OUTPUT.value))
    print(f"Wrote {_OUTPUT.value}")


def timed_step(model) -> float:
    """Seconds of a training step on this machine."""
    import numpy as np

    from bert_zoo.training import compile_for_task

    compile_for_task(model)
    rng = np.random.default_rng(0)
    # Behind the special tokens of every vocabulary.
    tokens = rng.integers(1000, 2000, (_BATCH.value, _LENGTH.value), dtype=np.int32)
    labels = tokens if _TASK.value == "masked_lm" else np.arange(_BATCH.value) % 2
    model.train_on_batch({"token_ids": tokens}, labels)
    times = []
    for _ in range(_STEPS.value):
        start = time.perf_counter()
        model.train_on_batch({"token_ids": tokens}, labels)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def efficiency(
    devices: int, seconds: float, reduced: float, gigabits: float
) -> tuple[float, float]:
    """The parts of `devices` times one device's speed that are left: at least, and at most.

    Args:
        devices: how many.
        seconds: of a step on one.
        reduced: bytes of gradients.
        gigabits: that a device sends in a second.
    """
    sending = 2 * (devices - 1) / devices * reduced * 8 / (gigabits * 1e9)
    return seconds / (seconds + sending), seconds / max(seconds, sending)


def _percent(band: tuple[float, float]) -> str:
    return "-".join(f"{part:.0%}" for part in band)


def draw_scaling(seconds: float, reduced: float, path: Path) -> None:
    """Draws the speed of devices together by their number, as a PNG."""
    from bert_zoo.cli.finetuning import draw

    def plot(axes):
        for network, gigabits in NETWORKS.items():
            bands = [efficiency(n, seconds, reduced, gigabits) for n in DEVICES]
            least, most = (
                [n * band[i] for n, band in zip(DEVICES, bands, strict=True)] for i in (0, 1)
            )
            (line,) = axes.plot(DEVICES, least, label=network)
            axes.fill_between(DEVICES, least, most, color=line.get_color(), alpha=0.25)
        axes.plot(DEVICES, DEVICES, ":", color="gray", label="ideal")
        axes.set(
            xlabel="devices",
            ylabel="times one device's speed",
            title=f"{_MODEL.value}, {_BATCH.value} rows of {_LENGTH.value} tokens a device: "
            f"{seconds:.3g} s a step, {reduced / 1e6:.0f} MB",
        )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")

    draw(path, (7, 4), plot)


if __name__ == "__main__":
    app.run(main)
