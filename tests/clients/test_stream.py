"""Several requests in one gRPC stream: ModelStreamInfer."""

import queue

import numpy as np
import pytest

from conftest import PATIENCE_S, row


@pytest.fixture
def stream(grpc):
    """An open stream: `send` puts one request in, `next` takes one answer or error out."""
    answers = queue.Queue()
    grpc.client.start_stream(
        lambda result, error: answers.put((result, error)), stream_timeout=PATIENCE_S
    )

    class Stream:
        @staticmethod
        def send(array, model="identity_fp32", datatype="FP32", **options):
            tensor = grpc.tensor("INPUT", array, datatype)
            grpc.client.async_stream_infer(model, [tensor], **options)

        @staticmethod
        def next():
            return answers.get(timeout=PATIENCE_S)

        waiting = answers

    yield Stream
    grpc.client.stop_stream()


def test_every_request_of_a_stream_is_answered(stream):
    for n in range(20):
        stream.send(row(float(n)), request_id=str(n))
    answers = [stream.next() for _ in range(20)]

    assert [error for _, error in answers if error] == []
    values = {answer.get_response().id: answer.as_numpy("OUTPUT").item() for answer, _ in answers}
    assert values == {str(n): n for n in range(20)}


def test_one_stream_reaches_several_models(stream):
    stream.send(row(1.5), request_id="a")
    assert stream.next()[0].as_numpy("OUTPUT").tolist() == [[1.5]]

    stream.send(np.array([[b"x", b""]], np.object_), "identity_bytes", "BYTES", request_id="b")
    assert stream.next()[0].as_numpy("OUTPUT").tolist() == [[b"x", b""]]


@pytest.mark.parametrize(
    ("model", "datatype", "array", "named"),
    [
        ("no_such_model", "FP32", row(1.0), "no_such_model"),
        ("identity_fp32", "INT32", row(1, datatype="INT32"), "INPUT"),
        ("identity_fp32", "FP32", np.zeros((1, 2, 3), np.float32), "INPUT"),
    ],
    ids=["unknown_model", "wrong_datatype", "wrong_shape"],
)
def test_an_error_leaves_the_stream_open(stream, model, datatype, array, named):
    stream.send(row(1.0), request_id="before")
    assert stream.next()[1] is None

    stream.send(array, model, datatype, request_id="bad")
    result, error = stream.next()
    assert result is None
    assert named in error.message()

    stream.send(row(2.0), request_id="after")
    result, error = stream.next()
    assert error is None
    assert result.get_response().id == "after"
    assert result.as_numpy("OUTPUT").tolist() == [[2.0]]


def test_an_answer_says_that_it_is_the_last(stream):
    stream.send(row(1.0), enable_empty_final_response=True)

    result, error = stream.next()

    assert error is None
    assert result.get_response().parameters["triton_final_response"].bool_param


def test_closing_a_stream_lets_its_requests_finish(grpc):
    answers = queue.Queue()
    grpc.client.start_stream(lambda result, error: answers.put((result, error)))

    for _ in range(5):
        tensor = grpc.tensor("input", np.zeros((1, 4), np.uint8), "UINT8")
        grpc.client.async_stream_infer("sim", [tensor])
    grpc.client.stop_stream()

    done = [answers.get_nowait() for _ in range(5)]
    assert [error for _, error in done if error] == []
    assert [result.as_numpy("length").item() for result, _ in done] == [4] * 5


def test_cancelling_a_stream_leaves_the_server_well(grpc):
    answers = queue.Queue()
    grpc.client.start_stream(lambda result, error: answers.put((result, error)))
    tensor = grpc.tensor("input", np.zeros((1, 4), np.uint8), "UINT8")
    grpc.client.async_stream_infer("sim", [tensor])

    grpc.client.stop_stream(cancel_requests=True)

    result, error = answers.get(timeout=PATIENCE_S)
    assert result is None
    assert error.status() == "StatusCode.CANCELLED"
    assert grpc.client.infer("sim", [tensor]).as_numpy("length").item() == 4


def test_a_compressed_stream_is_served(grpc):
    answers = queue.Queue()
    grpc.client.start_stream(
        lambda result, error: answers.put((result, error)), compression_algorithm="gzip"
    )
    grpc.client.async_stream_infer(
        "identity_fp32", [grpc.tensor("INPUT", np.zeros((1, 1000), np.float32), "FP32")]
    )

    result, error = answers.get(timeout=PATIENCE_S)
    grpc.client.stop_stream()

    assert error is None
    assert not result.as_numpy("OUTPUT").any()
