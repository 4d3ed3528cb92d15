"""The model inside Triton's Python backend."""

import os
import sys

sys.path.insert(0, os.environ["PEERS_SERVERS"])
import numpy as np
import triton_python_backend_utils as pb
import curve


class TritonPythonModel:
    def execute(self, requests):
        if curve.MODEL != "echo":
            curve.sim(len(requests))
        out = []
        for r in requests:
            x = pb.get_input_tensor_by_name(r, "input").as_numpy()
            out.append(
                pb.InferenceResponse(
                    [pb.Tensor("length", np.array([[x.shape[1]]], dtype=np.int32))]
                )
            )
        return out
