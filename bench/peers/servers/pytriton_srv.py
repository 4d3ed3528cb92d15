"""PyTriton: Triton, with the model in a Python process behind a proxy."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np
from pytriton.triton import Triton, TritonConfig
from pytriton.model_config import ModelConfig, Tensor, DynamicBatcher
from pytriton.decorators import batch
import curve


@batch
def infer(input):
    if curve.MODEL != "echo":
        curve.sim(input.shape[0])
    return {"length": np.full((input.shape[0], 1), input.shape[1], dtype=np.int32)}


P = curve.PORT
with Triton(
    config=TritonConfig(
        http_address="127.0.0.1",
        grpc_address="127.0.0.1",
        metrics_address="127.0.0.1",
        http_port=P,
        grpc_port=P + 10,
        metrics_port=P + 20,
        allow_gpu_metrics=False,
        http_thread_count=int(os.environ.get("HTTP_THREADS", "8")),
    )
) as t:
    t.bind(
        model_name="m",
        infer_func=infer,
        inputs=[Tensor(name="input", dtype=np.uint8, shape=(-1,))],
        outputs=[Tensor(name="length", dtype=np.int32, shape=(1,))],
        config=ModelConfig(
            max_batch_size=curve.MAXB,
            batcher=DynamicBatcher(max_queue_delay_microseconds=int(curve.WAIT_MS * 1000)),
        ),
    )
    t.serve()
