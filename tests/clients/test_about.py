"""What the server says about itself and its models."""

import pytest
from tritonclient.utils import InferenceServerException

from conftest import MODELS, eventually, row

EXTENSIONS = {
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "sequence",
    "statistics",
}
names = [model["name"] for model in MODELS]
# The model that is unloaded and loaded again; no other test waits for it.
SPARE = "identity_int8"


def test_the_server_is_live_and_ready(door):
    assert door.client.is_server_live()
    assert door.client.is_server_ready()


@pytest.mark.parametrize("name", names)
def test_a_served_model_is_ready(door, name):
    assert door.client.is_model_ready(name)
    assert door.client.is_model_ready(name, "1")


def test_an_unknown_model_or_version_is_not_ready(door):
    assert not door.client.is_model_ready("no_such_model")
    assert not door.client.is_model_ready("identity_fp32", "77")


def test_the_server_names_itself_and_its_extensions(door):
    about = door.server_metadata()

    assert about["name"]
    assert about["version"]
    assert EXTENSIONS <= set(about["extensions"])


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_metadata_lists_the_tensors_with_the_batch_extent_first(door, model):
    about = door.metadata(model["name"])

    assert about["name"] == model["name"]
    assert about["versions"] == ["1"]
    assert about["platform"]
    for side in ("inputs", "outputs"):
        assert [
            (tensor["name"], tensor["datatype"], [int(extent) for extent in tensor["shape"]])
            for tensor in about[side]
        ] == [(tensor["name"], tensor["datatype"], [-1, *tensor["dims"]]) for tensor in model[side]]


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_the_configuration_has_what_perf_analyzer_reads(door, model):
    config = door.config(model["name"])

    assert config["name"] == model["name"]
    assert config["max_batch_size"] == model["max_batch_size"]
    assert "dynamic_batching" in config
    assert not config.get("sequence_batching")
    assert not config.get("model_transaction_policy", {}).get("decoupled", False)
    assert isinstance(config.get("response_cache", {}).get("enable", False), bool)
    for side, key in (("inputs", "input"), ("outputs", "output")):
        assert [
            (tensor["name"], tensor["data_type"], [int(extent) for extent in tensor["dims"]])
            for tensor in config[key]
        ] == [
            (
                tensor["name"],
                "TYPE_" + tensor["datatype"].replace("BYTES", "STRING"),
                tensor["dims"],
            )
            for tensor in model[side]
        ]


@pytest.mark.parametrize("call", ["get_model_metadata", "get_model_config"])
def test_asking_about_an_unknown_model_is_an_error_that_names_it(door, call):
    with pytest.raises(InferenceServerException, match="no_such_model") as raised:
        getattr(door.client, call)("no_such_model")

    assert door.status(raised.value) in ("400", "404", "NOT_FOUND", "INVALID_ARGUMENT")


def counted(statistics, key):
    return int(statistics["inference_stats"][key].get("count", 0))


def test_statistics_move_by_exactly_what_was_sent(door):
    before = door.statistics("identity_fp32")

    for rows in (1, 3, 8):
        door.identity(row(1.0, 2.0).repeat(rows, axis=0), "FP32")
    eventually(
        lambda: (
            counted(door.statistics("identity_fp32"), "success") >= counted(before, "success") + 3
        ),
        "three successes are counted",
    )

    after = door.statistics("identity_fp32")
    assert after["name"] == "identity_fp32"
    assert after["version"] == "1"
    assert counted(after, "success") - counted(before, "success") == 3
    assert counted(after, "fail") == counted(before, "fail")
    # Rows are inferences; requests that came one by one are executions.
    assert int(after["inference_count"]) - int(before.get("inference_count", 0)) == 12
    assert int(after["execution_count"]) - int(before.get("execution_count", 0)) == 3


def test_statistics_have_every_duration_the_clients_read(door):
    door.identity(row(1.0), "FP32")

    durations = door.statistics("identity_fp32")["inference_stats"]

    stages = {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output"}
    assert stages | {"cache_hit", "cache_miss"} <= set(durations)
    assert int(durations["success"]["ns"]) > 0
    if door.is_http:
        # perf_analyzer stops at a missing key, even where the count is nought.
        assert all({"count", "ns"} <= set(duration) for duration in durations.values())


def test_statistics_of_all_models_come_in_one_answer(door):
    answer = door._ask(door.client.get_inference_statistics)

    assert set(names) <= {model["name"] for model in answer["model_stats"]}


def test_the_index_lists_every_model_as_ready(door):
    index = {model["name"]: model for model in door.index()}

    assert set(names) <= set(index)
    assert all(index[name]["state"] == "READY" for name in names)
    assert all(index[name]["version"] == "1" for name in names)


def test_a_model_can_be_unloaded_and_loaded_again(door):
    try:
        door.client.unload_model(SPARE)
        eventually(lambda: not door.client.is_model_ready(SPARE), "the model is unloaded")
        with pytest.raises(InferenceServerException, match=SPARE):
            door.identity(row(1, datatype="INT8"), "INT8")
        (entry,) = [model for model in door.index() if model["name"] == SPARE]
        assert entry.get("state", "UNAVAILABLE") in ("UNAVAILABLE", "UNLOADING")
    finally:
        door.client.load_model(SPARE)

    eventually(lambda: door.client.is_model_ready(SPARE), "the model is loaded")
    answer = door.identity(row(7, datatype="INT8"), "INT8")
    assert answer.as_numpy("OUTPUT").tolist() == [[7]]


def test_loading_an_unknown_model_is_an_error_that_names_it(door):
    with pytest.raises(InferenceServerException, match="no_such_model"):
        door.client.load_model("no_such_model")
