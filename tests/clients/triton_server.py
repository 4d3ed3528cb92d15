"""Starts the Triton server that comes in a Python package, with the models of models.json.

It listens on loopback only, on ports that were free a moment ago, and is stopped on leaving. The
package is installed by `bench/peers/setup.sh pytriton`.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
START_S = 60.0
STOP_S = 15.0


def tensor_text(tensor):
    datatype = "TYPE_" + tensor["datatype"].replace("BYTES", "STRING")
    return f'{{ name: "{tensor["name"]}" data_type: {datatype} dims: {tensor["dims"]} }}'


def config_text(model):
    """One model's config.pbtxt."""
    inputs = ", ".join(map(tensor_text, model["inputs"]))
    outputs = ", ".join(map(tensor_text, model["outputs"]))
    return f"""name: "{model["name"]}"
backend: "python"
max_batch_size: {model["max_batch_size"]}
input [ {inputs} ]
output [ {outputs} ]
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
dynamic_batching {{ max_queue_delay_microseconds: 0 }}
parameters {{ key: "behaviour" value: {{ string_value: "{model["behaviour"]}" }} }}
"""


def write_repository(folder):
    for model in json.loads((HERE / "models.json").read_text())["models"]:
        version = folder / model["name"] / "1"
        version.mkdir(parents=True)
        (folder / model["name"] / "config.pbtxt").write_text(config_text(model))
        shutil.copy(HERE / "triton_model.py", version / "model.py")


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def running(log_path):
    """A ready server, as its HTTP and gRPC addresses."""
    home = pathlib.Path(os.environ.get("PEERS_HOME") or ROOT / ".cache" / "peers")
    (packages,) = (home / "venvs" / "pytriton" / "lib").glob("python*/site-packages")
    (extra,) = (ROOT / ".cache/clients/triton-reference/lib").glob("python*/site-packages")
    http, grpc = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="paceline-triton-") as folder:
        write_repository(pathlib.Path(folder))
        libraries = [sysconfig.get_config_var("LIBDIR"), packages / "nvidia_pytriton.libs"]
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            # Triton's stub has the packages of the python3 found first, whatever PYTHONPATH says.
            "PATH": f"{home}/venvs/pytriton/bin:{os.environ['PATH']}",
            "PACELINE_PACKAGES": str(extra),
            "PACELINE_MODELS": str(ROOT / "models"),
        }
        command = [
            packages / "pytriton/tritonserver/bin/tritonserver",
            f"--model-repository={folder}",
            f"--backend-directory={home}/triton_backends",
            "--model-control-mode=explicit",
            "--load-model=*",
            "--http-address=127.0.0.1",
            f"--http-port={http}",
            "--grpc-address=127.0.0.1",
            f"--grpc-port={grpc}",
            "--allow-metrics=false",
        ]
        with open(log_path, "wb") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                wait_until_ready(server, f"http://127.0.0.1:{http}/v2/health/ready", log_path)
                yield f"127.0.0.1:{http}", f"127.0.0.1:{grpc}"
            finally:
                stop(server)


def wait_until_ready(server, url, log_path):
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    tail = pathlib.Path(log_path).read_text(errors="replace")[-4000:]
    raise RuntimeError(f"Triton did not become ready; the end of its log:\n{tail}")


def stop(server):
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
