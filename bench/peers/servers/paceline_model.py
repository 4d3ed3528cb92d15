"""The models of the comparison as Paceline classes."""

import curve
import numpy as np
from paceline import Model, TensorSpec


class Echo(Model):
    """Answers how long its input is."""

    inputs = {"input": TensorSpec("UINT8", [-1])}
    outputs = {"length": TensorSpec("INT32")}
    max_batch = curve.MAXB

    def infer(self, batch):
        text = batch["input"]
        return {"length": np.full(batch.rows, text.shape[1], np.int32)}


class Sim(Echo):
    """The same, after as long as a batch would take."""

    def infer(self, batch):
        curve.sim(batch.rows)
        return super().infer(batch)


class Same(Model):
    """Gives back what it gets."""

    inputs = {"input": TensorSpec("UINT8", [-1])}
    outputs = {"output": TensorSpec("UINT8", [-1])}
    max_batch = curve.MAXB

    def infer(self, batch):
        return {"output": batch["input"]}
