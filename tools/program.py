"""What the programs share: their help, and what they say of errors and of Ctrl-C.

To be imported before what takes long to import, so that Ctrl-C is answered from the start.
"""

import dis
import errno
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from absl import app, flags

TOOLS = Path(__file__).resolve().parent
HELP = {"--help", "-help", "-h", "-?"}
FLAG_WIDTH = 30
VALUES = {"int": "N", "float": "X", "comma separated list of strings": "X,..."}
INTERRUPTED = 130
LONGEST = 300

_on_interrupt = "Stopped."


def run(
    main: Callable[[list[str]], None],
    groups: Mapping[str, Sequence[str]] | None = None,
    on_interrupt: str = "Stopped.",
) -> None:
    """Runs a program: parses its flags and calls `main` with the other arguments.

    Args:
        main: (program, argument, ...) -> None.
        groups: for --help, title -> names of flags; the flags that are in none come last.
        on_interrupt: what is said when Ctrl-C ends it.
    """
    global _on_interrupt
    _on_interrupt = on_interrupt
    if HELP & set(sys.argv[1:]):
        print(help_text(sys.modules["__main__"].__doc__, groups or {}))
        return
    app.run(main)


def no_arguments(argv: Sequence[str]) -> None:
    """Raises ValueError where a program that reads flags alone is given something else."""
    if len(argv) > 1:
        raise ValueError(f"Unknown arguments {argv[1:]}; options begin with --.")


# --- Errors ---


def say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints an uncaught error: alone where it tells users what to do, with its traceback otherwise."""
    if issubclass(kind, KeyboardInterrupt):
        print(f"\n{_on_interrupt}", file=sys.stderr, flush=True)
        raise SystemExit(INTERRUPTED)
    message = message_of(error, trace)
    if message is None:
        traceback.print_exception(kind, error, trace)
    else:
        print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)


def message_of(error: BaseException, trace: TracebackType | None) -> str | None:
    """What to tell the user of an error; None where it is a fault of the program."""
    # TensorFlow has an error of its own for it.
    if getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(error):
        what = str(error).split("\n")[0][:LONGEST]
        return f"The disk is full ({what}). Free some space, then run the same command again."
    if isinstance(error, OSError) and error.errno and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error) if _is_raised_here(trace) else None


def _is_raised_here(trace: TracebackType | None) -> bool:
    """Whether bert_zoo itself raised an error, which then says what to do; others are faults."""
    if trace is None:
        return False
    while trace.tb_next:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    is_ours = Path(code.co_filename).resolve().is_relative_to(TOOLS.parent)
    return is_ours and code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


sys.excepthook = say


# --- Help ---


def help_text(about: str, groups: Mapping[str, Sequence[str]]) -> str:
    """A program's description and its flags, those of the groups first."""
    by_module = flags.FLAGS.flags_by_module_dict()
    # The program's own first; libraries define flags too.
    modules = [sys.argv[0], *(m for m in by_module if (TOOLS / f"{m}.py").is_file())]
    own = {flag.name: flag for module in modules for flag in by_module.get(module, ())}
    grouped = {name for names in groups.values() for name in names}
    rest = [name for name in own if name not in grouped]
    sections = [*groups.items(), ("Other flags" if groups else "Flags", rest)]
    width = min(shutil.get_terminal_size().columns, 110)
    lines = [about.strip()]
    for title, names in sections:
        if names:
            lines += ["", f"{title}:", *(_flag_help(own[name], width) for name in names)]
    return "\n".join(lines)


def _flag_help(flag: flags.Flag, width: int) -> str:
    text, kind = flag.help or "", flag.flag_type()
    if kind == "bool":
        name = f"--[no]{flag.name}" if flag.default is not False else f"--{flag.name}"
    else:
        name = f"--{flag.name}={VALUES.get(kind, 'TEXT')}"
    if kind == "string enum":
        # absl puts the values before the text.
        text = f"{text.partition('>: ')[2]} One of {', '.join(flag.parser.enum_values)}."
    if flag.default is not None and kind != "bool":
        text += f" (default: {flag.default})"
    indent = " " * FLAG_WIDTH
    body = textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)
    head = f"  {name}"
    return f"{head}\n{body}" if len(head) >= FLAG_WIDTH else head + body[len(head) :]
