//! A server in this process, on a free port, for commands that need one for as long as they take.

use anyhow::Context as _;
use paceline_server::Server;
use tokio::sync::oneshot;

use crate::{args::ConfigArgs, exit::Failure};

/// Starts a server; it stops when what is returned is dropped. `more` are further settings.
pub(super) async fn serve(
    args: &ConfigArgs,
    more: &[&str],
) -> Result<(String, oneshot::Sender<()>), Failure> {
    let ports = ["server.listen=127.0.0.1:0", "server.grpc_listen=127.0.0.1:0"];
    let sets = more.iter().chain(&ports).map(|set| (*set).to_owned()).collect();
    let config = super::configuration(args, sets)?;
    let server = Server::build(config).await.context("no server")?;
    let url = format!("ws://{}", server.address());
    let (stop, stopped) = oneshot::channel::<()>();
    #[expect(clippy::disallowed_methods, reason = "there is no supervisor above the server")]
    tokio::spawn(server.run(async {
        // Either way it is time to go.
        drop(stopped.await);
    }));
    Ok((url, stop))
}
