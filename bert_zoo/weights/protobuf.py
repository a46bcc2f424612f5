"""Protocol buffers' encoding (protobuf.dev/programming-guides/encoding), as far as files here need it."""

from collections.abc import Iterator

_LONGEST_VARINT = 10
# Wire type -> bytes of the value.
_FIXED = {1: 8, 5: 4}


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A number of at most 64 bits and the position behind it. Raises ValueError."""
    value = 0
    for i, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if value >> 64:
                break
            return value, position + i + 1
    raise ValueError("a number ends early or has more than 64 bits")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of a message's fields, in their order.

    Varints and fixed numbers are integers without a sign; strings and messages are bytes.

    Raises:
        ValueError: it is no message.
    """
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, position = read_varint(data, position)
            yield number, value
            continue
        if wire_type == 2:
            length, position = read_varint(data, position)
        elif wire_type in _FIXED:
            length = _FIXED[wire_type]
        else:
            raise ValueError(f"a field has the wire type {wire_type}")
        if number == 0 or length > len(data) - position:
            raise ValueError("a field ends early or has no number")
        value = data[position : position + length]
        position += length
        yield number, value if wire_type == 2 else int.from_bytes(value, "little")


def signed(value: int | bytes) -> int:
    """The int64 or int32 that a field is; they are written as 64 bits of their two's complement."""
    if not isinstance(value, int):
        raise ValueError("a field that should be a number is none")
    return value - (1 << 64) if value >> 63 else value


def message(value: int | bytes) -> bytes:
    """The message that a field is."""
    if not isinstance(value, bytes):
        raise ValueError("a field that should be a message is none")
    return value
