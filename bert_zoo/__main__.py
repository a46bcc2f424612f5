"""The command-line programs: `bert_zoo <verb>` or `python -m bert_zoo <verb>`."""

import ast
import importlib
import importlib.util
import sys

import bert_zoo
from bert_zoo.cli.program import FULL_HELP, HELP, plain_errors
from bert_zoo.cli.quiet import start_tensorflow_quietly
from bert_zoo.error_text import nearest

GROUPS = {
    "Find and use models": ("list", "describe", "embed", "probe", "convert", "export"),
    "Train for a task": ("finetune", "evaluate", "predict", "demo", "distill"),
    "Pretrain": ("pretrain", "build_vocabulary", "create_pretraining_data"),
}
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)


def main(verb: str | None = None) -> None:
    """Runs a program, by default the first argument, with the command line's arguments. Without one, lists all of
    them."""
    arguments = sys.argv[1:]
    if verb is None:
        verb, *arguments = arguments or ["--help"]
    with plain_errors(f"bert_zoo {verb}" if verb in VERBS else "bert_zoo"):
        if verb in {*HELP, *FULL_HELP}:
            print(overview())
            return
        if verb == "--version":
            print(f"bert_zoo {bert_zoo.__version__}")
            return
        if verb not in VERBS:
            raise ValueError(
                f"There is no program {verb!r}.{nearest(verb, VERBS)} Run `bert_zoo` to list them."
            )
        start_tensorflow_quietly()
        module = importlib.import_module(f"bert_zoo.cli.{verb}")
        module.PROGRAM.run(module.main, arguments)


def overview() -> str:
    width = max(map(len, VERBS))
    groups = (
        "\n".join([f"{title}:", *(f"  {verb:<{width}}  {_first_line(verb)}" for verb in verbs)])
        for title, verbs in GROUPS.items()
    )
    return "\n\n".join(
        (
            "Usage: bert_zoo PROGRAM [--flag=value ...]",
            *groups,
            "bert_zoo PROGRAM --help explains a program and its main flags, --helpfull all its flags.\n"
            "bert_zoo --version prints the version.",
        )
    )


def _first_line(verb: str) -> str:
    """Reads the first line of a program's description without importing the program."""
    source = importlib.util.find_spec(f"bert_zoo.cli.{verb}").loader.get_source(
        f"bert_zoo.cli.{verb}"
    )
    return ast.get_docstring(ast.parse(source)).partition("\n")[0]


if __name__ == "__main__":
    main()
