"""How tensors lie in shared memory, and the small messages that say where.

Tensors never travel through the socket. A segment is an anonymous memory file that the server made
and sealed; each call is one frame in it. A frame's table lists its tensors: number of tensors and
of failed rows, then for each tensor dtype, rank, offset, length and extents, then for each failed
row its number and a text. Everything is little-endian; offsets count from the frame's start.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .batch import Results
from .model import BYTES, DTYPES, NAMES, TensorSpec

# Changes with every change to what is written here; the server has the same number.
MAGIC = 0x324C4350

# To the worker.
REQUESTS, RESULTS, CALL, NEXT, PING, DESCRIPTOR = 1, 2, 3, 4, 5, 7
# From the worker.
READY, LOAD_FAILED, RESULT, PARTIAL, ERROR, GROW, PONG = 16, 17, 18, 19, 20, 21, 22

_MESSAGE = struct.Struct("<IIQQQ")
_TABLE = struct.Struct("<II")
_TENSOR = struct.Struct("<IIQQ")
_FAILED = struct.Struct("<II")
# Instead of the length of a failed row's text: nothing for this row this time.
_SILENT = 0xFFFFFFFF
_ALIGN = 64
# Texts are for people; a longer one is cut.
_TEXT = 1024


class Gone(Exception):
    """The server has closed the socket."""


class Message(NamedTuple):
    """One message. What the numbers mean depends on the kind."""

    kind: int
    call: int
    length: int
    extra: int
    #: The descriptor that came with it.
    fd: int | None = None


class Control:
    """The worker's end of the control socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def receive(self) -> Message:
        """Waits for a message, and for the descriptor where one is announced.

        Taking a descriptor costs more than a call's whole message, so it is announced.
        """
        magic, kind, call, length, extra = self._unpack(self._connection.recv(_MESSAGE.size))
        fd = None
        if kind == DESCRIPTOR:
            data, fds, _, _ = socket.recv_fds(self._connection, _MESSAGE.size, 1)
            magic, kind, call, length, extra = self._unpack(data)
            fd = fds[0] if fds else None
        return Message(kind, call, length, extra, fd)

    def _unpack(self, data: bytes) -> tuple[int, int, int, int, int]:
        if not data:
            raise Gone
        fields = _MESSAGE.unpack(data)
        if fields[0] != MAGIC:
            raise RuntimeError("the server speaks another version; install the matching package")
        return fields

    def send(self, kind: int, call: int = 0, length: int = 0, extra: int = 0) -> None:
        """Sends a message."""
        try:
            self._connection.send(_MESSAGE.pack(MAGIC, kind, call, length, extra))
        except (BrokenPipeError, ConnectionResetError):
            raise Gone from None


class Segment:
    """Shared memory, mapped. Arrays that view it keep it mapped."""

    def __init__(self, fd: int, size: int) -> None:
        try:
            self.memory = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self.size = size
        self.address = np.frombuffer(self.memory, np.uint8).ctypes.data


class Requests:
    """The segment that the server writes."""

    def __init__(self, segment: Segment, inputs: Mapping[str, TensorSpec]) -> None:
        self._memory = segment.memory
        self._names = list(inputs)
        # Calls of one shape lie alike, so the arrays of the last one serve again.
        self._table = b""
        self._arrays: dict[str, np.ndarray] = {}

    def read(self, n_table: int) -> dict[str, np.ndarray]:
        """The arrays of the call whose table has so many bytes."""
        table = self._memory[:n_table]
        if table != self._table:
            self._arrays, is_fixed = self._parse(table)
            self._table = table if is_fixed else b""
        return dict(self._arrays)

    def _parse(self, table: bytes) -> tuple[dict[str, np.ndarray], bool]:
        n_tensors, _ = _TABLE.unpack_from(table)
        if n_tensors != len(self._names):
            raise RuntimeError(f"{n_tensors} tensors came, {len(self._names)} are declared")
        at = _TABLE.size
        arrays = {}
        is_fixed = True
        for name in self._names:
            code, rank, offset, length = _TENSOR.unpack_from(table, at)
            at += _TENSOR.size
            shape = struct.unpack_from(f"<{rank}Q", table, at)
            at += 8 * rank
            if code == BYTES:
                is_fixed = False
                arrays[name] = _strings(self._memory[offset : offset + length], shape)
            else:
                arrays[name] = np.ndarray(
                    shape, DTYPES[NAMES[code]], buffer=self._memory, offset=offset
                )
        return arrays, is_fixed


