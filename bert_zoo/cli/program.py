"""Shared parts of the programs: flags and their checks, help, messages on errors and Ctrl-C.

It imports nothing slow, so that help appears at once and Ctrl-C works from the start.
"""

import contextlib
import errno
import logging
import os
import re
import shutil
import sys
import textwrap
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import absl.logging
from absl import flags

# --- Checks of what a flag names, made before TensorFlow is imported, which takes most of a program's start ---


def model(flag: str, name: str) -> None:
    from bert_zoo.loading.locating import check_name

    check_name(name)


def run(flag: str, directory: str) -> None:
    from bert_zoo.loading.locating import kept_directory

    kept_directory(Path(directory))


def task(flag: str, name: str) -> None:
    from bert_zoo.tasks import NAMES, no_such_task

    if name not in NAMES:
        raise ValueError(no_such_task(name))


def recipe(flag: str, name: str) -> None:
    from bert_zoo.tasks.presets import preset

    preset(name)


def strategy(flag: str, name: str) -> None:
    from bert_zoo.presets import check_strategy

    check_strategy(name)


def setting(field: Field, flag: str, value: Any) -> None:
    from bert_zoo.fields import check

    check(field.name, value, field.type, **field.metadata["limits"])


def whole_number(flag: str, text: str) -> None:
    if not re.fullmatch(r"-?\d+", text):
        raise ValueError(f"--{flag} has {text!r} among its values; all must be whole numbers.")


def exists(flag: str, path: str) -> None:
    if not Path(path).exists():
        raise FileNotFoundError(f"--{flag} names {path}, which does not exist.")


def text(flag: str, source: str) -> None:
    """Checks files, a folder or a pattern of plain text, or a data set's name."""
    from bert_zoo.pretraining.corpus import DATA_SET, files_of

    if not source.startswith(DATA_SET):
        files_of(source)


# --- Messages that name Python's arguments, in the words of a program's flags ---

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
    """A message of the package, which names arguments as in `held_out=0.1`, `train_file is ...` and "Choose another
    max_length", in the words of a program with these flags."""
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
    """Flags in parentheses, unless the words before them name the same flags."""
    before = message[: found.start()]
    return "" if all(flag in before for flag in re.findall(r"--\w+", found[1])) else found[0]


class InFlags(logging.Formatter):
    """Writes log messages in the words of a program."""

    def __init__(self, flags: Collection[str]):
        super().__init__("%(message)s")
        self.flags = flags

    def format(self, record: logging.LogRecord) -> str:
        return in_flags(super().format(record), self.flags)


PACKAGE = Path(__file__).resolve().parents[1]
HELP, FULL_HELP = {"--help", "-help", "-h", "-?"}, {"--helpfull", "-helpfull"}
FLAG_WIDTH = 30
VALUES = {"int": "N", "float": "X", "comma separated list of strings": "X,..."}
CLAUSE_END = re.compile(r"; |\. (?=[A-Z])")
INTERRUPTED = 130
LONGEST_MESSAGE = 300
# What absl says about a flag's value.
WRONG_VALUE = re.compile(r"flag --(\w+)=(.*?): ", re.DOTALL)
# (a flag's name, its value) -> an error for a wrong value.
Check = Callable[[str, str], None]


