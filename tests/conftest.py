"""What holds for every test."""

import random

import numpy as np
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Starts every test from the same numbers, so that one that fails fails again.

    Keras draws the seeds of initializers and dropout from `random`, NumPy's are for the tests' own
    inputs. Before fixtures, as those of a module make models too.
    """
    random.seed(0)
    np.random.seed(0)
