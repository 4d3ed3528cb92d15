"""Makes an ONNX sentence embedder out of the weights of all-MiniLM-L6-v2, without torch.

    pip install numpy onnx safetensors
    python tools/make_minilm.py model.safetensors model.onnx

The graph is written node by node: BERT with six layers, the mean over the tokens that the mask
keeps, and a unit length. Large matrices are kept in int8, one scale per output channel, and are
dequantised before use, so that arithmetic stays in float32. Quantising activations as well would
be faster, but then a sentence's embedding would depend on the sentences beside it in the batch.
"""

import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

N_LAYERS, HIDDEN, N_HEADS, HEAD = 6, 384, 12, 32
# Smaller tensors are not worth a dequantisation.
LARGE = 100_000


class Graph:
    """Nodes and constants under construction, over one file's weights."""

    def __init__(self, weights):
        self.weights = weights
        self.nodes = []
        self.constants = []

    def op(self, kind, inputs, output=None, **attributes):
        name = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name, value, dtype):
        array = numpy.ascontiguousarray(value, dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name):
        found = self.weights.get(name, self.weights.get("bert." + name))
        return found.astype(numpy.float32)

    def matrix(self, name, value, channel):
        """A matrix in int8 where it is large; `channel` is the axis that has the scales."""
        if value.size <= LARGE:
            return self.constant(name, value, numpy.float32)
        scale = (numpy.abs(value).max(axis=1 - channel, keepdims=True) / 127).astype(numpy.float32)
        scale[scale == 0] = 1e-8
        rounded = numpy.clip(numpy.round(value / scale), -127, 127)
        inputs = [
            self.constant(name + "_q", rounded, numpy.int8),
            self.constant(name + "_s", scale.ravel(), numpy.float32),
        ]
        return self.op("DequantizeLinear", inputs, name, axis=channel)

    def linear(self, x, name):
        matrix = self.matrix(name + ".w", self.weight(name + ".weight").T, 1)
        bias = self.constant(name + ".b", self.weight(name + ".bias"), numpy.float32)
        return self.op("Add", [self.op("MatMul", [x, matrix]), bias])

    def norm(self, x, name):
        gain = self.constant(name + ".g", self.weight(name + ".weight"), numpy.float32)
        bias = self.constant(name + ".b", self.weight(name + ".bias"), numpy.float32)
        return self.op("LayerNormalization", [x, gain, bias], axis=-1, epsilon=1e-12)


def embedding(graph):
    """Words, positions and segments, summed."""
    prefix = "embeddings."
    words = graph.matrix("words", graph.weight(prefix + "word_embeddings.weight"), 0)
    places = graph.matrix("places", graph.weight(prefix + "position_embeddings.weight"), 0)
    kinds = graph.matrix("kinds", graph.weight(prefix + "token_type_embeddings.weight"), 0)
    zero = graph.constant("zero_index", [0], numpy.int64)
    length = graph.op("Shape", ["input_ids"], start=1, end=2)
    here = graph.op("Slice", [places, zero, length, zero])
    both = graph.op(
        "Add",
        [graph.op("Gather", [words, "input_ids"]), graph.op("Gather", [kinds, "token_type_ids"])],
    )
    return graph.norm(graph.op("Add", [both, here]), prefix + "LayerNorm")


def layer(graph, x, prefix, bias):
    def heads(name, order):
        split = graph.op("Reshape", [graph.linear(x, prefix + name), "split"])
        return graph.op("Transpose", [split], perm=order)

    query = heads("attention.self.query", [0, 2, 1, 3])
    key = heads("attention.self.key", [0, 2, 3, 1])
    value = heads("attention.self.value", [0, 2, 1, 3])
    scores = graph.op("Mul", [graph.op("MatMul", [query, key]), "head_scale"])
    attention = graph.op("Softmax", [graph.op("Add", [scores, bias])], axis=-1)
    mixed = graph.op("Transpose", [graph.op("MatMul", [attention, value])], perm=[0, 2, 1, 3])
    mixed = graph.linear(graph.op("Reshape", [mixed, "join"]), prefix + "attention.output.dense")
    x = graph.norm(graph.op("Add", [mixed, x]), prefix + "attention.output.LayerNorm")

    inner = graph.linear(x, prefix + "intermediate.dense")
    erf = graph.op("Erf", [graph.op("Mul", [inner, "root_half"])])
    gelu = graph.op(
        "Mul", [graph.op("Mul", [inner, "half"]), graph.op("Add", [erf, "one"])]
    )
    outer = graph.linear(gelu, prefix + "output.dense")
    return graph.norm(graph.op("Add", [outer, x]), prefix + "output.LayerNorm")


def build(weights):
    graph = Graph(weights)
    for name, value in [
        ("one", 1),
        ("half", 0.5),
        ("root_half", 0.5**0.5),
        ("head_scale", HEAD**-0.5),
        ("far_below", -10000),
        ("tiny", 1e-9),
    ]:
        graph.constant(name, value, numpy.float32)
    graph.constant("split", [0, 0, N_HEADS, HEAD], numpy.int64)
    graph.constant("join", [0, 0, HIDDEN], numpy.int64)
    for name, axes in [("axis_1", [1]), ("axis_2", [2]), ("axes_1_2", [1, 2])]:
        graph.constant(name, axes, numpy.int64)

    mask = graph.op("Cast", ["attention_mask"], to=TensorProto.FLOAT)
    hidden = graph.op("Sub", ["one", graph.op("Unsqueeze", [mask, "axes_1_2"])])
    bias = graph.op("Mul", [hidden, "far_below"])
    x = embedding(graph)
    for index in range(N_LAYERS):
        x = layer(graph, x, f"encoder.layer.{index}.", bias)

    column = graph.op("Unsqueeze", [mask, "axis_2"])
    total = graph.op("ReduceSum", [graph.op("Mul", [x, column]), "axis_1"], keepdims=0)
    count = graph.op("Max", [graph.op("ReduceSum", [column, "axis_1"], keepdims=0), "tiny"])
    mean = graph.op("Div", [total, count])
    graph.op("Div", [mean, graph.op("ReduceL2", [mean], axes=[1], keepdims=1)], "sentence_embedding")

    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    values = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in inputs
    ]
    output = helper.make_tensor_value_info(
        "sentence_embedding", TensorProto.FLOAT, ["batch", HIDDEN]
    )
    made = helper.make_graph(graph.nodes, "minilm", values, [output], graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    source, target = sys.argv[1:]
    onnx.save(build(load_file(source)), target)
