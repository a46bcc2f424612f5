"""Tables and columns of pandas, polars, pyarrow and `datasets`, without an import of any of them."""

from collections.abc import Sequence
from numbers import Real
from typing import Any


def column_names(value: Any) -> list[Any] | None:
    """The names of a table's columns; None for what is no table."""
    for attribute in ("column_names", "columns"):  # pyarrow's `columns` are not their names
        names = getattr(value, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return None


def as_list(column: Any) -> Any:
    """A column as a list; what is none, such as a list, an array or a tensor, as it is."""
    for method in ("to_pylist", "to_list"):
        if hasattr(column, method):
            return getattr(column, method)()
    is_sequence = isinstance(column, Sequence) and not isinstance(
        column, list | tuple | str | bytes
    )
    return list(column) if is_sequence else column


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or pandas' NA, which no comparison finds."""
    is_na = value is None or type(value).__name__ in ("NAType", "NaTType")
    return is_na or (isinstance(value, Real) and value != value)
