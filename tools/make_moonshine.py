"""Makes models/moonshine/1/weights.safetensors from the two ONNX graphs of Moonshine tiny.

usage: make_moonshine.py ENCODER.onnx DECODER.onnx OUT.safetensors

The graphs name most of their weights by number. Each is found again by what it feeds: a layer's
matrices in the order in which the graph multiplies by them, the cross-attention's by the cache that
they fill. Quantised matrices stay as they are (unsigned bytes with one scale and zero point each);
convolutions stay 32-bit. The matrix that makes logits is the embedding, turned around: it is kept once.
"""

import json
import struct
import sys

import numpy as np
import onnx
from onnx import numpy_helper


def main(encoder_path, decoder_path, out_path):
    tensors = {}
    encoder = onnx.load(encoder_path).graph
    decoder = onnx.load(decoder_path).graph
    of_encoder = {t.name: numpy_helper.to_array(t) for t in encoder.initializer}
    of_decoder = {t.name: numpy_helper.to_array(t) for t in decoder.initializer}
    take_encoder(encoder, of_encoder, tensors)
    (branches,) = [node for node in decoder.node if node.op_type == "If"]
    graphs = {attribute.name: attribute.g for attribute in branches.attribute}
    take_decoder(graphs["else_branch"], of_decoder, [o.name for o in decoder.output], tensors)
    write(tensors, out_path)


def matrices(graph, values):
    """The multiplications by a stored matrix, in the graph's order: (node, quantised, scale, zero)."""
    stored = {n.output[0]: n.input for n in graph.node if n.op_type == "DequantizeLinear"}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in stored:
            yield node, *(values[name] for name in stored[node.input[1]])


def put(tensors, name, quantised, scale, zero):
    """A matrix m is stored as bytes q with m = (q - zero) * scale."""
    tensors[name] = quantised
    tensors[name + ".scale"] = scale.astype(np.float32).reshape(1)
    tensors[name + ".zero"] = zero.astype(np.uint8).reshape(1)


def take_encoder(graph, values, tensors):
    tensors["encoder.conv1"] = values["conv1.weight_add_tensor"]
    for conv in ("conv2", "conv3"):
        tensors[f"encoder.{conv}"] = values[f"{conv}.weight_add_tensor"]
        tensors[f"encoder.{conv}.bias"] = values[f"{conv}.bias"]
    tensors["encoder.group_norm"] = values["onnx::Mul_2080"].reshape(-1)
    tensors["encoder.group_norm.bias"] = values["onnx::Add_2081"].reshape(-1)
    order = ("k", "q", "v", "o", "up", "down")
    for at, (_, *parts) in enumerate(matrices(graph, values)):
        layer, place = divmod(at, len(order))
        put(tensors, f"encoder.{layer}.{order[place]}", *parts)
    for layer in range(6):
        tensors[f"encoder.{layer}.norm"] = values[f"layers.{layer}.input_layernorm.weight"]
        tensors[f"encoder.{layer}.mlp_norm"] = values[f"layers.{layer}.post_attention_layernorm.weight"]
        tensors[f"encoder.{layer}.up.bias"] = values[f"layers.{layer}.mlp.fc1.bias"]
        tensors[f"encoder.{layer}.down.bias"] = values[f"layers.{layer}.mlp.fc2.bias"]
    tensors["encoder.norm"] = values["layer_norm.weight"]


def take_decoder(graph, values, outputs, tensors):
    made = {name: node for node in graph.node for name in node.output}
    parts = {node.output[0]: (quantised, scale, zero) for node, quantised, scale, zero in matrices(graph, values)}
    place = dict(zip(outputs, (output.name for output in graph.output)))

    def origin(name):
        """The stored matrix whose product reaches this value through nothing but reshaping."""
        while name not in parts:
            name = made[name].input[0]
        return name

    crossed = {}
    for layer in range(6):
        for kind, cache in (("k", "key"), ("v", "value")):
            crossed[origin(place[f"present.{layer}.encoder.{cache}"])] = f"decoder.{layer}.cross_{kind}"
    for product, name in crossed.items():
        put(tensors, name, *parts[product])
    rest = [product for product in parts if product not in crossed]
    order = ("k", "q", "v", "o", "cross_q", "cross_o", "up", "down")
    assert len(rest) == 6 * len(order) + 1, len(rest)
    for at, product in enumerate(rest[:-1]):
        layer, at = divmod(at, len(order))
        put(tensors, f"decoder.{layer}.{order[at]}", *parts[product])
    named = "model.decoder.layers.{}.{}_merged_0"
    for layer in range(6):
        for name, weight in (
            ("norm", "input_layernorm.weight"),
            ("cross_norm", "post_attention_layernorm.weight"),
            ("mlp_norm", "final_layernorm.weight"),
            ("up.bias", "mlp.fc1.bias"),
            ("down.bias", "mlp.fc2.bias"),
        ):
            tensors[f"decoder.{layer}.{name}"] = values[named.format(layer, weight)]
    tensors["decoder.norm"] = values["model.decoder.norm.weight_merged_0"]
    (looked_up,) = [node for node in graph.node if node.op_type == "Gather" and "embed_tokens" in node.input[0]]
    scaled = next(
        node
        for node in graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] == looked_up.output[0]
    )
    embed = [values[name] for name in (looked_up.input[0], *scaled.input[1:])]
    unembed = parts[rest[-1]]
    assert np.array_equal(embed[0].T, unembed[0]) and embed[1:] == list(unembed[1:])
    put(tensors, "decoder.embed", *embed)


def write(tensors, path):
    header, at = {}, 0
    names = sorted(tensors)
    for name in names:
        tensor = tensors[name]
        kind = {"float32": "F32", "uint8": "U8"}[str(tensor.dtype)]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            file.write(np.ascontiguousarray(tensors[name]).tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
