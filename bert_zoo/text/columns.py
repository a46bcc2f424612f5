"""Reads tables and columns of pandas, polars, pyarrow and `datasets` without importing them."""

from collections.abc import Sequence
from numbers import Real
from typing import Any


def column_names(value: Any) -> list[Any] | None:
    """The names of a table's columns; None if the value is not a table."""
    for attribute in ("column_names", "columns"):  # pyarrow's `columns` are not their names
        names = getattr(value, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return None


def as_list(column: Any) -> Any:
    """Returns a column as a list; other values, such as lists, arrays and tensors, unchanged."""
    for method in ("to_pylist", "to_list"):
        if hasattr(column, method):
            return getattr(column, method)()
    is_sequence = isinstance(column, Sequence) and not isinstance(
        column, list | tuple | str | bytes
    )
    return list(column) if is_sequence else column


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or pandas' NA, which cannot be found by comparison."""
    is_na = value is None or type(value).__name__ in ("NAType", "NaTType")
    return is_na or (isinstance(value, Real) and value != value)
