"""Lists the models that `load` takes by name.

bert_zoo list
bert_zoo list "albert*" "*_nano"
bert_zoo list --provides embedding
"""

from bert_zoo.cli.program import Program
from bert_zoo.error_text import nearest
from bert_zoo.registry import list_models

PROGRAM = Program(__doc__, takes_arguments=True)
_PROVIDES = PROGRAM.string(
    "provides", None, "Those whose released files have the head of this task, such as masked_lm."
)


def main(patterns: list[str]) -> None:
    for pattern in patterns or ["*"]:
        names = list_models(pattern, provides=_PROVIDES.value)
        if not names:
            among = f" among those that provide {_PROVIDES.value}" if _PROVIDES.value else ""
            raise ValueError(
                f"No name matches {pattern!r}{among}.{nearest(pattern, list_models())} Patterns are "
                'globs, such as "albert*".'
            )
        print("\n".join(names))
