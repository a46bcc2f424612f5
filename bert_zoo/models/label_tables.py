"""Labels in tables, whose columns are told apart by their names and never by their order."""

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
        table: one column of labels, of any name but a class's; or one column a class, in any order.
        argument: the name of the argument that the table was given as.
        classes: the names of the classes, or the range of their numbers; empty where labels are no
            classes.
        advice: what else an error recommends.

    Returns:
        The list of labels; or an array [rows, classes], columns in the order of the classes.

    Raises:
        ValueError: the columns are neither.
    """
    columns = column_names(table)
    is_of_classes = len(columns) == len(set(columns)) == len(classes)
    for order in (classes, range(len(classes))):
        if is_of_classes and set(columns) == set(order):
            return np.column_stack([np.asarray(as_list(table[name])) for name in order])
    # One column with a class's name says of that class alone whether it applies.
    if len(columns) == 1 and columns[0] not in classes:
        return as_list(table[columns[0]])
    several = f", or one column for each class, of {quoted(classes)}" if classes else ""
    raise ValueError(
        f"{argument} is a table with the columns {quoted(columns)}. Pass one column, such as "
        f"{argument}=table[{columns[0] if columns else 'label'!r}]{several}.{advice}"
    )
