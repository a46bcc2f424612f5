"""Reads the pickles of PyTorch files and of vocabularies without running them.

A pickle is a program. `pickle.Unpickler` runs all of it, and even with a restricted `find_class`
it lets a file set attributes of whatever was found and reserve memory as it likes. The few
instructions that tensors and vocabularies need are carried out here instead, on plain
Python values; everything else is refused by name. Instructions: `pickletools` in Python's standard
library.
"""

import pickletools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import WeightsError

_MARK = object()

# What calls may copy beyond as many items as the pickle has bytes. A program copies nothing that it
# did not write out, so that is never too little; a hostile one copies the same list over and over.
_FREE_COPIES = 10_000
_SIZED = (str, bytes, list, tuple, dict, set)
# Strings whose length stands before them: the instruction -> bytes that the length takes.
_LENGTH_BYTES = {"BINSTRING": 4, "BINUNICODE": 4, "BINBYTES": 4, "BINUNICODE8": 8, "BINBYTES8": 8}
# Python 2's `str`, which holds bytes.
_PYTHON_2_STRINGS = ("BINSTRING", "SHORT_BINSTRING")


def read_pickle(
    stream: BinaryIO,
    location: str,
    allowed: Mapping[str, Any] | None = None,
    persistent: Callable[[Any], Any] | None = None,
    *,
    advice: str = "",
    longest: int | None = None,
) -> Any:
    """Reads one pickle from a stream, which is left behind the pickle's end.

    Args:
        stream: anything with `read`, `readline`, `seek` and `tell` that never returns more than it
          holds.
        location: the file's name, for messages.
        allowed: what the pickle may refer to, by "module.name": a function, which it may call, a
          `RecordClass`, of which it may make objects, or any other value, which it may pass on.
        persistent: turns a persistent id (PyTorch's reference to a storage) into a value.
        advice: what the user of a refused file can do; ends the message.
        longest: the length in bytes up to which strings are read; an `Unread` stands for a longer
          one, whose bytes are passed over. None reads them all.

    Returns:
        Plain values, `Record`s and what the allowed functions return. Python 2's strings are read
        as UTF-8, with lone surrogates (U+DC80 to U+DCFF) for bytes that are not.

    Raises:
        WeightsError: the pickle is damaged, refers to something else or does something else.
    """
    machine = _Machine(location, allowed or {}, persistent, advice)
    start = stream.tell()
    try:
        for name, argument in _instructions(stream, longest):
            machine.step(name, argument)
            if machine.copied > stream.tell() - start + _FREE_COPIES:
                raise WeightsError(
                    f"{location} was refused: its pickle copies the same values over and over, "
                    f"which takes far more memory than the file has bytes. {advice}"
                )
    except WeightsError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise WeightsError(
            f"The pickle in {location} cannot be read ({shown(error, 500)}). Either the file is damaged: "
            f"download it again. Or it holds what is not read. {advice}"
        ) from error
    if len(machine.stack) != 1:
        raise WeightsError(f"The pickle in {location} ends with {len(machine.stack)} values.")
    return machine.stack[0]


def make_dict(items: Iterable[tuple[Any, Any]] = ()) -> dict[str | int | tuple[str, str], Any]:
    """A dict of a pickle's keys and values; a stand-in for OrderedDict too."""
    table = {}
    for key, value in items:
        # Hashing a deeply shared tuple takes time that doubles with every level of it.
        is_pair = type(key) is tuple and [*map(type, key[:3])] == [str, str]
        if not is_pair and type(key) not in (str, int):
            raise TypeError(f"{shown(key)} is the key of a dict")
        table[key] = value
    return table


@dataclass(frozen=True)
class RecordClass:
    """Stands for a class whose objects' attributes are all that is wanted of them."""

    name: str


class Record(dict):
    """The attributes of an object of `record_class`, by name."""

    def __init__(self, record_class: RecordClass):
        super().__init__()
        self.class_name = record_class.name


def records(*names: str) -> dict[str, RecordClass]:
    """Entries of `allowed` for classes whose objects are kept as `Record`s."""
    return {name: RecordClass(name) for name in names}


class Unread:
    """Stands for a value that nobody asks for, whatever it is made of."""

    def __init__(self, *_: Any):
        pass


# What arrays and numbers of NumPy, before and since 2.0, refer to, where nobody asks for them.
UNREAD_ARRAYS: dict[str, type[Unread]] = dict.fromkeys(
    (
        *("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"),
        *("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"),
        *("numpy.ndarray", "numpy.dtype", "_codecs.encode"),
    ),
    Unread,
)


def _instructions(stream: BinaryIO, longest: int | None) -> Iterator[tuple[str, Any]]:
    """The names and arguments of a pickle's instructions, up to its last."""
    name = ""
    while name != "STOP":
        code = stream.read(1)
        opcode = pickletools.code2op.get(code.decode("latin-1"))
        if opcode is None:
            raise ValueError(f"it ends early or has the unknown instruction {code!r}")
        name = opcode.name
        if longest is not None and _pass_over(stream, name, longest):
            yield name, Unread()
            continue
        argument = opcode.arg.reader(stream) if opcode.arg else None
        if name in _PYTHON_2_STRINGS:
            argument = argument.encode("latin-1").decode("utf-8", "surrogateescape")
        yield name, argument


