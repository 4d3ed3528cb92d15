"""A token model that streams: a token for each letter, five at a time, as a language model would."""

import numpy as np

from paceline import Model, TensorSpec

PORTION = 5


class Speaker(Model):
    inputs = {"text": TensorSpec("BYTES", [1])}
    outputs = {"tokens": TensorSpec("INT32", [PORTION]), "count": TensorSpec("INT32", [1])}
    max_batch = 16

    def infer(self, batch):
        texts = [text[0] for text in batch["text"]]
        for at in range(0, max((len(text) for text in texts), default=0), PORTION):
            yield [self.portion(text[at : at + PORTION]) for text in texts]

    def portion(self, letters):
        if not letters:
            return None
        tokens = np.zeros(PORTION, np.int32)
        tokens[: len(letters)] = list(letters)
        return {"tokens": tokens, "count": np.array([len(letters)], np.int32)}
