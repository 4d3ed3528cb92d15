"""A model repository made for Triton, served as it is: several versions, sequences, and refusals."""

import concurrent.futures
import os
import pathlib
import shutil

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

HERE = pathlib.Path(__file__).parent / "triton_repository"


def shifted(door, rows, **options):
    sent = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    answer = door.client.infer("shifted", [door.tensor("INPUT", sent, "FP32")], **options)
    return sent, answer


@pytest.mark.parametrize("version", ["", "1", "10"])
def test_each_version_is_reached_by_its_number_and_the_highest_without(door, version):
    sent, answer = shifted(door, 3, model_version=version)

    assert np.array_equal(answer.as_numpy("OUTPUT"), sent + int(version or 10))
    assert door.response(answer)["model_version"] == (version or "10")


def test_a_version_that_the_policy_leaves_out_is_not_there(door):
    with pytest.raises(InferenceServerException, match="no version 2"):
        shifted(door, 1, model_version="2")
    assert not door.client.is_model_ready("shifted", "2")
    assert door.client.is_model_ready("shifted", "1")


def test_versions_are_in_the_metadata_the_configuration_the_statistics_and_the_index(door):
    assert door.metadata("shifted")["versions"] == ["1", "10"]
    config = door.config("shifted")
    versions = config["version_policy"]["specific"]["versions"]
    assert [int(version) for version in versions] == [1, 10]
    assert config["instance_group"][0]["count"] == 2
    ask = door.client.get_inference_statistics
    told = ask("shifted") if door.is_http else ask("shifted", as_json=True)
    assert [entry["version"] for entry in told["model_stats"]] == ["1", "10"]
    listed = [entry for entry in door.index() if entry["name"] == "shifted"]
    assert [(entry["version"], entry["state"]) for entry in listed] == [("1", "READY"), ("10", "READY")]


def test_more_rows_than_a_batch_has_come_back_in_order(door):
    sent, answer = shifted(door, 23, model_version="1", parameters={"paceline_ride": True})

    assert np.array_equal(answer.as_numpy("OUTPUT"), sent + 1)
    parts = door.response(answer)["parameters"]["parts"]
    # The two libraries write a number of the answer's parameters differently.
    assert (parts if door.is_http else int(next(iter(parts.values())))) == 6


def step(door, sequence, value, start=False, end=False):
    tensor = door.tensor("INPUT", np.array([[value, -value]], np.float32), "FP32")
    answer = door.client.infer(
        "smoothed", [tensor], sequence_id=sequence, sequence_start=start, sequence_end=end
    )
    return answer.as_numpy("OUTPUT")[0].tolist()


@pytest.mark.parametrize("kind", [int, str])
def test_interleaved_sequences_are_as_they_would_be_alone(door, kind):
    steps = 12
    sequences = [kind(f"{1 + door.is_http}{n}") for n in range(4)]
    states = dict.fromkeys(sequences, 0.0)
    for n in range(steps):
        for place, sequence in enumerate(sequences):
            value = float(place * 8 + n)
            states[sequence] = states[sequence] / 2 + value
            told = step(door, sequence, value, start=n == 0, end=n == steps - 1)
            assert told == [states[sequence], -states[sequence]]
    with pytest.raises(InferenceServerException, match="is not open"):
        step(door, sequences[0], 1.0)


def test_sequences_share_calls(grpc):
    """Many at once, each waiting for its own answers only."""

    def run(sequence):
        state, told = 0.0, []
        for n in range(10):
            state = state / 2 + sequence + n
            told.append(step(grpc, sequence, sequence + n, n == 0, n == 9)[0] == state)
        return all(told)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(run, range(100, 116)))


def test_a_stateful_model_wants_a_sequence(door):
    tensor = door.tensor("INPUT", np.ones((1, 2), np.float32), "FP32")
    with pytest.raises(InferenceServerException, match="sequence_start") as raised:
        door.client.infer("smoothed", [tensor])
    assert door.status(raised.value) in ("400", "INVALID_ARGUMENT")
    with pytest.raises(InferenceServerException, match="is not open"):
        step(door, 999, 1.0)


@pytest.mark.parametrize(
    "setting",
    [
        "optimization { graph { level: 1 } }",
        "response_cache { enable: true }",
        "ensemble_scheduling { }",
        "dynamic_batching { preferred_batch_size: [ 4 ] }",
        "model_transaction_policy { decoupled: true }",
        "parameters { key: 'a' value: { string_value: 'b' } }",
    ],
)
def test_what_is_not_supported_is_refused_by_name(door, setting):
    folder = pathlib.Path(os.environ["PACELINE_REPOSITORY"]) / "other"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "shifted", folder)
    plain = 'platform: "onnxruntime_onnx" max_batch_size: 4 '
    (folder / "config.pbtxt").write_text(plain + setting)
    try:
        with pytest.raises(InferenceServerException, match="is not supported") as raised:
            door.client.load_model("other")
        assert setting.split()[0] in raised.value.message()
        # Without it, the same folder is served.
        (folder / "config.pbtxt").write_text(plain)
        door.client.load_model("other")
        assert door.metadata("other")["versions"] == ["10"]
        # A broken new one leaves the old one serving.
        (folder / "config.pbtxt").write_text(plain + setting)
        with pytest.raises(InferenceServerException):
            door.client.load_model("other")
        assert door.client.is_model_ready("other")
        door.client.unload_model("other")
    finally:
        shutil.rmtree(folder)
