"""The examples of README and docs/ run as they stand, and give what the pages say.

A page runs from top to bottom, in one namespace and a directory of its own. Numbers behind a statement's
comment, and a block of `text` behind an example, are what it prints; trained as the page says, it gives
nearly those. Comments that readers do not see say the rest:

    <!-- first                    what an example takes as given, run before it
    texts = ["one", "another"]
    -->
    <!-- not run: why -->         the next example is compiled and no more
"""

import ast
import copy
import html
import importlib
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import absl.flags
import pytest
from helpers import needs_minilm, slow_but

import bert_zoo
from bert_zoo.__main__ import VERBS
from bert_zoo.cli.program import HELP
from bert_zoo.registry import registry

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FAMILIES = registry().families
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "checkpoints/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md")),
]
EXAMPLE = re.compile(
    r"^<!-- first\n(?P<first>.*?)^-->$"
    r"|^(?P<not_run><!-- not run: [^\n]+ -->\n)?```python\n(?P<code>.*?)^```$"
    r"(?:\n+```text\n(?P<printed>.*?)^```$)?",
    flags=re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"-?\d+\.\d+")
TRAINS = re.compile(r"\.fit\(|\bmain\(\)")
# What is loaded in the place of weights that would be downloaded.
STAND_INS = {"bert_base": "minilm_l6"}


@dataclass
class Example:
    code: str
    printed: str  # what the page says that all of it prints, if it says so
    hidden: bool  # from readers
    runs: bool


def examples(text: str) -> Iterator[Example]:
    for found in EXAMPLE.finditer(text):
        hidden = found["first"] is not None
        code = found["first"] if hidden else found["code"]
        yield Example(code, found["printed"] or "", hidden, runs=not found["not_run"])


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


WITH_EXAMPLES = [page for page in PAGES if any(examples(text_of(page)))]
# They take seconds; `make test-docs` runs the others in short, which the variable IN_SHORT asks for.
WITHOUT_TRAINING = [
    *("CONTRIBUTING.md", "docs/api/data.md", "docs/api/metrics.md"),
    *(
        page
        for page in WITH_EXAMPLES
        # One of them has a graph of several columns of texts, which takes long to trace.
        if page.startswith("docs/migrating/") and not page.endswith("/sentence_transformers.md")
    ),
]
# Fewer rows would not do.
AS_SAID = (
    "docs/api/distillation.md",
    "docs/api/probing.md",
    "docs/howto/measure_search.md",
    "docs/howto/search.md",
    "docs/howto/which_search.md",
    "docs/finetuning.md",
    "docs/howto/adapt.md",
    "docs/howto/make_it_small.md",
    "docs/howto/probe.md",
)


def agree(shown: str, wanted: str, trained: bool = False) -> bool:
    """Whether the words are the same, and the numbers too but for rounding.

    Args:
        trained: the numbers come from weights trained here, which differ by machine; nearly is enough.
    """
    words, wanted_words = (NUMBER.sub("", text).split() for text in (shown, wanted))
    numbers, wanted_numbers = (NUMBER.findall(text) for text in (shown, wanted))
    return words[: len(wanted_words)] == wanted_words and all(
        abs(float(number) - float(other)) < (0.35 if trained else rounding(other) + 1e-3)
        for number, other in zip(numbers, wanted_numbers, strict=False)
    )


def rounding(number: str) -> float:
    return 0.5 / 10 ** len(number.partition(".")[2])


def one_short_epoch(monkeypatch) -> None:
    """Trains on few rows, once: what comes out is not compared."""
    from bert_zoo.data import messages
    from bert_zoo.models.base import ZooModel

    fit, load = ZooModel.fit, messages.load
    monkeypatch.setattr(
        ZooModel, "fit", lambda *args, **options: fit(*args, **options | {"epochs": 1})
    )
    monkeypatch.setattr(messages, "load", lambda split: tuple(c[:24] for c in load(split)))


