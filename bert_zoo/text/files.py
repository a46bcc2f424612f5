"""Files of vocabulary directories."""

import json
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any]:
    """Returns a file's object, or an empty one where there is no such file.

    Raises:
        ValueError: not JSON, or JSON of another kind.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}. Fetch the file again.") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}, where an object was expected.")
    return value
