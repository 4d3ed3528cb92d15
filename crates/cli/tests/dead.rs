//! `paceline dead` as a user runs it, with real dead letters in a Redis of its own.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    time::{Duration, Instant},
};

use paceline_load::cameras::RedisServer;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

fn paceline(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(line.split_whitespace()).output().unwrap()
}

fn said(line: &str) -> String {
    let Output { status, stdout, stderr } = paceline(line);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// A server that reads cameras; it stops when this is dropped.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    url: String,
}

impl Server {
    fn start(redis: &str, sets: &[&str]) -> Self {
        let url = format!("cameras.url='{redis}'");
        let own = [
            &*url,
            "cameras.model='eyes'",
            "cameras.shards=4",
            "cameras.lease=500ms",
            "models.eyes.backend='simulated'",
            "models.eyes.simulated.dtype='UINT8'",
        ];
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["serve", "--stop-with-stdin", "--model-repository=none"]);
        command.args(["--listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0"]);
        for set in own.iter().chain(sets) {
            command.args(["--set", set]);
        }
        let streams = command.env("RUST_LOG", "info").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.stdout(Stdio::null()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = log.find_map(|line| {
            let line: Value = serde_json::from_str(&line.ok()?).ok()?;
            Some(format!("http://{}", line["http"].as_str()?))
        });
        std::thread::spawn(move || log.count());
        let stdin = child.stdin.take();
        Self { child, stdin, url: url.expect("it says where it serves") }
    }

    fn letters(&self) -> Vec<Value> {
        let list = said(&format!("dead list --json --url {}", self.url));
        serde_json::from_str(&list).unwrap()
    }

    /// Waits until there are so many dead letters.
    fn until(&self, n: usize) -> Vec<Value> {
        let began = Instant::now();
        loop {
            let letters = self.letters();
            if letters.len() == n {
                return letters;
            }
            assert!(began.elapsed() < PATIENCE, "{letters:?}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
    }
}

fn redis() -> RedisServer {
    let program = std::env::var_os("PACELINE_REDIS_SERVER").map(PathBuf::from);
    let program = program.unwrap_or_else(|| PathBuf::from("redis-server"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(RedisServer::start(Path::new(&program))).unwrap()
}

#[test]
fn dead_letters_are_listed_and_put_back_and_have_results_once_the_model_can() {
    let redis = redis();
    let server = Server::start(&redis.url, &[]);
    assert_eq!(said(&format!("dead list --url {}", server.url)), "there are no dead letters\n");
    let feed = format!(
        "feed --cameras 3 --rate 3 --seconds 1 --payload jpeg --shards 4 --redis {}",
        redis.url
    );

    assert_eq!(said(&feed), "3 frames added, 0 refused\n");
    let letters = server.until(3);
    let table = said(&format!("dead list --url {}", server.url));
    for (letter, line) in letters.iter().zip(table.lines()) {
        let word = |name: &str| letter[name].as_str().unwrap().to_owned();
        assert!(line.starts_with(&word("id")) && line.contains(&word("camera")), "{line}");
        assert!(line.contains("takes no pictures"), "{line}");
    }
    // The model still cannot, so what is put back comes again, as another letter.
    let id = letters[0]["id"].as_str().unwrap();
    let replay = format!("dead replay {id} --url {}", server.url);
    assert_eq!(said(&replay), "1 put back, 0 were not there any more\n");
    assert_eq!(said(&replay), "0 put back, 1 were not there any more\n");
    let again = server.until(3);
    assert!(again.iter().all(|letter| letter["id"] != id), "{again:?}");
    drop(server);

    let picture =
        "models.eyes.picture={ width = 8, height = 8, layout = 'flat', elements = 'UINT8' }";
    let server = Server::start(&redis.url, &[picture]);
    let all = format!("dead replay --all --url {}", server.url);
    assert_eq!(said(&all), "3 put back, 0 were not there any more\n");
    let began = Instant::now();
    let committed = || {
        let overview = ureq::get(format!("{}/v1/cameras", server.url)).call().unwrap();
        let overview: Value = serde_json::from_reader(overview.into_body().into_reader()).unwrap();
        overview["counts"]["committed"].as_u64().unwrap()
    };
    while committed() < 3 {
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(server.letters(), Vec::<Value>::new());
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let Output { status, stderr, .. } = paceline("dead list --url http://127.0.0.1:1");

    assert!(!status.success());
    let stderr = String::from_utf8_lossy(&stderr);
    let expected = "the server at http://127.0.0.1:1 does not answer: no connection";
    assert!(stderr.contains(expected), "{stderr}");
}
