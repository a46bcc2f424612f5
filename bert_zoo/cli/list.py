"""Lists the names of all models.

bert_zoo list
bert_zoo list "albert*" "*_nano"
bert_zoo list --provides embedding
"""

from bert_zoo.cli.program import Program
from bert_zoo.error_text import nearest
from bert_zoo.registry import list_models

PROGRAM = Program(__doc__, takes_arguments=True)
_PROVIDES = PROGRAM.string(
    "provides", None, "Only models released with this task's head, for example masked_lm."
)


def main(patterns: list[str]) -> None:
    for pattern in patterns or ["*"]:
        names = list_models(pattern, provides=_PROVIDES.value)
        if not names:
            among = f" among models that provide {_PROVIDES.value}" if _PROVIDES.value else ""
            raise ValueError(
                f"No model matches {pattern!r}{among}.{nearest(pattern, list_models())} Names may "
                'have wildcards, as in "albert*".'
            )
        print("\n".join(names))
