"""Prints what is known of models: sizes, parameters, licence, paper, sources, scores.

bert_zoo describe minilm_l6
bert_zoo describe bert_base --task classification --batch_size 32 --max_length 128

With any flag, also the memory that training takes, estimated; see docs/memory.md.
"""

from bert_zoo.cards import describe
from bert_zoo.cli.program import Program

PROGRAM = Program(__doc__, takes_arguments=True)
PROGRAM.string("task", None, "The head that is trained.")
PROGRAM.integer("batch_size", None, "Rows of a step; 32 if not set.")
PROGRAM.integer("max_length", None, "Tokens of a row; if not set, the most that the model reads.")
PROGRAM.integer("predictions", None, "Tokens of a row that pretraining predicts; if not set, all.")
_OPTIONS = ("task", "batch_size", "max_length", "predictions")


def main(names: list[str]) -> None:
    if not names:
        raise ValueError("Name a model, for example minilm_l6; `bert_zoo list` prints all names.")
    options = {name: PROGRAM.flags[name].value for name in _OPTIONS}
    print("\n\n".join(str(describe(name, **options)) for name in names))
