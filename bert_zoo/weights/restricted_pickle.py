"""Reads the pickles of PyTorch files and vocabularies without running their code.

A pickle is a program for a small virtual machine. Here it runs on the standard library's Python implementation,
restricted to the few instructions that tensors and vocabularies need. Instructions that call a function, make an
object, set its state or use dict keys are replaced by stricter ones below; all others are refused. For the
instructions see `pickletools` in the standard library.
"""

import pickle
import pickletools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import WeightsError

# Calls may copy at most this many items more than the pickle has bytes. Honest pickles copy only what they contain;
# hostile ones copy the same list again and again.
_FREE_COPIES = 10_000
_SIZED = (str, bytes, list, tuple, dict, set)
# Instructions for long strings -> number of bytes that hold the length.
_LENGTH_BYTES = {"BINSTRING": 4, "BINUNICODE": 4}
_AS_PYTHON = (
    *("PROTO", "FRAME", "STOP", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "SHORT_BINSTRING"),
    *("EMPTY_DICT", "EMPTY_LIST", "EMPTY_SET", "EMPTY_TUPLE", "MARK"),
    *("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "MEMOIZE", "GLOBAL", "STACK_GLOBAL"),
)


def read_pickle(
    stream: BinaryIO,
    location: str,
    allowed: Mapping[str, Any] | None = None,
    persistent: Callable[[Any], Any] | None = None,
    *,
    advice: str = "",
    longest: int | None = None,
) -> Any:
    """Reads one pickle from a stream and leaves the stream at the pickle's end.

    The stream never returns more bytes than it holds. `allowed` maps "module.name" to what the pickle may refer to: a
    function that it may call, a `RecordClass` that it may instantiate, or any other value that it may use. `persistent`
    turns a persistent id (PyTorch's reference to a storage) into a value. `advice` ends messages. Strings of more than
    `longest` bytes are skipped and replaced by an `Unread`.

    Returns plain values, `Record`s and results of the allowed functions. Python 2's strings are decoded as UTF-8, with
    lone surrogates (U+DC80 to U+DCFF) for invalid bytes.

    Raises:
        WeightsError: the pickle is damaged, or refers to or does something that is not allowed.
    """
    machine = _Machine(stream, location, allowed or {}, persistent, advice, longest)
    try:
        return machine.load()
    except WeightsError:
        raise
    # A damaged pickle can end in any error of the machine.
    except Exception as error:
        raise WeightsError(
            f"The pickle in {location} cannot be read ({shown(error, 500)}). If the file is damaged, download it "
            f"again; otherwise it holds something that bert_zoo does not read. {advice}"
        ) from error


def make_dict(items: Iterable[tuple[Any, Any]] = ()) -> dict[str | int | tuple[str, str], Any]:
    """Makes a dict of a pickle's keys and values. It also replaces OrderedDict."""
    table = {}
    for key, value in items:
        # The time to hash nested shared tuples doubles with every level.
        is_pair = type(key) is tuple and [*map(type, key[:3])] == [str, str]
        if not is_pair and type(key) not in (str, int):
            raise TypeError(f"{shown(key)} is the key of a dict")
        table[key] = value
    return table


@dataclass(frozen=True)
class RecordClass:
    """Replaces a class when only the attributes of its objects are needed."""

    name: str


class Record(dict):
    """The attributes of an object: name -> value."""

    def __init__(self, record_class: RecordClass):
        super().__init__()
        self.class_name = record_class.name


def records(*names: str) -> dict[str, RecordClass]:
    """Entries of `allowed` for classes whose objects become `Record`s."""
    return {name: RecordClass(name) for name in names}


class Unread:
    """Replaces a value that is not needed, whatever its arguments."""

    def __init__(self, *_: Any):
        pass


# References of pickled NumPy arrays and numbers, before and since NumPy 2.0. They stay unread.
UNREAD_ARRAYS: dict[str, type[Unread]] = dict.fromkeys(
    (
        *("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"),
        *("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"),
        *("numpy.ndarray", "numpy.dtype", "_codecs.encode"),
    ),
    Unread,
)


class _Machine(pickle._Unpickler):
    """The standard library's unpickler, restricted to what vocabularies and state dicts need."""

    def __init__(
        self,
        stream: BinaryIO,
        location: str,
        allowed: Mapping[str, Any],
        persistent: Callable[[Any], Any] | None,
        advice: str,
        longest: int | None,
    ):
        super().__init__(stream, encoding="utf-8", errors="surrogateescape")
        self.stream, self.start, self.copied = stream, stream.tell(), 0
        self.location, self.allowed, self.advice = location, allowed, advice
        self.persistent, self.longest = persistent, longest

    def refuse(self, what: str) -> WeightsError:
        return WeightsError(f"{self.location} was refused: its pickle {what}. {self.advice}")

    def find_class(self, module: str, name: str) -> Any:
        full_name = f"{module}.{name}"
        if full_name not in self.allowed:
            raise self.refuse(f"refers to {shortened(full_name)}, which is not allowed")
        return self.allowed[full_name]

    def count_copies(self, *values: Any) -> None:
        self.copied += sum(len(value) for value in values if isinstance(value, _SIZED))
        if self.copied > self.stream.tell() - self.start + _FREE_COPIES:
            raise self.refuse(
                "copies the same values again and again, which takes far more memory than the file has bytes"
            )

    def string(self, name: str) -> None:
        """Reads a string, or skips one that is too long."""
        is_framed = self._unframer.current_frame is not None  # frames never hold long strings
        if self.longest is not None and not is_framed:
            start, size = self.stream.tell(), _LENGTH_BYTES[name]
            length = int.from_bytes(self.stream.read(size), "little")
            if length > self.longest:
                self.stream.seek(start + size + length)
                self.append(Unread())
                return
            self.stream.seek(start)
        _PYTHONS[name](self)

    def top(self, kind: type) -> Any:
        """The collection on top of the stack, to which instructions add."""
        if type(self.stack[-1]) is not kind:
            raise TypeError(f"something that is not a {kind.__name__} is added to")
        return self.stack[-1]

    def extend(self, items: list[Any]) -> None:
        self.top(list).extend(items)

    def set_items(self, items: list[Any]) -> None:
        self.top(dict).update(make_dict(zip(items[::2], items[1::2], strict=True)))

    def add(self, items: list[Any]) -> None:
        self.top(set).update(make_dict((item, None) for item in items))

    def pop_arguments(self) -> tuple[Any, Any]:
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple:
            raise TypeError("arguments that are not a tuple")
        self.count_copies(arguments, *arguments)
        return function, arguments

    def call(self) -> None:
        function, arguments = self.pop_arguments()
        # Only entries of `allowed` can be callable here.
        if not callable(function):
            raise TypeError("something is called that is not a function with its arguments")
        self.append(function(*arguments))

    def new_object(self) -> None:
        cls, arguments = self.pop_arguments()
        if cls is Unread:
            self.append(Unread())
        elif isinstance(cls, RecordClass) and arguments == ():
            self.append(Record(cls))
        else:
            raise TypeError("an object is made of something that is not a plain record")

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is Record and type(state) is dict:
            self.count_copies(state)
            target.update(make_dict(state.items()))
        # PyTorch stores versions of modules as an attribute of the state dict, to upgrade files of changed modules.
        # No such module is used in transformers.
        elif type(target) not in (dict, Unread):
            raise TypeError("the state of something that is not a dict or a record is set")

    def push_persistent(self) -> None:
        identity = self.stack.pop()
        if self.persistent is None:
            raise TypeError("a persistent id where there can be none")
        if type(identity) is not tuple:
            raise TypeError("a persistent id that is not a tuple")
        self.count_copies(identity)
        self.append(self.persistent(identity))


def _refuser(name: str) -> Callable[[_Machine], None]:
    def refuse(machine: _Machine) -> None:
        raise machine.refuse(
            f"uses the instruction {name}, which neither tensors nor vocabularies need"
        )

    return refuse


_PYTHONS = {op.name: pickle._Unpickler.dispatch[ord(op.code)] for op in pickletools.opcodes}
_STRICTER: dict[str, Callable[[_Machine], None]] = {
    "BINSTRING": lambda machine: machine.string("BINSTRING"),
    "BINUNICODE": lambda machine: machine.string("BINUNICODE"),
    "SETITEM": lambda machine: machine.set_items([machine.stack.pop(-2), machine.stack.pop()]),
    "SETITEMS": lambda machine: machine.set_items(machine.pop_mark()),
    "APPEND": lambda machine: machine.extend([machine.stack.pop()]),
    "APPENDS": lambda machine: machine.extend(machine.pop_mark()),
    "ADDITEMS": lambda machine: machine.add(machine.pop_mark()),
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.new_object,
    "BUILD": _Machine.build,
    "BINPERSID": _Machine.push_persistent,
}
_Machine.dispatch = {
    ord(op.code): _STRICTER.get(op.name)
    or (_PYTHONS[op.name] if op.name in _AS_PYTHON else _refuser(op.name))
    for op in pickletools.opcodes
}
