"""The Rust tokenizers that bert_zoo's are measured against, with the options of bert_zoo's own.

What the programs beside it share besides: paths, code points, and how tables and answers are written.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "text"
# Sets of code points; the notation is its reader's.
UNICODE_TABLES = ROOT / "bert_zoo" / "text" / "unicode_tables.json"
SHARED_DATA = ROOT.parent / "shared" / "data"
CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]

# The texts that both sides read lie beside the tests.
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def run(commands: dict[str, Callable[..., None]]) -> None:
    """Runs the command that the first argument names on the others."""
    program, *arguments = sys.argv
    if not arguments or arguments[0] not in commands:
        sys.exit(f"usage: {Path(program).name} {'|'.join(commands)} ...; got {arguments}")
    commands[arguments[0]](*arguments[1:])


def write_answers(name: str, answers: dict[str, Any]) -> None:
    """Writes a golden file that changes only when the answers do: there is no time stamp in it."""
    path = GOLDEN / name
    payload = json.dumps(answers, separators=(",", ":")).encode("utf-8")
    path.write_bytes(gzip.compress(payload, mtime=0))
    print(f"{path}: {path.stat().st_size} bytes")


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
    sections = json.loads(UNICODE_TABLES.read_text(encoding="utf-8"))
    sections[name] = {"source": source, "tables": dict(tables)}
    UNICODE_TABLES.write_text(json.dumps(sections, indent=1) + "\n", encoding="utf-8")
    print(f"{UNICODE_TABLES}: {name}, {len(tables)} tables from {source}")


def bert(directory: str | Path, lowercase=None, strip_accents=None, split_cjk=None) -> Any:
    from transformers import BertTokenizerFast

    options = {
        "do_lower_case": lowercase,
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": split_cjk,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return BertTokenizerFast.from_pretrained(str(directory), **given).backend_tokenizer


def roberta(directory: str | Path, lstrip_mask: bool = True, add_prefix_space: bool = False) -> Any:
    from tokenizers import AddedToken
    from transformers import RobertaTokenizer

    mask = AddedToken("<mask>", lstrip=lstrip_mask, normalized=False, special=True)
    return RobertaTokenizer.from_pretrained(
        str(directory), mask_token=mask, add_prefix_space=add_prefix_space
    ).backend_tokenizer


def albert(directory: str | Path, **_: bool) -> Any:
    # Ours has options that make it do as theirs always does.
    from tokenizers import Tokenizer
    from transformers import AlbertTokenizer

    made = json.loads(AlbertTokenizer.from_pretrained(str(directory)).backend_tokenizer.to_str())
    # transformers 5.23 cuts texts at pieces such as "." and "-", unlike the released tokenizer.json.
    made["added_tokens"] = [token for token in made["added_tokens"] if token["special"]]
    return Tokenizer.from_str(json.dumps(made))


def xlm_roberta(directory: str | Path) -> Any:
    from transformers import XLMRobertaTokenizer

    return XLMRobertaTokenizer.from_pretrained(str(directory)).backend_tokenizer


MAKERS = {"bert": bert, "roberta": roberta, "albert": albert, "xlm_roberta": xlm_roberta}


def encode(backend: Any, texts: list[str]) -> list[Any]:
    """The encodings of whole texts, without special tokens."""
    backend.no_truncation()
    backend.no_padding()
    return backend.encode_batch(texts, add_special_tokens=False)


def ids(backend: Any, texts: list[str]) -> list[list[int]]:
    return [encoding.ids for encoding in encode(backend, texts)]
