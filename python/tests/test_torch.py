"""Torch tensors in and out. Run where torch is installed; ``TORCH=1 scripts/test-pythons`` sees to it."""

import importlib.util
import unittest

import numpy as np

from paceline import Batch, ItemError, TensorSpec
from paceline.batch import Results
from paceline.check import Heap


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Torch(unittest.TestCase):
    """What a model with torch does."""

    def batch(self, dtype, array):
        """A batch with one input."""
        return Batch({"x": array}, len(array), {"x": TensorSpec(dtype, [-1])}, {}, Heap())

    def written(self, dtype, result, rows=2):
        """The bytes that a result of infer becomes."""
        room = Heap()
        results = Results(room, {"y": TensorSpec(dtype, [-1])}, rows).write(result)
        (_, offset, length, shape), = results.tensors
        return bytes(room._parts[-1][offset : offset + length]), shape, results

    def test_an_input_is_a_tensor_that_views_the_same_memory(self):
        import torch

        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        tensor = self.batch("FP32", array).torch("x", "cpu")

        self.assertEqual((tensor.dtype, tuple(tensor.shape)), (torch.float32, (2, 3)))
        array[0, 0] = 9
        self.assertEqual(tensor[0, 0].item(), 9)

    def test_brain_floats_go_in_and_out_as_their_bits(self):
        import torch

        values = torch.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=torch.bfloat16)
        bits = values.view(torch.int16).numpy().view(np.uint16)
        tensor = self.batch("BF16", bits).torch("x")

        self.assertEqual(tensor.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(tensor, values))
        for result in ({"y": tensor}, tensor, [{"y": row} for row in tensor]):
            data, shape, _ = self.written("BF16", result)
            self.assertEqual((data, shape), (bits.tobytes(), (2, 2)))

    def test_results_are_tensors_that_need_a_gradient_or_are_not_contiguous(self):
        import torch

        weight = torch.ones(3, 2, requires_grad=True)
        data, shape, _ = self.written("FP32", {"y": (weight * 2).T})

        self.assertEqual((data, shape), (np.full((2, 3), 2, np.float32).tobytes(), (2, 3)))

    def test_rows_of_which_one_fails(self):
        import torch

        data, shape, results = self.written("FP32", [torch.ones(2), ItemError("bad")])

        self.assertEqual(data, np.float32([[1, 1], [0, 0]]).tobytes())
        self.assertEqual((shape, results.failed), ((2, 2), [(1, "bad")]))


if __name__ == "__main__":
    unittest.main()
