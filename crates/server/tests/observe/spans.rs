//! Traces, as a collector gets them.

use std::{net::SocketAddr, sync::Arc};

use futures_util::{SinkExt as _, StreamExt as _};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    trace::v1::Span,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};
use tonic::{Request, Response, Status, transport::Server, transport::server::TcpIncoming};

use crate::support::start;

/// Keeps every span that it is sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            for scope in resource.scope_spans {
                self.0.lock().extend(scope.spans);
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(self.clone());
        tokio::spawn(
            Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener)),
        );
        address
    }

    fn spans(&self, kind: &str) -> Vec<Span> {
        let all = self.0.lock();
        all.iter().filter(|span| span.name.starts_with(kind)).cloned().collect()
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from_digit(digit.into(), 16).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_a_span_of_its_clients_trace_and_its_call_is_linked_to_it() {
    let collector = Collector::default();
    let endpoint = format!("tracing.endpoint=http://{}", collector.listen().await);
    let server = start(&[&endpoint, "tracing.sample=0"]).await;
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    // Three instances, which may or may not share a call.
    assert_eq!(server.infer("[1, 2, 3]", &[("traceparent", &sampled)]).await, 200);
    let unsampled = format!("00-{TRACE}-{PARENT}-00");
    assert_eq!(server.infer("4", &[("traceparent", &unsampled)]).await, 200);
    assert_eq!(server.infer("5", &[("traceparent", "nonsense")]).await, 200);
    assert_eq!(server.infer("6", &[]).await, 200);
    // What is not sent yet is sent before the server ends.
    server.stop().await;

    let requests = collector.spans("infer simulated");
    assert_eq!(requests.len(), 3, "only what is sampled");
    for request in &requests {
        assert_eq!(hex(&request.trace_id), TRACE);
        assert_eq!(hex(&request.parent_span_id), PARENT);
        assert!(request.start_time_unix_nano < request.end_time_unix_nano);
        assert!(request.status.is_none());
    }
    let mut linked: Vec<Vec<u8>> = Vec::new();
    for call in collector.spans("batch simulated") {
        let parent = requests.iter().find(|request| request.span_id == call.parent_span_id);
        assert!(parent.is_some(), "a call belongs to the first that is in it");
        linked.extend(call.links.iter().map(|link| link.span_id.clone()));
    }
    let mut own: Vec<Vec<u8>> = requests.into_iter().map(|request| request.span_id).collect();
    linked.sort();
    own.sort();
    assert_eq!(linked, own, "each request is linked to one call");
}

/// Eleven seconds of speech; how many final segments they had.
async fn speak(server: SocketAddr, header: Option<&str>, said: Option<&str>) -> usize {
    let wav = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/assets/speech.wav"));
    let mut request = format!("ws://{server}/api/v1/segmented").into_client_request().unwrap();
    if let Some(header) = header {
        request.headers_mut().insert("traceparent", header.parse().unwrap());
    }
    let (mut socket, _) = connect_async(request).await.unwrap();
    let format = json!({"channels": 1, "sample_rate": 16_000, "bit_depth": 16, "is_float": false});
    let start = json!({"request": "start", "format": format, "trace_id": said});
    let stop = json!({"request": "stop", "disconnect": true});
    for message in [
        Message::Text(start.to_string().into()),
        Message::Binary(wav.unwrap()[44..].to_vec().into()),
        Message::Text(stop.to_string().into()),
    ] {
        socket.send(message).await.unwrap();
    }
    let mut n_segments = 0;
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = message {
            let event: Value = serde_json::from_str(&text).unwrap();
            assert_ne!(event["type"], "error", "{event}");
            n_segments += usize::from(event["type"] == "segment" && event["is_final"] != false);
        }
    }
    n_segments
}

#[tokio::test(flavor = "multi_thread")]
async fn an_utterance_is_a_span_of_its_clients_trace_and_its_call_is_linked_to_it() {
    let collector = Collector::default();
    let endpoint = format!("tracing.endpoint=http://{}", collector.listen().await);
    let server = start(&[&endpoint, "tracing.sample=0"]).await;
    let other = TRACE.replace('4', "5");
    let (header, said) = (format!("00-{TRACE}-{PARENT}-01"), format!("00-{other}-{PARENT}-01"));
    // One client says where it stands in a header, one in its first message, as pages must.
    let (one, two, _) = tokio::join!(
        speak(server.http, Some(&header), None),
        speak(server.http, None, Some(&said)),
        speak(server.http, None, None),
    );
    server.stop().await;

    let utterances = collector.spans("infer simulated-speech");
    let of = |trace: &str| utterances.iter().filter(|span| hex(&span.trace_id) == trace).count();
    assert!(2 <= one, "the speech has several utterances");
    assert_eq!((of(TRACE), of(&other), utterances.len()), (one, two, one + two));
    assert!(utterances.iter().all(|span| hex(&span.parent_span_id) == PARENT));
    let calls = collector.spans("batch simulated-speech");
    let links = calls.iter().flat_map(|call| call.links.iter().map(|link| link.span_id.clone()));
    let (mut linked, mut own): (Vec<_>, Vec<_>) =
        (links.collect(), utterances.iter().map(|span| span.span_id.clone()).collect());
    linked.sort();
    own.sort();
    assert_eq!(linked, own, "each utterance is linked to one call");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_to_another_server_is_part_of_the_same_trace() {
    let collector = Collector::default();
    let endpoint = format!("tracing.endpoint=http://{}", collector.listen().await);
    let far = start(&[&endpoint, "tracing.sample=0"]).await;
    let remote = format!(
        "models.near={{backend='remote', remote={{endpoints=['http://{}'], model='simulated'}}}}",
        far.http
    );
    let near = start(&[&endpoint, "tracing.sample=0", &remote]).await;
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(near.ask("near", "1", &[("traceparent", &sampled)]).await, 200);
    near.stop().await;
    far.stop().await;

    let call = collector.spans("batch near").remove(0);
    let there = collector.spans("infer simulated").remove(0);
    assert_eq!(hex(&there.trace_id), TRACE);
    assert_eq!(there.parent_span_id, call.span_id, "the call is what asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_from_no_trace_begins_one() {
    let collector = Collector::default();
    let server = start(&[&format!("tracing.endpoint=http://{}", collector.listen().await)]).await;
    assert_eq!(server.infer("1", &[]).await, 200);
    assert_eq!(server.infer("2", &[]).await, 200);
    server.stop().await;

    let requests = collector.spans("infer simulated");
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.parent_span_id.is_empty()));
    assert_ne!(requests[0].trace_id, requests[1].trace_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = start(&[&format!("tracing.endpoint=http://{gone}")]).await;
    for _ in 0..20 {
        assert_eq!(server.infer("1", &[]).await, 200);
    }
    server.stop().await;
}
