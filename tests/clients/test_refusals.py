"""What the server refuses, and how a client gives up: each is an error that says what is wrong."""

import queue
import socket
import time

import numpy as np
import pytest
import tritonclient.http
from tritonclient.utils import InferenceServerException

from conftest import MAX_BODY, PATIENCE_S, row


def check(door, named, http_status, grpc_status, model="identity_fp32", inputs=(), outputs=None):
    """Sends a request that must be refused with this status, by a message that names the fault."""
    with pytest.raises(InferenceServerException) as raised:
        door.client.infer(model, list(inputs), outputs=outputs)

    assert named in raised.value.message()
    assert door.status(raised.value) == (http_status if door.is_http else grpc_status)
    # The connection and the model are none the worse.
    assert door.identity(row(1.0), "FP32").as_numpy("OUTPUT").tolist() == [[1.0]]


def test_an_unknown_model_is_not_found(door):
    tensor = door.tensor("INPUT", row(1.0), "FP32")
    check(door, "no_such_model", "404", "NOT_FOUND", "no_such_model", [tensor])


def test_an_unknown_version_is_not_found(door):
    with pytest.raises(InferenceServerException, match="identity_fp32") as raised:
        door.identity(row(1.0), "FP32", model_version="77")

    assert door.status(raised.value) in ("404", "400", "NOT_FOUND", "INVALID_ARGUMENT")


def test_a_wrong_datatype_is_refused(door):
    tensor = door.tensor("INPUT", row(1, datatype="INT32"), "INT32")
    check(door, "INPUT", "400", "INVALID_ARGUMENT", inputs=[tensor])


@pytest.mark.parametrize("shape", [(4,), (1, 2, 3)], ids=["too_flat", "too_deep"])
def test_a_wrong_shape_is_refused(door, shape):
    tensor = door.tensor("INPUT", np.zeros(shape, np.float32), "FP32")
    check(door, "INPUT", "400", "INVALID_ARGUMENT", inputs=[tensor])


def test_a_fixed_extent_is_checked(door):
    tensor = door.tensor("bytes", np.zeros((1, 2047), np.int32), "INT32")
    check(door, "bytes", "400", "INVALID_ARGUMENT", "magika", [tensor])


@pytest.mark.triton_deviates("refuses more rows than a batch has")
def test_more_rows_than_any_number_of_batches_are_refused(door):
    most = 8 * 256
    sent = np.arange(most, dtype=np.float32).reshape(most, 1)
    assert np.array_equal(door.identity(sent, "FP32").as_numpy("OUTPUT"), sent)

    tensor = door.tensor("INPUT", np.zeros((most + 1, 1), np.float32), "FP32")
    check(door, str(most), "400", "INVALID_ARGUMENT", inputs=[tensor])


def test_fewer_bytes_than_the_shape_needs_are_refused(door):
    tensor = door.tensor("INPUT", np.zeros((1, 4), np.float32), "FP32")
    # The client checks what it is given, so the tensor is changed afterwards.
    tensor.set_shape([1, 5])
    check(door, "INPUT", "400", "INVALID_ARGUMENT", inputs=[tensor])


def test_a_missing_input_is_refused(door):
    check(door, "identity_fp32", "400", "INVALID_ARGUMENT")


def test_an_input_of_another_name_is_refused(door):
    tensor = door.tensor("ANOTHER", row(1.0), "FP32")
    check(door, "ANOTHER", "400", "INVALID_ARGUMENT", inputs=[tensor])


def test_an_input_too_many_is_refused(door):
    tensors = [door.tensor(name, row(1.0), "FP32") for name in ("INPUT", "ANOTHER")]
    check(door, "identity_fp32", "400", "INVALID_ARGUMENT", inputs=tensors)


def test_an_unknown_output_is_refused(door):
    tensor = door.tensor("INPUT", row(1.0), "FP32")
    outputs = [door.output("OUTPUT"), door.output("ANOTHER")]
    check(door, "ANOTHER", "400", "INVALID_ARGUMENT", inputs=[tensor], outputs=outputs)


@pytest.mark.triton_deviates("this Triton has no limit on the size of a request")
def test_a_request_that_is_too_large_is_refused(door):
    tensor = door.tensor("INPUT", np.zeros((1, MAX_BODY // 4 + 1), np.float32), "FP32")

    with pytest.raises(InferenceServerException) as raised:
        door.client.infer("identity_fp32", [tensor])

    statuses = ("413",) if door.is_http else ("RESOURCE_EXHAUSTED", "OUT_OF_RANGE")
    assert door.status(raised.value) in statuses
    assert raised.value.message()
    assert door.client.is_server_ready()


def slow(door):
    """An input for the model that takes at least 50 ms."""
    return [door.tensor("input", np.zeros((1, 4), np.uint8), "UINT8")]


def test_a_grpc_client_may_set_a_deadline(grpc):
    # The connection is open by then and the model warm, so the time goes to the model's work.
    grpc.client.infer("sim", slow(grpc))

    with pytest.raises(InferenceServerException) as raised:
        grpc.client.infer("sim", slow(grpc), client_timeout=0.02)

    assert grpc.status(raised.value) == "DEADLINE_EXCEEDED"
    assert grpc.client.infer("sim", slow(grpc)).as_numpy("length").item() == 4


def test_cancelling_one_request_leaves_the_others(grpc):
    done = queue.Queue()
    assert grpc.client.is_server_live()

    # The model is busy with the first while the last, which is cancelled, waits with the server.
    calls = []
    for n in range(4):
        calls.append(
            grpc.client.async_infer(
                "sim",
                slow(grpc),
                lambda result, error, n=n: done.put((n, result, error)),
            )
        )
    time.sleep(0.02)
    calls[3].cancel()
    answers = {
        n: (result, error) for n, result, error in (done.get(timeout=PATIENCE_S) for _ in calls)
    }

    result, error = answers.pop(3)
    assert result is None
    assert grpc.status(error) == "CANCELLED"
    assert [result.as_numpy("length").item() for result, _ in answers.values()] == [4, 4, 4]
    assert grpc.client.infer("sim", slow(grpc)).as_numpy("length").item() == 4


def test_an_http_client_may_hang_up(http, http_address):
    with tritonclient.http.InferenceServerClient(http_address, network_timeout=0.01) as hasty:
        with pytest.raises((TimeoutError, socket.timeout, InferenceServerException)):
            hasty.infer("sim", slow(http))

    assert http.client.infer("sim", slow(http)).as_numpy("length").item() == 4
