//! Models that are loaded while the server serves, and take long for it, or cannot be: whatever was
//! served before is served on, and whoever asked is told why.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Scene;
use crate::{clients::http, ledger::Outcome, process::LOOK};

/// How long a model takes to load that is slow.
const SLOW: Duration = Duration::from_secs(3);
/// Questions that must be answered meanwhile.
const ASKED: u64 = 20;

/// A model that gives back what it gets.
const GOOD: &str = "backend = \"simulated\"\nsimulated = { dtype = \"INT64\" }\n";

/// What cannot be read as a model's settings: the file is named, the line, and what is wrong there.
const UNREADABLE: &[(&str, &str)] = &[
    ("backend = ", "line 1"),
    ("backend = \"simulated\"\n[batch\n", "line 2"),
    ("bakend = \"simulated\"\n", "did you mean `backend`?"),
    ("backend = \"magic\"\n", "unknown variant `magic`"),
    ("backend = \"simulated\"\ninstances = \"two\"\n", "2 | instances = \"two\""),
    ("backend = \"simulated\"\ninstances = 0\n", "2 | instances = 0"),
    ("backend = \"simulated\"\nsequence_idle = \"soon\"\n", "`soon` is no duration"),
    ("version_policy = { latest = 0 }\n", "1 | version_policy = { latest = 0 }"),
    ("backend = \"simulated\"\nsimulated = { dtype = \"INT65\" }\n", "INT65"),
];

/// What can be read and makes no sense: the model is named, and what is wrong with it.
const SENSELESS: &[(&str, &str)] = &[
    ("batch = { max_items = 0 }\n", "max_items"),
    ("batch = { max_wait = \"1h\" }\n", "max_wait"),
    ("adapter = \"nobody\"\n", "nobody"),
    ("padding = { inputs = { nothing = 1 } }\n", "the model has no input `nothing`"),
];

/// Loads a model by name; what the server says.
async fn load(scene: &Scene, name: &str) -> anyhow::Result<(u16, String)> {
    control(scene, name, "load").await
}

