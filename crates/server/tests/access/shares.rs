//! A full queue, and two clients: one that fills it, and one that asks for little.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::support::{PATIENCE, Running, start};

/// Where whoever floods comes from, and the other one.
const MANY: Ipv4Addr = Ipv4Addr::LOCALHOST;
const FEW: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// One call at a time, and two that may wait.
const BUSY: [&str; 4] = [
    "models.slow.backend=simulated",
    "models.slow.simulated.delay=3s",
    "models.slow.batch.max_items=1",
    "models.slow.batch.queue_items=2",
];

const TOKENS: &str = "server.tokens=[
    {name='one', roles=['infer'], token='one-0123456789abc'},
    {name='other', roles=['infer'], token='other-0123456789abc'},
]";

/// Asks from this address, as the one who has this token.
async fn ask(server: SocketAddr, from: Ipv4Addr, token: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    let request = format!(
        "POST /v1/models/slow/infer HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-length: 1\r\n\r\n1"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// What comes, as text.
async fn answer(mut stream: TcpStream) -> String {
    let mut bytes = [0; 2048];
    let n_read = timeout(PATIENCE, stream.read(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes[..n_read]).into_owned()
}

/// The model's counts, once so many have been taken in and so many of them wait.
async fn counts(server: &Running, n_accepted: u64, n_waiting: u64) -> Value {
    let looking = async {
        loop {
            let headers = [("authorization", "Bearer one-0123456789abc")];
            let mut answer = server.ask("GET", "/v1/models/slow/stats", &headers).await;
            let counts = answer.body["versions"][0].take();
            if counts["items"]["accepted"] == n_accepted && counts["queue"]["items"] == n_waiting {
                return counts;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap()
}

/// One client fills the queue, the other asks once: which of the first one's requests was refused.
async fn crowd(server: &Running, many: (Ipv4Addr, &str), few: (Ipv4Addr, &str)) {
    let mut asked = Vec::new();
    for (n_accepted, n_waiting) in [(1, 0), (2, 1), (3, 2)] {
        asked.push(ask(server.http, many.0, many.1).await);
        counts(server, n_accepted, n_waiting).await;
    }
    let refused = answer(ask(server.http, many.0, many.1).await).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after"), "{refused}");

    let taken = ask(server.http, few.0, few.1).await;

    let newest = answer(asked.pop().unwrap()).await;
    assert!(newest.starts_with("HTTP/1.1 503 ") && newest.contains("retry-after"), "{newest}");
    assert!(newest.contains("gave way"), "{newest}");
    let counts = counts(server, 4, 2).await;
    assert_eq!(counts["items"]["dropped"]["gave_way"], 1);
    for stream in asked.into_iter().chain([taken]) {
        let good = answer(stream).await;
        assert!(good.starts_with("HTTP/1.1 200 "), "{good}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_keep_a_queue_from_another() {
    let server = start(&BUSY).await;

    // Tokens that nobody gave out make nobody of them.
    crowd(&server, (MANY, "made-up"), (FEW, "made-up")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_cannot_keep_a_queue_from_another() {
    let server = start(&[&BUSY[..], &[TOKENS]].concat()).await;

    crowd(&server, (MANY, "one-0123456789abc"), (MANY, "other-0123456789abc")).await;
}
