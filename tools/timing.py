"""Timing of implementations in turns, some of them in other environments; what the programs here share."""

import statistics
import subprocess
import textwrap
import time
from collections.abc import Callable

from absl import flags

REFERENCE_PYTHON = flags.DEFINE_string(
    "reference_python", None, "Python with transformers and torch."
)
# Of the clock, and of the processor in all threads of the process.
Seconds = tuple[float, float]
ROUNDS = flags.DEFINE_integer("rounds", 7, "Timed rounds, after one that warms up.", lower_bound=1)


class Reference:
    """A function that runs in another environment, called through a pipe, once a round: see `timed`.

    `calls` of it are timed together; `race` closes it.

    Args:
        name: of the implementation.
        code: defines `work()`; it has `settings`, with `calls` among them.
        calls: how many times `work()` does what is timed.
        python: the interpreter, `reference_python` by default.
        **settings: numbers, texts and lists of them.

    Attributes:
        mebibytes: once it is closed, how much memory rounds took at most beside what was there before
            the first; None where the system does not say.
    """

    def __init__(self, name: str, code: str, calls: int = 1, python: str | None = None, **settings):
        self.name = name
        self.mebibytes: float | None = None
        self.calls = calls
        settings["calls"] = calls
        program = f"settings = {settings!r}\n{textwrap.dedent(code)}\n{_SERVE}"
        self.process = subprocess.Popen(
            [python or REFERENCE_PYTHON.value, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self) -> Seconds:
        self.process.stdin.write("round\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} stopped with code {self.process.wait()}.")
        wall, processor = map(float, line.split())
        return wall / self.calls, processor / self.calls

    def close(self) -> None:
        *_, printed = self.process.communicate()[0].splitlines() or ["None"]
        self.mebibytes = None if printed == "None" else float(printed)


_SERVE = """
import sys, time
def mebibytes(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024
try:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = mebibytes("VmRSS")
except OSError:
    before = None
for _ in sys.stdin:
    start = time.perf_counter(), time.process_time()
    work()
    print(time.perf_counter() - start[0], time.process_time() - start[1], flush=True)
print(None if before is None else mebibytes("VmHWM") - before)
"""


def timed(work: Callable[[], object], share: float = 1.0) -> Callable[[], Seconds]:
    """Makes a function that runs `work` and returns its seconds, times a share."""

    def run() -> Seconds:
        start = time.perf_counter(), time.process_time()
        work()
        wall, processor = time.perf_counter() - start[0], time.process_time() - start[1]
        return wall * share, processor * share

    return run


def race(
    title: str, contestants: dict[str, Callable[[], Seconds]], unit: str = "", work: int = 0
) -> dict[str, dict]:
    """Runs the contestants in turn and prints medians beside the first one's.

    Args:
        title: what they do.
        contestants: name -> a function that does it once and returns its seconds; ours first.
        unit, work: what is printed in place of the time: `work` units of it a round, by seconds.

    Returns:
        name -> `seconds` of every round, their `median`, and how many times as fast ours is: `ratio`
        of the medians, and `ratios` of every round; `processor_seconds` of all threads, and
        `processor_ratio` of their medians; of a `Reference` its `mebibytes` too.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    processor: dict[str, list[float]] = {name: [] for name in contestants}
    for round_number in range(1 + ROUNDS.value):
        for name, run in contestants.items():
            elapsed, used = run()
            if round_number:
                seconds[name].append(elapsed)
                processor[name].append(used)
    for run in contestants.values():
        if isinstance(run, Reference):
            run.close()
    first, ours = next(iter(seconds.items()))
    results = {}
    print(f"\n{title}")
    for name, theirs in seconds.items():
        median = statistics.median(theirs)
        ratio = median / statistics.median(ours)
        ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
        used = statistics.median(processor[name]) / statistics.median(processor[first])
        results[name] = {"seconds": theirs, "median": median, "ratio": ratio, "ratios": ratios}
        results[name] |= {"processor_seconds": processor[name], "processor_ratio": used}
        memory = getattr(contestants[name], "mebibytes", None)
        if memory is not None:
            results[name]["mebibytes"] = memory
        figure = f"{work / median:>10,.0f} {unit}" if work else f"{duration(median):>12}"
        spread = f"({duration(min(theirs))} to {duration(max(theirs))})"
        if theirs is not ours:
            spread += f"   ours is {ratio:.2f}x as fast ({min(ratios):.2f}–{max(ratios):.2f})"
            spread += f", by processor seconds {used:.2f}x"
        if memory is not None:
            spread += f"   {memory:,.0f} MiB"
        print(f"  {name:<34}{figure} {spread}", flush=True)
    return results


def duration(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 0.1 else f"{1000 * seconds:.2f} ms"


def repeated(work: Callable[[], object], times: int) -> Callable[[], object]:
    return lambda: [work() for _ in range(times)]
