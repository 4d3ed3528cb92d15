//! A model of one server, served by another.

use std::net::SocketAddr;

use paceline_server::{Server, config::load::load};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// Starts a server on free ports; it lives as long as the test.
async fn start(sets: &[String]) -> [SocketAddr; 2] {
    let own = ["server.listen=127.0.0.1:0", "server.grpc_listen=127.0.0.1:0"];
    let own = own.map(str::to_owned).into_iter().chain(["server.model_repository=".to_owned()]);
    let all: Vec<String> = own.chain(sets.iter().cloned()).collect();
    let server = Server::build(load(None, [], &all).unwrap()).await.unwrap();
    let addresses = [server.address(), server.grpc_address()];
    tokio::spawn(server.run(std::future::pending()));
    addresses
}

async fn ask(address: SocketAddr, path: &str, body: Option<Value>) -> Value {
    let url = format!("http://{address}{path}");
    spawn_blocking(move || {
        let mut response = match body {
            Some(body) => ureq::post(url).send(body.to_string()).unwrap(),
            None => ureq::get(url).call().unwrap(),
        };
        response.body_mut().read_json().unwrap()
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_another_server_is_served_in_batches_formed_here() {
    let there = ["models.double.backend=simulated".to_owned()];
    let [http, grpc] = start(&there).await;
    let endpoints = [format!("http://{http}"), format!("grpc://{grpc}")];
    for endpoint in endpoints {
        let here = [
            "models.far.backend=remote".to_owned(),
            format!("models.far.remote.endpoints=['{endpoint}']"),
            "models.far.remote.model=double".to_owned(),
        ];
        let [address, _] = start(&here).await;

        let numbers: Vec<Value> = (0..8).map(|at| json!({"INPUT": [at, at]})).collect();
        let answers = ask(address, "/v1/models/far/infer", Some(Value::from(numbers))).await;

        let answers: Vec<Value> = serde_json::from_value(answers).unwrap();
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(answer["OUTPUT"], json!([at as f32, at as f32]), "{endpoint}");
        }
        let about = ask(address, "/v2/models/far", None).await;
        assert_eq!(about["platform"], "remote");
        assert_eq!(about["inputs"][0]["name"], "INPUT");
    }
}
