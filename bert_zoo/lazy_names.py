"""Names of a package that are loaded on first use, so that importing it stays light."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def loaded_on_first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package (PEP 562).

    Args:
        package: its `__name__`.
        modules: name -> the module that defines it.
    """

    def get(name: str) -> Any:
        if name in modules:
            return getattr(importlib.import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}.")

    return get
