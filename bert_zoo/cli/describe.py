"""Describes models: sizes, parameters, licence, paper, sources, scores.

bert_zoo describe minilm_l6
"""

from bert_zoo.cli.program import Program
from bert_zoo.registry import describe

PROGRAM = Program(__doc__, takes_arguments=True)


def main(names: list[str]) -> None:
    if not names:
        raise ValueError("Name a model, for example minilm_l6. `bert_zoo list` prints all names.")
    print("\n\n".join(str(describe(name)) for name in names))
