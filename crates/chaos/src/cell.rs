//! One server with clients at every door, and the book that they write into.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::{
    clients::{self, Stage, cameras::Film},
    faults::Scene,
    ledger::{Balance, Ledger},
    parts::{Part, Parts},
    server::Server,
};

/// How much the clients ask.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// How long a client rests after each operation.
    pub(crate) rest: Duration,
    /// Connections on which requests are sent before the answers to earlier ones are there.
    pub(crate) n_pipelined: usize,
}

#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) scene: Scene,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) film: Arc<Film>,
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
    watcher: JoinSet<()>,
}

impl Cell {
    /// Starts the server, then everybody who asks it.
    pub(crate) async fn start(
        parts: &Parts,
        load: Load,
        seed: u64,
        settings: &[&str],
    ) -> anyhow::Result<Self> {
        let server = Arc::new(Server::start(parts, settings).await?);
        let (ledger, film) = (Arc::new(Ledger::default()), Arc::new(Film::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let stage = Stage {
            server: Arc::clone(&server),
            ledger: Arc::clone(&ledger),
            stop: Arc::clone(&stop),
            rest: load.rest,
        };
        let mut clients = clients::start(&stage, parts, load.n_pipelined, seed);
        let mut watcher = JoinSet::new();
        if parts.has(Part::Redis) {
            let (filming, watching) = (stage.clone(), stage);
            let (shot, shown) = (Arc::clone(&film), Arc::clone(&film));
            clients.spawn(async move { clients::cameras::film(&filming, &shot).await });
            watcher.spawn(async move { clients::cameras::watch(&watching, &shown).await });
        }
        let scene = Scene { server, film: Arc::clone(&film), parts: parts.clone() };
        Ok(Self { scene, ledger, film, stop, clients, watcher })
    }

    /// Ends everything, and balances.
    pub(crate) async fn finish(mut self) -> anyhow::Result<Balance> {
        self.stop.store(true, Ordering::Relaxed);
        while self.clients.join_next().await.is_some() {}
        while self.watcher.join_next().await.is_some() {}
        self.scene.server.process.signal(Signal::TERM)?;
        let status = self.scene.server.process.ended().await?;
        if !status.success() {
            self.ledger.violation(format!("at the end the server stopped with {status}"));
        }
        let balance = self.ledger.balance();
        if let (true, Some(server)) =
            (balance.n_violations != 0, Arc::get_mut(&mut self.scene.server))
        {
            let files = server.keep_files().display().to_string();
            self.ledger.violation(format!("the files of this server are kept in {files}"));
        }
        Ok(self.ledger.balance())
    }
}
