"""Makes models/blazeface/1/model.onnx out of MediaPipe's short-range face detector.

The TFLite file takes one picture at a time. It is converted node by node, and then its batch
extent is made dynamic: the reshapes copy it instead of saying 1.

    pip install tflite2onnx==0.4.1 onnx==1.23.2 numpy
    pip download --no-deps mediapipe==0.10.14 and unzip it
    python tools/make_blazeface.py \
        mediapipe/modules/face_detection/face_detection_short_range.tflite model.onnx
"""

import hashlib
import pathlib
import sys
import tempfile

import onnx
import tflite2onnx
from onnx import numpy_helper

SOURCE_SHA256 = "bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8"


def make_batch_dynamic(model: onnx.ModelProto) -> None:
    graph = model.graph
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for index, tensor in enumerate(graph.initializer):
        if tensor.name in shapes:
            shape = numpy_helper.to_array(tensor).copy()
            if shape[0] == 1:
                shape[0] = 0  # In a reshape, 0 copies the extent of the input.
            graph.initializer[index].CopyFrom(numpy_helper.from_array(shape, tensor.name))
    for value in [*graph.input, *graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    # The shapes in between were inferred for a batch of one.
    del graph.value_info[:]


def main(source: str, target: str) -> None:
    digest = hashlib.sha256(pathlib.Path(source).read_bytes()).hexdigest()
    if digest != SOURCE_SHA256:
        sys.exit(f"{source} is not the file this was written for: its sha256 is {digest}")
    with tempfile.TemporaryDirectory() as folder:
        converted = pathlib.Path(folder, "converted.onnx")
        tflite2onnx.convert(source, str(converted))
        model = onnx.load(converted)
    make_batch_dynamic(model)
    # The converter leaves the weights in an order that changes from run to run.
    model.graph.initializer.sort(key=lambda tensor: tensor.name)
    onnx.checker.check_model(model)
    onnx.save(model, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
