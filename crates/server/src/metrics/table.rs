//! Every metric there is: its name, its kind, its labels and what it says. `docs/metrics.md` is made
//! from this table, and nothing can be exported that is not in it.

/// What a number means over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows.
    Counter,
    /// Comes and goes.
    Gauge,
    /// How many were up to each of some sizes.
    Histogram,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

macro_rules! families {
    ($($id:ident: $kind:ident $name:literal $labels:tt $help:literal;)*) => {
        $(pub(super) const $id: Family =
            Family { name: $name, kind: Kind::$kind, labels: &$labels, help: $help };)*

        /// All of them, in the order of the page.
        #[cfg(test)]
        pub(super) const ALL: &[&Family] = &[$(&$id),*];
    };
}

families! {
    INFO: Gauge "paceline_info" ["version"] "Always 1; which version of the server this is.";
    READY: Gauge "paceline_ready" [] "Whether the server can answer.";

    MODEL_INFO: Gauge "paceline_model_info" ["model", "version", "platform", "mode", "policy"] "Always 1; how a model is served.";
    MODEL_READY: Gauge "paceline_model_ready" ["model", "version"] "Whether a model can answer.";
    MODEL_AGE: Gauge "paceline_model_age_seconds" ["model", "version"] "Since a model was loaded.";
    INSTANCES: Gauge "paceline_instances" ["model", "version"] "Instances of a model.";
    RESTARTS: Counter "paceline_worker_restarts_total" ["model", "version"] "Times that an instance was made anew: its worker process died, or its model panicked.";

    REQUESTS: Counter "paceline_requests_total" ["model", "version", "outcome"] "Requests by what came of them: good, failed, or cancelled because the client left.";
    REQUEST_ROWS: Counter "paceline_request_rows_total" ["model", "version"] "Rows of good requests.";
    LATENCY: Histogram "paceline_request_duration_seconds" ["model", "version"] "From request to result, of good requests.";
    FIRST_RESULT: Histogram "paceline_first_result_seconds" ["model", "version"] "From request to first result, of requests whose results are streamed.";

    ACCEPTED: Counter "paceline_items_accepted_total" ["model", "version"] "Items taken into the queue. An item is a request, or a part of one that is too large for a batch.";
    REFUSED: Counter "paceline_items_refused_total" ["model", "version", "reason"] "Items not taken: queue_full, hopeless (no answer was possible in time), too_large or closed.";
    DROPPED: Counter "paceline_items_dropped_total" ["model", "version", "reason"] "Items that left the queue without a call: cancelled, expired, too_late (no answer was possible in time any more), or gave_way (there was no room, and somebody else waited with less).";
    FAILED: Counter "paceline_items_failed_total" ["model", "version"] "Items that left in a batch and have no result.";
    MISSES: Counter "paceline_deadline_misses_total" ["model", "version"] "Items that missed their deadline: refused as hopeless, dropped for it, or answered late.";
    WAIT: Histogram "paceline_queue_wait_seconds" ["model", "version"] "From when an item was taken in until its batch left.";
    QUEUE_ITEMS: Gauge "paceline_queue_items" ["model", "version"] "Items that wait.";
    QUEUE_BYTES: Gauge "paceline_queue_bytes" ["model", "version"] "Memory that waiting items hold.";
    QUEUE_LIMIT: Gauge "paceline_queue_items_limit" ["model", "version"] "Most items that may wait.";

    BATCHES: Counter "paceline_batches_total" ["model", "version", "reason"] "Batches by why they left: fast_path, full, early, wait_over, deadline or drain.";
    BATCHES_FAILED: Counter "paceline_batches_failed_total" ["model", "version"] "Batches that failed or whose executor went.";
    IN_FLIGHT: Gauge "paceline_batches_in_flight" ["model", "version"] "Batches that are being worked on.";
    BATCH_ROWS: Histogram "paceline_batch_rows" ["model", "version"] "Rows of each batch, without padding. Of a model that works in steps, those that shared each step.";
    EXECUTION: Histogram "paceline_execution_seconds" ["model", "version"] "How long good calls took.";
    PREDICTION: Histogram "paceline_prediction_ratio" ["model", "version"] "Actual over predicted time of good calls.";
    UNITS: Counter "paceline_units_total" ["model", "version", "kind"] "What the model ran, in rows times padded length: useful, or padding.";
    PADDING: Gauge "paceline_padding_share" ["model", "version"] "The share of what the model ran since it was loaded that was padding, from 0 to 1.";

    STREAMS: Gauge "paceline_streams_open" [] "Streams of speech that are open.";
    STREAMS_LIMIT: Gauge "paceline_streams_limit" [] "Most streams of speech that may be open.";
    STREAMS_REFUSED: Counter "paceline_streams_refused_total" [] "Streams for which there was no place.";
    ROUNDS: Counter "paceline_stream_rounds_total" [] "Rounds that were begun: from what a client says it will send until that is answered.";
    SEGMENTS: Counter "paceline_segments_total" ["outcome"] "Segments of speech by what came of them: good, failed, superseded by the final one, or cancelled.";
    STAGE_BUSY: Counter "paceline_stage_busy_seconds_total" ["stage"] "Time that was spent on streams of speech: decode (bytes to samples), vad (voice detection), model (the share of its calls).";
    STAGE_AUDIO: Counter "paceline_stage_audio_seconds_total" ["stage"] "Audio that went through each stage.";
    STAGE_FACTOR: Gauge "paceline_real_time_factor" ["stage"] "Busy time over audio since the start; below 1 a stage is faster than the audio.";
    VAD_WAIT: Histogram "paceline_vad_wait_seconds" [] "How long frames waited for voice detection.";
    VAD_CALL: Histogram "paceline_vad_seconds" [] "How long a call of voice detection took, for all its streams together.";
    VAD_STREAMS: Histogram "paceline_vad_batch_streams" [] "Streams that shared a call of voice detection.";

    LISTENERS: Gauge "paceline_listeners" [] "Listeners that something is spoken to.";
    SPOKEN: Counter "paceline_spoken_total" ["outcome"] "Texts to be spoken by what came of them: good, failed, cancelled, or refused because as many listened as may.";
    SOUND: Counter "paceline_spoken_audio_seconds_total" [] "Sound that was handed over.";
    FIRST_TOKEN: Histogram "paceline_first_token_seconds" [] "From a text to the first token of its speech.";
    FIRST_CHUNK: Histogram "paceline_first_sound_seconds" [] "From a text to its first sound.";
    CHUNK: Histogram "paceline_vocoder_seconds" [] "From when a chunk of sound was asked for until the vocoder gave it, waiting included.";
    SPEECH_FACTOR: Histogram "paceline_speech_real_time_factor" [] "Time that a text took over how long its sound lasts.";
    GAPS: Counter "paceline_speech_gaps_total" [] "Times that a listener would have heard a gap.";

    FRAMES_TAKEN: Counter "paceline_frames_taken_total" [] "Frames of cameras that this server read or took over.";
    FRAMES: Counter "paceline_frames_total" ["outcome"] "Frames by what this server did with them: committed, dead (to the dead letters), lost (trimmed by somebody), duplicate, or returned to the next owner.";
    FRAMES_DROPPED: Counter "paceline_frames_dropped_total" ["reason"] "Frames dropped on purpose: stale, superseded, paused, unlisted or overwritten.";
    FRAMES_HELD: Gauge "paceline_frames_held" [] "Frames in memory.";
    FRAMES_HELD_BYTES: Gauge "paceline_frames_held_bytes" [] "Memory that frames hold.";
    REDIS_UP: Gauge "paceline_redis_up" [] "Whether Redis answers.";
    REDIS_LAG: Gauge "paceline_redis_lag_frames" [] "Frames in the streams that no node has read yet.";
    REDIS_PENDING: Gauge "paceline_redis_pending_frames" [] "Frames that some node has read and not settled yet.";
    REDIS_FAULTS: Counter "paceline_redis_faults_total" [] "Times that Redis failed or refused.";
    SHARDS: Gauge "paceline_shards_owned" [] "Shards that this server owns.";

    SPANS: Counter "paceline_spans_total" ["outcome"] "Spans by what came of them: sent, or dropped because the collector was away or slow. Only where tracing is on.";

    GPU_USE: Gauge "paceline_gpu_utilization_ratio" ["gpu"] "How busy a GPU is, from 0 to 1.";
    GPU_USED: Gauge "paceline_gpu_memory_used_bytes" ["gpu"] "Memory in use on a GPU, by everybody.";
    GPU_TOTAL: Gauge "paceline_gpu_memory_total_bytes" ["gpu"] "Memory of a GPU.";

    CPU: Counter "process_cpu_seconds_total" [] "User and system time.";
    MEMORY: Gauge "process_resident_memory_bytes" [] "Memory that is resident.";
    THREADS: Gauge "process_threads" [] "Threads.";
    FILES: Gauge "process_open_fds" [] "Open file descriptors.";
    MAX_FILES: Gauge "process_max_fds" [] "Most file descriptors that may be open.";
    STARTED: Gauge "process_start_time_seconds" [] "When the server started, in seconds since 1970.";

    NV_SUCCESS: Counter "nv_inference_request_success" ["model", "version"] "As Triton has it: good requests.";
    NV_FAILURE: Counter "nv_inference_request_failure" ["model", "version", "reason"] "As Triton has it: requests without a result.";
    NV_COUNT: Counter "nv_inference_count" ["model", "version"] "As Triton has it: rows of good requests.";
    NV_EXEC: Counter "nv_inference_exec_count" ["model", "version"] "As Triton has it: model calls.";
    NV_PENDING: Gauge "nv_inference_pending_request_count" ["model", "version"] "As Triton has it: requests that wait.";
    NV_DURATION: Counter "nv_inference_request_duration_us" ["model", "version"] "As Triton has it: microseconds from request to result.";
    NV_QUEUE: Counter "nv_inference_queue_duration_us" ["model", "version"] "As Triton has it: microseconds of waiting.";
    NV_INPUT: Counter "nv_inference_compute_input_duration_us" ["model", "version"] "As Triton has it; 0, because it is counted with the call.";
    NV_INFER: Counter "nv_inference_compute_infer_duration_us" ["model", "version"] "As Triton has it: microseconds in calls.";
    NV_OUTPUT: Counter "nv_inference_compute_output_duration_us" ["model", "version"] "As Triton has it; 0, because it is counted with the call.";
    NV_FIRST: Histogram "nv_inference_first_response_histogram_ms" ["model", "version"] "As Triton has it: milliseconds to the first result of a stream.";
    NV_GPU_USE: Gauge "nv_gpu_utilization" ["gpu_uuid"] "As Triton has it: how busy a GPU is, from 0 to 1.";
    NV_GPU_USED: Gauge "nv_gpu_memory_used_bytes" ["gpu_uuid"] "As Triton has it.";
    NV_GPU_TOTAL: Gauge "nv_gpu_memory_total_bytes" ["gpu_uuid"] "As Triton has it.";
}

