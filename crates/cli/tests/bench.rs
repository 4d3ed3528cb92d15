//! `paceline bench http`, `grpc` and `cameras` as a user runs them, and the servers that they start.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// A variable that marks a bench and the server it starts.
const MARK: &str = "PACELINE_BENCH_TEST";

fn paceline(mark: &str, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.env(MARK, mark).args(line.split_whitespace());
    command
}

fn output(mark: &str, line: &str) -> Output {
    paceline(mark, line).output().unwrap()
}

fn json(mark: &str, line: &str) -> Value {
    let Output { status, stdout, stderr } = output(mark, line);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).unwrap()
}

/// How many processes carry the mark.
fn n_alive(mark: &str) -> usize {
    let mark = format!("{MARK}={mark}");
    let marked = |environment: Vec<u8>| {
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("environ")).ok())
        .filter(|text| marked(text.clone()))
        .count()
}

#[test]
fn http_is_loaded_with_an_input_built_from_what_the_server_says() {
    for protocol in ["plain", "json", "binary"] {
        let line = format!(
            "bench http --concurrency 1,4 --requests 40 --warm-up 0s --json --protocol {protocol}"
        );
        let report = json("http", &line);

        for (row, concurrency) in report["rows"].as_array().unwrap().iter().zip([1, 4]) {
            assert_eq!(row["concurrency"], concurrency);
            assert_eq!((&row["n_requests"], &row["errors"]), (&40.into(), &serde_json::json!({})));
            assert!(1.0 <= row["mean_batch"].as_f64().unwrap());
        }
    }
    assert_eq!(n_alive("http"), 0, "no server is left behind");
}

#[test]
fn grpc_is_loaded_in_an_open_loop_with_an_objective() {
    let report = json(
        "grpc",
        "bench grpc --rate 200/s --duration 500ms --warm-up 0s --slo 10s --connections 2 --json",
    );

    let row = &report["rows"][0];
    assert_eq!((&row["in_slo"], &row["errors"]), (&1.0.into(), &serde_json::json!({})));
    assert_eq!((&row["offered_per_s"], &report["slo_ms"]), (&200.0.into(), &10_000.0.into()));
    assert_eq!(n_alive("grpc"), 0, "no server is left behind");
}

#[test]
fn a_plot_is_drawn_and_a_table_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plot.svg");
    let line =
        format!("bench http --concurrency 2 --requests 20 --warm-up 0s --plot {}", path.display());

    let Output { status, stdout, .. } = output("plot", &line);

    assert!(status.success());
    let table = String::from_utf8(stdout).unwrap();
    assert!(table.contains("answers/s") && table.contains("p99.9 ms"), "{table}");
    let plot = fs::read_to_string(path).unwrap();
    assert!(plot.starts_with("<svg") && plot.contains("prefers-color-scheme:dark"), "{plot}");
}

#[test]
fn a_failed_bench_says_why_and_takes_its_server_with_it() {
    let Output { status, stderr, .. } = output("failed", "bench http --model nobody");

    assert_eq!(status.code(), Some(1));
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(stderr.contains("there is no model `nobody`"), "{stderr}");
    assert_eq!(n_alive("failed"), 0);
}

#[test]
fn a_server_that_cannot_start_is_quoted() {
    let Output { status, stderr, .. } = output("config", "bench http --set server.lisen=x");

    assert_eq!(status.code(), Some(1));
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(stderr.contains("lisen"), "{stderr}");
}

#[test]
fn a_killed_bench_leaves_no_server_behind() {
    let mut bench = paceline("killed", "bench http --concurrency 1 --duration 1h")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while n_alive("killed") != 2 {
        std::thread::yield_now();
    }

    bench.kill().unwrap();
    bench.wait().unwrap();

    while n_alive("killed") != 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_stops_well_when_its_standard_input_ends() {
    let line = "serve --stop-with-stdin --listen 127.0.0.1:0 --grpc-listen 127.0.0.1:0";
    let mut server =
        paceline("stdin", line).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("serving")));

    drop(server.stdin.take());

    assert!(server.wait().unwrap().success());
    drop(log);
}

#[test]
fn frames_of_any_number_of_cameras_and_of_any_kind_have_their_results() {
    let line = "bench cameras --each-cameras 5,50 --each-payload raw,handle --rate 300 --seconds 1 \
                --no-baseline --json";
    let reports = json("cameras", line);

    let reports = reports.as_array().unwrap();
    let run = |report: &Value| (report["payload"].clone(), report["cameras"].clone());
    let expected = [("raw", 5), ("raw", 50), ("handle", 5), ("handle", 50)];
    assert_eq!(
        reports.iter().map(run).collect::<Vec<_>>(),
        expected.map(|(payload, cameras)| (payload.into(), cameras.into()))
    );
    for report in reports {
        let count = |name: &str| report[name].as_u64().unwrap();
        // Two seconds to warm up and one that is measured.
        assert_eq!((count("frames_in"), count("committed")), (900, 900), "{report}");
        let amiss = ["lost", "duplicated", "reordered", "wrong", "dropped", "dead_lettered"];
        assert!(amiss.iter().all(|name| count(name) == 0), "{report}");
    }
    assert_eq!(n_alive("cameras"), 0, "no server is left behind");
}
