"""One call's inputs as arrays that view shared memory, and its results on their way there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .model import BYTES, ItemError, TensorSpec


class Room(Protocol):
    """Where results are written."""

    def place(self, n_bytes: int) -> tuple[memoryview | Any, int]:
        """Memory for so many bytes: a buffer and the offset in it."""

    def offset_of(self, array: np.ndarray) -> int | None:
        """Where an array already lies, if it does."""


class Batch(Mapping[str, np.ndarray]):
    """The inputs of one call, by name.

    Arrays view memory that is shared with the server: nothing was copied, and they are valid until
    ``infer`` returns; copy what must outlive it. Each has a leading extent of ``rows``, unless
    ``max_batch`` is 0.
    """

    def __init__(
        self,
        arrays: dict[str, np.ndarray],
        rows: int,
        inputs: Mapping[str, TensorSpec],
        outputs: Mapping[str, TensorSpec],
        room: Room,
    ) -> None:
        #: Rows in this call, padding rows included.
        self.rows = rows
        self._arrays = arrays
        self._inputs = inputs
        self._outputs = outputs
        self._room = room

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def torch(self, name: str, device: Any = None) -> Any:
        """An input as a torch tensor, on ``device`` where one is named."""
        import torch

        tensor = torch.from_numpy(self._arrays[name])
        if self._inputs[name].dtype == "BF16":
            tensor = tensor.view(torch.bfloat16)
        return tensor if device is None else tensor.to(device, non_blocking=True)

    def empty(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """An array in shared memory for an output: fill it and return it, and nothing is copied."""
        dtype = self._outputs[name].numpy
        if dtype == object:
            raise TypeError(f"output `{name}` is BYTES, whose size is not known beforehand")
        buffer, offset = self._room.place(math.prod(shape) * dtype.itemsize)
        return np.ndarray(tuple(shape), dtype, buffer=buffer, offset=offset)


class Results:
    """What one call gave: where each output lies, and which rows failed alone."""

    def __init__(self, room: Room, outputs: Mapping[str, TensorSpec], rows: int) -> None:
        self._room = room
        self._outputs = outputs
        self._rows = rows
        #: For each output: dtype, offset, length, shape.
        self.tensors: list[tuple[int, int, int, tuple[int, ...]]] = []
        #: Rows that failed alone and why; ``None``: nothing for this row this time.
        self.failed: list[tuple[int, str | None]] = []

    def write(self, result: Any) -> Results:
        """Puts a result of ``infer`` into shared memory."""
        if isinstance(result, Mapping):
            self._write_stacked(result)
        elif isinstance(result, (list, tuple)):
            self._write_rows(result)
        else:
            self._write_stacked(self._named(result))
        return self

    def _named(self, value: Any) -> Mapping[str, Any]:
        """A value that stands for the only output."""
        if isinstance(value, Mapping):
            return value
        if len(self._outputs) != 1:
            names = ", ".join(self._outputs)
            raise TypeError(f"infer gave a {type(value).__name__}; a dict of {names} is expected")
        return {next(iter(self._outputs)): value}

    def _check_names(self, result: Mapping[str, Any]) -> None:
        if len(result) != len(self._outputs):
            for name in result:
                if name not in self._outputs:
                    raise KeyError(f"infer gave `{name}`, which is not among the outputs")

    def _value(self, result: Mapping[str, Any], name: str) -> Any:
        try:
            return result[name]
        except KeyError:
            raise KeyError(f"infer did not give output `{name}`") from None

    def _write_stacked(self, result: Mapping[str, Any]) -> None:
        self._check_names(result)
        for name, spec in self._outputs.items():
            value = self._value(result, name)
            if spec.code == BYTES:
                self._put_strings(np.asarray(value, dtype=object))
            elif type(value) is np.ndarray:
                self._put(spec, value)
            elif hasattr(value, "detach"):
                self._put_torch(spec, value.detach())
            else:
                self._put(spec, np.asarray(value))

    def _write_rows(self, results: Sequence[Any]) -> None:
        if len(results) != self._rows:
            raise ValueError(f"infer gave {len(results)} results for {self._rows} rows")
        good: list[Mapping[str, Any] | None] = []
        for row, result in enumerate(results):
            if result is None or isinstance(result, ItemError):
                self.failed.append((row, None if result is None else str(result)))
                good.append(None)
            else:
                good.append(self._named(result))
                self._check_names(good[-1])
        some = next((row for row in good if row is not None), None)
        if some is None:
            return
        for name, spec in self._outputs.items():
            values = [None if row is None else _to_numpy(self._value(row, name)) for row in good]
            shapes = {np.shape(value) for value in values if value is not None}
            if len(shapes) != 1:
                raise ValueError(f"rows of output `{name}` differ in shape: {sorted(shapes)}")
            shape = (self._rows, *shapes.pop())
            if spec.code == BYTES:
                stacked = np.full(shape, b"", dtype=object)
            else:
                stacked = self._array(spec, shape)
            for row, value in enumerate(values):
                if value is None:
                    stacked[row] = b"" if spec.code == BYTES else 0
                elif spec.code == BYTES:
                    stacked[row] = value
                else:
                    np.copyto(stacked[row : row + 1], value, casting="same_kind")
            if spec.code == BYTES:
                self._put_strings(stacked)

    def _array(self, spec: TensorSpec, shape: tuple[int, ...]) -> np.ndarray:
        """An array in shared memory, noted as the next output."""
        n_bytes = math.prod(shape) * spec.numpy.itemsize
        buffer, offset = self._room.place(n_bytes)
        self.tensors.append((spec.code, offset, n_bytes, shape))
        return np.ndarray(shape, spec.numpy, buffer=buffer, offset=offset)

    def _put(self, spec: TensorSpec, value: np.ndarray) -> None:
        if value.dtype != spec.numpy or not value.flags.c_contiguous:
            if value.dtype.name == "bfloat16":
                value = value.view(np.uint16)
            np.copyto(self._array(spec, value.shape), value, casting="same_kind")
            return
        # What owns its memory lies nowhere else.
        offset = None if value.base is None else self._room.offset_of(value)
        if offset is None:
            buffer, offset = self._room.place(value.nbytes)
            if value.nbytes:
                buffer[offset : offset + value.nbytes] = value.data.cast("B")
        self.tensors.append((spec.code, offset, value.nbytes, value.shape))

    def _put_torch(self, spec: TensorSpec, value: Any) -> None:
        import torch

        target = torch.from_numpy(self._array(spec, tuple(value.shape)))
        if spec.dtype == "BF16":
            target = target.view(torch.bfloat16)
        target.copy_(value)

    def _put_strings(self, values: np.ndarray) -> None:
        parts = bytearray()
        for value in values.reshape(-1):
            data = value.encode() if isinstance(value, str) else bytes(value)
            parts += len(data).to_bytes(4, "little")
            parts += data
        buffer, offset = self._room.place(len(parts))
        buffer[offset : offset + len(parts)] = bytes(parts)
        self.tensors.append((BYTES, offset, len(parts), values.shape))


def _to_numpy(value: Any) -> Any:
    """A value that NumPy can take."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            import torch

            return value.view(torch.int16).numpy().view(np.uint16)
        return value.numpy()
    return value if isinstance(value, (bytes, str)) else np.asarray(value)
