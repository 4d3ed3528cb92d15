//! `paceline bench http`: load a server over HTTP/1.1.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use paceline_load::{
    Counts, Host, HttpTarget, ReadCounts, Target,
    oip::{self, Metadata, Tensor},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    drive::{Bench, drive},
    load_args::LoadArgs,
    own_server::OwnServer,
    stress,
};
use crate::args::ConfigArgs;

/// How long the server may take to say something about itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Load a server over HTTP, and print a table.
///
/// Without --url, a server of its own is started and stopped again. With a URL that has a path,
/// that is what is asked, with --body or, without one, by GET. Otherwise --model is asked, with
/// --body or an input built from what the server says about the model.
#[derive(Debug, Clone, Args)]
pub(crate) struct HttpArgs {
    /// The server, such as <http://127.0.0.1:8000>, or all of a URL
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// The model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// How the model is asked
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,
    /// The request's body: text, or a file as @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) body: Option<String>,
    /// A further header, such as 'Authorization: Bearer x'
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// What free extents of a model's inputs are taken as
    #[arg(long, value_name = "N", default_value_t = 64)]
    extent: usize,
    /// N requests at once, N from 1 to 500: one by one against batched, on the file-type
    /// classifier and on a simulated curve, or on --model
    #[arg(long, conflicts_with_all = ["rate", "find_max", "protocol"])]
    stress: bool,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten, next_help_heading = "The server that is started without --url")]
    pub(crate) config: ConfigArgs,
}

/// How a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Protocol {
    /// Plain where the server is Paceline, else the Open Inference Protocol in JSON
    #[default]
    Auto,
    /// Paceline's plain endpoint
    Plain,
    /// The Open Inference Protocol, all in JSON
    Json,
    /// The Open Inference Protocol with tensors in binary
    Binary,
}

pub(crate) async fn run(args: &HttpArgs) -> anyhow::Result<String> {
    args.load.check()?;
    if args.stress {
        return stress::run(args).await;
    }
    // Stopped when it is dropped, which is when all is done.
    let mut own = None;
    let url = match &args.url {
        Some(url) => url.clone(),
        None => own.insert(OwnServer::start(&args.config, None).await?).url(),
    };
    let host = Host::open(&url)?;
    let bench = if host.path() == "/" {
        model_bench(args, &host).await?
    } else {
        let body = args.body.as_deref().map(read_body).transpose()?;
        let target = host.target(host.path(), &headers(args, &[])?, body.as_deref());
        let method = if body.is_some() { "POST" } else { "GET" };
        check(&target, args.load.timeout).await?;
        Bench { target: Target::Http(target), about: format!("{method} {url}"), counts: None }
    };
    let text = drive(bench, &args.load).await;
    drop(own);
    text
}

/// A bench of one model of a server.
async fn model_bench(args: &HttpArgs, host: &Host) -> anyhow::Result<Bench> {
    let model = args.model.as_deref().unwrap_or("simulated");
    let protocol = match args.protocol {
        Protocol::Auto => {
            let server: Value = get(host, "/v2").await?;
            if server["name"] == "paceline" { Protocol::Plain } else { Protocol::Json }
        }
        named => named,
    };
    let path = match protocol {
        Protocol::Plain => format!("/v1/models/{model}/infer"),
        _ => format!("/v2/models/{model}/infer"),
    };
    let mut own_headers = Vec::new();
    let body = if let Some(body) = &args.body {
        read_body(body)?
    } else {
        let tensors = sample(host, model, args.extent).await?;
        match protocol {
            Protocol::Plain => oip::plain_body(&tensors, is_batched(host, model).await?)?,
            Protocol::Binary => {
                let (body, length) = oip::binary_body(&tensors);
                own_headers.push(format!("Inference-Header-Content-Length: {length}"));
                own_headers.push("Content-Type: application/octet-stream".to_owned());
                body
            }
            Protocol::Json | Protocol::Auto => oip::json_body(&tensors)?,
        }
    };
    let target = host.target(&path, &headers(args, &own_headers)?, Some(&body));
    check(&target, args.load.timeout).await?;
    let place = if args.url.is_some() { host.authority() } else { "a server of its own" };
    let about = format!("POST {path} at {place}, {} bytes", body.len());
    Ok(Bench { target: Target::Http(target), about, counts: Some(counts(host, model)) })
}

