//! A whole server on a port of its own, asked over real sockets.

use std::net::SocketAddr;

use paceline_server::{Server, config::load::load};
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    task::{JoinHandle, spawn_blocking},
};

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<Result<(), paceline_server::RunError>>,
}

/// Starts a server with these settings on a free port, without the repository's models.
async fn start(sets: &[&str]) -> Running {
    let own = [
        "server.listen=127.0.0.1:0",
        "server.grpc_listen=127.0.0.1:0",
        "server.model_repository=none",
    ];
    let all: Vec<String> = own.iter().chain(sets).map(|set| (*set).to_owned()).collect();
    let server = Server::build(load(None, [], &all).unwrap()).await.unwrap();
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let done = tokio::spawn(server.run(async {
        stopped.await.ok();
    }));
    Running { address, stop, done }
}

impl Running {
    async fn request(&self, method: &'static str, path: &str, body: Vec<u8>) -> (u16, Value) {
        let url = format!("http://{}{path}", self.address);
        spawn_blocking(move || {
            let config = ureq::Agent::config_builder().http_status_as_error(false).build();
            let agent = ureq::Agent::new_with_config(config);
            let request = ureq::http::Request::builder().method(method).uri(url);
            let mut response = if method == "GET" {
                agent.run(request.body(()).unwrap()).unwrap()
            } else {
                agent.run(request.body(body).unwrap()).unwrap()
            };
            let text = response.body_mut().read_to_string().unwrap();
            (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null))
        })
        .await
        .unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, Vec::new()).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.request("POST", path, body.to_string().into_bytes()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_no_file_says_what_it_is_and_infers() {
    let server = start(&[]).await;

    assert_eq!(server.get("/v2/health/live").await, (200, json!({"live": true})));
    assert_eq!(server.get("/v2/health/ready").await, (200, json!({"ready": true})));
    assert_eq!(server.get("/v2").await.1["name"], "paceline");
    let input = json!({"name": "INPUT", "datatype": "FP32", "shape": [2, 1], "data": [0.5, 1.5]});
    let (status, answer) =
        server.post("/v2/models/simulated/infer", &json!({"id": "7", "inputs": [input]})).await;
    assert_eq!((status, &answer["id"]), (200, &json!("7")));
    assert_eq!(answer["outputs"][0]["data"], json!([0.5, 1.5]));
    let (_, statistics) = server.get("/v2/models/simulated/stats").await;
    assert_eq!(statistics["model_stats"][0]["inference_count"], 2);
    assert_eq!(statistics["model_stats"][0]["execution_count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_json_is_batched_and_says_how_it_travelled() {
    let server = start(&["models.simulated.simulated.delay=20ms"]).await;
    let instances: Vec<Value> = (0..12).map(|n| json!({"INPUT": [n, n + 1]})).collect();

    let (status, answers) =
        server.post("/v1/models/simulated/infer?ride=on", &Value::Array(instances)).await;

    assert_eq!(status, 200);
    for (n, answer) in answers.as_array().unwrap().iter().enumerate() {
        assert_eq!(answer["OUTPUT"], json!([n as f64, n as f64 + 1.0]), "answers keep their order");
    }
    let (_, statistics) = server.get("/v2/models/simulated/stats").await;
    let calls = statistics["model_stats"][0]["execution_count"].as_u64().unwrap();
    assert!(calls < 12, "twelve instances took {calls} calls");
    let (_, lone) = server.post("/v1/models/simulated/infer?ride=on", &json!(4.0)).await;
    assert_eq!((&lone["OUTPUT"], &lone["ride"]["items"]), (&json!(4.0), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_gets_a_code_and_a_sentence_and_harms_nobody() {
    let server = start(&["server.max_body=1000"]).await;
    let tensor = |name: &str, datatype: &str, shape: Value| json!({"inputs": [{"name": name, "datatype": datatype, "shape": shape, "data": [1, 2]}]});
    let good = tensor("INPUT", "FP32", json!([1, 2]));
    let infer = "/v2/models/simulated/infer";
    let plain = "/v1/models/simulated/infer";
    for (path, body, status, code, words) in [
        ("/v2/models/nobody/infer", good.clone(), 404, "not_found", "no model `nobody`"),
        ("/v2/models/simulated/versions/9/infer", good, 404, "not_found", "no version 9"),
        (infer, tensor("INPUT", "INT32", json!([1, 2])), 400, "invalid_input", "`INPUT` is FP32"),
        (infer, tensor("INPUT", "FP32", json!([2])), 400, "invalid_input", "shape"),
        (infer, tensor("INPUT", "FP32", json!([1, 3])), 400, "invalid_input", "INPUT"),
        (infer, tensor("X", "FP32", json!([1, 2])), 400, "invalid_input", "no input `X`"),
        (infer, json!({"inputs": []}), 400, "invalid_input", "input"),
        (plain, json!({"INPUT": "text"}), 400, "invalid_input", "is no FP32"),
        (plain, json!({"INPUT": 1, "MORE": 2}), 400, "invalid_input", "no input `MORE`"),
        ("/v1/models/simulated/infer?bach=off", json!(1), 400, "invalid_input", "batch=off"),
        (plain, json!("x".repeat(2000)), 413, "invalid_input", "larger than"),
        ("/nowhere", json!(1), 404, "not_found", "/nowhere"),
        ("/v2/health/live", json!(1), 405, "invalid_input", "POST"),
    ] {
        let (actual, answer) = server.post(path, &body).await;
        assert_eq!((actual, &answer["code"]), (status, &json!(code)), "{path} {body}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{path} {body}: {answer}");
        assert_eq!(answer["request_id"].as_str().unwrap().len(), 16, "{answer}");
    }
    let (status, answer) = server.request("POST", plain, b"{".to_vec()).await;
    assert_eq!(status, 400);
    assert!(answer["error"].as_str().unwrap().starts_with("the body is not JSON"));
    assert_eq!(server.post(plain, &json!(1)).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_answers_at_once_that_it_is() {
    let server = start(&[
        "models.simulated.simulated.delay=300ms",
        "models.simulated.batch.max_items=1",
        "models.simulated.batch.queue_items=1",
    ])
    .await;

    let (_, answers) = server.post("/v1/models/simulated/infer", &json!([1, 2, 3, 4])).await;

    let answers = answers.as_array().unwrap();
    let codes: Vec<&str> = answers.iter().filter_map(|answer| answer["code"].as_str()).collect();
    assert!(codes.contains(&"overloaded"), "{answers:?}");
    assert!(codes.len() < 4, "some are served: {answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_unloaded_and_loaded_again_and_the_index_knows() {
    let server = start(&[]).await;
    let state = async || {
        let (_, index) = server.post("/v2/repository/index", &json!({})).await;
        index[0]["state"].as_str().unwrap().to_owned()
    };

    assert_eq!(state().await, "READY");
    assert_eq!(server.post("/v2/repository/models/simulated/unload", &json!({})).await.0, 200);
    assert_eq!(state().await, "UNAVAILABLE");
    assert_eq!(server.post("/v1/models/simulated/infer", &json!(1)).await.0, 404);
    assert_eq!(server.post("/v2/repository/models/simulated/load", &json!({})).await.0, 200);
    assert_eq!(server.post("/v1/models/simulated/infer", &json!(1)).await.0, 200);
    let (status, answer) = server.post("/v2/repository/models/..%2Fetc/load", &json!({})).await;
    assert_eq!(status, 404, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_finishes_what_was_asked_and_then_ends() {
    let server = start(&["models.simulated.simulated.delay=200ms"]).await;
    let address = server.address;
    let url = format!("http://{address}/v1/models/simulated/infer");
    let open = spawn_blocking(move || ureq::post(url).send("[1, 2]").unwrap().status());
    // A batch is counted when it leaves the queue, so the request is under way then.
    let mut batches = json!([]);
    while batches == json!([]) {
        batches = server.get("/v2/models/simulated/stats").await.1["model_stats"][0]["batch_stats"]
            .take();
    }

    server.stop.send(()).unwrap();

    assert_eq!(open.await.unwrap(), 200);
    server.done.await.unwrap().unwrap();
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_versions_are_served_at_once_and_each_is_reached_by_its_number() {
    let server = start(&["models.simulated.version_policy={specific=[1, 3]}"]).await;
    let input = json!({"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [0.5]});
    let body = json!({"inputs": [input]});

    for (path, version) in [("", "3"), ("/versions/1", "1"), ("/versions/3", "3")] {
        let (status, answer) =
            server.post(&format!("/v2/models/simulated{path}/infer"), &body).await;
        assert_eq!((status, &answer["model_version"]), (200, &json!(version)), "{path}");
    }
    let (status, refused) = server.post("/v2/models/simulated/versions/2/infer", &body).await;
    assert_eq!((status, &refused["code"]), (404, &json!("not_found")));

    let (_, about) = server.get("/v2/models/simulated").await;
    assert_eq!(about["versions"], json!(["1", "3"]));
    let counted = |statistics: &Value| -> Vec<(Value, Value)> {
        let entries = statistics["model_stats"].as_array().unwrap();
        entries.iter().map(|e| (e["version"].clone(), e["inference_count"].clone())).collect()
    };
    let (_, all) = server.get("/v2/models/simulated/stats").await;
    assert_eq!(counted(&all), [(json!("1"), json!(1)), (json!("3"), json!(2))]);
    let (_, one) = server.get("/v2/models/simulated/versions/1/stats").await;
    assert_eq!(counted(&one), [(json!("1"), json!(1))]);
    let (_, config) = server.get("/v2/models/simulated/config").await;
    assert_eq!(config["version_policy"]["specific"]["versions"], json!([1, 3]));
    let (_, index) = server.post("/v2/repository/index", &json!({"ready": true})).await;
    let own = |entry: &&Value| entry["name"] == "simulated";
    let entries = index.as_array().unwrap().iter().filter(own);
    let versions: Vec<_> = entries.map(|entry| &entry["version"]).collect();
    assert_eq!(versions, ["1", "3"]);

    // Reloading serves both again, and unloading neither.
    assert_eq!(server.post("/v2/repository/models/simulated/load", &json!({})).await.0, 200);
    assert_eq!(server.get("/v2/models/simulated").await.1["versions"], json!(["1", "3"]));
    assert_eq!(server.post("/v2/repository/models/simulated/unload", &json!({})).await.0, 200);
    let (_, index) = server.post("/v2/repository/index", &json!({})).await;
    let gone: Vec<_> =
        index.as_array().unwrap().iter().filter(own).map(|entry| &entry["state"]).collect();
    assert_eq!(gone, ["UNAVAILABLE", "UNAVAILABLE"]);
    let (_, ready) = server.post("/v2/repository/index", &json!({"ready": true})).await;
    assert_eq!(ready.as_array().unwrap().iter().filter(own).count(), 0);
}

/// What comes back for a request written by hand: status line, headers but for the request's id
/// and date, and body.
async fn exchange(address: SocketAddr, path: &str, header: &str, body: &str) -> Vec<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntraceparent: 00-ab-cd-01\r\n\
         x-request-id: mine\r\n{header}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let varies = |line: &&str| !line.starts_with("date:") && !line.starts_with("vary:");
    let mut lines: Vec<String> = answer.split("\r\n").filter(varies).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn the_straight_way_answers_as_the_router_does() {
    let server = start(&["server.max_body=2000", "models.strict.backend=simulated"]).await;
    let large = format!("{{\"INPUT\":[{}1]}}", "1,".repeat(2000));
    let tensor = r#"{"inputs":[{"name":"INPUT","datatype":"FP32","shape":[1,1],"data":[2]}]}"#;
    for (path, body) in [
        ("/v1/models/simulated/infer", r#"{"INPUT":[1,2]}"#),
        ("/v1/models/simulated/infer?batch=off", r#"[{"INPUT":[1]},{"WRONG":[1]}]"#),
        ("/v1/models/simulated/infer?nonsense=1", r#"{"INPUT":[1,2]}"#),
        ("/v1/models/simulated/infer", "no JSON"),
        ("/v1/models/simulated/infer", &large),
        ("/v1/models/nowhere/infer", "{}"),
        ("/v2/models/simulated/infer", tensor),
        ("/v2/models/simulated/versions/1/infer", tensor),
        ("/v2/models/simulated/versions/9/infer", tensor),
        ("/v2/models/simulated/versions/x/infer", tensor),
        ("/v2/models/simulated/infer", "{}"),
        ("/v2/models/nowhere/infer", tensor),
    ] {
        let straight = exchange(server.address, path, "", body).await;
        let routed = exchange(server.address, path, "accept-encoding: identity\r\n", body).await;
        assert_eq!(straight, routed, "{path} {}", &body[..body.len().min(80)]);
        assert!(straight.contains(&"x-request-id: mine".to_owned()), "{straight:?}");
        assert!(straight.contains(&"traceparent: 00-ab-cd-01".to_owned()), "{straight:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cameras_are_steered_and_their_frames_pushed_over_http() {
    let server = start(&[
        "cameras.source='push'",
        "cameras.model='eyes'",
        "cameras.cameras=['door']",
        "models.eyes.backend='simulated'",
        "models.eyes.simulated.dtype='UINT8'",
    ])
    .await;
    let push = async |camera: &str| {
        server.request("POST", &format!("/v1/cameras/{camera}/frames"), b"\"hi\"".to_vec()).await
    };

    assert_eq!(push("door").await, (200, json!("hi")), "the model answers its input");
    assert_eq!(push("yard").await.0, 404);
    assert_eq!(server.request("PUT", "/v1/cameras/yard", Vec::new()).await.1["state"], "taken");
    assert_eq!(push("yard").await.0, 200);
    server.post("/v1/cameras/door/pause", &json!(null)).await;
    let (status, answer) = push("door").await;
    assert_eq!((status, &answer["error"]), (503, &json!("the frame was dropped: paused")));
    let (_, overview) = server.get("/v1/cameras").await;
    assert_eq!(overview["health"]["source_up"], true);
    let counts = &overview["counts"];
    assert_eq!((&counts["frames_in"], &counts["committed"]), (&json!(4), &json!(2)));
    assert_eq!(
        (&counts["dropped"]["paused"], &counts["dropped"]["unlisted"]),
        (&json!(1), &json!(1))
    );
    let cameras = overview["cameras"].as_array().unwrap();
    let stand: Vec<_> = cameras.iter().map(|camera| (&camera["name"], &camera["state"])).collect();
    assert_eq!(stand, [(&json!("door"), &json!("paused")), (&json!("yard"), &json!("taken"))]);
    let wanted = json!({"cameras": ["gate", "door"]}).to_string().into_bytes();
    let (_, changed) = server.request("PUT", "/v1/cameras", wanted).await;
    assert_eq!(changed, json!({"added": ["gate"], "removed": ["yard"], "unchanged": 1}));
    assert_eq!(server.get("/v1/cameras/door").await.1["state"], "paused", "it stays as it was");
    assert_eq!(server.get("/v1/cameras/nobody").await.0, 404);
    assert_eq!(server.get("/v1/dead-letters").await, (200, json!([])));
    assert_eq!(server.request("PUT", "/v1/cameras", b"{}".to_vec()).await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_cameras_says_so() {
    let server = start(&[]).await;

    let (status, answer) = server.get("/v1/cameras").await;
    assert_eq!(status, 404);
    assert!(answer["error"].as_str().unwrap().contains("no [cameras]"), "{answer}");
}
