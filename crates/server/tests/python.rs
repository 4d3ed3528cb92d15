//! A Python class in a model folder, served over HTTP and changed while it is served.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use paceline_server::{Server, config::load::load};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python() -> String {
    let python = root().join(".cache/python/bin/python");
    assert!(python.exists(), "there is no {}; run scripts/install-python", python.display());
    std::path::absolute(python).unwrap().display().to_string()
}

/// Starts a server on a free port; it lives as long as the test.
async fn start(repository: &Path, sets: &[String]) -> SocketAddr {
    let own = [
        "server.listen=127.0.0.1:0".to_owned(),
        "server.grpc_listen=127.0.0.1:0".to_owned(),
        format!("server.model_repository={}", repository.display()),
    ];
    let all: Vec<String> = own.iter().chain(sets).cloned().collect();
    let server = Server::build(load(None, [], &all).unwrap()).await.unwrap();
    let address = server.address();
    tokio::spawn(server.run(std::future::pending()));
    address
}

async fn ask(address: SocketAddr, path: &str, body: Option<&Value>) -> (u16, Value) {
    let (url, body) = (format!("http://{address}{path}"), body.map(Value::to_string));
    spawn_blocking(move || {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent = ureq::Agent::new_with_config(config);
        let mut response = match body {
            Some(body) => agent.post(url).send(body).unwrap(),
            None => agent.get(url).call().unwrap(),
        };
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_folder_is_served() {
    let sets = [
        "backend=python",
        "python.class=model:Letters",
        &format!("python.interpreter={}", python()),
    ]
    .map(|set| format!("models.letters.{set}"));
    let address = start(&root().join("examples/models"), &sets).await;

    let texts = json!([{"text": ["Abba"]}, {"text": ["!"]}]);
    let (status, answers) = ask(address, "/v1/models/letters/infer", Some(&texts)).await;

    assert_eq!(status, 200);
    let counts: Vec<u64> = serde_json::from_value(answers[0]["counts"].clone()).unwrap();
    assert_eq!((counts[0], counts[1], counts.len()), (2, 2, 26));
    assert_eq!(answers[1]["code"], "model_failed");
    assert!(answers[1]["error"].as_str().unwrap().contains("no letter"), "{answers}");
    let (_, about) = ask(address, "/v2/models/letters", None).await;
    assert_eq!(about["platform"], "python");
}

/// A folder whose class answers its version, and dies of negative numbers.
fn write_version(repository: &Path, version: u64) {
    let folder = repository.join("numbers").join(version.to_string());
    fs::create_dir_all(&folder).unwrap();
    let class = format!(
        "import os\nfrom paceline import Model, TensorSpec\n\
         class Model(Model):\n\
        \x20   inputs = {{\"x\": TensorSpec(\"FP32\", [])}}\n\
        \x20   outputs = {{\"version\": TensorSpec(\"INT32\", [])}}\n\
        \x20   def infer(self, batch):\n\
        \x20       if (batch[\"x\"] < 0).any(): os._exit(9)\n\
        \x20       return [{{\"version\": {version}}}] * batch.rows\n"
    );
    fs::write(folder.join("model.py"), class).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_loaded_again_without_a_request_being_dropped() {
    let repository = tempfile::tempdir().unwrap();
    write_version(repository.path(), 1);
    let settings = format!("[python]\ninterpreter = \"{}\"\n", python());
    fs::write(repository.path().join("numbers/model.toml"), settings).unwrap();
    let address = start(repository.path(), &[]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut versions = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let (status, answer) =
                        ask(address, "/v1/models/numbers/infer", Some(&json!(1))).await;
                    assert_eq!(status, 200, "{answer}");
                    versions.push(answer["version"].as_u64().unwrap());
                }
                versions
            })
        })
        .collect();

    write_version(repository.path(), 2);
    let (status, _) = ask(address, "/v2/repository/models/numbers/load", Some(&json!({}))).await;
    assert_eq!(status, 200);
    let (_, answer) = ask(address, "/v1/models/numbers/infer", Some(&json!(1))).await;
    assert_eq!(answer["version"], 2);
    stop.store(true, Ordering::Relaxed);

    for client in clients {
        let versions = client.await.unwrap();
        assert!(versions.is_sorted(), "{versions:?}");
        assert_eq!(versions.first(), Some(&1));
    }
    let (status, answer) = ask(address, "/v1/models/numbers/infer", Some(&json!(-1))).await;
    assert_eq!((status, &answer["code"]), (500, &json!("internal")), "{answer}");
    let (status, answer) = ask(address, "/v1/models/numbers/infer", Some(&json!(1))).await;
    assert_eq!((status, &answer["version"]), (200, &json!(2)), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_streams_server_sent_events() {
    let repository = tempfile::tempdir().unwrap();
    let folder = repository.path().join("counts/1");
    fs::create_dir_all(&folder).unwrap();
    let class = "from paceline import Model, TensorSpec\n\
         class Model(Model):\n\
        \x20   inputs = {\"n\": TensorSpec(\"INT32\", [])}\n\
        \x20   outputs = {\"count\": TensorSpec(\"INT32\", [])}\n\
        \x20   def infer(self, batch):\n\
        \x20       for count in range(int(batch[\"n\"].max())):\n\
        \x20           yield [{\"count\": count} if count < n else None for n in batch[\"n\"]]\n\
        \x20       if (batch[\"n\"] < 0).any(): raise ValueError(\"below zero\")\n";
    fs::write(folder.join("model.py"), class).unwrap();
    let settings = format!("[python]\ninterpreter = \"{}\"\n", python());
    fs::write(repository.path().join("counts/model.toml"), settings).unwrap();
    let address = start(repository.path(), &[]).await;
    let events = async |body: &'static str| {
        let url = format!("http://{address}/v1/models/counts/infer");
        spawn_blocking(move || {
            let mut response = ureq::post(url).send(body).unwrap();
            assert_eq!(response.headers()["content-type"], "text/event-stream");
            response.body_mut().read_to_string().unwrap()
        })
        .await
        .unwrap()
    };

    let counted = "data: {\"count\":0}\n\ndata: {\"count\":1}\n\nevent: end\ndata: {}\n\n";
    assert_eq!(events("{\"n\": 2}").await, counted);
    let failed = events("-1").await;
    assert!(failed.starts_with("event: error\n") && failed.contains("below zero"), "{failed}");
    let (status, answer) = ask(
        address,
        "/v2/models/counts/infer",
        Some(&json!({"inputs": [{"name": "n", "datatype": "INT32", "shape": [1], "data": [1]}]})),
    )
    .await;
    assert_eq!(answer["code"], "unsupported", "{status} {answer}");
}
