"""Protocol buffers without their library: the fields of a message, as the wire format has them.

TensorBoard and W&B write files of such messages. Both libraries are large, and W&B's has no reader of its
own files any more, so the few fields that a log needs are read here. The format:
https://protobuf.dev/programming-guides/encoding
"""

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 10

type Value = int | bytes


class DamagedRecordError(ValueError):
    """Bytes that are no message."""


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message: number, and a whole number or bytes as they stand.

    Parameters
    ----------
    message : bytes
        A protocol buffer.

    Raises
    ------
    DamagedRecordError

    Examples
    --------
    >>> list(fields(bytes([0x08, 0x96, 0x01, 0x12, 0x02]) + b"ab"))
    [(1, 150), (2, b'ab')]
    """
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value: Value
            value, place = _varint(message, place)
        elif kind in (FIXED64, FIXED32, BYTES):
            if kind == BYTES:
                length, place = _varint(message, place)
            else:
                length = 8 if kind == FIXED64 else 4
            if place + length > len(message):
                raise DamagedRecordError("a field is longer than its message")
            value = message[place : place + length]
            place += length
        else:
            raise DamagedRecordError(f"there is no field type {kind}")
        yield number, value


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for i in range(LONGEST_VARINT):
        if place + i >= len(message):
            break
        byte = message[place + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, place + i + 1
    raise DamagedRecordError("a number has no end")


def signed(value: Value) -> int:
    """Return a varint as the signed number that it stands for.

    Parameters
    ----------
    value : int or bytes
        Of a field.
    """
    whole = int(value) if isinstance(value, int) else 0
    return whole - (1 << 64) if whole >= 1 << 63 else whole


def floats(value: Value, form: str) -> list[float]:
    """Return the packed numbers of a field: form ``f`` for single, ``d`` for double precision.

    Parameters
    ----------
    value : int or bytes
        Of a field.
    form : str
        ``"f"`` or ``"d"``.
    """
    content = value if isinstance(value, bytes) else b""
    if len(content) % struct.calcsize(form):
        raise DamagedRecordError("a list of numbers is cut off")
    return [number[0] for number in struct.iter_unpack(f"<{form}", content)]


def inner(value: Value) -> bytes:
    """Return a field that holds a message or a text.

    Parameters
    ----------
    value : int or bytes
        Of a field.
    """
    if isinstance(value, bytes):
        return value
    raise DamagedRecordError("a number stands where a message should")
