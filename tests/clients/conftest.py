"""What every test here shares: where the server is, and one face for the two protocols.

The suite asks a server that already runs (PACELINE_HTTP, PACELINE_GRPC) and starts none. It sends
one request at a time unless a test says otherwise, so that statistics move by what the test sent.
"""

import dataclasses
import json
import os
import pathlib
import time
import types

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import triton_to_np_dtype

MODELS = json.loads((pathlib.Path(__file__).parent / "models.json").read_text())["models"]
TARGET = os.environ.get("PACELINE_TARGET", "paceline")
# The largest request the server takes, in bytes; the suite sends a little more than this once.
MAX_BODY = int(os.environ.get("PACELINE_MAX_BODY_BYTES", 64 << 20))
PATIENCE_S = 20.0
# The reference comes without a runtime for ONNX.
collect_ignore = ["test_repository.py"] if TARGET == "triton" else []


def address(name):
    """Reads one address, and refuses to test a server on another machine."""
    value = os.environ.get(name)
    if not value:
        pytest.exit(f"{name} is not set; it is the server's address, as in 127.0.0.1:8000", 2)
    if value.rsplit(":", 1)[0] not in ("127.0.0.1", "localhost", "[::1]"):
        pytest.exit(f"{name} is {value}, which is not on this machine", 2)
    return value


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "triton_deviates(reason): Triton itself does otherwise; expected to fail against it only",
    )


def pytest_collection_modifyitems(items):
    if TARGET != "triton":
        return
    for item in items:
        for mark in item.iter_markers("triton_deviates"):
            # Strict, so that a reference which changes its ways is noticed.
            item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=True))


@dataclasses.dataclass
class Door:
    """One protocol of the server, with the differences of the two client libraries taken out."""

    name: str
    module: types.ModuleType
    client: object

    @property
    def is_http(self):
        return self.name == "http"

    def tensor(self, name, array, datatype, binary=True):
        tensor = self.module.InferInput(name, list(array.shape), datatype)
        if self.is_http:
            tensor.set_data_from_numpy(array, binary_data=binary)
        else:
            tensor.set_data_from_numpy(array)
        return tensor

    def output(self, name, binary=True):
        if self.is_http:
            return self.module.InferRequestedOutput(name, binary_data=binary)
        return self.module.InferRequestedOutput(name)

    def identity(self, array, datatype, binary=True, binary_out=True, **options):
        """Sends one tensor through the identity model of its datatype; gives the answer."""
        return self.client.infer(
            "identity_" + datatype.lower(),
            [self.tensor("INPUT", array, datatype, binary)],
            outputs=[self.output("OUTPUT", binary_out)],
            **options,
        )

    def metadata(self, model):
        return self._ask(self.client.get_model_metadata, model)

    def config(self, model):
        answer = self._ask(self.client.get_model_config, model)
        return answer if self.is_http else answer["config"]

    def statistics(self, model):
        (answer,) = self._ask(self.client.get_inference_statistics, model)["model_stats"]
        return answer

    def index(self):
        answer = self._ask(self.client.get_model_repository_index)
        return answer if self.is_http else answer["models"]

    def server_metadata(self):
        return self._ask(self.client.get_server_metadata)

    def response(self, result):
        """The head of an answer as a dictionary."""
        return result.get_response() if self.is_http else result.get_response(as_json=True)

    def status(self, error):
        """The status of an error: `404`, or `NOT_FOUND`."""
        return error.status().removeprefix("StatusCode.")

    def _ask(self, call, *args):
        return call(*args) if self.is_http else call(*args, as_json=True)


@pytest.fixture(scope="session")
def http_address():
    return address("PACELINE_HTTP")


@pytest.fixture(scope="session")
def grpc_address():
    return address("PACELINE_GRPC")


@pytest.fixture
def http(http_address):
    with tritonclient.http.InferenceServerClient(http_address, concurrency=4) as client:
        yield Door("http", tritonclient.http, client)


@pytest.fixture
def grpc(grpc_address):
    with tritonclient.grpc.InferenceServerClient(grpc_address) as client:
        yield Door("grpc", tritonclient.grpc, client)


@pytest.fixture(params=["http", "grpc"])
def door(request):
    """A test that takes this runs once over each protocol."""
    return request.getfixturevalue(request.param)


def row(*values, datatype="FP32"):
    """A batch of one."""
    return np.array([values], dtype=triton_to_np_dtype(datatype))


def eventually(holds, what):
    """Waits, within bounds, for what a server may do in its own time."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.02)
