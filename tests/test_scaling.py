"""What tools/scaling.py and tools/tpu_check.py compute from the figures that they are given."""

from pathlib import Path

from helpers import run_program

TOOLS = Path(__file__).parents[1] / "tools"


def run(program: str) -> None:
    """In a process of its own, because every tool defines flags of the same names."""
    run_program("-c", program, cwd=TOOLS)


def test_efficiency_is_computing_over_computing_and_sending():
    run("""
from scaling import efficiency
assert efficiency(1, 0.5, 1e9, 10) == (1.0, 1.0)
# Two devices send each other half of 1 GB, twice: 8 gigabits in 0.8 s.
least, most = efficiency(2, 0.4, 1e9, 10)
assert abs(least - 0.4 / 1.2) < 1e-12 and abs(most - 0.5) < 1e-12
assert efficiency(2, 1.6, 1e9, 10)[1] == 1.0
assert efficiency(1024, 0.4, 1e9, 10)[0] < efficiency(8, 0.4, 1e9, 10)[0]
""")


def test_the_largest_batch_lies_between_one_that_fits_and_one_that_does_not():
    run("""
from tpu_check import BATCHES, Compiled, largest_batch
assert BATCHES[:6] == [8, 12, 16, 24, 32, 48]
def found(start, limit, refused=10**9):
    asked = []
    def compiled(rows):
        asked.append(rows)
        return None if rows >= refused else Compiled(1.0, rows - 1.0, 0.0)
    return largest_batch(compiled, start, limit), asked
assert found(32, 100) == (96, [32, 48, 64, 96, 128])
assert found(128, 100) == (96, [128, 96])
assert found(96, 100) == (96, [96, 128])
assert found(32, 10**6, refused=60) == (48, [32, 48, 64])
assert found(16, 4) == (0, [16, 12, 8])
assert found(1, 14) == (12, [8, 12, 16])
assert found(20, 100)[0] == 96
""")


def test_the_figure_is_drawn(tmp_path):
    flags = ("--model=bert_l2_h128", "--step_seconds=0.1", f"--output={tmp_path / 'figure.png'}")
    printed = run_program(TOOLS / "scaling.py", *flags)
    assert "0.100 s a step (given), 17.5 MB to reduce." in printed
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
