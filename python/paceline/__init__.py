"""Serve a Python model with Paceline.

A model is a class with ``load()`` and ``infer(batch)``::

    from paceline import Model, TensorSpec

    class Double(Model):
        inputs = {"x": TensorSpec("FP32", [-1])}
        outputs = {"y": TensorSpec("FP32", [-1])}
        def infer(self, batch): return {"y": batch["x"] * 2}

The server runs it in a process of its own and hands it whole batches. ``python -m paceline.check
model.py`` loads and tries a model without the server.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batch import Batch
    from .model import ItemError, Model, TensorSpec

__all__ = ["Batch", "ItemError", "Model", "TensorSpec"]
__version__ = "0.1.0"


def __getattr__(name: str):
    # Imported when asked for: whoever only sends frames (paceline.cameras) needs no numpy.
    if name == "Batch":
        from .batch import Batch

        return Batch
    if name in __all__:
        from . import model

        return getattr(model, name)
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")
