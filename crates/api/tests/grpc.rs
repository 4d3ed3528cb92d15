//! The gRPC door on a port of its own, asked by a client.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and it supervises itself"
)]

#[path = "common/app.rs"]
mod app;
#[path = "common/door.rs"]
mod door;
#[path = "common/model.rs"]
mod model;

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use paceline_api::oip::proto::{self, infer_parameter::ParameterChoice};
use paceline_backend::simulated::Settings;
use paceline_batch::Dropped;
use tonic::{Code, Request, codec::CompressionEncoding};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use door::{Door, ask, eventually, slow};

#[tokio::test]
async fn the_server_and_its_models_say_what_they_are() {
    let door = Door::open(Settings::default()).await;
    let mut client = door.client();
    let name = || "m".to_owned();

    assert!(client.server_live(proto::ServerLiveRequest {}).await.unwrap().get_ref().live);
    assert!(client.server_ready(proto::ServerReadyRequest {}).await.unwrap().get_ref().ready);
    let about = client.server_metadata(proto::ServerMetadataRequest {}).await.unwrap();
    assert_eq!(about.get_ref().name, "paceline");
    for (model, version, ready) in
        [("m", "", true), ("m", "1", true), ("m", "2", false), ("n", "", false)]
    {
        let asked =
            proto::ModelReadyRequest { name: model.to_owned(), version: version.to_owned() };
        let answer = client.model_ready(asked).await.unwrap();
        assert_eq!(answer.get_ref().ready, ready, "{model} {version}");
    }
    let asked = proto::ModelMetadataRequest { name: name(), ..Default::default() };
    let metadata = client.model_metadata(asked).await.unwrap().into_inner();
    assert_eq!((&*metadata.inputs[0].name, &*metadata.inputs[0].shape), ("INPUT", &[-1, -1][..]));
    let asked = proto::ModelConfigRequest { name: name(), ..Default::default() };
    let config = client.model_config(asked).await.unwrap().into_inner().config.unwrap();
    assert_eq!(config.max_batch_size, 1);
    let index = client.repository_index(proto::RepositoryIndexRequest::default()).await.unwrap();
    assert_eq!(index.get_ref().models[0].state, "READY");
}

#[tokio::test]
async fn a_request_is_answered_raw_and_counted() {
    let door = Door::open(Settings::default()).await;
    let mut client = door.client();

    let answer = client.model_infer(ask("a", &[1.0, 2.0])).await.unwrap().into_inner();

    assert_eq!((&*answer.id, &*answer.model_version), ("a", "1"));
    assert_eq!((&*answer.outputs[0].name, &*answer.outputs[0].shape), ("OUTPUT", &[1, 2][..]));
    assert_eq!(answer.raw_output_contents[0][..], [0, 0, 128, 63, 0, 0, 0, 64]);
    for name in ["", "m"] {
        let asked = proto::ModelStatisticsRequest { name: name.to_owned(), ..Default::default() };
        let stats = client.model_statistics(asked).await.unwrap().into_inner().model_stats;
        assert_eq!((stats.len(), stats[0].inference_count), (1, 1));
    }
}

#[tokio::test]
async fn every_error_has_its_code_and_a_sentence() {
    let door = Door::open(Settings::default()).await;
    let mut client = door.client();
    let mut check = async |request: proto::ModelInferRequest, code: Code, named: &str| {
        let status = client.model_infer(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(named), "{status}");
    };

    let unknown = proto::ModelInferRequest { model_name: "n".to_owned(), ..ask("", &[1.0]) };
    check(unknown, Code::NotFound, "no model `n`").await;
    let version = proto::ModelInferRequest { model_version: "7".to_owned(), ..ask("", &[1.0]) };
    check(version, Code::NotFound, "no version 7").await;
    let empty = proto::ModelInferRequest { inputs: Vec::new(), ..ask("", &[]) };
    check(empty, Code::InvalidArgument, "no `inputs`").await;
    let mut shape = ask("", &[1.0]);
    shape.inputs[0].shape = vec![1, 2];
    check(shape, Code::InvalidArgument, "INPUT").await;
    check(ask("", &vec![0.0; (1 << 20) / 4]), Code::OutOfRange, "too large").await;
}

