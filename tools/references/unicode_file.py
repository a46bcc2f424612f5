"""Sets of code points as bert_zoo/text/unicode_tables.json has them; the notation is its reader's."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "bert_zoo" / "text" / "unicode_tables.json"


def ranges_of(codes: Iterable[int]) -> str:
    """Writes a set of code points as `first-last` ranges."""
    ranges: list[list[int]] = []
    for code in sorted(codes):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return " ".join(f"{a:x}" if a == b else f"{a:x}-{b:x}" for a, b in ranges)


def write_section(name: str, source: str, tables: Mapping[str, str]) -> None:
    """Replaces a section of the file, and leaves the others as they are."""
    sections = json.loads(FILE.read_text(encoding="utf-8"))
    sections[name] = {"source": source, "tables": dict(tables)}
    FILE.write_text(json.dumps(sections, indent=1) + "\n", encoding="utf-8")
    print(f"{FILE}: {name}, {len(tables)} tables from {source}")
