"""Models for the tests: each does one thing, some of them fatal."""

import ctypes
import os
import signal
import sys
import time

import numpy as np

from paceline import ItemError, Model, TensorSpec

DTYPE = os.environ.get("DTYPE", "FP32")
if "PID_FILE" in os.environ:
    with open(os.environ["PID_FILE"], "w") as file:
        file.write(str(os.getpid()))


class Echo(Model):
    """Gives what it gets."""

    inputs = {"INPUT": TensorSpec(DTYPE, [-1])}
    outputs = {"OUTPUT": TensorSpec(DTYPE, [-1])}
    max_batch = 16

    def infer(self, batch):
        return {"OUTPUT": batch["INPUT"]}


class InPlace(Echo):
    """Writes its answer straight into shared memory."""

    def infer(self, batch):
        out = batch.empty("OUTPUT", batch["INPUT"].shape)
        np.copyto(out, batch["INPUT"])
        return out


class Rows(Echo):
    """Answers row by row."""

    def infer(self, batch):
        return [{"OUTPUT": row} for row in batch["INPUT"]]


class Whole(Model):
    """Does not batch, and has two inputs of different types."""

    inputs = {"text": TensorSpec("BYTES", [-1]), "times": TensorSpec("INT64", [])}
    outputs = {"text": TensorSpec("BYTES", [-1]), "n": TensorSpec("INT32", [1])}
    max_batch = 0

    def infer(self, batch):
        text = batch["text"] * int(batch["times"])
        return {"text": text, "n": [len(text)]}


class Grow(Model):
    """Gives as many numbers as it is asked for."""

    inputs = {"n": TensorSpec("INT64", [1])}
    outputs = {"numbers": TensorSpec("INT64", [-1])}

    def infer(self, batch):
        n = int(batch["n"].max())
        return {"numbers": np.tile(np.arange(n), (batch.rows, 1))}


class Refuses(Echo):
    """Refuses negative numbers, each alone."""

    def infer(self, batch):
        return [
            ItemError(f"{row[0]:g} is negative") if row[0] < 0 else {"OUTPUT": row}
            for row in batch["INPUT"]
        ]


class Raises(Echo):
    """Raises as a whole when there is a negative number."""

    def infer(self, batch):
        if (batch["INPUT"] < 0).any():
            raise ValueError("a negative number")
        return batch["INPUT"]


class Dies(Echo):
    """What it does depends on the first number: hang, die in several ways, or answer."""

    def infer(self, batch):
        how = int(batch["INPUT"].flat[0])
        if how == 1:
            time.sleep(1000)
        elif how == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == 3:
            ctypes.string_at(0)
        elif how == 4:
            os._exit(3)
        elif how == 5:
            sys.exit(4)
        elif how == 6:
            print("about to abort", flush=True)
            os.abort()
        elif how == 7 and not os.path.exists(os.environ["ONCE"]):
            open(os.environ["ONCE"], "w").close()
            os._exit(5)
        elif how == 8:
            bytearray(1 << 30)
        return batch["INPUT"]


class NotAnymore(Echo):
    """Loads and answers once in all; the next worker dies while it loads."""

    def load(self):
        if os.path.exists(os.environ["ONCE"]):
            print("no second time", file=sys.stderr, flush=True)
            os._exit(7)
        open(os.environ["ONCE"], "w").close()

    def infer(self, batch):
        if batch["INPUT"].flat[0] == 2:
            os._exit(7)
        return batch["INPUT"]


class BadLoad(Echo):
    def load(self):
        raise FileNotFoundError("no weights")


class Wrong(Echo):
    """Gives another shape than it declares."""

    def infer(self, batch):
        return np.zeros((batch.rows, 1, 1), np.float32)


class Forks(Echo):
    """Leaves a child behind that holds all that it could inherit."""

    def load(self):
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)

    def infer(self, batch):
        os._exit(6)


class Boxed(Echo):
    """Tries what a sandbox forbids."""

    def infer(self, batch):
        import socket

        attempts = {
            "read": lambda: open("/etc/passwd").close(),
            "write": lambda: open("here", "w").close(),
            "write /tmp": lambda: open("/tmp/paceline-sandbox", "w").close(),
            "connect": lambda: socket.create_connection(("127.0.0.1", 9), 1),
        }
        for name, attempt in attempts.items():
            try:
                attempt()
            except PermissionError:
                continue
            except OSError as error:
                raise ItemError(f"{name}: {error}") from None
            raise ItemError(f"{name} was allowed")
        return batch["INPUT"]


class Device(Echo):
    """Says which device it sees."""

    def infer(self, batch):
        return np.full_like(batch["INPUT"], float(os.environ["CUDA_VISIBLE_DEVICES"]))


class Counts(Model):
    """Streams: counts each row up to its number, and fails at 13."""

    inputs = {"INPUT": TensorSpec("FP32", [1])}
    outputs = {"OUTPUT": TensorSpec("FP32", [1])}

    def infer(self, batch):
        goals = batch["INPUT"][:, 0].copy()
        for n in range(1, int(goals.max()) + 1):
            if n == 13:
                raise ValueError("thirteen")
            yield [
                None if goal < n else ItemError("seven") if n == 7 == goal else {"OUTPUT": [n]}
                for goal in goals
            ]


class Endless(Counts):
    """Streams for ever, and says in a file how far it came."""

    def infer(self, batch):
        n = 0
        try:
            while True:
                n += 1
                yield {"OUTPUT": np.full((batch.rows, 1), n, np.float32)}
                if batch["INPUT"].max() == 0:
                    return
        finally:
            with open(os.environ["ONCE"], "w") as file:
                file.write("closed")
