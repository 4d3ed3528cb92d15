"""What a model is: a class that says what it takes and gives, loads, and infers."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

if TYPE_CHECKING:
    from .batch import Batch

# In the protocol's order: a dtype's number on the wire is its place here. NumPy has no brain
# floating point, so BF16 travels as its bits; BYTES are Python ``bytes`` in an array of objects.
DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BYTES": np.dtype(object),
}
NAMES: tuple[str, ...] = tuple(DTYPES)
BYTES = NAMES.index("BYTES")

#: What ``infer`` gives: a stacked array for each output, or one entry for each row (a dict of
#: arrays, or an :class:`ItemError`), or it yields several of these. A model with one output may leave
#: the dict out.
Result = Union[Mapping[str, Any], Sequence[Any], np.ndarray, Iterator[Any]]


class ItemError(Exception):
    """One item that cannot be answered.

    Put it in place of that row's result, and the other rows are answered. Raised out of ``infer``
    it fails the whole call; the server then runs the items again in smaller calls until the one
    to blame stands alone.
    """


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """An input or an output.

    ``dtype`` is the Open Inference Protocol's name, such as ``FP32`` or ``BYTES``. ``dims`` are
    the extents without the batch, ``-1`` for any.
    """

    dtype: str
    dims: Sequence[int] = ()
    #: The dtype's number on the wire, and as NumPy has it; both follow from ``dtype``.
    code: int = dataclasses.field(init=False, repr=False, compare=False)
    numpy: np.dtype = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"unknown dtype {self.dtype!r}; one of {', '.join(NAMES)} is expected")
        # Looked up once here, not in every call.
        object.__setattr__(self, "code", NAMES.index(self.dtype))
        object.__setattr__(self, "numpy", DTYPES[self.dtype])
        if any(not isinstance(dim, int) or dim < -1 for dim in self.dims):
            raise ValueError(f"dims {list(self.dims)} are not extents; use -1 for any")


class Model:
    """The base of a model. Inheriting is not needed: a class with the same names will do."""

    #: What it takes, in the order in which clients see it.
    inputs: Mapping[str, TensorSpec] = {}
    #: What it gives.
    outputs: Mapping[str, TensorSpec] = {}
    #: Most rows in one call. 0: the model does not batch, and its tensors have no batch extent.
    max_batch: int = 64

    def load(self) -> None:
        """Loads weights; runs once, before the first call, in the model's folder."""

    def infer(self, batch: Batch) -> Result:
        """Runs one call. The arrays of ``batch`` are valid until this returns."""
        raise NotImplementedError


class Declared:
    """What a loaded model says of itself, checked."""

    def __init__(self, model: Any) -> None:
        self.inputs = _specs(model, "inputs")
        self.outputs = _specs(model, "outputs")
        max_batch = getattr(model, "max_batch", Model.max_batch)
        if not isinstance(max_batch, int) or not 0 <= max_batch < 2**31:
            raise ValueError(f"max_batch is {max_batch!r}; a whole number from 0 is expected")
        self.max_batch: int = max_batch
        infer = getattr(model, "infer", None)
        if not callable(infer):
            raise TypeError(f"{type(model).__name__} has no method infer(batch)")
        #: Whether ``infer`` is a generator, which gives several results for each row.
        self.streams = inspect.isgeneratorfunction(infer)

    def to_json(self) -> bytes:
        """As the server reads it."""

        def specs(named: Mapping[str, TensorSpec]) -> list[dict[str, Any]]:
            return [
                {"name": name, "dtype": spec.dtype, "dims": list(spec.dims)}
                for name, spec in named.items()
            ]

        declared = {
            "inputs": specs(self.inputs),
            "outputs": specs(self.outputs),
            "max_batch": self.max_batch,
            "streams": self.streams,
        }
        return json.dumps(declared).encode()


def _specs(model: Any, which: str) -> dict[str, TensorSpec]:
    specs = getattr(model, which, None)
    if not isinstance(specs, Mapping) or not specs:
        raise TypeError(
            f"{type(model).__name__}.{which} must be a dict of names and TensorSpec, with one at least"
        )
    for name, spec in specs.items():
        if not isinstance(name, str) or not isinstance(spec, TensorSpec):
            raise TypeError(f"{which}[{name!r}] is not a TensorSpec")
    return dict(specs)


def create(place: str, folder: str) -> Any:
    """Makes the model that ``place`` (``module:Class``) names, looked for in ``folder`` first."""
    module_name, _, class_name = place.partition(":")
    if not module_name or not class_name:
        raise ValueError(f"`{place}` names no class; write `module:Class`, such as `model:Model`")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.import_module(module_name)
    try:
        kind = getattr(module, class_name)
    except AttributeError:
        raise ImportError(f"{module.__file__} has no class `{class_name}`") from None
    return kind()