async fn control(scene: &Scene, name: &str, what: &str) -> anyhow::Result<(u16, String)> {
    let path = format!("/v2/repository/models/{name}/{what}");
    let (status, said) = http::send(scene.server.http, &path, None, "POST", "{}".into()).await?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

async fn is_loaded(scene: &Scene, name: &str) -> anyhow::Result<()> {
    let (status, said) = load(scene, name).await?;
    ensure!(status == 200, "loading {name} answered {status}: {said}");
    Ok(())
}

/// A model that cannot be loaded is refused, in words that have all of these in them.
async fn is_refused(scene: &Scene, name: &str, words: &[&str]) -> anyhow::Result<()> {
    let (status, said) = load(scene, name).await?;
    ensure!((400..500).contains(&status), "loading {name} answered {status}: {said}");
    let said: Value = serde_json::from_str(&said)?;
    let why = said["error"].as_str().with_context(|| format!("no error: {said}"))?;
    for word in words {
        ensure!(why.contains(word), "{name} is refused without a word of {word:?}: {why}");
    }
    Ok(())
}

/// Takes a model out of service, and its folder away.
async fn remove(scene: &Scene, name: &str) -> anyhow::Result<()> {
    let (status, said) = control(scene, name, "unload").await?;
    ensure!(status == 200, "unloading {name} answered {status}: {said}");
    Ok(fs::remove_dir_all(scene.server.models().join(name))?)
}

pub(super) async fn misconfigured(scene: &Scene) -> anyhow::Result<()> {
    let name = "changing";
    let folder = scene.server.models().join(name);
    let file = folder.join("model.toml");
    fs::create_dir_all(&folder)?;
    fs::write(&file, GOOD)?;
    is_loaded(scene, name).await?;
    let over = AtomicBool::new(false);
    let asked = async {
        let mut n_right = 0;
        while !over.load(Ordering::Relaxed) {
            let outcome = http::plain(scene.server.http, name, &[n_right, -n_right]).await?;
            ensure!(outcome == Outcome::Right, "the old settings answered {outcome:?}");
            n_right += 1;
        }
        Ok(n_right)
    };
    let changed = async {
        let changed = change(scene, name, &file).await;
        over.store(true, Ordering::Relaxed);
        changed
    };
    let (asked, changed) = tokio::join!(asked, changed);
    changed?;
    ensure!(asked? != 0, "nobody was answered meanwhile");
    remove(scene, name).await
}

/// Gives a model one wrong `model.toml` after the other, and at last a right one.
async fn change(scene: &Scene, name: &str, file: &Path) -> anyhow::Result<()> {
    let path = file.to_str().context("a file whose name is no text")?;
    for (text, word) in UNREADABLE {
        fs::write(file, text)?;
        is_refused(scene, name, &[path, "line ", word]).await?;
    }
    for (text, word) in SENSELESS {
        fs::write(file, format!("{text}{GOOD}"))?;
        is_refused(scene, name, &[name, word]).await?;
    }
    for backend in ["onnx", "python"] {
        fs::write(file, format!("backend = \"{backend}\"\n"))?;
        is_refused(scene, name, &[name, "there is no", "<version>/model."]).await?;
    }
    // Not text, and no file at all.
    fs::write(file, b"backend = \"\xff\"\n")?;
    is_refused(scene, name, &[path, "UTF-8"]).await?;
    fs::remove_file(file)?;
    is_refused(scene, name, &[name, "neither a model.toml"]).await?;
    fs::create_dir(file)?;
    is_refused(scene, name, &[path, "directory"]).await?;
    fs::remove_dir(file)?;
    fs::write(file, format!("instances = 2\n{GOOD}"))?;
    is_loaded(scene, name).await
}

pub(super) async fn slow_start(scene: &Scene) -> anyhow::Result<()> {
    let version = scene.server.models().join("fragile/2");
    slow_model(&version)?;
    let replaced = replaced(scene).await;
    fs::remove_dir_all(&version)?;
    is_loaded(scene, "fragile").await?;
    ensure!(by_version(scene).await? == "1", "the first version is not back");
    replaced?;
    first_time(scene).await
}

/// A version that takes its time to load.
fn slow_model(version: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(version)?;
    let slow = format!(
        "\n    def load(self):\n        import time\n        time.sleep({})\n",
        SLOW.as_secs()
    );
    let text = include_str!("../model/model.py").to_owned() + &slow;
    Ok(fs::write(version.join("model.py"), text)?)
}

/// Until the new version is loaded the old one answers, and from then on the new one does.
async fn replaced(scene: &Scene) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut loading = std::pin::pin!(is_loaded(scene, "fragile"));
    let mut n_old = 0_u64;
    let mut is_new = false;
    loop {
        let asked = by_version(scene);
        tokio::select! {
            biased;
            loaded = &mut loading => {
                loaded?;
                break;
            }
            version = asked => match version?.as_str() {
                "1" if !is_new => n_old += 1,
                "2" => is_new = true,
                other => anyhow::bail!("version {other} answered, and is the new one there: {is_new}"),
            },
        }
    }
    let took = began.elapsed();
    ensure!(SLOW <= took, "a model that takes {SLOW:?} to load was there after {took:?}");
    ensure!(ASKED <= n_old, "while it was loaded only {n_old} were answered");
    let version = by_version(scene).await?;
    ensure!(version == "2", "after the new version was loaded, {version} answered");
    Ok(())
}

/// The version that gives the right answer.
async fn by_version(scene: &Scene) -> anyhow::Result<String> {
    let body = json!({
        "inputs": [{ "name": "x", "datatype": "INT64", "shape": [1, 2], "data": [7, 0] }] });
    let path = "/v2/models/fragile/infer";
    let (status, said) = http::post(scene.server.http, path, &body).await?;
    ensure!(status == 200, "while a version is loaded: {status} {said}");
    ensure!(said["outputs"][0]["data"] == json!([7, 0]), "7 and 0 came back as {said}");
    Ok(said["model_version"].as_str().context("an answer has no version")?.to_owned())
}