/// `docs/metrics.md`.
#[cfg(test)]
fn documentation() -> String {
    let line = |family: &&Family| {
        let labels = family.labels.iter().map(|label| format!("`{label}`"));
        let labels = labels.collect::<Vec<_>>().join(", ");
        format!("| `{}` | {} | {labels} | {} |\n", family.name, family.kind.as_str(), family.help)
    };
    HEAD.to_owned() + &ALL.iter().map(line).collect::<String>()
}

#[cfg(test)]
const HEAD: &str = "\
# Metrics

`GET /metrics` has them in the text format of Prometheus, for tokens with the role `metrics`; where `server.admin_listen` is set, it is there and nowhere else.
`observe/` has a configuration for Prometheus, alert rules, and a dashboard for Grafana.

Nothing is counted under a lock that was not there before: each thread counts on memory of its own, and a scrape adds up.
Histograms have classic buckets, two for each power of two, and counts up to each are exact.
Labels come from the configuration (model, version), from the machine (GPU) or from fixed lists, never from requests, so the number of series does not depend on who asks.
Names that begin with `nv_` are Triton's, for dashboards that exist.

This page is made from `crates/server/src/metrics/table.rs`; a test keeps it true, and `PACELINE_BLESS=1 cargo test -p paceline-server --lib metrics` writes it anew.

| name | kind | labels | what it says |
|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_as_prometheus_wants_them() {
        let names: BTreeSet<&str> = ALL.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), ALL.len());
        for family in ALL {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(family.name.bytes().all(is_plain), "{}", family.name);
            let is_ours = !family.name.starts_with("nv_");
            let is_counter = family.kind == Kind::Counter;
            assert_eq!(family.name.ends_with("_total"), is_counter && is_ours, "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains(['\n', '|', '\\']));
        }
    }

    #[test]
    fn the_page_of_metrics_is_true() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("PACELINE_BLESS").is_some() {
            std::fs::write(path, documentation()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), documentation());
    }
}
