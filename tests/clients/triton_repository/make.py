"""Makes the models beside it, each a few hundred bytes.

    pip install onnx==1.23.2 numpy
    python tests/clients/triton_repository/make.py

`shifted`: OUTPUT = INPUT + version, so that an answer tells which version gave it.
`smoothed`: STATE_OUT = STATE_IN / 2 + INPUT, and OUTPUT the same, so that an answer tells what came
before it; every number in the tests is exact in float32.
"""

import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent


def tensor(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2])


def save(path, nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes,
        "graph",
        [tensor(name) for name in inputs],
        [tensor(name) for name in outputs],
        [numpy_helper.from_array(numpy.array(value, numpy.float32), name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="make.py"
    )
    onnx.checker.check_model(model, full_check=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def shifted(version):
    nodes = [helper.make_node("Add", ["INPUT", "shift"], ["OUTPUT"])]
    save(HERE / f"shifted/{version}/model.onnx", nodes, ["INPUT"], ["OUTPUT"], {"shift": [version]})


def smoothed():
    nodes = [
        helper.make_node("Mul", ["STATE_IN", "half"], ["kept"]),
        helper.make_node("Add", ["kept", "INPUT"], ["STATE_OUT"]),
        helper.make_node("Identity", ["STATE_OUT"], ["OUTPUT"]),
    ]
    inputs, outputs = ["INPUT", "STATE_IN"], ["OUTPUT", "STATE_OUT"]
    save(HERE / "smoothed/1/model.onnx", nodes, inputs, outputs, {"half": [0.5]})


if __name__ == "__main__":
    for version in [1, 2, 10]:
        shifted(version)
    smoothed()