def run(text: str, read_output, compare_trained: bool = True) -> None:
    """Runs a page's examples, statement by statement.

    Args:
        read_output: gives what was printed since it was called before.
        compare_trained: whether results behind the first training are compared.
    """
    names, trained = {"__name__": "__main__"}, False
    for example in examples(text):
        compile(example.code, "example", "exec")
        if not example.runs:
            continue
        lines = example.code.splitlines()
        printed = ""
        for statement in ast.parse(example.code).body:
            source = ast.get_source_segment(example.code, statement)
            comment = lines[statement.end_lineno - 1].partition("  # ")[2]
            trained |= TRAINS.search(source) is not None
            comparing = compare_trained or not trained
            read_output()
            if isinstance(statement, ast.Expr):
                value = eval(source, names)
                output = read_output()
                printed += output
                shown = output if value is None else str(value)
                if NUMBER.search(comment) and comparing:
                    assert agree(shown, comment, trained), (source, shown)
            else:
                exec(source, names)
                printed += read_output()
        if example.printed and comparing:
            assert agree(printed, example.printed, trained), printed


@pytest.fixture
def page_runner(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    entries = registry()._entries
    for name, stand_in in STAND_INS.items():
        monkeypatch.setitem(entries, name, entries[stand_in])
    return lambda text, **options: run(text, lambda: capsys.readouterr().out, **options)


@needs_minilm
@pytest.mark.parametrize("page", slow_but(WITH_EXAMPLES, *WITHOUT_TRAINING))
def test_a_page_runs_from_top_to_bottom(page, page_runner, monkeypatch):
    in_short = "IN_SHORT" in os.environ and page not in AS_SAID
    if in_short:
        one_short_epoch(monkeypatch)
    page_runner(text_of(page), compare_trained=not in_short)


def test_the_sites_navigation_has_every_how_to_page_once():
    # mkdocs takes an entry that is indented wrongly for a link, without a word.
    yaml = pytest.importorskip("yaml")
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    (entries,) = (entry["How to"] for entry in nav if "How to" in entry)
    pages = [
        page
        for entry in entries
        for page in ([entry] if isinstance(entry, str) else next(iter(entry.values())))
    ]
    assert sorted(pages) == sorted(f"howto/{path.name}" for path in (DOCS / "howto").glob("*.md"))


def test_the_examples_that_do_not_run_are_python():
    for page in WITH_EXAMPLES:
        for example in examples(text_of(page)):
            compile(example.code, page, "exec")


def test_an_example_that_prints_something_else_fails(page_runner):
    page_runner("```python\nprint('a 0.50')\n```\n\n```text\na 0.501\n```\n")
    with pytest.raises(AssertionError, match=r"a 0\.50"):
        page_runner("```python\nprint('a 0.50')\n```\n\n```text\nb 0.51\n```\n")


# --- Families and reference ----------------------------------------------------------------------


def test_every_family_has_a_page():
    pages = {path.stem for path in (DOCS / "families").glob("*.md")} - {"index"}
    assert pages == set(FAMILIES)


@pytest.fixture
def site_tools(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools" / "site")


SECTIONS = ["The paper in five sentences", "Example", "Differences from the paper"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_familys_page_has_five_sentences_an_example_with_its_output_and_differences(name):
    text = text_of(f"docs/families/{name}.md")
    sections = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert [section for section in sections if section in SECTIONS] == SECTIONS
    paper = text.partition(f"## {SECTIONS[0]}\n\n")[2].partition("\n\n")[0]
    assert len(re.split(r"(?<=[.?])\s+", paper.replace("et al. ", ""))) == 5
    assert any(example.printed for example in examples(text))
    assert "\n- " in text.partition(f"## {SECTIONS[2]}\n")[2]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_generated_part_of_a_page_has_every_checkpoint(name, site_tools):
    from family_page import family_page

    generated = family_page(FAMILIES[name])
    for checkpoint in FAMILIES[name].checkpoints:
        assert f"`{checkpoint.full_name}`" in generated
        assert checkpoint.licence in generated


def test_charts_are_drawn_from_the_tables_beside_them(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools" / "site")
    import charts

    drawn = charts.drawn()
    assert {path.name for path in charts.FIGURES.iterdir()} == set(drawn)
    for name, picture in drawn.items():
        # After a change of a table: python tools/site/charts.py
        assert (charts.FIGURES / name).read_text(encoding="utf-8") == picture, name


def test_readmes_picture_is_what_its_script_draws(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools" / "site")
    import overview

    # After a change of the script: python tools/site/overview.py
    assert overview.FIGURE.read_text(encoding="utf-8") == overview.draw()


def test_the_site_has_pages_and_sections_of_readme_to_find(site_tools):
    from search import WORDS

    assert not [page for page in WORDS if not (DOCS / page).is_file()]
    words = [word for some in WORDS.values() for word in some]
    # `make docs` asks the finished site's search for each of them.
    assert len(words) == len({*words})
    sections = re.findall(r"<!-- README: (.+) -->", text_of("docs/index.md"))
    assert sections and {f"## {title}" for title in sections} <= {*text_of("README.md").split("\n")}


def test_tables_say_what_the_registry_and_the_code_do(site_tools):
    import tables

    for page in tables.PAGES:
        # After a change of a family, a checkpoint or an import: python tools/site/tables.py
        assert text_of(page) == tables.written(text_of(page)), page


@pytest.mark.parametrize("page", ["docs/code.md", "CONTRIBUTING.md"])
def test_files_and_functions_that_pages_for_developers_name_are_there(page):
    text = text_of(page)
    files = re.findall(r"`((?:bert_zoo|tests|tools|docs)/[\w/.-]+)`", text)
    assert files and not [file for file in files if not (ROOT / file).exists()]
    for name, file in re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", text):
        assert re.search(rf"^ *(def|class) {name}\b", text_of(file), re.MULTILINE), (name, file)


def test_pictures_of_families_are_shown_and_described():
    figures = DOCS / "figures" / "families"
    pages = "".join(text_of(f"docs/families/{name}.md") for name in FAMILIES)
    shown = re.findall(r"^!\[(.+)\]\(\.\./figures/families/(\w+)\.svg\)$", pages, flags=re.M)
    for description, name in shown:
        picture = (figures / f"{name}.svg").read_text(encoding="utf-8")
        assert 'class="family-picture" role="img"' in picture
        assert f'aria-label="{html.escape(description)}"' in picture
    assert {name for _, name in shown} == {path.stem for path in figures.iterdir()}


def test_pictures_of_answers_are_shown_and_described(site_tools):
    import pictures

    shown = set()
    for page in PAGES:
        for found in re.finditer(pictures.PICTURE, text_of(page), flags=re.MULTILINE):
            file = (ROOT / page).parent / found["file"]
            # After a change of a page: python tools/site/pictures.py
            title = ElementTree.parse(file).find("{http://www.w3.org/2000/svg}title")
            assert title.text == found["description"]
            shown.add(file.name)
    assert shown == {path.name for path in (DOCS / "figures" / "answers").iterdir()}


def test_the_reference_has_every_public_name():
    paths = re.findall(
        r"^::: (\S+)$",
        "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md")),
        flags=re.MULTILINE,
    )
    assert len(paths) == len(set(paths))
    objects = []
    for path in paths:
        module, _, name = path.rpartition(".")
        objects.append(getattr(importlib.import_module(module), name))
    packages = "charts distillation embeddings models layers training text tasks.objectives metrics probing runtime".split()
    for package in (bert_zoo, *(importlib.import_module(f"bert_zoo.{n}") for n in packages)):
        for name in package.__all__:
            thing = getattr(package, name)
            if callable(thing):
                assert thing in objects, f"{package.__name__}.{name} is missing in docs/api."


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/api/")])
def test_every_public_name_has_an_example(page):
    _, *parts = re.split(r"^::: (\S+)$", text_of(page), flags=re.MULTILINE)
    for path, section in zip(parts[::2], parts[1::2], strict=True):
        words = {
            word
            for example in examples(section)
            if not example.hidden
            for word in re.findall(r"\w+", example.code + example.printed)
        }
        module, _, name = path.rpartition(".")
        thing = getattr(importlib.import_module(module), name)
        # An object that a function returned shows its own attributes, not Keras's, or prints its class.
        classes = [c for c in getattr(thing, "__mro__", ()) if c.__module__.startswith("bert_zoo")]
        shown = {name, *getattr(thing, "__dataclass_fields__", ())}.union(*map(vars, classes))
        assert not words.isdisjoint(shown), f"{page}: {name} has no example."


# --- Other pages ---------------------------------------------------------------------------------


def test_how_to_install_stands_in_readme_and_on_one_page():
    """What pip installs from, which the first release on an index changes."""
    pages = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}
    says = re.compile(
        r"pip install [^`\n]*?(?<![\w/])(bert_zoo(?![\w\[-])|\.(?=[ \[]|$|`))", re.MULTILINE
    )
    found = {path.name: set(says.findall(path.read_text(encoding="utf-8"))) for path in pages}
    found = {name: sources for name, sources in found.items() if sources}
    assert found == {"README.md": {"."}, "installing.md": {"."}}


# --- Links ---------------------------------------------------------------------------------------


def links(text: str) -> list[tuple[str, str]]:
    """Path and anchor of each link of a page to a file of the tree."""
    prose = re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\((?!\w+:)([^)\s#]*)#?([^)\s]*)\)", prose)


def anchors(text: str) -> set[str]:
    """What a page's headings are called in links, as repositories show them."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_links_lead_to_files_and_headings(page):
    for path, anchor in links(text_of(page)):
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), anchor


# --- Commands ------------------------------------------------------------------------------------

# On a line of its own, behind variables of the environment, or within a sentence.
COMMAND = re.compile(
    r"^ *(?:[A-Z_]+=(?:'[^']*'|\S+) +)*(?P<line>(?:bert_zoo|python tools/\S+\.py) .+)$"
    r"|`(?P<inline>(?:bert_zoo|python tools/\S+\.py) [^`]+)`",
    flags=re.MULTILINE,
)


def commands(text: str) -> list[list[str]]:
    """The words of each command of a page."""
    found = COMMAND.finditer(text.replace("\\\n", " "))
    return [shlex.split(match["line"] or match["inline"], comments=True) for match in found]


def check_command(words: list[str]) -> None:
    """Raises an error unless there is such a program, and it takes these flags."""
    path = Path(words[1]) if words[0] == "python" else None
    verb = path.stem if path else words[1]
    if verb.isupper():
        return
    if path and verb not in VERBS:
        program = (ROOT / path).read_text(encoding="utf-8")
        if "from timing import" in program:  # which defines flags too
            program += (ROOT / "tools" / "timing.py").read_text(encoding="utf-8")
        flags = re.findall(r'DEFINE_\w+\(\s*"(\w+)"', program)
    else:
        assert verb in VERBS, words
        flags = importlib.import_module(f"bert_zoo.cli.{verb}").PROGRAM.flags
        # Their values too, unless words such as TASK stand for them. A copy, as parsing sets them.
        if not any(word.isupper() for word in words):
            copy.deepcopy(flags)([word for word in words[1:] if word not in HELP])
    given = {*re.findall(r"--(?:no)?(\w+)", " ".join(words))} - {"help"}
    assert given <= {*flags}, (words, given - {*flags})


@pytest.mark.parametrize("page", [page for page in PAGES if commands(text_of(page))])
def test_commands_are_programs_that_take_these_flags(page):
    for words in commands(text_of(page)):
        check_command(words)


@pytest.mark.parametrize(
    "command",
    [
        *("finetun", "predict --run R --rum a", "predict --rum a", "finetune --epochs three"),
        "python tools/benchmark.py --devices 4",
    ],
)
def test_a_command_that_does_not_exist_is_found(command):
    (words,) = commands(f"It is `{command if ' tools/' in command else f'bert_zoo {command}'}`.")
    with pytest.raises((AssertionError, absl.flags.Error)):
        check_command(words)


def test_flags_beside_those_of_other_programs_are_ours():
    tables = re.findall(
        r"^\|[^|\n]*\| `bert_zoo (\w+)` \|.*\n\|[-|]+\n((?:\|.*\n)+)",
        text_of("docs/migrating/google_research.md"),
        flags=re.MULTILINE,
    )
    assert {verb for verb, _ in tables} == {"finetune", "create_pretraining_data", "pretrain"}
    for verb, rows in tables:
        ours = [
            flag
            for row in rows.splitlines()
            for flag in row.split("|")[2:]
            if "bert_zoo" not in flag
        ]
        check_command(["bert_zoo", verb, "NAMES", *re.findall(r"--\w+", " ".join(ours))])
