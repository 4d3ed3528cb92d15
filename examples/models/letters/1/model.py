"""Counts the letters of texts: the smallest model with text in, numbers out and items refused."""

import numpy as np

from paceline import Batch, ItemError, Model, TensorSpec


class Letters(Model):
    inputs = {"text": TensorSpec("BYTES", [1])}
    outputs = {"counts": TensorSpec("INT64", [26])}
    max_batch = 32

    def load(self) -> None:
        self.first = ord("a")

    def infer(self, batch: Batch):
        return [self.count(text[0]) for text in batch["text"]]

    def count(self, text: bytes):
        letters = np.frombuffer(text.lower(), np.uint8).astype(np.int64) - self.first
        letters = letters[(0 <= letters) & (letters < 26)]
        if text and not letters.size:
            return ItemError("there is no letter in this text")
        return {"counts": np.bincount(letters, minlength=26)}
