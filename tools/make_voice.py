"""Makes models/voice/1/model.onnx and models/vocoder/1/model.onnx from the 32-bit pair.

usage: make_voice.py ACOUSTIC.onnx VOCODER.onnx REPOSITORY

Every large matrix becomes bytes with one scale for each output, and is turned back into 32-bit
numbers where it is used: arithmetic stays 32-bit, so that chunked sound still equals whole sound,
and a row still does not depend on its neighbours. Convolutions stay as they were: they are small,
and the vocoder's first one as bytes costs more sound than all matrices together.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

# Smaller ones would save nothing.
LEAST_ELEMENTS = 15_000


def is_matrix(graph, name):
    """Whether a weight is only ever multiplied by, from the right."""
    uses = {(node.op_type, at) for node in graph.node for at, used in enumerate(node.input) if used == name}
    return uses == {("MatMul", 1)}


def quantise(path):
    model = onnx.load(path)
    graph = model.graph
    kept, unpack = [], []
    for tensor in graph.initializer:
        weight = numpy_helper.to_array(tensor)
        if weight.size < LEAST_ELEMENTS or not is_matrix(graph, tensor.name):
            kept.append(tensor)
            continue
        scale = np.abs(weight).max(axis=0, keepdims=True).astype(np.float32) / 127
        scale[scale == 0] = 1
        steps = np.clip(np.round(weight / scale), -127, 127).astype(np.int8)
        names = [tensor.name + suffix for suffix in ("_steps", "_whole", "_scale")]
        kept += [numpy_helper.from_array(steps, names[0]), numpy_helper.from_array(scale, names[2])]
        # Not DequantizeLinear: ONNX Runtime would make one node of it and the product, with less
        # exact arithmetic, and chunked sound would differ from whole sound a thousandfold more.
        unpack.append(helper.make_node("Cast", names[:1], names[1:2], to=onnx.TensorProto.FLOAT))
        unpack.append(helper.make_node("Mul", names[1:], [tensor.name]))
    nodes = list(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(unpack + nodes)
    onnx.checker.check_model(model)
    return model


def main(acoustic, vocoder, repository):
    for source, name in ((acoustic, "voice"), (vocoder, "vocoder")):
        folder = pathlib.Path(repository) / name / "1"
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(quantise(source), folder / "model.onnx")
        print(folder / "model.onnx", (folder / "model.onnx").stat().st_size)


if __name__ == "__main__":
    main(*sys.argv[1:])