class Program:
    """A program with its help and its own flags, separate from absl's global ones.

    `string`, `integer`, `float`, `bool`, `enum`, `list` and `multi_string` define flags like absl's
    `DEFINE_*` functions. `string` and `list` also take `check`, a function of `bert_zoo.cli.program` that raises an
    error for a wrong value, for the method `check`.

    With `needs_flags`, it prints its help if it is called without any flag. `groups` maps titles to names of flags;
    flags outside all groups come last, and --help shows only the first one, --helpfull all. `on_interrupt` is the
    message on Ctrl-C.
    """

    def __init__(
        self,
        about: str,
        *,
        required: Sequence[str] = (),
        needs_flags: bool = False,
        takes_arguments: bool = False,
        groups: Mapping[str, Sequence[str]] | None = None,
        on_interrupt: str = "Stopped.",
    ):
        self.about = about
        self.required = required
        self.needs_flags = needs_flags
        self.takes_arguments = takes_arguments
        self.groups = dict(groups or {})
        self.on_interrupt = on_interrupt
        self.flags = flags.FlagValues()
        self.checks: dict[str, Check] = {}
        self.string = partial(self._checked, flags.DEFINE_string)
        self.list = partial(self._checked, flags.DEFINE_list)
        self.integer = partial(flags.DEFINE_integer, flag_values=self.flags)
        self.float = partial(flags.DEFINE_float, flag_values=self.flags)
        self.bool = partial(flags.DEFINE_bool, flag_values=self.flags)
        self.enum = partial(flags.DEFINE_enum, flag_values=self.flags)
        self.multi_string = partial(flags.DEFINE_multi_string, flag_values=self.flags)

    def _checked(
        self,
        define: Callable[..., flags.FlagHolder],
        name: str,
        *arguments: Any,
        check: Check | None = None,
    ) -> flags.FlagHolder:
        if check is not None:
            self.checks[name] = check
        return define(name, *arguments, flag_values=self.flags)

    def run(self, main: Callable[[list[str]], None], arguments: Sequence[str]) -> None:
        """Parses the flags and calls `main` with the positional arguments, or prints the help; ValueError if a flag is
        unknown, missing or has a wrong value."""
        if {*HELP, *FULL_HELP} & set(arguments) or (self.needs_flags and not arguments):
            print(self.help(full=bool(FULL_HELP & set(arguments)) and not HELP & set(arguments)))
            return
        # Print the package's log messages without a prefix; set this before absl installs its own format.
        # TensorFlow's remarks, for example about writing a SavedModel, would bury the program's output.
        lines = logging.StreamHandler()
        lines.setFormatter(InFlags(self.flags))
        logging.basicConfig(handlers=[lines], level=logging.WARNING)
        absl.logging.set_verbosity(absl.logging.WARNING)
        self.flags.unparse_flags()
        try:
            _, *rest = self.flags(["", *arguments])
        except flags.Error as error:
            raise ValueError(f"{self._what_is_wrong(error)}. --help lists the flags.") from None
        if rest and not self.takes_arguments:
            raise ValueError(f"Unknown arguments {rest}. Flags begin with --; --help lists them.")
        if missing := [f"--{name}" for name in self.required if self.flags[name].value is None]:
            raise ValueError(f"Give {' and '.join(missing)}. --help lists the flags.")
        try:
            main(rest)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self.on_interrupt) from None
        except Exception as error:
            if error.args and message_of(error) == error.args[0]:
                error.args = (in_flags(error.args[0], self.flags),)
            raise

    def _what_is_wrong(self, error: flags.Error) -> str:
        """What absl says about the command line; about a value, what it must be."""
        wrong = WRONG_VALUE.match(str(error))
        if wrong is None:
            return str(error).strip().removesuffix(" ?").rstrip(".")
        name, value = wrong.groups()
        parser = self.flags[name].parser
        kind = f"one of {', '.join(parser.enum_values)}" if hasattr(parser, "enum_values") else ""
        return (
            f"--{name} is {value!r}; it must be {kind or parser.syntactic_help or 'true or false'}"
        )

    def check(self) -> None:
        """Raises an error if a flag names something that does not exist.

        A program calls it once it knows that its flags fit together, and before it imports TensorFlow.
        """
        # Models last: to look up their names takes longest.
        for name, check in sorted(self.checks.items(), key=lambda each: each[1] is model):
            value = self.flags[name].value
            for each in value if isinstance(value, list) else [value]:
                if each is not None:
                    check(name, each)

    # --- Flags of several programs ---

    def model(self, name: str = "model", default: str | None = None) -> flags.FlagHolder:
        """Defines the flag of a model, by default --model."""
        return self.string(
            name, default, "A name from `bert_zoo list`, or a directory.", check=model
        )

    def define_strategy(self) -> None:
        """Defines --strategy, for a program that can run on several devices."""
        self.string(
            "strategy",
            "one",
            "Devices to run on: one, cpu:N, mirrored, multi_worker, tpu, tpu:NAME or auto. batch_size "
            "counts the rows of all devices together.",
            check=strategy,
        )

    def define_runs(self) -> None:
        """Defines the flags of resumable training runs, one for each seed."""
        self.integer("seeds", 1, "Number of runs, one per seed.", lower_bound=1)
        self.integer("first_seed", 0, "Seed of the first run.", lower_bound=0)
        self.integer(
            "patience", None, "Stop after this many epochs without a better metric.", lower_bound=1
        )
        self.float(
            "checkpoint_minutes",
            1.0,
            "Minimum minutes between checkpoints. Fine-tuning writes them only after an epoch.",
            lower_bound=0,
        )
        self.bool("export", True, "Whether to write the kept model as a SavedModel.")

    @property
    def seeds(self) -> range:
        """The seeds chosen by the flags of `define_runs`."""
        return range(self.flags.first_seed, self.flags.first_seed + self.flags.seeds)

    def run_options(self) -> dict[str, Any]:
        """The other flags of `define_runs`, as arguments of `finetuning.finetune`."""
        return {
            "export": self.flags.export,
            "patience": self.flags.patience,
            "checkpoint_seconds": 60 * self.flags.checkpoint_minutes,
        }

    def strategy(self, model_parallel: int = 1) -> Any:
        """The strategy of --strategy. Call it before anything runs on the devices."""
        from bert_zoo.training import strategy

        return strategy(self.flags.strategy, model_parallel=model_parallel)

    def define_fields(self, options: type, names: Sequence[str] | None = None) -> list[str]:
        """Defines a flag for each `setting` of a dataclass, or only for `names`, and returns their names. Unset flags
        are None."""
        define = {int: self.integer, float: self.float, bool: self.bool, tuple: self.list}
        hints = get_type_hints(options)
        known = {field.name: field for field in fields(options)}
        names = list(known if names is None else names)
        for name in names:
            text = known[name].metadata["help"]
            define.get(_plain_type(hints[name]), self.string)(name, None, text)
            if hints[name] == tuple[int, ...]:
                self.checks[name] = whole_number
            elif _plain_type(hints[name]) is not tuple:
                self.checks[name] = partial(setting, known[name])
        return names

    def given(self, options: type) -> dict[str, Any]:
        """The fields of a dataclass whose flags are set: name -> value."""
        hints, given = get_type_hints(options), {}
        for field in fields(options):
            if field.name not in self.flags:
                continue
            value = self.flags[field.name].value
            if isinstance(value, list):
                value = tuple(map(get_args(hints[field.name])[0], value))
            if value is not None:
                given[field.name] = value
        return given

    # --- Help ---

    def help(self, *, full: bool = False) -> str:
        """The description and flags: all of them, or a short form of the first group."""
        grouped = {name for names in self.groups.values() for name in names}
        rest = [name for name in self.flags if name not in grouped]
        sections = [*self.groups.items(), ("Other flags" if self.groups else "Flags", rest)]
        sections = [(title, names) for title, names in sections if names]
        shown = sections if full else sections[:1]
        in_short = len(shown) < len(sections)
        width = min(shutil.get_terminal_size().columns, 110)
        lines = [self.about.strip()]
        for title, names in shown:
            flag_lines = (_flag_help(self.flags[name], width, in_short) for name in names)
            lines += ["", f"{title}:", *flag_lines]
        if in_short:
            others = "; ".join(f"{title} ({len(names)})" for title, names in sections[1:])
            lines += [
                "",
                textwrap.fill(f"--helpfull explains these in full, and also: {others}.", width),
            ]
        return "\n".join(lines)