def _strings(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(int(np.prod(shape, dtype=np.int64)), dtype=object)
    at = 0
    for index in range(array.size):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        array[index] = data[at + 4 : end]
        at = end
    return array.reshape(shape)


class Room:
    """The segment that the worker writes: each call's results from its start on."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._segment: Segment | None = None
        self._end = 0
        # The last frame's tensors, and its table.
        self._tensors: list[tuple[int, int, int, tuple[int, ...]]] | None = None
        self._table = b""
        #: The call that asks for more room.
        self.call = 0

    def use(self, segment: Segment) -> None:
        """Goes on in another segment."""
        self._segment = segment

    def clear(self) -> None:
        """Begins a new frame."""
        self._end = 0

    def place(self, n_bytes: int) -> tuple[Any, int]:
        """Memory for so many bytes, in a larger segment if need be."""
        segment = self._segment
        if segment is None:
            raise RuntimeError("there is no segment yet")
        offset = -(-self._end // _ALIGN) * _ALIGN
        if segment.size < offset + n_bytes:
            self._control.send(GROW, self.call, offset + n_bytes)
            message = self._control.receive()
            if message.kind != RESULTS or message.fd is None:
                raise MemoryError(f"the results take {offset + n_bytes} bytes, more than may be shared")
            grown = Segment(message.fd, message.length)
            # What was written so far keeps its place.
            grown.memory[: self._end] = segment.memory[: self._end]
            self._segment = segment = grown
        self._end = offset + n_bytes
        return segment.memory, offset

    def offset_of(self, array: np.ndarray) -> int | None:
        """Where an array already lies in this frame, if it does."""
        segment = self._segment
        if segment is None:
            return None
        offset = array.__array_interface__["data"][0] - segment.address
        return offset if 0 <= offset and offset + array.nbytes <= self._end else None

    def put(self, data: bytes) -> int:
        """Writes bytes and says where."""
        memory, offset = self.place(len(data))
        memory[offset : offset + len(data)] = data
        return offset

    def send_text(self, kind: int, text: str) -> None:
        """Sends a text for people."""
        self.clear()
        data = text.encode("utf-8", "replace")[:_TEXT]
        self.put(data)
        self._control.send(kind, self.call, len(data))

    def send_results(self, kind: int, results: Results) -> None:
        """Ends the frame with its table and hands it over."""
        # Calls of one shape give results of one shape, so the table of the last one serves again.
        if results.failed or results.tensors != self._tensors:
            self._table = _table(results)
            self._tensors = None if results.failed else results.tensors
        offset = self.put(self._table)
        self._control.send(kind, self.call, offset + len(self._table), offset)


def _table(results: Results) -> bytes:
    parts = [_TABLE.pack(len(results.tensors), len(results.failed))]
    for code, offset, length, shape in results.tensors:
        parts.append(_TENSOR.pack(code, len(shape), offset, length))
        parts.append(struct.pack(f"<{len(shape)}Q", *shape))
    for row, text in results.failed:
        if text is None:
            parts.append(_FAILED.pack(row, _SILENT))
        else:
            data = text.encode("utf-8", "replace")[:_TEXT]
            parts.append(_FAILED.pack(row, len(data)))
            parts.append(data)
    return b"".join(parts)
