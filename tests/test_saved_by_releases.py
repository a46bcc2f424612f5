"""What a release saved loads in this version, and gives what it gave then."""

import pytest
from installed import SAVED, check_saved

DIRECTORIES = sorted(SAVED.glob("*/*"))


def test_there_are_models_that_releases_saved():
    assert DIRECTORIES


@pytest.mark.parametrize(
    "directory", DIRECTORIES, ids=lambda path: path.relative_to(SAVED).as_posix()
)
def test_a_model_that_a_release_saved_gives_the_same(directory):
    check_saved(directory)
