"""Makes `16k.f32` and `8k.f32` beside it from the published model.

    pip install onnx==1.23.2 numpy
    pip download --no-deps silero-vad==6.2.3 && unzip silero_vad-6.2.3-py3-none-any.whl
    python crates/audio/src/silero/weights/extract.py silero_vad/data/silero_vad.onnx

Each file is the tensors of one sample rate as little-endian float32, one after the other, in the
order of `NAMES` and in the layout of the model. The Fourier basis is left out: it is checked here
to be a Fourier transform under a Hann window, which the kernel computes for itself.
"""

import hashlib
import pathlib
import sys

import numpy
import onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).parent
NAMES = (
    [f"encoder.{layer}.reparam_conv.{part}" for layer in range(4) for part in ("weight", "bias")]
    + [f"decoder.rnn.{part}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    + [f"decoder.decoder.2.{part}" for part in ("weight", "bias")]
)
MODEL = "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"


def tensors(graph):
    """The constants of one branch, by the names they had in the original."""
    found = {}
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR:
                    name = node.output[0].rsplit("__", 1)[-1]
                    found[name] = numpy_helper.to_array(attribute.t)
    for tensor in graph.initializer:
        found[tensor.name.rsplit("__", 1)[-1]] = numpy_helper.to_array(tensor)
    return found


def check_basis(basis):
    """The basis is a Fourier transform under a Hann window, real parts before imaginary ones."""
    rows, _, taps = basis.shape
    bins = rows // 2
    at = numpy.arange(taps)
    angle = 2 * numpy.pi * numpy.arange(bins)[:, None] * at / taps
    window = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * at / taps)
    expected = numpy.concatenate([window * numpy.cos(angle), -window * numpy.sin(angle)])
    assert numpy.abs(basis[:, 0] - expected).max() < 1e-7, "not the basis that the kernel computes"


def main(path):
    data = pathlib.Path(path).read_bytes()
    found = hashlib.sha256(data).hexdigest()
    assert found == MODEL, f"another model: {found}"
    (branch,) = [node for node in onnx.load_from_string(data).graph.node if node.op_type == "If"]
    graphs = {attribute.name: attribute.g for attribute in branch.attribute}
    for name, graph in (("16k", graphs["then_branch"]), ("8k", graphs["else_branch"])):
        weights = tensors(graph)
        check_basis(weights["stft.forward_basis_buffer"])
        flat = numpy.concatenate([weights[name].astype("<f4").ravel() for name in NAMES])
        target = HERE / f"{name}.f32"
        flat.tofile(target)
        print(target.name, flat.size, hashlib.sha256(target.read_bytes()).hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