def _pass_over(stream: BinaryIO, name: str, longest: int) -> bool:
    """Moves the stream behind a string that is longer than `longest` and follows here."""
    if name not in _LENGTH_BYTES:
        return False
    start = stream.tell()
    length = int.from_bytes(stream.read(_LENGTH_BYTES[name]), "little")
    is_long = length > longest
    stream.seek(start + _LENGTH_BYTES[name] + length if is_long else start)
    return is_long


@dataclass
class _Machine:
    """The pickle machine: a stack, a memo, and one entry of `_STEPS` for every instruction."""

    location: str
    allowed: Mapping[str, Any]
    persistent: Callable[[Any], Any] | None
    advice: str
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    copied: int = 0

    def step(self, name: str, argument: Any) -> None:
        if name not in _STEPS:
            raise WeightsError(
                f"{self.location} was refused: its pickle uses the instruction {name}, which "
                f"neither tensors nor vocabularies need. {self.advice}"
            )
        _STEPS[name](self, argument)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop_to_mark(self) -> list[Any]:
        position = len(self.stack) - 1
        while self.stack[position] is not _MARK:
            position -= 1
            if position < 0:
                raise ValueError("no mark")
        items = self.stack[position + 1 :]
        del self.stack[position:]
        return items

    def push_tuple(self, length: int) -> None:
        items = self.stack[-length:]
        if len(items) != length:
            raise ValueError("the stack is too short")
        self.stack[-length:] = [tuple(items)]

    def find(self, name: str) -> None:
        if name not in self.allowed:
            raise WeightsError(
                f"{self.location} was refused: its pickle refers to {shortened(name)}, which is not "
                f"allowed. {self.advice}"
            )
        self.push(self.allowed[name])

    def top(self, kind: type) -> Any:
        """The collection that instructions add to."""
        if type(self.stack[-1]) is not kind:
            raise TypeError(f"something that is not a {kind.__name__} is added to")
        return self.stack[-1]

    def set_items(self, items: list[Any]) -> None:
        self.top(dict).update(make_dict(zip(items[::2], items[1::2], strict=True)))

    def add(self, items: list[Any]) -> None:
        self.top(set).update(make_dict((item, None) for item in items))

    def extend(self, items: list[Any]) -> None:
        self.top(list).extend(items)

    def find_on_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(module) is not str or type(name) is not str:
            raise TypeError("the name of a global is not a string")
        self.find(f"{module}.{name}")

    def count_copies(self, *values: Any) -> None:
        self.copied += sum(len(value) for value in values if isinstance(value, _SIZED))

    def pop_arguments(self) -> tuple[Any, Any]:
        """The arguments of a call, and what is called."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is tuple:
            self.count_copies(arguments, *arguments)
        return arguments, function

    def call(self) -> None:
        arguments, function = self.pop_arguments()
        # Nothing on the stack can be called but what `allowed` brought there.
        if not callable(function) or type(arguments) is not tuple:
            raise TypeError("something is called that is not a function with its arguments")
        self.push(function(*arguments))

    def new_object(self) -> None:
        arguments, cls = self.pop_arguments()
        if cls is Unread and type(arguments) is tuple:
            self.push(Unread())
        elif isinstance(cls, RecordClass) and arguments == ():
            self.push(Record(cls))
        else:
            raise TypeError("an object is made of something that is not a plain record")

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is Record and type(state) is dict:
            self.count_copies(state)
            target.update(make_dict(state.items()))
            return
        if type(target) is Unread:
            return
        # PyTorch keeps the versions of modules as an attribute of the dict of tensors; they tell
        # how to upgrade files of modules that changed, none of which holds a transformer's weights.
        if type(target) is not dict:
            raise TypeError("the state of something that is not a dict or a record is set")

    def push_persistent(self) -> None:
        if self.persistent is None:
            raise TypeError("a persistent id where there can be none")
        identity = self.stack.pop()
        if type(identity) is not tuple:
            raise TypeError("a persistent id that is not a tuple")
        self.count_copies(identity)
        self.push(self.persistent(identity))

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        self.push(self.memo[index])


_STEPS: dict[str, Callable[[_Machine, Any], Any]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda machine, _: None),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    **dict.fromkeys(
        # Values that stand in the pickle itself.
        (
            *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
            *("BINUNICODE", "SHORT_BINUNICODE", *_PYTHON_2_STRINGS),
        ),
        _Machine.push,
    ),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_SET": lambda machine, _: machine.push(set()),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    **{f"TUPLE{n}": lambda machine, _, n=n: machine.push_tuple(n) for n in (1, 2, 3)},
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_to_mark())),
    "MARK": lambda machine, _: machine.push(_MARK),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop(-2), machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.pop_to_mark()),
    "APPEND": lambda machine, _: machine.extend([machine.stack.pop()]),
    "ADDITEMS": lambda machine, _: machine.add(machine.pop_to_mark()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _Machine.remember),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Machine.recall),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    "GLOBAL": lambda machine, name: machine.find(name.replace(" ", ".")),
    "STACK_GLOBAL": lambda machine, _: machine.find_on_stack(),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
    "NEWOBJ": lambda machine, _: machine.new_object(),
    "BINPERSID": lambda machine, _: machine.push_persistent(),
}
