"""What mkdocs does beside reading docs/: pages of other folders, a folder in the navigation, families and
their pictures.

mkdocs calls these functions by their names: https://www.mkdocs.org/user-guide/plugins/#events.
"""

import re
from pathlib import Path
from typing import Any

from family_page import family_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from search import WORDS, check

from bert_zoo.registry import registry

ROOT = Path(__file__).parents[2]
# Pages that stand in the repository where its readers look for them, beside docs/.
OUTSIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "checkpoints/README.md")
FAMILIES = "families/"
FIGURES = ROOT / "docs" / "figures" / "families"
# Where a section of README stands in a page.
SECTION = re.compile(r"<!-- README: (?P<title>.+) -->")
PICTURE = re.compile(r"!\[[^\]]*\]\(\.\./figures/families/(?P<name>\w+\.svg)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the pages of the folders that the navigation names."""
    config.nav = _with_pages_of_folders(config.nav, Path(config.docs_dir))
    return config


def _with_pages_of_folders(nav: Any, docs: Path) -> Any:
    if isinstance(nav, list):
        return [_with_pages_of_folders(entry, docs) for entry in nav]
    if isinstance(nav, dict):
        return {title: _with_pages_of_folders(entry, docs) for title, entry in nav.items()}
    if not nav.endswith("/"):
        return nav
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.glob(f"{nav}*.md"))
    # The folder's own page first.
    return sorted(pages, key=lambda page: not page.endswith("/index.md"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that stand outside docs/, at the places that their links are written for."""
    cards = ROOT.glob("checkpoints/*/README.md")
    names = [*OUTSIDE, *(card.relative_to(ROOT).as_posix() for card in cards)]
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        content = re.sub(r"\]\(((\.\./)*)docs/", r"](\1", text)
        files.append(File.generated(config, name, content=content))
    for figure in ROOT.glob("checkpoints/*/*.png"):
        name = figure.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Puts pictures and what the registry knows of families into their pages.

    Spreads such as `0.8 ± 0.1` and `1.2 (1.1–1.3)` are kept on one line.
    """
    page.meta["tags"] = list(WORDS.get(page.file.src_uri, ()))
    markdown = SECTION.sub(lambda found: _of_readme(found["title"]), markdown)
    markdown = markdown.replace(" ± ", "\u00a0±\u00a0")
    markdown = re.sub(r"(\d) (\(\d[\d.]*)–([\d.]+\))", "\\1\u00a0\\2\u2060–\u2060\\3", markdown)
    name = Path(page.file.src_uri)
    if page.file.src_uri.startswith(FAMILIES) and name.stem in registry().families:
        shown = PICTURE.sub(lambda found: _inlined(FIGURES / found["name"]), markdown)
        return shown + family_page(registry().families[name.stem])
    # From docs/, the repository's root is a folder up; in the site the root's pages are beside them.
    up = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"](../{up}", f"]({up}")


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keeps flags in one piece: browsers would break them after their hyphens."""
    return re.sub(
        r"<code>[^<]*</code>",
        lambda code: re.sub(r"(?<=[ >])--\w+", r'<span class="flag">\g<0></span>', code[0]),
        html,
    )


def on_post_build(config: MkDocsConfig) -> None:
    """Checks what the search finds."""
    check(Path(config.site_dir) / "search" / "search_index.json")


def _of_readme(title: str) -> str:
    """Returns a section of README, with links that start at docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    heading = f"## {title}\n"
    section = text[text.index(heading) :].removeprefix(heading).partition("\n## ")[0]
    return f"{heading}{section}".replace("](docs/", "](")


def _inlined(figure: Path) -> str:
    """A picture as a part of the page, where it has the colours of the scheme that the reader chose."""
    return f"<div data-search-exclude>\n{figure.read_text(encoding='utf-8')}</div>"
