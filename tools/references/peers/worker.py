"""What the fine-tuning programs of this folder share: settings in, one line of JSON out.

Each runs in a process, and where need be an environment, of its own, so this imports nothing but
the standard library. `tools/benchmark_finetuning.py` starts them:

    python finetune_X.py encode SETTINGS.json      # outputs of the encoder before training
    python finetune_X.py finetune SETTINGS.json    # seconds, parts, predictions, loss, steps
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
Columns = list[list[str]]


class Stopwatch:
    """Seconds of one part of the work after another; runs from the moment it is made."""

    def __init__(self):
        self.parts: dict[str, float] = {}
        self._since = time.perf_counter()
        self._cpu_since = time.process_time()

    def end_of(self, part: str) -> None:
        now = time.perf_counter()
        self.parts[part] = now - self._since
        self._since = now

    def figures(self) -> dict[str, Any]:
        """What the line of JSON says of time.

        The processor's seconds, of all threads, show where other work disturbed a run.
        """
        return {
            "seconds": sum(self.parts.values()),
            "parts": self.parts,
            "cpu_seconds": time.process_time() - self._cpu_since,
        }


def serve(
    load: Callable[[Settings], Any],
    encode: Callable[[Any, Columns, Settings], list],
    finetune: Callable[[Any, Settings, Stopwatch], dict[str, Any]],
) -> None:
    """Does what the command line asks for and prints the result.

    Args:
        load: gives the model, with its weights; not timed.
        encode: gives (model, texts, settings) -> outputs [rows, 2 * hidden], the last layer at the
            first token beside the pooled output.
        finetune: from texts in memory to `predictions` of the measured rows, with the `loss` of the
            last epoch, the number of `steps`, and the `versions` that ran.
    """
    action, path = sys.argv[1:]
    settings = json.loads(Path(path).read_text(encoding="utf-8"))
    model = load(settings)
    if action == "encode":
        result = {"outputs": encode(model, settings["compared"], settings)}
    else:
        watch = Stopwatch()
        result = finetune(model, settings, watch)
        result |= watch.figures()
    print(json.dumps(result), flush=True)


def one_or_pair(columns: Columns) -> list[str] | tuple[list[str], list[str]]:
    """Texts as Keras users pass them: a list, or a pair of lists."""
    return columns[0] if len(columns) == 1 else tuple(columns)
