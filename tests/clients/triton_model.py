"""The models of models.json for Triton's Python backend, one class for all behaviours.

Runs inside Triton, which hands it the model's name and configuration. It is the reference the suite
is checked against, so it does the least that the behaviour asks for.
"""

import json
import os
import sys
import time

import numpy as np
import triton_python_backend_utils as pb_utils

# Milliseconds a batch takes, by the number of requests in it; linear between these points.
SLOW_MS = ([1, 8, 32, 64], [50, 70, 150, 280])


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.behaviour = config["parameters"]["behaviour"]["string_value"]
        self.input = config["input"][0]["name"]
        self.datatype = config["input"][0]["data_type"]
        self.output = config["output"][0]["name"]
        if self.behaviour == "folder":
            sys.path.append(os.environ["PACELINE_PACKAGES"])
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            model = os.path.join(os.environ["PACELINE_MODELS"], args["model_name"], "1/model.onnx")
            self.session = onnxruntime.InferenceSession(model, options)

    def execute(self, requests):
        if self.behaviour == "slow_length":
            time.sleep(np.interp(len(requests), *SLOW_MS) / 1000)
        answers = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, self.input)
            answers.append(pb_utils.InferenceResponse([self.answer(tensor)]))
        return answers

    def answer(self, tensor):
        if self.behaviour == "identity":
            if self.datatype == "TYPE_BF16":
                # NumPy has no such type, so the memory is handed over as it is.
                return pb_utils.Tensor.from_dlpack(self.output, tensor)
            return pb_utils.Tensor(self.output, tensor.as_numpy())
        array = tensor.as_numpy()
        if self.behaviour == "folder":
            (array,) = self.session.run([self.output], {self.input: array})
            return pb_utils.Tensor(self.output, array)
        return pb_utils.Tensor(
            self.output, np.full((array.shape[0], 1), array.shape[1], dtype=np.int32)
        )
