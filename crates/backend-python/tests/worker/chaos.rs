//! Workers killed at random moments under load: every request has exactly one outcome.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use paceline_backend::BackendError;
use rand::RngExt as _;

use crate::support::{cause, file_in, options, read_pid, serve, until};

const N_KILLS: usize = 25;
const N_CLIENTS: usize = 16;

/// Descriptors that this process has open.
fn n_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_whenever_every_request_has_one_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options("Echo");
    let (pid_file, text) = file_in(&folder, "pid");
    options.env.insert("PID_FILE".to_owned(), text);
    let served = Arc::new(serve(&options, 1));
    let before = n_descriptors();
    let (stop, n_crashed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..N_CLIENTS)
        .map(|client| {
            let (served, stop, n_crashed) =
                (Arc::clone(&served), Arc::clone(&stop), Arc::clone(&n_crashed));
            tokio::spawn(async move {
                let (mut n_asked, mut n_outcomes) = (0_usize, 0_usize);
                while !stop.load(Ordering::Relaxed) {
                    let question = [client as f32, n_asked as f32];
                    n_asked += 1;
                    match served.numbers(&question).await {
                        Ok(answer) => assert_eq!(answer, question, "its own answer"),
                        Err(failure) => {
                            // Kills that hit a worker three times while it loads are a crash loop.
                            match cause(failure) {
                                BackendError::Crashed(_) => {
                                    n_crashed.fetch_add(1, Ordering::Relaxed);
                                }
                                BackendError::Unavailable(_) => {}
                                other => panic!("{other}"),
                            }
                        }
                    }
                    n_outcomes += 1;
                }
                (n_asked, n_outcomes)
            })
        })
        .collect();

    let mut killed = 0;
    for _ in 0..N_KILLS {
        until("another worker", || read_pid(&pid_file).is_some_and(|pid| pid != killed)).await;
        let moment = rand::rng().random_range(0..60);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        killed = read_pid(&pid_file).unwrap();
        Command::new("kill").args(["-9", &killed.to_string()]).status().unwrap();
    }
    until("a last worker", || {
        read_pid(&pid_file).is_some_and(|pid| pid != killed)
            && served.healths[0].trouble().is_none()
    })
    .await;
    stop.store(true, Ordering::Relaxed);

    for client in clients {
        let (n_asked, n_outcomes) = client.await.unwrap();
        assert_eq!(n_asked, n_outcomes);
    }
    assert!(0 < n_crashed.load(Ordering::Relaxed), "some were hit");
    assert_eq!(served.numbers(&[1.0]).await.unwrap(), [1.0]);
    until("no more descriptors than before", || n_descriptors() <= before + 2).await;
}
