//! Starts that must fail: a second server with a configuration that is wrong, beside the one that
//! serves. It says why and ends, and the first one does not notice.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::Pid;
use tokio::time::{Instant, sleep};

use super::{Scene, processes::orphans};
use crate::process::{LOOK, Process, children};

/// Longest that it may take to refuse, with all of its models, on a machine that is busy.
const REFUSES: Duration = Duration::from_secs(20);
/// What a program ends with that refuses its configuration.
const REFUSED: i32 = 3;

/// What cannot be read as a configuration: the file is named, the line, and what is wrong there.
const UNREADABLE: &[(&str, &str)] = &[
    ("[server\n", "line 1"),
    ("[server]\nlisten = \"127.0.0.1:0\n", "line 2"),
    ("[server]\nmax_body = 1\nmax_body = 2\n", "line 3"),
    ("[sever]\n", "did you mean `server`?"),
    ("[server]\nmax_bodi = 1\n", "did you mean `max_body`?"),
    ("[server]\nmax_body = \"much\"\n", "2 | max_body = \"much\""),
    ("[server]\nmax_body = -1\n", "2 | max_body = -1"),
    ("[server]\nmax_head = 4294967296\n", "2 | max_head = 4294967296"),
    ("[server]\nlisten = \"here\"\n", "2 | listen = \"here\""),
    ("[server]\nidle_timeout = \"soon\"\n", "`soon` is no duration"),
    ("[speech]\nmax_streams = 1.5\n", "2 | max_streams = 1.5"),
    ("[models.a]\nbackend = \"magic\"\n", "unknown variant `magic`"),
    ("[models.a.batch]\nmax_items = true\n", "2 | max_items = true"),
    ("[cameras]\nurl = 7\n", "2 | url = 7"),
    ("[[server.tokens]]\nname = \"a\"\nroles = [\"king\"]\n", "3 |"),
];

/// What can be read and makes no sense: the key is named, and what is wrong with it.
const SENSELESS: &[(&str, &[&str])] = &[
    ("[server]\nmax_connections = 0\n", &["server.max_connections is 0"]),
    ("[server]\nidle_timeout = \"0s\"\n", &["server.idle_timeout"]),
    ("[server]\nmax_body_memory = 1\n", &["server.max_body_memory is 1"]),
    ("[server]\nmax_head = 1\n", &["server.max_head"]),
    ("[server]\nallowed_origins = [\"here\"]\n", &["server.allowed_origins", "`here`"]),
    ("[server]\nadmin_listen = \"0.0.0.0:0\"\n", &["server.admin_listen is 0.0.0.0:0"]),
    ("[server]\nvosk_listen = \"0.0.0.0:0\"\n", &["server.vosk_listen is 0.0.0.0:0"]),
    (
        "[[server.tokens]]\nname = \"a\"\nroles = [\"infer\"]\ntoken = \"short\"\n",
        &["server.tokens", "`a`"],
    ),
    (
        "[[server.tokens]]\nname = \"a\"\nroles = [\"infer\"]\ntoken_file = \"/nowhere\"\n",
        &["server.tokens", "`a`", "/nowhere"],
    ),
    (
        "[server.tls]\ncertificate = \"/nowhere.pem\"\nkey = \"/nowhere.key\"\n",
        &["server.tls", "/nowhere."],
    ),
    ("[tracing]\nendpoint = \"nowhere\"\n", &["tracing.endpoint", "nowhere"]),
    ("[cameras]\nmodel = \"a\"\nurl = \"http://127.0.0.1\"\n", &["cameras.url"]),
    ("[cameras]\nmodel = \"a\"\nurl = \"rediss://localhost\"\n", &["cameras.ca_file"]),
    ("[models.\"a/b\"]\nbackend = \"simulated\"\n", &["a/b"]),
    ("[models.a]\nbackend = \"onnx\"\n", &["model `a`", "<version>/model.onnx"]),
    ("[models.a]\nbackend = \"python\"\n", &["model `a`", "<version>/model.py"]),
    ("[models.a]\nbackend = \"moonshine\"\n", &["model `a`", "<version>/"]),
    ("[models.a]\nbackend = \"simulated\"\nbatch = { max_items = 0 }\n", &["`a`", "max_items"]),
    ("[models.a]\nbackend = \"simulated\"\nadapter = \"nobody\"\n", &["`a`", "nobody"]),
    (
        "[models.a]\nbackend = \"simulated\"\nsynthesis = { vocoder = \"nobody\" }\n",
        &["`a`", "nobody"],
    ),
];