#[tokio::test]
async fn what_is_not_offered_says_so() {
    let door = Door::open(Settings::default()).await;
    let mut client = door.client();
    macro_rules! refused {
        ($($call:ident($request:ident)),*) => {$(
            let status = client.$call(proto::$request::default()).await.unwrap_err();
            assert_eq!(status.code(), Code::Unimplemented);
            assert!(status.message().starts_with("this server"), "{status}");
        )*};
    }

    refused!(
        system_shared_memory_register(SystemSharedMemoryRegisterRequest),
        system_shared_memory_unregister(SystemSharedMemoryUnregisterRequest),
        cuda_shared_memory_register(CudaSharedMemoryRegisterRequest),
        cuda_shared_memory_unregister(CudaSharedMemoryUnregisterRequest),
        trace_setting(TraceSettingRequest),
        log_settings(LogSettingsRequest)
    );
    let system = proto::SystemSharedMemoryStatusRequest::default();
    assert!(client.system_shared_memory_status(system).await.unwrap().get_ref().regions.is_empty());
    let cuda = proto::CudaSharedMemoryStatusRequest::default();
    assert!(client.cuda_shared_memory_status(cuda).await.unwrap().get_ref().regions.is_empty());
}

#[tokio::test]
async fn models_are_loaded_and_unloaded_by_name() {
    let door = Door::open(Settings::default()).await;
    let mut client = door.client();
    for (name, code) in [("m", Code::Ok), ("n", Code::NotFound)] {
        let model_name = || name.to_owned();
        let load =
            proto::RepositoryModelLoadRequest { model_name: model_name(), ..Default::default() };
        let unload =
            proto::RepositoryModelUnloadRequest { model_name: model_name(), ..Default::default() };
        let loaded = client.repository_model_load(load).await.err();
        assert_eq!(loaded.map_or(Code::Ok, |status| status.code()), code);
        let unloaded = client.repository_model_unload(unload).await.err();
        assert_eq!(unloaded.map_or(Code::Ok, |status| status.code()), code);
    }
}

#[tokio::test]
async fn a_stream_answers_each_request_and_survives_errors() {
    let door = Door::open(Settings::default()).await;
    let unknown = proto::ModelInferRequest { model_name: "n".to_owned(), ..ask("bad", &[1.0]) };
    let requests = [ask("a", &[1.0]), unknown, ask("b", &[2.0])];

    let answers = door.client().model_stream_infer(stream::iter(requests)).await.unwrap();
    let mut answers: Vec<_> = answers.into_inner().map(Result::unwrap).collect().await;

    answers.sort_by_key(|answer| answer.infer_response.as_ref().unwrap().id.clone());
    let responses: Vec<_> =
        answers.iter().map(|answer| answer.infer_response.as_ref().unwrap()).collect();
    assert_eq!(responses.iter().map(|answer| &*answer.id).collect::<Vec<_>>(), ["a", "b", "bad"]);
    assert_eq!(responses[1].raw_output_contents[0][..], 2.0_f32.to_le_bytes());
    let errors: Vec<_> = answers.iter().map(|answer| &*answer.error_message).collect();
    assert_eq!(errors, ["", "", "there is no model `n`"]);
    for response in responses {
        let last = &response.parameters["triton_final_response"].parameter_choice;
        assert_eq!(*last, Some(ParameterChoice::BoolParam(true)));
    }
}

#[tokio::test]
async fn a_stream_of_more_requests_than_may_be_open_is_answered_in_full() {
    let door = Door::open(Settings::default()).await;
    let requests = (0..1000_u16).map(|n| ask(&n.to_string(), &[f32::from(n)]));

    let answers = door.client().model_stream_infer(stream::iter(requests)).await.unwrap();
    let answers = answers.into_inner().map(|answer| answer.unwrap().infer_response.unwrap());

    let mut seen = [false; 1000];
    for answer in answers.collect::<Vec<_>>().await {
        let n: u16 = answer.id.parse().unwrap();
        assert_eq!(answer.raw_output_contents[0][..], f32::from(n).to_le_bytes());
        assert!(!std::mem::replace(&mut seen[usize::from(n)], true), "{n} twice");
    }
    assert!(seen.iter().all(|seen| *seen));
}

