"""The page that compares libraries: what it is made of, and KerasHub's differences, which can be run here."""

import datetime

import pytest
from helpers import ALL_GOLDEN

from bert_zoo.registry import registry


@pytest.fixture
def tools(monkeypatch, request):
    monkeypatch.syspath_prepend(request.config.rootpath / "tools")
    monkeypatch.syspath_prepend(request.config.rootpath / "tools" / "references" / "peers")


def test_the_page_has_every_family_and_says_what_was_not_run(tools):
    import comparison_page

    assert set(comparison_page.FAMILIES) <= set(registry().families)
    encoders = map("{}/encoder".format, registry().families)
    found = {
        "version": "0.32",
        "differences": dict.fromkeys([*encoders, *comparison_page.FORMATS], 1.5e-6),
        "features": dict.fromkeys(comparison_page.FEATURES),
        "lines": {},
    }
    found["features"]["writes_hugging_face"] = "ValueError: Export is not implemented"
    found["differences"] |= {
        "xlm/encoder": "ValueError: there is no converter",
        "fairseq/fairseq_old": "FileNotFoundError: config.json",
        "bert/classification": 1e-6,
        "bert/masked_lm": 7.0,
    }
    figures = {"median": 0.9, "ratio": 1.2, "ratios": [1.1, 1.3]}
    speed = {
        **{"date": "2026-11-24", "processor": "Xeon", "threads": 2, "rounds": 7},
        **{"shape": [8, 128], "texts": 512},
        "libraries": {
            "bert_zoo": {"versions": ["0.1", "tensorflow 2.21.0"], "difference": 0.0},
            "keras_hub": {"versions": ["0.32", "keras 3.15"], "difference": 7e-4},
        },
        "races": {"forward": {"bert_zoo": figures, "keras_hub": figures}},
    }
    pages = [
        comparison_page.page({"keras_hub": found}, datetime.date(2026, 11, 23), of)
        for of in (None, speed)
    ]
    assert "Not measured." in pages[0]
    page = pages[1]
    assert "on 23 November 2026" in page and "KerasHub 0.32" in page
    assert "on 24 November 2026: Xeon, 2 threads" in page
    assert "| bert_zoo 0.1 | tensorflow 2.21.0 | 0.90 s | 0.0e+00 |  |" in page
    assert "| KerasHub 0.32 | keras 3.15 | 0.90 s (1.20x, 1.10–1.30) | 7.0e-04 |  |" in page
    assert "| [BERT](families/bert.md) | not run | not run | 1.5e-06 |" in page
    assert "| [XLM](families/xlm.md) | not run | not run | not read |" in page
    assert "| `fit` on strings | not run | not run | yes |" in page
    assert "| writes Hugging Face directories (BERT) | not run | not run | no |" in page
    assert "| heads read from Hugging Face directories | not run | not run | 1 of 2 |" in page
    assert "| not run | not run | `tf_model.h5`, TF1, Model Garden, KerasHub, bert4keras |" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "family", "most"),
    [("keras_hub", "gpt2", 1e-5), ("keras_hub", "bert", 1e-3), ("bert_zoo", "bert", 1e-5)],
)
def test_a_library_gives_what_the_page_says(tools, library, family, most):
    import exactness

    assert exactness.difference(getattr(exactness, library), ALL_GOLDEN / family / "encoder") < most


def test_a_checkpoint_that_is_not_read_is_said_so(tools):
    import exactness

    def load(directory, task):
        raise ValueError(f"no converter for {directory}\nand more")

    assert (
        exactness.difference(load, ALL_GOLDEN / "bert" / "encoder")
        == "ValueError: no converter for DIRECTORY"
    )