def _plain_type(hint: Any) -> type:
    """The type of a value that may be None; tuple for tuples."""
    if isinstance(hint, types.UnionType):
        hint = next(option for option in get_args(hint) if option is not type(None))
    return get_origin(hint) or hint


def _flag_help(flag: flags.Flag, width: int, in_short: bool) -> str:
    """A flag's help; `in_short`, only its first clause."""
    text, kind = flag.help or "", flag.flag_type()
    if kind == "bool":
        name = f"--[no]{flag.name}" if flag.default is not False else f"--{flag.name}"
    else:
        name = f"--{flag.name}={VALUES.get(kind, 'TEXT')}"
    if kind == "string enum":
        text = text.partition(">: ")[2]  # absl puts the values before it
    if in_short:
        text = CLAUSE_END.split(text)[0].removesuffix(".") + "."
    if kind == "string enum":
        text += f" One of {', '.join(flag.parser.enum_values)}."
    if flag.default is not None and kind != "bool":
        text += f" (default: {flag.default})"
    indent = " " * FLAG_WIDTH
    body = textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)
    head = f"  {name}"
    return f"{head}\n{body}" if len(head) >= FLAG_WIDTH else head + body[len(head) :]


# --- Commands and errors ---


def command(verb: str) -> str:
    """The command for another program, in the form this one was started with."""
    script = Path(sys.argv[0])
    is_module = script.name == "__main__.py" and script.parent.name == PACKAGE.name
    return f"{'python -m ' if is_module else ''}bert_zoo {verb}"


@contextlib.contextmanager
def plain_errors(name: str) -> Iterator[None]:
    """Ends the process on Ctrl-C, and on the package's own errors with one line that begins with `name`.

    Prints nothing if the reader closed the output, as `head` does.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt as stop:
        print(f"\n{str(stop) or 'Stopped.'}", file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)
    except Exception as error:
        message = message_of(error)
        if message is None:
            raise
        print(f"{name}: {message}", file=sys.stderr)
        sys.exit(1)


def message_of(error: Exception) -> str | None:
    """The message for the user, or None for a bug, which keeps its traceback."""
    # TensorFlow raises its own error for a full disk.
    if getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(error):
        what = str(error).split("\n")[0][:LONGEST_MESSAGE]
        return f"The disk is full ({what}). Free some space, then run the command again."
    if isinstance(error, OSError) and error.errno and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error) if _is_raised_here(error.__traceback__) else None


def _is_raised_here(trace: types.TracebackType | None) -> bool:
    """Whether bert_zoo raised the error itself, with a message for users. All others are bugs."""
    frames = traceback.extract_tb(trace)
    if not frames:
        return False
    is_inside = Path(frames[-1].filename).resolve().is_relative_to(PACKAGE)
    return is_inside and frames[-1].line.startswith("raise ")
