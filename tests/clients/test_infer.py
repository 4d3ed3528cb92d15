"""Tensors in, tensors out: every datatype, every encoding, and what rides along with a request."""

import asyncio
import gzip
import json
import pathlib
import queue
import zlib
from http.client import HTTPConnection

import numpy as np
import pytest
import tritonclient.grpc.aio
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from conftest import PATIENCE_S, row

INTEGERS = ["UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"]
FLOATS = ["FP16", "FP32", "FP64"]
MAGIKA = pathlib.Path(__file__).parents[2] / "models" / "magika" / "config.json"


def sample(datatype):
    """Two rows with the datatype's awkward values."""
    if datatype == "BOOL":
        return np.array([[True, False, True, True], [False, False, False, True]])
    if datatype == "BYTES":
        # Empty, not ASCII, with a NUL, and longer than one byte of length can say.
        texts = [["", "naïve 日本 🙂", "a\0b", "x" * 300], ["", "", '\n"\\', "end"]]
        return np.array([[text.encode() for text in texts_of] for texts_of in texts], np.object_)
    if datatype == "BF16":
        # float32 in the older client, bfloat16 of ml_dtypes in the newer; exact in both.
        values = [[0.0, -1.5, 2.0**100, 3.140625], [-0.0, 2.0**-126, 65536.0, 7.0]]
        return np.array(values, triton_to_np_dtype("BF16"))
    dtype = np.dtype({"FP16": "f2", "FP32": "f4", "FP64": "f8"}.get(datatype, datatype.lower()))
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return np.array([[limits.min, limits.max, 0, 1], [3, 5, 7, limits.max]], dtype=dtype)


@pytest.mark.parametrize("datatype", ["BOOL", *INTEGERS, *FLOATS, "BF16", "BYTES"])
def test_a_datatype_comes_back_as_it_went(door, datatype):
    sent = sample(datatype)

    answer = door.identity(sent, datatype)

    got = answer.as_numpy("OUTPUT")
    assert got.shape == sent.shape
    assert got.dtype == sent.dtype
    assert got.tolist() == sent.tolist()


# FP16 and BF16 have no form in JSON.
@pytest.mark.parametrize("outward", ["binary", "json"])
@pytest.mark.parametrize("inward", ["binary", "json"])
@pytest.mark.parametrize("datatype", ["BOOL", *INTEGERS, "FP32", "FP64", "BYTES"])
def test_json_and_binary_tensors_mix(http, datatype, inward, outward):
    sent = sample(datatype)

    answer = http.identity(
        sent, datatype, binary=inward == "binary", binary_out=outward == "binary"
    )

    assert ("data" in answer.get_output("OUTPUT")) == (outward == "json")
    got = answer.as_numpy("OUTPUT")
    if datatype == "BYTES" and outward == "json":
        # The client leaves text of a JSON tensor as it stands.
        got = np.array([[text.encode() for text in texts] for texts in got], np.object_)
    assert got.shape == sent.shape
    assert got.tolist() == sent.tolist()


@pytest.mark.parametrize("datatype", FLOATS)
def test_numbers_that_are_none_survive_as_bits(door, datatype):
    sent = row(np.nan, np.inf, -np.inf, -0.0, datatype=datatype)

    got = door.identity(sent, datatype).as_numpy("OUTPUT")

    assert got.tobytes() == sent.tobytes()


def test_bytes_need_not_be_text(door):
    sent = np.array([[bytes(range(256)), b"\xff\xfe", b""]], np.object_)

    got = door.identity(sent, "BYTES").as_numpy("OUTPUT")

    assert got.tolist() == sent.tolist()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (8, 3), (3, 100_000), (2, 0)])
def test_a_shape_is_kept(door, shape):
    sent = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)

    answer = door.identity(sent, "FP32")

    (output,) = door.response(answer)["outputs"]
    assert [int(extent) for extent in output["shape"]] == list(shape)
    got = answer.as_numpy("OUTPUT")
    # The HTTP client gives None for a tensor without bytes.
    if got is not None or sent.size > 0:
        assert np.array_equal(got, sent)


def test_all_outputs_come_where_none_is_asked_for(door):
    answer = door.client.infer("identity_fp32", [door.tensor("INPUT", row(1.5), "FP32")])

    assert answer.as_numpy("OUTPUT").tolist() == [[1.5]]


def test_an_answer_names_its_model_version_and_tensor(door):
    head = door.response(door.identity(row(1.0), "FP32"))

    assert head["model_name"] == "identity_fp32"
    assert head["model_version"] == "1"
    (output,) = head["outputs"]
    assert output["name"] == "OUTPUT"
    assert output["datatype"] == "FP32"
    assert [int(extent) for extent in output["shape"]] == [1, 1]


@pytest.mark.parametrize("identifier", ["42", "a-b_c", "名前"])
def test_the_request_id_is_echoed(door, identifier):
    head = door.response(door.identity(row(1.0), "FP32", request_id=identifier))

    assert head["id"] == identifier


def test_a_version_may_be_named(door):
    answer = door.identity(row(1.0), "FP32", model_version="1")

    assert answer.as_numpy("OUTPUT").tolist() == [[1.0]]


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 1},
        {"timeout": 10_000_000},
        {"sequence_id": 7, "sequence_start": True, "sequence_end": True},
        {"sequence_id": "seven", "sequence_start": True, "sequence_end": True},
        {"priority": 2, "timeout": 10_000_000, "sequence_id": 8, "sequence_start": True},
        {"parameters": {"word": "x", "number": 5, "flag": True}},
    ],
    ids=["priority", "timeout", "sequence", "sequence_name", "together", "custom"],
)
def test_parameters_are_accepted(door, options):
    answer = door.identity(row(1.0, 2.0), "FP32", **options)

    assert answer.as_numpy("OUTPUT").tolist() == [[1.0, 2.0]]


