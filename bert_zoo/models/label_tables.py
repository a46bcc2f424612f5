"""Labels in tables, whose columns are identified by name and never by order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_zoo.error_text import quoted
from bert_zoo.text.columns import as_list, column_names


def labels_of_table(
    table: Any, argument: str, classes: Sequence[str] | range = (), advice: str = ""
) -> Any:
    """The labels, or weights, in a table of pandas, polars, pyarrow or `datasets`.

    Args:
        table: one column of labels, whose name is not a class; or one column per class, in any order.
        argument: name of the argument, for messages.
        classes: names of the classes, or the range of their numbers; empty if labels are not classes.
        advice: further advice for the error message.

    Returns:
        A list of labels, or an array [rows, classes] with columns in the order of the classes.

    Raises:
        ValueError: the table has other columns.
    """
    columns = column_names(table)
    is_of_classes = len(columns) == len(set(columns)) == len(classes)
    for order in (classes, range(len(classes))):
        if is_of_classes and set(columns) == set(order):
            return np.column_stack([np.asarray(as_list(table[name])) for name in order])
    # A single column with a class's name only says whether that class applies.
    if len(columns) == 1 and columns[0] not in classes:
        return as_list(table[columns[0]])
    several = f", or one column for each class, of {quoted(classes)}" if classes else ""
    raise ValueError(
        f"{argument} is a table with the columns {quoted(columns)}. Pass one column, such as "
        f"{argument}=table[{columns[0] if columns else 'label'!r}]{several}.{advice}"
    )
