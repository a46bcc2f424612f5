"""Turns messages that name Python's arguments into messages that name a program's flags."""

import logging
import re
from collections.abc import Collection, Mapping

# Argument -> flags of the same meaning; a program has at most one of them.
SAME_AS: Mapping[str, tuple[str, ...]] = {
    "sequence_length": ("max_length", "length"),
    "max_length": ("length",),
}
# Python's words -> a command's.
PHRASES: Mapping[str, str] = {
    r"\b(?:bert_zoo\.)?list_models\(\)": "`bert_zoo list`",
    r"\bload\('([^']*)'\)": r"--model \1",
    r"\bload\(\)": "--model",
    r"`?\bFullSentences\b`?": "--rows full_sentences",
    # A sentence about a call, which a command has no use for.
    r" [A-Z][^.]*\b\w+\((?:path|texts)\)\.": "",
}
# Before and after a name that stands alone: neither a path, nor a quoted name of the user's.
BEFORE, AFTER = r"(?<![\w.\-/'\"])", r"(?![\w(/'\"-]|\.\w)"
VALUE = r"=(?:'([^']*)'|\"([^\"]*)\"|(\w[\w.]*\w|\w)|)"
# Flags in parentheses.
REPEATED = re.compile(r" \(((?:--\w+(?: [\w.-]+)?(?:, | and )?)+)\)")


def in_flags(message: str, flags: Collection[str]) -> str:
    """Returns a message of the package in the words of a program.

    Args:
        message: names arguments as in `held_out=0.1`, `train_file is ...` and "Choose another max_length".
        flags: names of the program's flags.
    """
    names = {name: name for name in flags}
    for name, others in SAME_AS.items():
        names.setdefault(name, next((other for other in others if other in flags), name))
    names = {name: flag for name, flag in names.items() if flag in flags}
    for words, shown in PHRASES.items():
        message = re.sub(words, shown, message)
    any_name = "|".join(sorted(names, key=len, reverse=True))
    long_name = "|".join(sorted((n for n in names if "_" in n), key=len, reverse=True)) or "(?!)"

    def assigned(found: re.Match[str]) -> str:
        name = names[found[1]]
        value = next((text for text in found.groups()[1:] if text is not None), "")
        match value:
            case "True" | "":
                return f"--{name}"
            case "False":
                return f"--no{name}"
            case "None":
                return f"no --{name}"
        return f"--{name} {value}"

    message = re.sub(rf"{BEFORE}({any_name}){VALUE}", assigned, message)
    message = re.sub(rf"^({any_name})(?= is )", lambda found: f"--{names[found[1]]}", message)
    message = re.sub(
        rf"{BEFORE}({long_name}){AFTER}", lambda found: f"--{names[found[1]]}", message
    )
    return REPEATED.sub(lambda found: _once(found, message), message)


def _once(found: re.Match[str], message: str) -> str:
    """Returns flags in parentheses, unless the words before them name the same flags."""
    before = message[: found.start()]
    return "" if all(flag in before for flag in re.findall(r"--\w+", found[1])) else found[0]


class InFlags(logging.Formatter):
    """Writes log messages in the words of a program."""

    def __init__(self, flags: Collection[str]):
        super().__init__("%(message)s")
        self.flags = flags

    def format(self, record: logging.LogRecord) -> str:
        return in_flags(super().format(record), self.flags)
