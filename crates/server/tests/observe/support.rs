//! A whole server on ports of its own, and a client.

use std::{net::SocketAddr, time::Duration};

use paceline_server::{RunError, Server, config::load::load};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

/// Longer than anything here takes, and shorter than anybody's patience.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Running {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<Result<(), RunError>>,
}

/// Starts a server with these settings, without the repository's models.
pub(crate) async fn start(sets: &[&str]) -> Running {
    let own = [
        "server.listen=127.0.0.1:0",
        "server.grpc_listen=127.0.0.1:0",
        "server.admin_listen=127.0.0.1:0",
        "server.model_repository=none",
    ];
    let all: Vec<String> = own.iter().chain(sets).map(|set| (*set).to_owned()).collect();
    let server = Server::build(load(None, [], &all).unwrap()).await.unwrap();
    let (http, admin) = (server.address(), server.admin_address().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let done = tokio::spawn(server.run(async {
        stopped.await.ok();
    }));
    Running { http, admin, stop, done }
}

impl Running {
    /// The page of metrics.
    pub(crate) async fn metrics(&self) -> String {
        let (status, body) = get(self.admin, "/metrics").await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Asks the simulated model.
    pub(crate) async fn infer(&self, body: &'static str, headers: &[(&'static str, &str)]) -> u16 {
        self.ask("simulated", body, headers).await
    }

    /// Asks a model.
    pub(crate) async fn ask(
        &self,
        model: &str,
        body: &'static str,
        headers: &[(&'static str, &str)],
    ) -> u16 {
        let uri = format!("http://{}/v1/models/{model}/infer", self.http);
        let headers: Vec<(&str, String)> =
            headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let ask = move || {
            let agent = ureq::Agent::new_with_config(
                ureq::Agent::config_builder().http_status_as_error(false).build(),
            );
            let mut request = agent.post(uri);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            request.send(body).unwrap().status().as_u16()
        };
        timeout(PATIENCE, tokio::task::spawn_blocking(ask)).await.unwrap().unwrap()
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.done).await.unwrap().unwrap().unwrap();
    }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let uri = format!("http://{address}{path}");
    let ask = move || {
        let agent = ureq::Agent::new_with_config(
            ureq::Agent::config_builder().http_status_as_error(false).build(),
        );
        let mut answer = agent.get(uri).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    timeout(PATIENCE, tokio::task::spawn_blocking(ask)).await.unwrap().unwrap()
}
