"""What a release saved loads in this version, and gives what it gave then; a release is named alike everywhere."""

import re
import tomllib

import pytest
from installed import CHECKOUT, SAVED, check_saved

DIRECTORIES = sorted(SAVED.glob("*/*"))


def test_there_are_models_that_releases_saved():
    assert DIRECTORIES


@pytest.mark.parametrize(
    "directory", DIRECTORIES, ids=lambda path: path.relative_to(SAVED).as_posix()
)
def test_a_model_that_a_release_saved_gives_the_same(directory):
    check_saved(directory)


def test_a_release_is_named_alike_everywhere():
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    citation = (CHECKOUT / "CITATION.cff").read_text()
    date = re.search(r"^date-released: (.+)$", citation, re.MULTILINE)[1]
    assert f"\nversion: {version}\n" in citation
    headings = re.findall(r"^## (.+)$", (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == f"{version} ({date})"
    assert (SAVED / version).is_dir(), "Run tools/save_release.py."
