//! `GET /metrics`.

use std::collections::BTreeSet;

use crate::support::{get, start};

/// The value of a series, written as the page has it.
fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in:\n{page}")).parse().unwrap()
}

/// Every series, without its value.
fn series(page: &str) -> BTreeSet<&str> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_is_counted_in_our_words_and_in_tritons() {
    let server = start(&[]).await;
    for _ in 0..5 {
        assert_eq!(server.infer("[1, 2, 3]", &[]).await, 200);
    }
    assert_eq!(server.infer("{\"nonsense\": 1}", &[]).await, 400);

    let page = server.metrics().await;
    let of = |name: &str| value(&page, &format!("{name}{{model=\"simulated\",version=\"1\"}}"));
    let by = |name: &str, label: &str| {
        value(&page, &format!("{name}{{model=\"simulated\",version=\"1\",{label}}}"))
    };
    assert_eq!(by("paceline_requests_total", "outcome=\"good\""), 15.0);
    assert_eq!(of("paceline_request_duration_seconds_count"), 15.0);
    assert_eq!(by("paceline_request_duration_seconds_bucket", "le=\"+Inf\""), 15.0);
    assert_eq!(of("paceline_queue_wait_seconds_count"), 15.0);
    let batches = of("paceline_batch_rows_count");
    assert!((5.0..=15.0).contains(&batches), "{batches}");
    let reasons = ["fast_path", "full", "early", "wait_over", "deadline", "drain"];
    let fired: f64 =
        reasons.map(|why| by("paceline_batches_total", &format!("reason=\"{why}\""))).iter().sum();
    assert_eq!(fired, batches);
    assert_eq!(of("nv_inference_request_success"), 15.0);
    assert_eq!(of("nv_inference_exec_count"), batches);
    assert_eq!(value(&page, "paceline_ready"), 1.0);
    assert!(0.0 < value(&page, "process_resident_memory_bytes"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strangers_ask_for_makes_no_series() {
    let server = start(&[]).await;
    assert_eq!(server.infer("1", &[]).await, 200);
    let before = server.metrics().await;
    for n in 0..300 {
        assert_eq!(get(server.http, &format!("/v1/models/m{n}/stats")).await.0, 404);
        assert_eq!(get(server.http, &format!("/p{n}?x=%22%7D{n}")).await.0, 404);
    }
    assert_eq!(server.infer("1", &[("x-request-id", "a\"} 1")]).await, 200);

    let after = server.metrics().await;
    assert_eq!(series(&before), series(&after));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_metric_is_told_once_and_whole() {
    let server = start(&[]).await;
    let page = server.metrics().await;
    let mut seen = BTreeSet::new();
    let mut current = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            current = rest.split(' ').next().unwrap();
            assert!(seen.insert(current), "{current} twice");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let own = ["", "_bucket", "_sum", "_count"];
            assert!(own.iter().any(|end| name == format!("{current}{end}")), "{name}");
            let number = line.rsplit_once(' ').unwrap().1;
            assert!(number.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert_eq!(get(server.http, "/metrics").await.0, 403, "metrics are at the admin listener");
    server.stop().await;
}
