"""Loads a package's names on first use, so that importing the package stays fast."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def loaded_on_first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a package's `__getattr__` (PEP 562).

    Args:
        package: the package's `__name__`.
        modules: name -> the module that defines it.
    """

    def get(name: str) -> Any:
        if name in modules:
            return getattr(importlib.import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}.")

    return get
