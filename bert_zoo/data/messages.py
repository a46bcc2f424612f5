"""The data set in the package: messages to an online shop, labelled with eight intents.

`messages/README.md` describes the intents and the licence.
"""

from importlib import resources

from bert_zoo.data.files import check_known
from bert_zoo.data.tables import read_table

LABELS = (
    "account_access",
    "cancel_order",
    "damaged_or_wrong_item",
    "payment_problem",
    "product_question",
    "refund_status",
    "return_item",
    "track_delivery",
)
SPLITS = ("train", "test")


def load(split: str) -> tuple[list[str], list[int]]:
    """Reads a split of the package's own data set: messages to an online shop, with eight intents.

    Args:
        split: "train" (600 messages, 75 per intent) or "test" (120 messages, 15 per intent).

    Returns:
        The messages [N], and the index of each one's intent in `LABELS` [N].

    Raises:
        ValueError: the split does not exist.
    """
    check_known("The shop's inbox has no split", split, SPLITS)
    file = resources.files("bert_zoo.data").joinpath("messages", f"{split}.tsv")
    with resources.as_file(file) as path:
        table = read_table(path, label_names=LABELS)
    return table.texts, table.labels