pub(super) async fn broken(scene: &Scene) -> anyhow::Result<()> {
    let (folder, file) = (scene.server.file("other"), scene.server.file("other.toml"));
    let path = file.to_str().context("a file whose name is no text")?;
    fs::create_dir_all(&folder)?;
    // Nothing else is in its way: its ports are free, and it has no models.
    let alone = format!("server.model_repository={:?}", folder.display().to_string());
    let alone = [alone.as_str(), "server.listen=127.0.0.1:0", "server.grpc_listen=127.0.0.1:0"];
    for (text, word) in UNREADABLE {
        fs::write(&file, text)?;
        is_refused(scene, &file, &alone, &[path, "line ", word]).await?;
    }
    for (text, words) in SENSELESS {
        fs::write(&file, text)?;
        is_refused(scene, &file, &alone, words).await?;
    }
    fs::write(&file, b"[server]\nlisten = \"\xff\"\n")?;
    is_refused(scene, &file, &alone, &[path, "UTF-8"]).await?;
    fs::remove_file(&file)?;
    is_refused(scene, &file, &alone, &[path, "No such file"]).await?;
    is_refused(scene, &folder, &alone, &[path.trim_end_matches(".toml"), "directory"]).await?;
    models(scene, &folder, &file, &alone).await?;
    ports(scene, &file, &alone).await
}

/// A repository that cannot be read, and a model in it that cannot be.
async fn models(scene: &Scene, folder: &Path, file: &Path, alone: &[&str]) -> anyhow::Result<()> {
    fs::write(file, "")?;
    let own = folder.join("a/model.toml");
    fs::create_dir_all(folder.join("a"))?;
    fs::write(&own, "backend = \"simulated\"\ninstances = \"two\"\n")?;
    let path = own.to_str().context("a file whose name is no text")?;
    is_refused(scene, file, alone, &[path, "line 2", "instances"]).await?;
    fs::write(&own, b"backend = \"\xff\"\n")?;
    is_refused(scene, file, alone, &[path, "UTF-8"]).await?;
    // The same where the configuration has something to say of it.
    fs::write(file, "[models.a]\nbackend = \"simulated\"\n")?;
    is_refused(scene, file, alone, &[path, "UTF-8"]).await?;
    fs::write(file, "")?;
    fs::remove_dir_all(folder)?;
    fs::write(folder, "a file")?;
    let path = folder.to_str().context("a folder whose name is no text")?;
    is_refused(scene, file, alone, &["server.model_repository", path]).await?;
    Ok(fs::remove_file(folder)?)
}

/// Ports that the server has, for one without models, and for the whole server a second time.
async fn ports(scene: &Scene, file: &Path, alone: &[&str]) -> anyhow::Result<()> {
    let (http, grpc) = (scene.server.http, scene.server.grpc);
    for (key, at) in [("listen", http), ("grpc_listen", grpc)] {
        let (set, word) = (format!("server.{key}={at}"), format!("cannot listen on {at}"));
        let sets = [alone, &[&set]].concat();
        is_refused(scene, file, &sets, &[&word, "in use"]).await?;
    }
    let word = format!("cannot listen on {grpc}");
    is_refused(scene, &scene.server.file("paceline.toml"), &[], &[&word, "in use"]).await?;
    Ok(fs::remove_file(file)?)
}

/// A start with this file and these settings ends by itself, in words that have all of these in them,
/// and leaves no process behind.
async fn is_refused(
    scene: &Scene,
    file: &Path,
    sets: &[&str],
    words: &[&str],
) -> anyhow::Result<()> {
    let log = scene.server.file("other.log");
    let child = Command::new(&scene.parts.server)
        .args(["serve", "--stop-with-stdin", "--config"])
        .arg(file)
        .args(sets.iter().flat_map(|set| ["--set", set]))
        .env("RUST_LOG", "info")
        .env("OPENBLAS_NUM_THREADS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(File::create(&log)?)
        .spawn()?;
    let process = Process::default();
    process.put(child);
    let text = || fs::read_to_string(file).unwrap_or_default();
    let (began, pid) = (Instant::now(), process.pid()?);
    let mut workers: Vec<Pid> = Vec::new();
    let status = loop {
        let started = children(pid)?;
        if !started.is_empty() {
            workers = started;
        }
        if let Some(status) = process.has_ended()? {
            break status;
        }
        if REFUSES < began.elapsed() {
            bail!("it starts, or takes longer than {REFUSES:?} to refuse {:?}", text());
        }
        sleep(LOOK).await;
    };
    let said = fs::read_to_string(&log)?;
    ensure!(status.code() == Some(REFUSED), "{:?} ended with {status}: {said}", text());
    let last = said.rsplit_once("paceline: ").map_or("", |(_, last)| last);
    for word in words {
        ensure!(last.contains(word), "{:?} is refused without a word of {word:?}: {said}", text());
    }
    orphans(&workers).await
}
