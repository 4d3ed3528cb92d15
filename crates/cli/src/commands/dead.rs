//! `paceline dead`: frames that will never have a result, listed and put back.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use paceline_load::Host;
use serde_json::{Value, json};

use crate::exit::{self, Failure};

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// List dead letters of cameras, and put them back.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeadArgs {
    #[command(subcommand)]
    what: What,
    /// The server that reads the cameras
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:8000")]
    url: String,
    /// A token with the role `admin`, where the server asks for one
    #[arg(long, global = true, env = "PACELINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Show frames that could not be inferred, the oldest first, and why
    List {
        /// At most so many of each shard
        #[arg(long, default_value_t = 100)]
        most: usize,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Put frames back at the end of their streams
    Replay {
        /// Which, as the list names them
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// All that are listed
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}

pub(crate) fn run(args: &DeadArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let text = runtime.context("no runtime")?.block_on(async {
        match &args.what {
            What::List { most, json } => {
                let letters = ask(args, &format!("/v1/dead-letters?most={most}"), None).await?;
                let text = if *json { format!("{letters:#}\n") } else { table(&letters) };
                anyhow::Ok(text)
            }
            What::Replay { ids, all } => replay(args, ids, *all).await,
        }
    })?;
    exit::print(&text)
}

async fn replay(args: &DeadArgs, ids: &[String], all: bool) -> anyhow::Result<String> {
    let letters = if all { ask(args, "/v1/dead-letters", None).await? } else { json!([]) };
    let listed = letters.as_array().into_iter().flatten();
    let listed = listed.filter_map(|letter| Some(letter["id"].as_str()?.to_owned()));
    let ids: Vec<String> = ids.iter().cloned().chain(listed).collect();
    let done = ask(args, "/v1/dead-letters/replay", Some(&json!({ "ids": ids }))).await?;
    let count = |name: &str| done[name].as_array().map_or(0, Vec::len);
    Ok(format!("{} put back, {} were not there any more\n", count("replayed"), count("gone")))
}

async fn ask(args: &DeadArgs, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    let host = Host::open(&args.url)?;
    let token = args.token.iter().map(|token| format!("Authorization: Bearer {token}"));
    let headers: Vec<String> = token.chain(["Content-Type: application/json".to_owned()]).collect();
    let body = body.map(Value::to_string);
    let target = host.target(path, &headers, body.as_deref().map(str::as_bytes));
    let away = |fault| anyhow::anyhow!("the server at {} does not answer: {fault}", args.url);
    let (status, answer) = target.ask(PATIENCE).await.map_err(away)?;
    let answer: Value = serde_json::from_slice(&answer).context("the server answered no JSON")?;
    if status != 200 {
        bail!("the server refused: {}", answer["error"].as_str().unwrap_or("no reason"));
    }
    Ok(answer)
}

fn table(letters: &Value) -> String {
    let mut text = String::new();
    for letter in letters.as_array().into_iter().flatten() {
        let field = |name: &str| letter[name].as_str().unwrap_or("-").to_owned();
        let (id, camera, reason) = (field("id"), field("camera"), field("reason"));
        _ = writeln!(text, "{id:<26} {camera:<16} {:>9} bytes  {reason}", letter["bytes"]);
    }
    if text.is_empty() {
        text += "there are no dead letters\n";
    }
    text
}
