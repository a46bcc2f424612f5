"""What a model's SavedModel takes and gives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Interface:
    """The names of a SavedModel's signatures; `bert_zoo.serving` traces them.

    Attributes:
        outputs: the model's outputs that signatures give, as far as the model has them. A model that
            returns a tensor and no dict has one.
        of_rows: those of them that have one value or several a row and none a token, of models whose
            outputs are of tokens.
        texts: inputs of the signature that takes texts -> their rank.
        pairs: whether one text or two can be read.
        labels: inputs int [batch, length] that the model reads beside those of its encoder.
        steps: signatures that carry a state, of models that have one -> whether they give the next
            token's log-probabilities and nothing else.
        text_name: what the signature that takes texts is called beside `serving_default`.
    """

    outputs: tuple[str, ...] = ("logits",)
    of_rows: tuple[str, ...] = ()
    texts: tuple[tuple[str, int], ...] = (("text", 1),)
    pairs: bool = True
    labels: tuple[str, ...] = ()
    steps: tuple[tuple[str, bool], ...] = (("step", False),)
    text_name: str | None = None
