//! `paceline serve`.

use std::os::fd::AsFd as _;

use anyhow::Context as _;
use paceline_server::Server;
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe,
    signal::unix::{SignalKind, signal},
};

use super::configuration;
use crate::{
    args::ServeArgs,
    exit::{self, Failure},
    telemetry,
};

pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let addresses = [("server.listen", &args.listen), ("server.grpc_listen", &args.grpc_listen)];
    let sets = addresses
        .into_iter()
        .filter_map(|(key, address)| Some(format!("{key}={:?}", address.as_ref()?)))
        .collect();
    let mut config = configuration(&args.config, sets)?;
    // It stays this one when another is put in its place.
    config.server.program = Some("/proc/self/exe".into());
    if args.print_config {
        let text = toml::to_string(&config).context("the configuration cannot be written")?;
        return exit::print(&text);
    }
    telemetry::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Whoever else wants this core, a client on the same machine or another thread of ours, has
        // its turn before a thread sleeps: what it sends is then there to be taken together, and
        // there is no sleep to be woken from. A core that nobody wants costs one system call.
        .on_thread_park(std::thread::yield_now)
        .build()
        .context("no runtime")?;
    runtime.block_on(async {
        let server =
            Server::build(config).await.map_err(|error| Failure::Refused(error.to_string()))?;
        tracing::info!(
            http = %server.address(),
            grpc = %server.grpc_address(),
            admin = server.admin_address().map(tracing::field::display),
            vosk = server.vosk_address().map(tracing::field::display),
            wyoming = server.wyoming_address().map(tracing::field::display),
            models = server.models().all().len(),
            "serving"
        );
        let signalled = stopped().context("no signals")?;
        let left = stdin_ended(args.stop_with_stdin).context("standard input is no pipe")?;
        let stop = async {
            tokio::select! {
                () = signalled => {}
                () = left => {}
            }
        };
        Ok(server.run(stop).await.map_err(anyhow::Error::from)?)
    })
}

/// Resolves when standard input, a pipe, ends; never where that is not asked for.
fn stdin_ended(is_asked: bool) -> std::io::Result<impl Future<Output = ()>> {
    let stdin = is_asked.then(|| std::io::stdin().as_fd().try_clone_to_owned()).transpose()?;
    let mut stdin = stdin.map(pipe::Receiver::from_owned_fd).transpose()?;
    Ok(async move {
        match &mut stdin {
            Some(stdin) => while matches!(stdin.read(&mut [0; 64]).await, Ok(1..)) {},
            None => std::future::pending().await,
        }
    })
}

/// Resolves at the first SIGINT or SIGTERM; a second one ends the process at once.
fn stopped() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let once = async |terminate: &mut tokio::signal::unix::Signal,
                          interrupt: &mut tokio::signal::unix::Signal| {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        once(&mut terminate, &mut interrupt).await;
        #[expect(clippy::disallowed_methods, clippy::exit, reason = "a second signal means now")]
        tokio::spawn(async move {
            once(&mut terminate, &mut interrupt).await;
            std::process::exit(130);
        });
    })
}