def test_metadata_headers_are_accepted(door):
    answer = door.identity(row(1.0), "FP32", headers={"x-tenant": "blue"})

    assert answer.as_numpy("OUTPUT").tolist() == [[1.0]]


@pytest.mark.parametrize("inward", [None, "gzip", "deflate"])
@pytest.mark.parametrize("outward", [None, "gzip", "deflate"])
def test_http_bodies_may_be_compressed(http, inward, outward):
    sent = np.zeros((4, 1000), np.float32)

    answer = http.identity(
        sent,
        "FP32",
        request_compression_algorithm=inward,
        response_compression_algorithm=outward,
    )

    assert np.array_equal(answer.as_numpy("OUTPUT"), sent)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_an_http_answer_is_compressed_when_asked(http_address, encoding):
    values = [0.0] * 1000
    tensor = {"name": "INPUT", "shape": [1, 1000], "datatype": "FP32", "data": values}
    body = json.dumps({"inputs": [tensor]}).encode()
    connection = HTTPConnection(http_address, timeout=PATIENCE_S)

    connection.request(
        "POST", "/v2/models/identity_fp32/infer", body, {"Accept-Encoding": encoding}
    )
    response = connection.getresponse()
    answer = response.read()
    connection.close()

    assert response.status == 200
    assert response.headers["Content-Encoding"] == encoding
    plain = gzip.decompress(answer) if encoding == "gzip" else zlib.decompress(answer)
    assert json.loads(plain)["outputs"][0]["data"] == values
    assert len(answer) < len(plain)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_grpc_messages_may_be_compressed(grpc, encoding):
    sent = np.zeros((4, 1000), np.float32)

    answer = grpc.identity(sent, "FP32", compression_algorithm=encoding)

    assert np.array_equal(answer.as_numpy("OUTPUT"), sent)


def test_http_requests_run_side_by_side(http):
    pending = [
        http.client.async_infer(
            "identity_fp32", [http.tensor("INPUT", row(float(n)), "FP32")], request_id=str(n)
        )
        for n in range(20)
    ]

    answers = [request.get_result(timeout=PATIENCE_S) for request in pending]

    assert [answer.as_numpy("OUTPUT").item() for answer in answers] == list(range(20))
    assert [answer.get_response()["id"] for answer in answers] == [str(n) for n in range(20)]


def test_grpc_requests_run_side_by_side(grpc):
    done = queue.Queue()

    for n in range(20):
        grpc.client.async_infer(
            "identity_fp32",
            [grpc.tensor("INPUT", row(float(n)), "FP32")],
            lambda result, error: done.put((result, error)),
            request_id=str(n),
        )
    answers = [done.get(timeout=PATIENCE_S) for _ in range(20)]

    assert [error for _, error in answers if error] == []
    values = {answer.get_response().id: answer.as_numpy("OUTPUT").item() for answer, _ in answers}
    assert values == {str(n): n for n in range(20)}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_asyncio_clients_are_served(request, protocol):
    door = request.getfixturevalue(protocol)
    module = {"http": tritonclient.http.aio, "grpc": tritonclient.grpc.aio}[protocol]
    url = request.getfixturevalue(protocol + "_address")

    async def ask():
        async with module.InferenceServerClient(url) as client:
            assert await client.is_server_ready()
            answers = await asyncio.gather(
                *(
                    client.infer("identity_fp32", [door.tensor("INPUT", row(float(n)), "FP32")])
                    for n in range(10)
                )
            )
        return [answer.as_numpy("OUTPUT").item() for answer in answers]

    assert asyncio.run(asyncio.wait_for(ask(), PATIENCE_S)) == list(range(10))


def test_numbers_that_json_does_not_have_pass_as_raw_bytes(door):
    sent = np.array([[np.nan, np.inf, -np.inf, -0.0]], np.float32)

    answer = door.identity(sent, "FP32").as_numpy("OUTPUT")

    assert answer.tobytes() == sent.tobytes()


@pytest.mark.triton_deviates("takes and writes NaN in what is then no JSON")
def test_numbers_that_json_does_not_have_are_refused_as_json(http):
    sent = row(float("nan"), 1.0)

    with pytest.raises(InferenceServerException, match="malformed") as raised:
        http.identity(sent, "FP32", binary=False)
    assert raised.value.status() == "400"
    with pytest.raises(InferenceServerException, match="OUTPUT.*binary") as raised:
        http.identity(sent, "FP32", binary_out=False)
    assert raised.value.status() == "500"


def test_echo_gives_the_length_of_each_row(door):
    sent = np.full((3, 64), 120, np.uint8)

    answer = door.client.infer("echo", [door.tensor("input", sent, "UINT8")])

    assert answer.as_numpy("length").tolist() == [[64]] * 3


def test_magika_tells_the_type_of_a_file(door):
    text = b"import os\n\n\ndef main():\n    print(os.getcwd())\n\n\nmain()\n" * 3
    sent = np.full((2, 2048), 256, np.int32)
    sent[:, : len(text)] = np.frombuffer(text, np.uint8)
    sent[:, 2048 - len(text) :] = np.frombuffer(text, np.uint8)

    answer = door.client.infer("magika", [door.tensor("bytes", sent, "INT32")])

    probabilities = answer.as_numpy("target_label")
    assert probabilities.shape == (2, 214)
    assert probabilities.dtype == np.float32
    assert np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-3)
    assert np.allclose(probabilities[0], probabilities[1], atol=1e-4)
    labels = json.loads(MAGIKA.read_text())["target_labels_space"]
    assert [labels[place] for place in probabilities.argmax(axis=1)] == ["python"] * 2
