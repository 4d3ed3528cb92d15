//! Logs that cannot be written.

use std::{
    fs::OpenOptions,
    process::{Command, Stdio},
};

/// A server whose log goes there, told to stop as soon as it has started.
fn serve(log: impl Into<Stdio>) -> std::process::ExitStatus {
    let mut server = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["serve", "--stop-with-stdin", "--listen", "127.0.0.1:0"])
        .args(["--grpc-listen", "127.0.0.1:0"])
        .env("RUST_LOG", "debug")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    drop(server.stdin.take());
    server.wait().unwrap()
}

#[test]
fn a_server_whose_log_has_no_room_serves_and_stops_well() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();

    assert!(serve(full).success());
}

#[test]
fn a_server_whose_log_nobody_reads_any_more_serves_and_stops_well() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);

    assert!(serve(writer).success());
}