#[tokio::test]
async fn an_answer_does_not_wait_for_those_before_it() {
    let door = Door::open(slow()).await;
    let unknown = proto::ModelInferRequest { model_name: "n".to_owned(), ..ask("fast", &[1.0]) };
    let requests = stream::iter([ask("slow", &[1.0]), unknown]);

    let answers = door.client().model_stream_infer(requests).await.unwrap().into_inner();
    let ids = answers.map(|answer| answer.unwrap().infer_response.unwrap().id);

    assert_eq!(ids.collect::<Vec<_>>().await, ["fast", "slow"]);
}

#[tokio::test]
async fn a_client_may_ask_for_errors_as_status() {
    let door = Door::open(Settings::default()).await;
    let unknown = proto::ModelInferRequest { model_name: "n".to_owned(), ..ask("bad", &[1.0]) };
    let open = stream::iter([unknown]).chain(stream::pending());
    let mut request = Request::new(open);
    request.metadata_mut().insert("triton_grpc_error", "true".parse().unwrap());

    let mut answers = door.client().model_stream_infer(request).await.unwrap().into_inner();

    assert_eq!(answers.message().await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn leaving_withdraws_what_waits() {
    let door = Door::open(slow()).await;
    let (mut first, mut second, mut third) = (door.client(), door.client(), door.client());
    let busy = tokio::spawn(async move { first.model_infer(ask("a", &[1.0])).await });
    eventually(|| door.model().batch_stats().in_flight == 1).await;
    let call = tokio::spawn(async move { second.model_infer(ask("b", &[1.0])).await });
    // Its side of the stream is closed: this client keeps a stream open that it still writes to.
    let answers = third.model_stream_infer(stream::iter([ask("c", &[1.0])])).await.unwrap();
    eventually(|| door.model().batch_stats().waiting_items == 2).await;

    call.abort();
    drop(answers);

    eventually(|| door.model().batch_stats().items_dropped(Dropped::Cancelled) == 2).await;
    busy.await.unwrap().unwrap();
    assert_eq!(door.model().stats().n_good, 1);
}

#[tokio::test]
async fn a_deadline_is_kept_by_the_batcher() {
    let door = Door::open(slow()).await;
    let mut request = Request::new(ask("a", &[1.0]));
    // The model takes longer than that, so there is no point in beginning.
    request.set_timeout(Duration::from_millis(50));

    let status = door.client().model_infer(request).await.unwrap_err();

    assert_eq!(status.code(), Code::DeadlineExceeded);
    eventually(|| door.model().stats().n_failed == 1).await;
}

#[tokio::test]
async fn draining_answers_what_was_taken_and_ends_streams() {
    let door = Door::open(slow()).await;
    let open = stream::iter([ask("a", &[1.0]), ask("b", &[2.0])]).chain(stream::pending());
    let mut answers = door.client().model_stream_infer(open).await.unwrap().into_inner();
    let closed = stream::iter([ask("c", &[3.0])]);
    let mut whole = door.client().model_stream_infer(closed).await.unwrap().into_inner();
    let mut health = HealthClient::new(door.channel());
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    let mut reflection = ServerReflectionClient::new(door.channel());
    let list = MessageRequest::ListServices(String::new());
    let list = ServerReflectionRequest { message_request: Some(list), ..Default::default() };
    let asking = stream::iter([list]).chain(stream::pending());
    let mut listed = reflection.server_reflection_info(asking).await.unwrap().into_inner();
    assert!(listed.message().await.unwrap().is_some());
    eventually(|| door.model().batch_stats().accepted == 3).await;

    let drained = tokio::spawn(door.drain());

    for id in ["a", "b"] {
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!(answer.infer_response.unwrap().id, id);
    }
    let end = answers.message().await.unwrap_err();
    assert_eq!(end.code(), Code::Unavailable, "{end}");
    assert_eq!(whole.message().await.unwrap().unwrap().infer_response.unwrap().id, "c");
    drop(whole.message().await);
    let mut seen = Vec::new();
    while let Some(change) = watched.message().await.unwrap() {
        seen.push(change.status());
    }
    assert_eq!(seen, [ServingStatus::Serving, ServingStatus::NotServing]);
    assert!(listed.message().await.unwrap().is_none());
    drained.await.unwrap();
}

#[tokio::test]
async fn health_is_readiness() {
    let door = Door::open(Settings::default()).await;
    let mut client = HealthClient::new(door.channel());
    let ask = |service: &str| HealthCheckRequest { service: service.to_owned() };

    for service in ["", "inference.GRPCInferenceService"] {
        let answer = client.check(ask(service)).await.unwrap();
        assert_eq!(answer.get_ref().status(), ServingStatus::Serving);
    }
    assert_eq!(client.check(ask("other")).await.unwrap_err().code(), Code::NotFound);
    door.readiness().set(false);
    let answer = client.check(ask("")).await.unwrap();
    assert_eq!(answer.get_ref().status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let door = Door::open(Settings::default()).await;
    let list = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };

    let mut client = ServerReflectionClient::new(door.channel());
    let answers = client.server_reflection_info(stream::iter([list])).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();

    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = list.service.iter().map(|service| &*service.name).collect();
    assert!(names.contains(&"inference.GRPCInferenceService"), "{names:?}");
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
}

#[tokio::test]
async fn an_answer_is_compressed_only_where_the_question_was() {
    let door = Door::open(Settings::default()).await;
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Deflate] {
        let mut client = door.client().accept_compressed(encoding);
        let plain = client.model_infer(ask("a", &[0.0; 1000])).await.unwrap();
        assert!(plain.metadata().get("grpc-encoding").is_none());

        let mut client = client.send_compressed(encoding);
        let packed = client.model_infer(ask("a", &[0.0; 1000])).await.unwrap();
        assert!(packed.metadata().get("grpc-encoding").is_some());
        assert_eq!(packed.get_ref().raw_output_contents, plain.get_ref().raw_output_contents);
    }
}

/// The numbers of a stream's answers, whether each was the last, and the error if there was one.
async fn counted(door: &Door, request: proto::ModelInferRequest) -> (Vec<f32>, Vec<bool>, String) {
    let (mut numbers, mut lasts, mut error) = (Vec::new(), Vec::new(), String::new());
    let answers = door.client().model_stream_infer(stream::iter([request])).await.unwrap();
    let mut answers = answers.into_inner();
    while let Some(answer) = answers.message().await.unwrap() {
        error = answer.error_message;
        let answer = answer.infer_response.unwrap();
        assert_eq!(answer.id, "c");
        let last = answer.parameters["triton_final_response"].parameter_choice.clone();
        lasts.push(last == Some(ParameterChoice::BoolParam(true)));
        let contents = answer.raw_output_contents.first();
        numbers.extend(contents.map(|raw| f32::from_le_bytes(raw[..].try_into().unwrap())));
    }
    (numbers, lasts, error)
}

#[tokio::test]
async fn a_model_that_streams_gives_its_results_as_they_come() {
    let door = Door::open_counting().await;

    let (numbers, lasts, error) = counted(&door, ask("c", &[3.0])).await;
    assert_eq!((numbers, lasts, &*error), (vec![1.0, 2.0, 3.0], vec![false; 3], ""));

    let mut told = ask("c", &[2.0]);
    let yes = proto::InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    told.parameters.insert("triton_enable_empty_final_response".to_owned(), yes);
    let (numbers, lasts, _) = counted(&door, told).await;
    assert_eq!((numbers, lasts), (vec![1.0, 2.0], vec![false, false, true]));

    let (numbers, lasts, error) = counted(&door, ask("c", &[20.0])).await;
    assert_eq!((numbers.len(), lasts.last()), (12, Some(&true)));
    assert!(error.contains("thirteen"), "{error}");
}

#[tokio::test]
async fn a_model_that_streams_says_so_where_it_is_asked_for_one_answer() {
    let door = Door::open_counting().await;
    let mut client = door.client();

    let status = client.model_infer(ask("c", &[3.0])).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("ModelStreamInfer"), "{status}");
    let asked = proto::ModelConfigRequest { name: "m".to_owned(), ..Default::default() };
    let config = client.model_config(asked).await.unwrap().into_inner().config.unwrap();
    assert!(config.model_transaction_policy.unwrap().decoupled);
}
