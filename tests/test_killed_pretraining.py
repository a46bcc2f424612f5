"""A pretraining that is killed ten times, at moments that a seed draws, ends with the same bits."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_same, directory_of, random_text, run_program, tensors_of

pytestmark = pytest.mark.slow
STEPS, KILLS = 300, 10
# Seconds after the step of a moment: steps take hundredths, checkpoints and measuring tenths.
LONGEST_DELAY = 0.5


def options(text: str, directory: Path) -> list[str]:
    """The nano recipe on short rows, with a checkpoint after every step."""
    return [
        *("-m", "bert_zoo", "pretrain", "--recipe", "bert", "--size", "nano", "--text", text),
        *("--vocabulary", str(directory_of("bert/encoder")), "--held_out", "0.2"),
        *("--length", "16", "--batch_size", "4", "--steps", str(STEPS)),
        *("--checkpoint_minutes", "0", "--output_dir", str(directory)),
    ]


def step_of(directory: Path) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    names = [path.name for path in (directory / "checkpoint").glob("step-*")]
    return max((int(re.match(r"step-(\d+)", name)[1]) for name in names), default=0)


def wait_for(condition, process: subprocess.Popen) -> None:
    """Returns when the condition holds; fails where the program ends before."""
    while not condition():
        assert process.poll() is None, "It ended before it was to be killed."
        time.sleep(0.001)


@pytest.mark.timeout(1200)
def test_ten_kills_at_random_moments_leave_the_same_weights(tmp_path):
    random = np.random.default_rng(0)
    text = random_text(tmp_path / "text.txt", documents=120)
    through, stopped = tmp_path / "through", tmp_path / "stopped"
    run_program(*options(text, through))

    moments = np.sort(random.choice(np.arange(1, STEPS - 100), KILLS, replace=False))
    for moment, delay in zip(moments, random.uniform(0, LONGEST_DELAY, KILLS), strict=True):
        with subprocess.Popen(
            [sys.executable, *options(text, stopped)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            began = step_of(stopped)
            # A step of its own first: not while it starts.
            wait_for(
                lambda began=began, moment=moment: step_of(stopped) >= max(moment, began + 1),
                process,
            )
            time.sleep(delay)
            assert process.poll() is None, "It ended before it was to be killed."
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode == -signal.SIGKILL
        assert began < step_of(stopped) < STEPS
        print(f"Killed at step {step_of(stopped)} and {delay:.2f} s.")

    run_program(*options(text, stopped))
    assert_same(*(tensors_of(path / "model") for path in (stopped, through)))
