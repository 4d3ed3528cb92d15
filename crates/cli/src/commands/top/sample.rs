//! What a server says of itself at one moment, and what happened between two.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;
use ureq::Agent;

/// Where to look.
pub(super) struct Source {
    agent: Agent,
    url: String,
    token: Option<String>,
}

/// Largest answer that is read.
const MAX_ANSWER: u64 = 16 << 20;

/// What a server says of itself at one moment.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) version: String,
    pub(super) ready: bool,
    pub(super) speech: Speech,
    pub(super) models: Vec<Seen>,
}

/// One version of one model.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) stats: Served,
    pub(super) explain: Option<Explain>,
}

#[derive(Debug, Deserialize)]
struct ServerStats {
    version: String,
    ready: bool,
    models: Vec<ModelStats>,
    speech: Speech,
}

#[derive(Debug, Deserialize)]
struct ModelStats {
    name: String,
    versions: Vec<Served>,
}

/// Streams.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Speech {
    pub(super) open: u64,
    pub(super) max: u64,
    pub(super) segments: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Served {
    pub(super) version: String,
    pub(super) max_batch: u64,
    pub(super) trouble: Option<String>,
    pub(super) requests: Requests,
    pub(super) items: Items,
    pub(super) queue: Queue,
    pub(super) batches: Batches,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requests {
    pub(super) good: u64,
    pub(super) failed: u64,
    pub(super) latency: Percentiles,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Items {
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) deadline_misses: u64,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Queue {
    pub(super) items: u64,
    pub(super) wait: Percentiles,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Batches {
    pub(super) count: u64,
    pub(super) in_flight: u64,
    pub(super) fired: BTreeMap<String, u64>,
    pub(super) rows: Vec<Bin>,
    pub(super) padding_share: f64,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Bin {
    pub(super) upto: u64,
    pub(super) count: u64,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Percentiles {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Explain {
    pub(super) devices: u64,
    pub(super) queues: Vec<QueueView>,
    pub(super) batches: Vec<Landed>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct QueueView {
    pub(super) decision: String,
}

/// A batch that has landed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Landed {
    pub(super) fired: String,
    pub(super) rows: u64,
    pub(super) failed: u64,
    pub(super) took_us: f64,
    pub(super) longest_wait_us: f64,
}

impl Source {
    pub(super) fn new(url: &str, token: Option<&str>) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(5)))
            .http_status_as_error(false)
            .build();
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        Self {
            agent: Agent::new_with_config(config),
            url: url.trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
        }
    }

    /// What the server says now.
    pub(super) fn look(&self) -> anyhow::Result<Sample> {
        let ServerStats { version, ready, models, speech } = self.get("/v1/stats")?;
        let mut seen = Vec::new();
        for ModelStats { name, versions } in models {
            for stats in versions {
                let path =
                    format!("/v1/models/{name}/explain?batches=200&version={}", stats.version);
                // A model may be unloaded between two questions.
                let explain = self.get(&path).ok();
                seen.push(Seen { name: name.clone(), stats, explain });
            }
        }
        Ok(Sample { at: Instant::now(), version, ready, speech, models: seen })
    }

    /// The same as the server writes it.
    pub(super) fn raw(&self) -> anyhow::Result<Value> {
        let stats: Value = self.get("/v1/stats")?;
        let mut explain = serde_json::Map::new();
        for model in stats["models"].as_array().into_iter().flatten() {
            let name = model["name"].as_str().unwrap_or_default();
            explain.insert(name.to_owned(), self.get(&format!("/v1/models/{name}/explain"))?);
        }
        Ok(json!({ "stats": stats, "explain": explain }))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let url = format!("{}{path}", self.url);
        let mut request = self.agent.get(&url);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call().with_context(|| format!("cannot ask {}", self.url))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_string();
        let body = body.with_context(|| format!("{url} is not read"))?;
        if !status.is_success() {
            let said: Value = serde_json::from_str(&body).unwrap_or_default();
            bail!("{url} answers {status}: {}", said["error"].as_str().unwrap_or_default());
        }
        serde_json::from_str(&body).with_context(|| format!("{url} is not of a Paceline server"))
    }
}

/// What happened between two looks, a second.
#[derive(Debug, Default)]
pub(super) struct Rates(HashMap<(String, String), Rate>);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    pub(super) good: f64,
    pub(super) failed: f64,
    pub(super) refused: f64,
    pub(super) missed: f64,
    pub(super) batches: f64,
    /// Of each batch, on average.
    pub(super) requests_per_batch: f64,
}

impl Rates {
    #[expect(clippy::cast_precision_loss, reason = "a rate is approximate")]
    pub(super) fn between(before: Option<&Sample>, now: &Sample) -> Self {
        let Some(before) = before else { return Self::default() };
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let rate = |seen: &Seen| {
            let old = before.models.iter().find(|old| old.id() == seen.id())?;
            let (old, new) = (&old.stats, &seen.stats);
            // A model that was loaded again counts from 0.
            let more = |old: u64, new: u64| new.saturating_sub(old) as f64;
            let refused = |stats: &Served| stats.items.refused.values().sum();
            let batches = more(old.batches.count, new.batches.count);
            let good = more(old.requests.good, new.requests.good);
            Some(Rate {
                good: good / seconds,
                failed: more(old.requests.failed, new.requests.failed) / seconds,
                refused: more(refused(old), refused(new)) / seconds,
                missed: more(old.items.deadline_misses, new.items.deadline_misses) / seconds,
                batches: batches / seconds,
                requests_per_batch: if batches == 0.0 { 0.0 } else { good / batches },
            })
        };
        let all = now.models.iter().filter_map(|seen| Some((seen.id(), rate(seen)?)));
        Self(all.collect())
    }

    pub(super) fn of(&self, seen: &Seen) -> Rate {
        self.0.get(&seen.id()).copied().unwrap_or_default()
    }
}

impl Seen {
    fn id(&self) -> (String, String) {
        (self.name.clone(), self.stats.version.clone())
    }
}
