"""Loads a package's names on first use, so that importing the package stays fast."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def loaded_on_first_use(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__` (PEP 562); `modules` maps a name to the module that defines it."""

    def get(name: str) -> Any:
        if name in modules:
            return getattr(importlib.import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}.")

    return get, lambda: sorted(modules)
