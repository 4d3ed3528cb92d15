//! HTTP/2 frames that only make work. Each costs its sender its connection, and others nothing.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream, tcp::OwnedReadHalf},
    time::timeout,
};

use crate::support::{PATIENCE, ask, start};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frames that are sent at once.
const BURST: usize = 256;
/// Bursts after which a client gives up, and the server has failed.
const MOST: usize = 4000;

#[derive(Clone, Copy)]
enum Kind {
    Data = 0,
    Headers = 1,
    Reset = 3,
    Settings = 4,
    Ping = 6,
    GoAway = 7,
    WindowUpdate = 8,
    Continuation = 9,
}

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The code of who asks too much.
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind as u8, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET` or `POST` of `/` at `localhost`.
fn head(method: u8) -> Vec<u8> {
    [&[method, 0x86, 0x84][..], &[0x41, 9], b"localhost"].concat()
}

const GET: u8 = 0x82;
const POST: u8 = 0x83;

/// The code with which the server ended the connection; nothing where it just ended.
async fn ending(mut stream: OwnedReadHalf) -> Option<u32> {
    let mut code = None;
    let mut header = [0; 9];
    while stream.read_exact(&mut header).await.is_ok() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            break;
        }
        if header[3] == Kind::GoAway as u8 {
            // The one that says that no more streams come has the code 0; the last one counts.
            code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
    code
}

/// Sends frames until the server ends the connection; says how.
async fn flood(
    address: SocketAddr,
    opening: &[u8],
    mut next: impl FnMut(u32) -> Vec<u8>,
) -> Option<u32> {
    let (reading, mut writing) = TcpStream::connect(address).await.unwrap().into_split();
    let end = tokio::spawn(ending(reading));
    let sent = async {
        writing.write_all(&[PREFACE, &frame(Kind::Settings, 0, 0, &[]), opening].concat()).await?;
        let mut number = 0..;
        for _ in 0..MOST {
            let burst: Vec<u8> = number.by_ref().take(BURST).flat_map(&mut next).collect();
            writing.write_all(&burst).await?;
        }
        io::Result::Ok(())
    };
    let sent = timeout(PATIENCE, sent).await.expect("what is sent is read or refused");
    assert!(sent.is_err(), "a million frames were taken");
    timeout(PATIENCE, end).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_without_end_cost_their_sender_the_connection() {
    let server = start(&[]).await;
    let get = head(GET);
    let post = frame(Kind::Headers, END_HEADERS, 1, &head(POST));
    for address in [server.http, server.grpc] {
        let resets = flood(address, &[], |number| {
            let stream = 2 * number + 1;
            let request = frame(Kind::Headers, END_STREAM | END_HEADERS, stream, &get);
            [request, frame(Kind::Reset, 0, stream, &8_u32.to_be_bytes())].concat()
        });
        assert_eq!(resets.await, Some(ENHANCE_YOUR_CALM), "rapid resets");

        let begun = frame(Kind::Headers, END_STREAM, 1, &get);
        let more = [&[0, 1, b'a', 127, 0x81, 7][..], &[b'b'; 264]].concat();
        let continued = flood(address, &begun, |_| frame(Kind::Continuation, 0, 1, &more));
        assert!(continued.await.is_some(), "a head without end");

        let empty = flood(address, &post, |_| frame(Kind::Data, 0, 1, &[]));
        assert_eq!(empty.await, Some(ENHANCE_YOUR_CALM), "data without data");

        assert_eq!(ask(server.http, "GET", "/v2/health/live", &[]).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_whose_answers_nobody_reads_are_not_taken_without_end() {
    let server = start(&["server.stall_timeout=100ms", "server.idle_timeout=100ms"]).await;
    for again in [frame(Kind::Ping, 0, 0, b"pingpong"), frame(Kind::Settings, 0, 0, &[])] {
        let burst = again.repeat(BURST);
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut deaf = socket.connect(server.http).await.unwrap();
        let request = frame(Kind::Headers, END_STREAM | END_HEADERS, 1, &head(GET));
        let opening = [PREFACE, &frame(Kind::Settings, 0, 0, &[]), &request].concat();
        deaf.write_all(&opening).await.unwrap();

        // Where nothing more is taken this waits, and the server must end it.
        let flood = async { while deaf.write_all(&burst).await.is_ok() {} };
        timeout(PATIENCE, flood).await.expect("who does not read is cut");

        assert_eq!(ask(server.http, "GET", "/v2/health/live", &[]).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_wrong_end_the_connection_with_why() {
    let server = start(&[]).await;
    let largest = 0x7fff_ffff_u32.to_be_bytes();
    let increase = [0, 4, 0xff, 0xff, 0xff, 0xff];
    let wrong = [
        ("data on no stream", frame(Kind::Data, 0, 0, b"x")),
        ("a request on no stream", frame(Kind::Headers, 5, 0, &head(GET))),
        ("an even stream", frame(Kind::Headers, 5, 2, &head(GET))),
        ("a continuation of nothing", frame(Kind::Continuation, 4, 1, &[])),
        ("a reset of an idle stream", frame(Kind::Reset, 0, 9, &[0; 4])),
        ("a ping of seven bytes", frame(Kind::Ping, 0, 0, &[0; 7])),
        ("settings of five bytes", frame(Kind::Settings, 0, 0, &[0; 5])),
        ("a window beyond all", frame(Kind::Settings, 0, 0, &increase)),
        ("windows that add up", frame(Kind::WindowUpdate, 0, 0, &largest)),
        ("a window of nothing", frame(Kind::WindowUpdate, 0, 0, &[0; 4])),
    ];
    for (what, bytes) in wrong {
        let (reading, mut writing) = TcpStream::connect(server.http).await.unwrap().into_split();
        let opening = [PREFACE, &frame(Kind::Settings, 0, 0, &[]), &bytes].concat();
        writing.write_all(&opening).await.unwrap();

        let end = timeout(PATIENCE, ending(reading)).await.expect(what);

        assert!(end.is_some_and(|code| code != 0), "{what}: {end:?}");
    }
    assert_eq!(ask(server.http, "GET", "/v2/health/live", &[]).await.status, 200);
}
