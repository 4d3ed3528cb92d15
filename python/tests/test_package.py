"""The package without a server: what infer may return, and what is said of what it may not.

Run with ``python -m unittest discover -s python/tests`` and ``python/`` on PYTHONPATH.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from paceline import Batch, ItemError, Model, TensorSpec
from paceline.batch import Results
from paceline.check import Heap
from paceline.model import DTYPES, Declared

OUTPUTS = {"y": TensorSpec("FP32", [-1]), "name": TensorSpec("BYTES")}


class Memory(Heap):
    """Room that can be looked into."""

    def read(self, results: Results, at: int) -> np.ndarray:
        """The output at a place."""
        code, _, length, shape = results.tensors[at]
        data = bytes(self._parts[at][:length])
        return np.frombuffer(data, list(DTYPES.values())[code]).reshape(shape)


def write(result, rows=2, outputs=OUTPUTS):
    """Writes a result of infer and gives what was written."""
    room = Memory()
    return room, Results(room, outputs, rows).write(result)


class WhatInferMayReturn(unittest.TestCase):
    """Each form of a result, and each mistake."""

    def test_stacked_arrays(self):
        room, results = write({"name": [b"a", "é"], "y": np.array([[1], [2]])})

        np.testing.assert_array_equal(room.read(results, 0), np.float32([[1], [2]]))
        self.assertEqual(bytes(room._parts[1]), b"\1\0\0\0a\2\0\0\0\xc3\xa9")

    def test_rows_of_which_some_fail(self):
        room, results = write(
            [{"y": [1, 2], "name": b"a"}, ItemError("bad"), None], rows=3
        )

        self.assertEqual(results.failed, [(1, "bad"), (2, None)])
        np.testing.assert_array_equal(room.read(results, 0), [[1, 2], [0, 0], [0, 0]])

    def test_rows_that_all_fail(self):
        _, results = write([ItemError("a"), ItemError("b")])

        self.assertEqual(results.tensors, [])
        self.assertEqual(results.failed, [(0, "a"), (1, "b")])

    def test_a_bare_array_for_the_only_output(self):
        only = {"y": OUTPUTS["y"]}
        room, results = write(np.eye(2), outputs=only)

        np.testing.assert_array_equal(room.read(results, 0), np.eye(2, dtype=np.float32))
        with self.assertRaisesRegex(TypeError, "a dict of y, name is expected"):
            write(np.eye(2))

    def test_mistakes_are_named(self):
        y = np.zeros((2, 1))
        for wrong, words in [
            ({"y": y}, "did not give output `name`"),
            ({"y": y, "name": [b"", b""], "z": 1}, "gave `z`"),
            ([{"y": y, "name": b""}], "1 results for 2 rows"),
            ([{"y": [1], "name": b""}, {"y": [1, 2], "name": b""}], "differ in shape"),
        ]:
            with self.assertRaisesRegex((KeyError, ValueError), words):
                write(wrong)
        with self.assertRaises(TypeError):
            write({"n": [[1.5]]}, 1, {"n": TensorSpec("INT32", [-1])})


class Declarations(unittest.TestCase):
    """What a class says of itself."""

    def test_any_class_with_the_right_names_will_do(self):
        class Duck:
            inputs = {"x": TensorSpec("FP32", [3])}
            outputs = {"y": TensorSpec("BYTES")}

            def infer(self, batch):
                return batch

        declared = Declared(Duck())
        self.assertEqual(declared.max_batch, 64)
        self.assertIn(b'"dims": [3]', declared.to_json())

    def test_mistakes_are_named(self):
        class Nothing(Model):
            pass

        with self.assertRaisesRegex(TypeError, "Nothing.inputs"):
            Declared(Nothing())
        with self.assertRaisesRegex(ValueError, "unknown dtype 'float32'"):
            TensorSpec("float32")
        with self.assertRaisesRegex(ValueError, "not extents"):
            TensorSpec("FP32", [-2])

    def test_a_batch_is_a_mapping(self):
        batch = Batch({"x": np.zeros(2)}, 2, {"x": TensorSpec("FP64")}, OUTPUTS, Heap())

        self.assertEqual((list(batch), len(batch), batch.rows), (["x"], 1, 2))
        self.assertEqual(batch.empty("y", (2, 3)).shape, (2, 3))
        with self.assertRaises(TypeError):
            batch.empty("name", (2,))


class Check(unittest.TestCase):
    """The runner without a server."""

    def test_it_tries_a_model_and_says_what_is_wrong(self):
        source = (
            "from paceline import Model, TensorSpec\n"
            "class Model(Model):\n"
            "    inputs = {'x': TensorSpec('FP32', [-1])}\n"
            "    outputs = {'y': TensorSpec('FP32', [%s])}\n"
            "    def infer(self, batch):\n"
            "        yield batch['x']\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.py")
            command = [sys.executable, "-m", "paceline.check", str(path)]
            path.write_text(source % -1)
            good = subprocess.run(command, capture_output=True, text=True)
            path.write_text(source % 3)
            bad = subprocess.run(command, capture_output=True, text=True)
        self.assertIn("64 rows", good.stdout, good.stderr)
        self.assertIn("output `y` has shape [1, 16], declared is [1, 3]", bad.stderr)


if __name__ == "__main__":
    unittest.main()
