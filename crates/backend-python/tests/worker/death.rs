//! A worker that hangs or dies costs the items it had, and nothing else.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use paceline_backend::BackendError;
use paceline_backend_python::PythonBackend;

use crate::support::{cause, file_in, lives, options, read_pid, serve, until};

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_die_is_told_apart_and_the_next_item_is_answered() {
    let served = serve(&options("Dies"), 1);
    for (how, says) in [
        (2.0, "signal 9"),
        (3.0, "signal 11 (SIGSEGV)"),
        (4.0, "status 3"),
        (5.0, "status 4"),
        (6.0, "signal 6"),
    ] {
        let error = cause(served.numbers(&[how]).await.unwrap_err());

        let BackendError::Crashed(text) = error else { panic!("{error}") };
        // Nobody is kept waiting for the cause of death, and a busy machine may be late with it.
        assert!(text.contains(says) || text.contains("did not end"), "{text}");
        assert_eq!(served.numbers(&[0.0]).await.unwrap(), [0.0], "after {says}");
        assert_eq!(served.healths[0].trouble(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_is_ended_and_the_next_item_is_answered() {
    let mut options = options("Dies");
    options.call_timeout = Duration::from_millis(200);
    let served = serve(&options, 1);

    let error = cause(served.numbers(&[1.0]).await.unwrap_err());

    let BackendError::Crashed(text) = error else { panic!("{error}") };
    assert_eq!(text, "it did not answer within 200ms");
    assert_eq!(served.numbers(&[0.0]).await.unwrap(), [0.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_be_repeated_survives_one_crash() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options("Dies");
    options.retry_safe = true;
    options.env.insert("ONCE".to_owned(), file_in(&folder, "once").1);
    let served = serve(&options, 1);

    assert_eq!(served.numbers(&[7.0]).await.unwrap(), [7.0]);
    let error = cause(served.numbers(&[4.0]).await.unwrap_err());
    assert!(matches!(error, BackendError::Crashed(_)), "a second crash is the end: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_again_and_again_makes_the_model_unready_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options("NotAnymore");
    let (once, text) = file_in(&folder, "once");
    options.env.insert("ONCE".to_owned(), text);
    let served = serve(&options, 1);

    let crash = cause(served.numbers(&[2.0]).await.unwrap_err());
    assert!(matches!(crash, BackendError::Crashed(_)), "{crash}");
    let trouble = || served.healths[0].trouble().unwrap_or_default();
    until("a crash loop", || trouble().contains("again and again")).await;
    let error = cause(served.numbers(&[0.0]).await.unwrap_err());
    let BackendError::Unavailable(text) = error else { panic!("{error}") };
    assert!(text.contains("status 7") && text.contains("no second time"), "{text}");

    std::fs::remove_file(once).unwrap();
    until("a worker that works", || served.healths[0].trouble().is_none()).await;
    assert_eq!(served.numbers(&[0.0]).await.unwrap(), [0.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_one_worker_is_down_the_others_answer() {
    let served = serve(&options("Dies"), 2);

    served.numbers(&[4.0]).await.unwrap_err();

    assert_eq!(served.numbers(&[0.0]).await.unwrap(), [0.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_that_died_is_replaced_before_anybody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options("Echo");
    let (pid_file, text) = file_in(&folder, "pid");
    options.env.insert("PID_FILE".to_owned(), text);
    let served = serve(&options, 1);
    let first = read_pid(&pid_file).unwrap();

    assert!(Command::new("kill").args(["-9", &first.to_string()]).status().unwrap().success());

    until("another worker", || read_pid(&pid_file).is_some_and(|pid| pid != first)).await;
    assert_eq!(served.numbers(&[1.0]).await.unwrap(), [1.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_that_does_not_answer_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options("Echo");
    options.heartbeat = Duration::from_millis(50);
    let (pid_file, text) = file_in(&folder, "pid");
    options.env.insert("PID_FILE".to_owned(), text);
    let served = serve(&options, 1);
    let first = read_pid(&pid_file).unwrap();

    assert!(Command::new("kill").args(["-STOP", &first.to_string()]).status().unwrap().success());

    until("another worker", || read_pid(&pid_file).is_some_and(|pid| pid != first)).await;
    assert!(!lives(first));
    assert_eq!(served.numbers(&[1.0]).await.unwrap(), [1.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_leaves_behind_hides_nothing_and_ends_with_it() {
    let options = options("Forks");
    let error = tokio::task::spawn_blocking(move || {
        use paceline_backend::{Backend as _, Call};
        let mut backend = PythonBackend::load(&options, 0).unwrap();
        let input = paceline_types::Tensor::from_f32(&[1, 1], &[0.0]).unwrap();
        backend.run(&Call { inputs: &[input], rows: 1 }).unwrap_err()
    });

    assert_eq!(error.await.unwrap().to_string(), "the model crashed: it ended with status 6");
}

#[test]
fn a_model_that_cannot_be_loaded_says_why() {
    let error = |class| PythonBackend::load(&options(class), 0).unwrap_err().to_string();

    assert_eq!(error("BadLoad"), "cannot load the model: FileNotFoundError: no weights");
    assert!(error("Nothing").contains("has no class `Nothing`"), "{}", error("Nothing"));
    let mut nowhere = options("Echo");
    nowhere.python = "/no/such/python".into();
    let text = PythonBackend::load(&nowhere, 0).unwrap_err().to_string();
    assert!(text.contains("cannot start /no/such/python"), "{text}");
    let mut without = options("Echo");
    without.env.insert("PYTHONHOME".to_owned(), "/no/such/folder".to_owned());
    let text = PythonBackend::load(&without, 0).unwrap_err().to_string();
    assert!(text.contains("No module named 'encodings'"), "{text}");
    let mut hasty = options("Echo");
    hasty.load_timeout = Duration::from_millis(1);
    let text = PythonBackend::load(&hasty, 0).unwrap_err().to_string();
    assert!(text.contains("load_timeout"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_model_ends_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options("Echo");
    let (pid_file, text) = file_in(&folder, "pid");
    options.env.insert("PID_FILE".to_owned(), text);
    let backend = PythonBackend::load(&options, 0).unwrap();
    let pid = read_pid(&pid_file).unwrap();
    assert!(lives(pid));

    drop(backend);

    until("the worker's end", || !lives(pid)).await;
}

#[test]
#[ignore = "not a test: the server that another test kills"]
fn a_server_to_kill() {
    let _backend = PythonBackend::load(&options("Echo"), 0).unwrap();
    println!("loaded");
    std::thread::park();
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_server_leaves_no_process_and_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (pid_file, text) = file_in(&folder, "pid");
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir("/dev/shm").unwrap().flatten().collect();
        names.sort_by_key(std::fs::DirEntry::file_name);
        names.iter().map(std::fs::DirEntry::file_name).collect::<Vec<_>>()
    };
    let before = names();
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "death::a_server_to_kill", "--ignored", "--nocapture"])
        .env("PID_FILE", text)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("loaded")));
    let worker = read_pid(&pid_file).unwrap();
    assert!(lives(worker));

    server.kill().unwrap();
    server.wait().unwrap();

    until("the worker's end", || !lives(worker)).await;
    assert_eq!(names(), before);
}
