"""Writes the tables that README and docs/ have from the registry and the code, between comments that name them.

python tools/site/tables.py
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import which_model
from family_page import MILLION, ROOT, facts, is_offline, reads, stacked, table

from bert_zoo.family import Bundled, Checkpoint, Family
from bert_zoo.registry import registry

PACKAGE = ROOT / "bert_zoo"
PAGES = ("README.md", "docs/families/index.md", "docs/code.md")
PLACE = re.compile(
    r"(?P<begin><!-- table: (?P<name>\w+), written by tools/site/tables\.py -->\n).*?(?=<!-- end -->)",
    flags=re.DOTALL,
)


def families_of_readme() -> str:
    """A row per family: name and page, what else belongs to it, millions of parameters, names without download."""
    rows = []
    for name, family in registry().families.items():
        page = facts(name)
        sizes = _range(family, lambda params: f"{params / MILLION:,.0f}")
        link = f"[{page['title']}](docs/families/{name}.md)"
        rows.append(
            [", also ".join(filter(None, (link, page.get("also")))), sizes, _offline(family)]
        )
    return table(["family", "sizes", "ready offline"], rows)


def families_of_index() -> str:
    """A row per family: what it is good for, parameters, the longest input, names without download, licences."""
    rows = []
    for name, family in registry().families.items():
        page, released = facts(name), _released(family)
        longest = max(released, key=lambda c: c.text.max_length, default=None)
        licences = ", ".join(dict.fromkeys(_short(c.licence) for c in released))
        sizes = _range(family, _size)
        link = f"[{page['title']}]({name}.md)"
        rows.append(
            [link, page["good for"], sizes, reads(name, longest), _offline(family), licences]
        )
    return stacked(["family", "good for", "parameters", "reads", "offline", "licence"], rows)


def which_model_of_index() -> str:
    """A row per need: task, what for, languages, name, longest input, parameters, licence."""
    rows = []
    for task, need, languages, name in which_model.rows():
        family, checkpoint = registry().resolve(name)
        link = f"[`{name}`]({family.name}.md)"
        limits = [reads(family.name, checkpoint), _size(checkpoint.params)]
        licence = _short(checkpoint.licence).removeprefix("some ")
        rows.append([task, need, languages, link, *limits, licence])
    heads = ["task", "for", "languages", "load", "reads", "parameters", "licence"]
    return stacked(heads, rows)


def _released(family: Family) -> list[Checkpoint]:
    """The checkpoints that others trained."""
    return [c for c in family.checkpoints if not is_offline(c, Bundled)]


def _range(family: Family, size: Callable[[int], str]) -> str:
    """Sizes of the smallest and the largest released checkpoint."""
    params = [checkpoint.params for checkpoint in _released(family)]
    if not params:
        return ""
    return " to ".join(dict.fromkeys(map(size, (min(params), max(params)))))


def _offline(family: Family) -> str:
    return ", ".join(f"`{c.full_name}`" for c in family.checkpoints if is_offline(c))


def _size(params: int) -> str:
    millions = params / MILLION
    return f"{millions:.0f} M" if millions < 1000 else f"{millions / 1000:.1f} B"


def _short(licence: str) -> str:
    name = licence.partition(" (")[0]
    if "-NC" in name:
        return f"{name} (not commercial)"
    return "some unknown" if name.startswith(("not declared", "unknown")) else name


def levels_of_code() -> str:
    """A row per folder or file of the package: its level, what it holds, and what it imports above the ground."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    levels = [level.split(" : ") for level in contract["layers"]]
    order = [name for level in levels for name in level if level is not levels[-1]]
    rows = []
    for number, level in zip(range(len(levels), 0, -1), levels, strict=True):
        for name in level:
            imported = _imports(name)
            arrows = ", ".join(other for other in order if other in imported and other != name)
            rows.append([str(number), f"`{_place(name)}`", _holds(name), arrows])
    return stacked(["level", "folder or file", "what it holds", "imports"], rows)


def _place(name: str) -> str:
    return f"bert_zoo/{name}" if (PACKAGE / name).is_dir() else f"bert_zoo/{name}.py"


def _files(name: str) -> list[Path]:
    """The Python files of a folder or module of the package, its first one first."""
    folder = PACKAGE / name
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def _holds(name: str) -> str:
    """The first sentence of its docstring."""
    docstring = ast.get_docstring(ast.parse(_files(name)[0].read_text(encoding="utf-8")))
    return re.split(r"(?<=\.)\s", docstring, maxsplit=1)[0].replace("\n", " ")


def _imports(name: str) -> set[str]:
    """Folders and files of the package that it imports, inside functions too."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in _files(name))
    return {
        module.split(".")[1]
        for tree in trees
        for node in ast.walk(tree)
        for module in _modules(node)
        if module.startswith("bert_zoo.")
    }


def _modules(node: ast.AST) -> Iterator[str]:
    """What an import names, as bert_zoo.FOLDER..."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


TABLES = {
    "which_model_of_index": which_model_of_index,
    "families_of_readme": families_of_readme,
    "families_of_index": families_of_index,
    "levels_of_code": levels_of_code,
}


def written(text: str) -> str:
    """A page with its tables as they are now."""
    return PLACE.sub(lambda found: f"{found['begin']}\n{TABLES[found['name']]()}\n\n", text)


if __name__ == "__main__":
    for page in PAGES:
        path = ROOT / page
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(path)