/// Sends the request once: what is refused now would be refused a million times.
async fn check(target: &HttpTarget, patience: Duration) -> anyhow::Result<()> {
    let (status, said) = target
        .ask(patience)
        .await
        .map_err(|fault| anyhow::anyhow!("the first request: {fault}"))?;
    if !matches!(status, 200..300) {
        let said: String =
            String::from_utf8_lossy(&said).chars().take(300).flat_map(char::escape_debug).collect();
        bail!(
            "the first request was answered with status {status}: {said}\nif the body is wrong, give another with --body TEXT or --body @FILE"
        );
    }
    Ok(())
}

/// What the server says about a model, as one value for each input.
pub(crate) async fn sample(host: &Host, model: &str, extent: usize) -> anyhow::Result<Vec<Tensor>> {
    let metadata: Metadata = get(host, &format!("/v2/models/{model}")).await?;
    Ok(metadata.inputs.iter().map(|input| input.sample(extent)).collect::<Result<_, _>>()?)
}

/// Whether the first extent of a model's inputs is the batch.
pub(crate) async fn is_batched(host: &Host, model: &str) -> anyhow::Result<bool> {
    let config: Value = get(host, &format!("/v2/models/{model}/config")).await?;
    Ok(0 < config["max_batch_size"].as_i64().unwrap_or(0))
}

/// Reads a model's counts whenever it is asked to.
pub(crate) fn counts(host: &Host, model: &str) -> ReadCounts {
    let (host, path) = (host.clone(), format!("/v2/models/{model}/stats"));
    Box::new(move || {
        let (host, path) = (host.clone(), path.clone());
        Box::pin(async move {
            let (_, body) = host.ask(&path, None, PATIENCE).await.ok()?;
            let statistics: oip::Statistics = serde_json::from_slice(&body).ok()?;
            let model = statistics.model_stats.first()?;
            Some(Counts { rows: model.inference_count, calls: model.execution_count })
        })
    })
}

async fn get<T: DeserializeOwned>(host: &Host, path: &str) -> anyhow::Result<T> {
    let server = host.authority();
    let (status, body) = host
        .ask(path, None, PATIENCE)
        .await
        .map_err(|fault| anyhow::anyhow!("{server} does not answer GET {path}: {fault}"))?;
    ensure!(
        status == 200,
        "{server} answers GET {path} with status {status}: {}",
        String::from_utf8_lossy(&body).chars().take(300).collect::<String>()
    );
    serde_json::from_slice(&body)
        .with_context(|| format!("{server} does not answer GET {path} as the protocol says"))
}

/// Headers as whole lines.
fn headers(args: &HttpArgs, own: &[String]) -> anyhow::Result<Vec<String>> {
    let mut headers = own.to_vec();
    for header in &args.header {
        let is_line = header.split_once(':').is_some_and(|(name, _)| !name.trim().is_empty());
        ensure!(
            is_line && !header.contains(['\r', '\n']),
            "`{header}` is no header; write 'Name: value'"
        );
        headers.push(header.clone());
    }
    let names_type = |header: &String| header.to_ascii_lowercase().starts_with("content-type:");
    if !headers.iter().any(names_type) {
        headers.push("Content-Type: application/json".to_owned());
    }
    Ok(headers)
}

pub(crate) fn read_body(body: &str) -> anyhow::Result<Vec<u8>> {
    match body.strip_prefix('@') {
        Some(path) => std::fs::read(path).with_context(|| format!("cannot read {path}")),
        None => Ok(body.as_bytes().to_vec()),
    }
}
