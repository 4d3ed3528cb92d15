#!/usr/bin/env python3
"""Serves sentence embeddings (MiniLM, ONNX) on a GPU and on the processors, and says what the server costs.

usage: bench/gpu/embed.py --server FILE --loadgen FILE --model FILE --wheel FILE --out FOLDER [--seconds S]

--wheel is onnxruntime-gpu's for this Python; the CUDA libraries that it wants are those that torch
brought. Measured are, one after the other: the bare loop in Python, which calls the model with full
batches back to back, on the GPU; then Paceline with that same library, on the GPU and on the
processors, by the number of clients. Everything goes to embed.json and embed.md in --out.
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

import run

CLIENTS = [1, 8, 32, 128]
TOKENS = 64
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def cuda_folders():
    """Where torch keeps the CUDA libraries."""
    import torch

    packages = pathlib.Path(torch.__file__).parents[1]
    return sorted({str(file.parent) for file in packages.glob("nvidia/**/lib*.so.*")})


def loop(model, seconds):
    """The bare loop; runs in a process of its own."""
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    cuda = {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}
    session = onnxruntime.InferenceSession(
        model, options, providers=[("CUDAExecutionProvider", cuda)]
    )
    if session.get_providers()[0] != "CUDAExecutionProvider":
        sys.exit("ONNX Runtime did not find CUDA; its reason is above")
    for batch in (1, 8, run.MAX_BATCH):
        rows = numpy.array([words()] * batch, numpy.int64)
        given = dict(zip(INPUTS, (rows, numpy.ones_like(rows), numpy.zeros_like(rows))))
        for _ in range(5):
            session.run(None, given)
        calls, start = 0, time.monotonic()
        while time.monotonic() - start < seconds:
            session.run(None, given)
            calls += 1
        took = time.monotonic() - start
        ms = round(took * 1000 / calls, 3)
        print(json.dumps({"batch": batch, "ms": ms, "per_second": round(calls * batch / took, 1)}))


def words():
    return [101] + [1000 + at * 7919 % 20000 for at in range(TOKENS - 2)] + [102]


def paceline(options, environment, folder, device):
    port = run.free_port()
    version = folder / device / "minilm" / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").symlink_to(options.model)
    (version.parent / "model.toml").write_text(
        f'backend = "onnx"\n[onnx]\nengine = "onnxruntime"\ndevice = "{device}"\n'
        f'library_dirs = ["{folder / "onnxruntime" / "capi"}"]\n'
        f'[batch]\nmax_items = {run.MAX_BATCH}\nmax_wait = "5ms"\n'
    )
    inputs = [
        {
            "name": name,
            "datatype": "INT64",
            "shape": [1, TOKENS],
            "parameters": {"binary_data_size": 8 * TOKENS},
        }
        for name in INPUTS
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    body = folder / "body"
    numbers = words() + [1] * TOKENS + [0] * TOKENS
    body.write_bytes(head + struct.pack(f"<{len(numbers)}q", *numbers))
    command = [options.server, "serve", "--model-repository", folder / device]
    command += ["--listen", f"127.0.0.1:{port}", "--grpc-listen", "127.0.0.1:0"]
    return run.Server(
        "paceline",
        device.partition(":")[0],
        command,
        environment,
        folder,
        port,
        "/v2/models/minilm/infer",
        body,
        [f"Inference-Header-Content-Length: {len(head)}"],
    )


def measure(options, server, gpu):
    try:
        ready_s = server.wait_until_ready()
        run.load(options, server, run.MAX_BATCH, options.seconds)
        points = []
        for clients in CLIENTS:
            start = time.monotonic()
            line = run.load(options, server, clients, options.seconds)
            point = {
                "clients": clients,
                "per_second": round(line["ok"] / line["secs"], 1),
                "p50_ms": line["p50_ms"],
                "p99_ms": line["p99_ms"],
                "errors": line["http_err"] + line["conn_err"] + line["timeouts"],
            } | gpu.between(start, time.monotonic())
            points.append(point)
            run.say("  " + " ".join(f"{name}={value}" for name, value in point.items()))
        return {"device": server.workers, "ready_s": round(ready_s, 1), "points": points}
    finally:
        server.stop()


def markdown(report):
    full = report["loop"][-1]["per_second"]
    lines = ["## Bare loop on the GPU", ""]
    rows = [[one["batch"], one["ms"], one["per_second"]] for one in report["loop"]]
    lines += run.table(["batch", "ms a call", "sentences/s"], rows)
    for server in report["servers"]:
        lines += ["", f"## Paceline, {server['device']}", ""]
        rows = [
            [p["clients"], p["per_second"], f"{p['per_second'] / full:.1%}", p["p50_ms"]]
            + [p["p99_ms"], p.get("gpu_percent", ""), p["errors"]]
            for p in server["points"]
        ]
        names = ["clients", "sentences/s", "share of the bare loop", "p50 ms", "p99 ms"]
        lines += run.table([*names, "GPU busy %", "errors"], rows)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("server", "loadgen", "model", "wheel", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=3, help="for each point")
    options = parser.parse_args()
    for name in ("server", "loadgen", "model"):
        setattr(options, name, getattr(options, name).resolve(strict=True))
    options.out.mkdir(parents=True, exist_ok=True)
    gpu = run.Gpu()
    with tempfile.TemporaryDirectory(prefix="paceline-embed-") as folder:
        folder = pathlib.Path(folder)
        with zipfile.ZipFile(options.wheel) as wheel:
            wheel.extractall(folder)
        environment = os.environ | {
            "LD_LIBRARY_PATH": ":".join(cuda_folders()),
            "PYTHONPATH": f"{folder}:{run.HERE}",
        }
        run.say("the bare loop")
        code = f"import embed; embed.loop({str(options.model)!r}, {options.seconds})"
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        if done.returncode != 0:
            sys.exit("the bare loop failed; its error is above")
        report = {"loop": [json.loads(line) for line in done.stdout.splitlines()], "servers": []}
        run.say(f"  {report['loop']}")
        for device in ("cuda:0", "cpu"):
            run.say(f"Paceline, {device}")
            server = paceline(options, environment, folder, device)
            report["servers"].append(measure(options, server, gpu))
            (options.out / "embed.json").write_text(json.dumps(report, indent=1) + "\n")
            (options.out / "embed.md").write_text(markdown(report))
    gpu.stop()
    print(markdown(report))


if __name__ == "__main__":
    main()
