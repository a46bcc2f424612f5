"""What the licence of a base checkpoint means for a model that is trained from it."""

import re

# Hugging Face's identifiers (their list of licences for model cards). A licence that is qualified, or
# that its authors never declared, is "other" there, with the card's words as its name.
HUB_LICENCES = {
    "Apache-2.0": "apache-2.0",
    "MIT": "mit",
    "CC-BY-NC-4.0 (not for commercial use)": "cc-by-nc-4.0",
}
NONCOMMERCIAL = re.compile(r"\bNC\b|non-?commercial|not for commercial", re.IGNORECASE)


def forbids_commerce(licence: str) -> bool:
    """Whether a licence allows no commercial use."""
    return NONCOMMERCIAL.search(licence) is not None


def warning(model: str, licence: str) -> str:
    """What must be said loudly of a model trained from a non-commercial checkpoint."""
    return (
        f"Not for commercial use. The base checkpoint {model} is licensed under {licence}, and what "
        "is trained from it may not be used commercially either."
    )
