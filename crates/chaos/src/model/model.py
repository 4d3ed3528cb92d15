"""Gives back what it gets, and does harm where the second number says so."""

import ctypes
import os
import sys

import numpy as np

from paceline import ItemError, Model, TensorSpec


class Fragile(Model):
    inputs = {"x": TensorSpec("INT64", [2])}
    outputs = {"y": TensorSpec("INT64", [2])}
    max_batch = 16

    def infer(self, batch):
        x = batch["x"]
        harms = set(x[:, 1].tolist())
        if 1 in harms:
            os._exit(0)
        if 2 in harms:
            ctypes.string_at(0)
        if 3 in harms:
            while True:
                pass
        if 4 in harms:
            np.ones(1 << 31, np.uint8).sum()
        if 5 in harms:
            for _ in range(20_000):
                sys.stdout.write("noise " * 20 + "\n")
        if 6 in harms:
            raise RuntimeError("this call was told to fail")
        return [ItemError("this row was told to fail") if row[1] == 7 else {"y": row} for row in x]
