//! What a file holds that is posted to be transcribed, counted in bytes: no more the longer it is.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use paceline_server::{Server, config::load::load};
use paceline_testkit::Counting;

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// Eleven seconds of speech, after the header of their file.
const SPEECH: &[u8] = include_bytes!("../../cli/assets/speech.wav").split_at(44).1;

/// Posts the speech so many times over in one body, as fast as it is taken; most bytes that were
/// held meanwhile.
fn post(address: SocketAddr, times: usize) -> isize {
    let before = MEMORY.held();
    MEMORY.forget_most();
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/listen?encoding=linear16&sample_rate=16000 HTTP/1.1\r\nhost: localhost\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        times * SPEECH.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    for _ in 0..times {
        socket.write_all(SPEECH).unwrap();
    }
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    // The rest is its words, which a client may have as many of as were said.
    drop(socket);
    MEMORY.most() - before
}

#[test]
fn a_long_file_holds_no_more_than_a_short_one() {
    let sets = [
        "server.listen=127.0.0.1:0",
        "server.grpc_listen=127.0.0.1:0",
        "server.model_repository=none",
    ];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = load(None, [], &sets.map(str::to_owned)).unwrap();
    let server = runtime.block_on(Server::build(config)).unwrap();
    let address = server.address();
    runtime.spawn(server.run(std::future::pending()));
    // What is made once is no file's own.
    post(address, 3);

    let (short, long) = (post(address, 6), post(address, 60));
    println!("a minute holds {short} bytes, eleven hold {long}");
    // Ten minutes more of audio are 19 MB, as samples 38 MB.
    assert!(long < short + (1 << 20), "a minute holds {short} bytes, eleven hold {long}");
}
