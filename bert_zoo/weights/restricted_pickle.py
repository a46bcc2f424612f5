"""Reads the pickles inside PyTorch files without running them.

A pickle is a program. `pickle.Unpickler` runs all of it, and even with a restricted `find_class`
it lets a file set attributes of whatever was found and reserve memory as it likes. The few
instructions that a dict of tensors needs are carried out here instead, on plain Python values;
everything else is refused by name. Instructions: `pickletools` in Python's standard library.
"""

import pickletools
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from bert_zoo.weights.files import WeightsError

_MARK = object()


def read_pickle(
    stream: BinaryIO,
    location: str,
    allowed: Mapping[str, Any] | None = None,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """Reads one pickle from a stream, which is left behind the pickle's end.

    Args:
        stream: anything with `read`, `readline` and `tell` that never returns more than it holds.
        location: the file's name, for messages.
        allowed: what the pickle may refer to, by "module.name": a function, which it may call, or
          any other value, which it may pass on.
        persistent: turns a persistent id (PyTorch's reference to a storage) into a value.

    Raises:
        WeightsError: the pickle is damaged, refers to something else or does something else.
    """
    machine = _Machine(location, allowed or {}, persistent)
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            machine.step(opcode.name, argument)
    except WeightsError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise WeightsError(
            f"The pickle in {location} cannot be read ({error!r}). Either the file is damaged: "
            f"download it again. Or it is more than weights: {_ADVICE}"
        ) from error
    return machine.result()


def make_dict(items: Iterable[tuple[Any, Any]] = ()) -> dict[str | int, Any]:
    """A dict of a pickle's keys and values; a stand-in for OrderedDict too."""
    table = {}
    for key, value in items:
        # Hashing a deeply shared tuple takes time that doubles with every level of it.
        if type(key) not in (str, int):
            raise TypeError(f"{reprlib.repr(key)} is the key of a dict")
        table[key] = value
    return table


class Namespace(dict):
    """Stands for an object whose attributes are all that is wanted of it, as argparse.Namespace."""


class _Machine:
    """The pickle machine: a stack, a memo, and one entry of `_STEPS` for every instruction."""

    def __init__(self, location: str, allowed: Mapping[str, Any], persistent: Callable | None):
        self.location = location
        self.allowed = allowed
        self.persistent = persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        if name not in _STEPS:
            raise WeightsError(
                f"{self.location} was refused: its pickle uses the instruction {name}, which a "
                f"dict of tensors does not need. {_ADVICE}"
            )
        _STEPS[name](self, argument)

    def result(self) -> Any:
        if len(self.stack) != 1:
            raise WeightsError(f"The pickle in {self.location} ends with {len(self.stack)} values.")
        return self.stack[0]

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
                f"{self.location} was refused: its pickle refers to {name}, which is not allowed. "
                f"{_ADVICE}"
            )
        self.push(self.allowed[name])

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise TypeError("items are set on something that is not a dict")
        target.update(make_dict(zip(items[::2], items[1::2], strict=True)))

    def find_on_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(module) is not str or type(name) is not str:
            raise TypeError("the name of a global is not a string")
        self.find(f"{module}.{name}")

    def append(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise TypeError("items are appended to something that is not a list")
        self.stack[-1].extend(items)

    def call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        # Nothing on the stack can be called but what `allowed` brought there.
        if not callable(function) or type(arguments) is not tuple:
            raise TypeError("something is called that is not a function with its arguments")
        self.push(function(*arguments))

    def new_object(self) -> None:
        arguments, cls = self.stack.pop(), self.stack.pop()
        if cls is not Namespace or arguments != ():
            raise TypeError("an object is made of something that is not a plain record")
        self.push(Namespace())

    def build(self) -> None:
        state = self.stack.pop()
        if type(self.stack[-1]) is Namespace and type(state) is dict:
            self.stack[-1].update(make_dict(state.items()))
            return
        # PyTorch keeps the versions of modules as an attribute of the dict of tensors; they tell
        # how to upgrade files of modules that changed, none of which holds a transformer's weights.
        if type(self.stack[-1]) is not dict:
            raise TypeError("the state of something that is not a dict is set")

    def push_persistent(self) -> None:
        if self.persistent is None:
            raise TypeError("a persistent id where there can be none")
        identity = self.stack.pop()
        if type(identity) is not tuple:
            raise TypeError("a persistent id that is not a tuple")
        self.push(self.persistent(identity))

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


_ADVICE = (
    "bert_zoo reads only dicts of tensors from PyTorch files. Where you trust the file, load it "
    "with PyTorch and write its state_dict with safetensors.torch.save_file."
)

_STEPS: dict[str, Callable[[_Machine, Any], Any]] = {
    "PROTO": lambda machine, version: None,
    "FRAME": lambda machine, length: None,
    "STOP": lambda machine, _: None,
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    **dict.fromkeys(
        # Values that stand in the pickle itself. The BINSTRING pair is Python 2's str, in latin-1.
        (
            *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
            *("BINUNICODE", "SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING"),
        ),
        _Machine.push,
    ),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE1": lambda machine, _: machine.push_tuple(1),
    "TUPLE2": lambda machine, _: machine.push_tuple(2),
    "TUPLE3": lambda machine, _: machine.push_tuple(3),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_to_mark())),
    "MARK": lambda machine, _: machine.push(_MARK),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop(-2), machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.pop_to_mark()),
    "APPEND": lambda machine, _: machine.append([machine.stack.pop()]),
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    "BINGET": lambda machine, index: machine.push(machine.memo[index]),
    "LONG_BINGET": lambda machine, index: machine.push(machine.memo[index]),
    "GLOBAL": lambda machine, name: machine.find(name.replace(" ", ".")),
    "STACK_GLOBAL": lambda machine, _: machine.find_on_stack(),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
    "NEWOBJ": lambda machine, _: machine.new_object(),
    "BINPERSID": lambda machine, _: machine.push_persistent(),
}
