"""Loads a model and tries it without the server: ``python -m paceline.check model.py``."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import time
from typing import Any

import numpy as np

from .batch import Batch, Results
from .model import DTYPES, Declared, TensorSpec, create


class Heap:
    """Room for results where there is no server to share it with."""

    def __init__(self) -> None:
        self._parts: list[bytearray] = []

    def place(self, n_bytes: int) -> tuple[bytearray, int]:
        """Memory for so many bytes."""
        self._parts.append(bytearray(n_bytes))
        return self._parts[-1], 0

    def offset_of(self, array: np.ndarray) -> int | None:
        """Nothing lies here yet."""
        return None


def sample(spec: TensorSpec, rows: int | None, length: int) -> np.ndarray:
    """Small numbers that differ from place to place, free extents taken as ``length``."""
    shape = tuple(length if dim == -1 else dim for dim in spec.dims)
    if rows is not None:
        shape = (rows, *shape)
    dtype = DTYPES[spec.dtype]
    if dtype == object:
        return np.full(shape, b"", dtype=object)
    if dtype.kind != "f":
        return np.zeros(shape, dtype)
    numbers = np.arange(np.prod(shape, dtype=np.int64)) * 7919 % 101 / 101
    return numbers.reshape(shape).astype(dtype)


def try_call(model: Any, declared: Declared, rows: int, length: int) -> list[tuple[int, ...]]:
    """Runs one call as the server would and gives its outputs' shapes."""
    batched = 0 < declared.max_batch
    arrays = {
        name: sample(spec, rows if batched else None, length)
        for name, spec in declared.inputs.items()
    }
    room = Heap()
    result = model.infer(Batch(arrays, rows, declared.inputs, declared.outputs, room))
    shapes = []
    for part in result if inspect.isgenerator(result) else [result]:
        results = Results(room, declared.outputs, rows).write(part)
        for (_, _, _, shape), (name, spec) in zip(results.tensors, declared.outputs.items()):
            dims = (rows, *spec.dims) if batched else tuple(spec.dims)
            if len(dims) != len(shape) or any(d not in (-1, s) for d, s in zip(dims, shape)):
                raise ValueError(f"output `{name}` has shape {list(shape)}, declared is {list(dims)}")
        shapes = [shape for _, _, _, shape in results.tensors]
    return shapes


def main() -> None:
    """What ``python -m paceline.check`` does."""
    parser = argparse.ArgumentParser(prog="paceline.check", description=__doc__)
    parser.add_argument("file", help="the module with the model's class")
    parser.add_argument("--class", dest="name", default="Model", help="the class (default: Model)")
    parser.add_argument("--length", type=int, default=16, help="what free extents are taken as")
    options = parser.parse_args()

    path = os.path.abspath(options.file)
    folder, file = os.path.split(path)
    os.chdir(folder)
    began = time.perf_counter()
    model = create(f"{os.path.splitext(file)[0]}:{options.name}", folder)
    load = getattr(model, "load", None)
    if load is not None:
        load()
    declared = Declared(model)
    print(f"loaded in {time.perf_counter() - began:.2f} s")
    for which in ("inputs", "outputs"):
        for name, spec in getattr(declared, which).items():
            print(f"  {which[:-1]} {name}: {spec.dtype} {list(spec.dims)}")
    for rows in sorted({1, max(1, declared.max_batch)}):
        try_call(model, declared, rows, options.length)
        began = time.perf_counter()
        shapes = try_call(model, declared, rows, options.length)
        took = (time.perf_counter() - began) * 1000
        print(f"  {rows} rows: {took:.3f} ms, outputs {[list(shape) for shape in shapes]}")


if __name__ == "__main__":
    sys.exit(main())
