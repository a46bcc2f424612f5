"""CRC-32C (RFC 3720, appendix B.4), the checksum of TensorFlow's checkpoints, in NumPy.

Byte by byte, Python would take a minute for 500 MB. A CRC is linear: equal parts of the bytes are
taken side by side, each with a register of its own, and the registers are joined in the end.
"""

import functools

import numpy as np

_POLYNOMIAL = 0x82F63B78  # reflected
_PARTS = 1 << 11  # a power of two
_COLUMNS = 1 << 6  # steps whose bytes are brought into order at once


def crc32c(data: np.ndarray) -> int:
    """The checksum of uint8 [n]."""
    steps = data.size // (4 * _PARTS)
    end = 4 * _PARTS * steps
    register = 0xFFFFFFFF
    if steps:
        registers = np.zeros(_PARTS, np.uint32)
        registers[0] = register
        words = data[:end].view("<u4").reshape(_PARTS, steps)
        register = _joined(_after_words(registers, words), 4 * steps)
    table = _byte_table()
    for byte in data[end:].tolist():
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF


def _after_words(registers: np.ndarray, words: np.ndarray) -> np.ndarray:
    """The registers after uint32 [registers, steps]."""
    low, high = _half_tables()
    for start in range(0, words.shape[1], _COLUMNS):
        for column in np.ascontiguousarray(words[:, start : start + _COLUMNS].T):
            halves = (registers ^ column).astype("<u4").view("<u2").astype(np.intp)
            # No index is outside; "clip" spares the search for one.
            registers = low.take(halves[::2], mode="clip") ^ high.take(halves[1::2], mode="clip")
    return registers


def _joined(registers: np.ndarray, length: int) -> int:
    """The register after all parts of `length` bytes, from those of each; those start at zero."""
    zeros = _zero_bytes(length)
    while len(registers) > 1:
        registers = _apply(zeros, registers[::2]) ^ registers[1::2]
        zeros = _apply(zeros, zeros)
    return int(registers[0])


def _zero_bytes(count: int) -> np.ndarray:
    """What `count` zero bytes make of a register: a linear map, as the images of its 32 bits."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    one = np.array(_byte_table(), np.uint32)[bits & 0xFF] ^ (bits >> 8)
    images = one
    for digit in f"{count:b}"[1:]:
        images = _apply(images, images)
        if digit == "1":
            images = _apply(one, images)
    return images


def _apply(images: np.ndarray, registers: np.ndarray) -> np.ndarray:
    moved = np.zeros_like(registers)
    for bit, image in enumerate(images):
        moved ^= np.where(registers >> bit & 1, image, np.uint32(0))
    return moved


@functools.cache
def _byte_table() -> list[int]:
    """What a byte makes of the register that it is in."""
    registers = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        registers = (registers >> 1) ^ np.where(registers & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return registers.tolist()


@functools.cache
def _half_tables() -> tuple[np.ndarray, np.ndarray]:
    """What four bytes make of a register that they are in, by its lower and its upper half."""
    table = np.array(_byte_table(), np.uint32)
    registers = [np.arange(1 << 16, dtype=np.uint32)]
    for _ in range(4):
        registers.append(table[registers[-1] & 0xFF] ^ (registers[-1] >> 8))
    return registers[4], registers[2]
