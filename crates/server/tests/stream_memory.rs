//! What streams hold, counted in bytes. The client is bare sockets, so that only the server counts.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use paceline_server::{Server, config::load::load};
use paceline_testkit::Counting;

#[global_allocator]
static MEMORY: Counting = Counting::new();

const UPGRADE: &[u8] = b"GET /api/v1/segmented HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
const START: &[u8] = br#"{"request":"start","format":{"channels":1,"sample_rate":16000,"bit_depth":16,"is_float":false}}"#;
const FLUSH: &[u8] = br#"{"request":"flush","id":1}"#;

/// A stream that is open and has said what it is going to send.
fn open(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.write_all(UPGRADE).unwrap();
    let mut last = [0; 4];
    while &last != b"\r\n\r\n" {
        last.rotate_left(1);
        socket.read_exact(&mut last[3..]).unwrap();
    }
    send(&mut socket, 0x81, START);
    flush(&mut socket);
    socket
}

/// One message, masked with zeros.
fn send(socket: &mut TcpStream, opcode: u8, payload: &[u8]) {
    let length = u64::try_from(payload.len()).unwrap().to_be_bytes();
    let mut head = [opcode, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    head[2..10].copy_from_slice(&length);
    socket.write_all(&head).unwrap();
    socket.write_all(payload).unwrap();
}

/// Waits until everything so far is done with.
fn flush(socket: &mut TcpStream) {
    send(socket, 0x81, FLUSH);
    let mut head = [0; 2];
    socket.read_exact(&mut head).unwrap();
    let mut text = [0; 125];
    let text = &mut text[..usize::from(head[1])];
    socket.read_exact(text).unwrap();
    assert!(text.windows(7).any(|word| word == b"flushed"), "{}", String::from_utf8_lossy(text));
}

/// What is held once nothing moves any more.
fn held() -> isize {
    let mut last = MEMORY.held();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = MEMORY.held();
        if now == last {
            return now;
        }
        last = now;
    }
}

#[test]
fn an_idle_stream_is_small_and_an_hour_of_silence_leaves_nothing() {
    let sets = [
        "server.listen=127.0.0.1:0",
        "server.grpc_listen=127.0.0.1:0",
        "server.model_repository=none",
        "speech.ping_interval=1h",
        "speech.idle_timeout=1h",
    ];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = load(None, [], &sets.map(str::to_owned)).unwrap();
    let server = runtime.block_on(Server::build(config)).unwrap();
    let address = server.address();
    runtime.spawn(server.run(std::future::pending()));
    // What is made once, for as many streams as there have been, is no stream's own.
    let second = vec![0; 32_000];
    let mut streams: Vec<_> = (0..100).map(|_| open(address)).collect();
    for stream in &mut streams {
        send(stream, 0x82, &second);
        flush(stream);
    }
    drop(streams);

    let before = held();
    let mut streams: Vec<_> = (0..100).map(|_| open(address)).collect();
    let idle = (held() - before) / 100;
    for stream in &mut streams {
        // As a microphone gives it: the next piece comes when the one before is done with.
        for tenth in second.chunks(3200).cycle().take(30) {
            send(stream, 0x82, tenth);
            flush(stream);
        }
    }
    let silent = (held() - before) / 100;
    println!("idle {idle} bytes a stream, {silent} after three seconds of silence");
    drop(streams);
    assert!(idle < 32 << 10, "an idle stream holds {idle} bytes");
    // 400 ms of audio are kept, since an utterance may turn out to have begun in them: 13 KB where
    // it is 16-bit audio. The rest is the task, what its socket reads into, and what the detector
    // remembers.
    assert!(silent <= 32 << 10, "a silent stream holds {silent} bytes");

    let mut stream = open(address);
    let mut after_a_minute = 0;
    for number in 0..3600 {
        send(&mut stream, 0x82, &second);
        if number == 60 {
            flush(&mut stream);
            after_a_minute = held();
        }
    }
    flush(&mut stream);
    let grown = held() - after_a_minute;
    println!("{grown} bytes more after an hour of silence than after a minute");
    // A socket reads into as much as a message or two of these, 32 KB each, now more and now less.
    assert!(grown < 64 << 10, "an hour of silence leaves {grown} bytes behind");
}