/// A model that was never there is not ready until it is, and everything else is.
async fn first_time(scene: &Scene) -> anyhow::Result<()> {
    let (at, name) = (scene.server.http, "slow-start");
    let folder = scene.server.models().join(name);
    slow_model(&folder.join("1"))?;
    let interpreter = scene.parts.python.to_str().context("a Python whose name is no text")?;
    let text = format!(
        "backend = \"python\"\n[python]\nclass = \"model:Fragile\"\ninterpreter = {interpreter:?}\n"
    );
    fs::write(folder.join("model.toml"), text)?;
    let began = Instant::now();
    let mut loading = std::pin::pin!(is_loaded(scene, name));
    let mut n_asked = 0_u64;
    loop {
        let asked = async {
            let status = http::get(at, &format!("/v2/models/{name}/ready")).await?;
            let all = http::get(at, "/v2/health/ready").await?;
            sleep(LOOK).await;
            anyhow::Ok((status, all, began.elapsed()))
        };
        tokio::select! {
            biased;
            loaded = &mut loading => {
                loaded?;
                break;
            }
            asked = asked => {
                let (status, all, after) = asked?;
                ensure!(status != 200 || SLOW <= after, "ready after {after:?}, and not loaded");
                ensure!(all == 200, "while a model is loaded the server says {all}");
                n_asked += 1;
            }
        }
    }
    ensure!(ASKED <= n_asked, "while it was loaded only {n_asked} were answered");
    let status = http::get(at, &format!("/v2/models/{name}/ready")).await?;
    ensure!(status == 200, "a model that is loaded says {status}");
    remove(scene, name).await
}

pub(super) async fn no_provider(scene: &Scene) -> anyhow::Result<()> {
    let name = "elsewhere";
    let folder = scene.server.models().join(name);
    fs::create_dir_all(folder.join("1"))?;
    fs::write(folder.join("1/model.onnx"), include_bytes!("../model/shifted.onnx"))?;
    let file = folder.join("model.toml");
    // No machine has so many; one without CUDA, or without ONNX Runtime, says that first.
    fs::write(&file, "[onnx]\ndevice = \"cuda:99\"\n")?;
    is_refused(scene, name, &[name, "onnxruntime-gpu"]).await?;
    fs::write(&file, "[onnx]\nengine = \"onnxruntime\"\nlibrary = \"/nowhere.so\"\n")?;
    is_refused(scene, name, &[name, "ONNX Runtime is not installed", "/nowhere.so"]).await?;
    fs::write(&file, "[onnx]\nengine = \"rten\"\ndevice = \"cuda:0\"\n")?;
    is_refused(scene, name, &[name, "a CUDA `device` needs ONNX Runtime"]).await?;
    // Where it may be any engine, it is the one that is there.
    fs::write(&file, "[onnx]\nengine = \"auto\"\nlibrary = \"/nowhere.so\"\n")?;
    is_loaded(scene, name).await?;
    let body = json!({ "inputs": [
        { "name": "INPUT", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0] }] });
    let path = format!("/v2/models/{name}/infer");
    let (status, said) = http::post(scene.server.http, &path, &body).await?;
    ensure!(status == 200, "another engine answered {status} {said}");
    let right = json!([2.0, 3.0]);
    ensure!(said["outputs"][0]["data"] == right, "1 and 2 came back as {said}");
    // Its old settings serve on where the new ones cannot be had.
    fs::write(&file, "[onnx]\ndevice = \"cuda:99\"\n")?;
    is_refused(scene, name, &[name, "onnxruntime-gpu"]).await?;
    let (status, said) = http::post(scene.server.http, &path, &body).await?;
    ensure!(said["outputs"][0]["data"] == right, "the old settings answered {status} {said}");
    remove(scene, name).await
}
