//! Pages of strangers, in a browser on the same machine.

use crate::support::{Http2, start};

const LIVE: &str = "/v2/health/live";

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_made_to_point_here_is_refused() {
    let server = start(&["server.allowed_hosts=['paceline.internal']"]).await;
    for known in ["localhost:8000", "127.0.0.1", "[::1]:1", "paceline.internal"] {
        assert_eq!(server.ask("GET", LIVE, &[("host", known)]).await.status, 200, "{known}");
    }
    for path in [LIVE, "/v2", "/nothing"] {
        let answer = server.ask("GET", path, &[("host", "evil.example:8000")]).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (421, "forbidden"));
        assert!(answer.error().contains("evil.example"), "{answer:?}");
    }
    let mut grpc = Http2::connect(server.grpc).await;
    assert_ne!(grpc.call("/grpc.health.v1.Health/Check", &[]).await.as_deref(), Some("7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_pages_that_may_get_in_and_read_the_answer() {
    let server = start(&["server.allowed_origins=['https://good.example']"]).await;
    let ask = async |origin: &str| {
        server.ask("GET", "/v2", &[("host", "localhost:8000"), ("origin", origin)]).await
    };

    for strange in ["https://evil.example", "null", "https://good.example.evil.example", "x"] {
        let answer = ask(strange).await;
        assert_eq!(answer.status, 403, "{strange}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    let answer = ask("http://localhost:8000").await;
    assert_eq!(answer.status, 200, "its own page");
    let answer = ask("https://good.example").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://good.example");
    let missing = server.ask("GET", "/nothing", &[("origin", "https://good.example")]).await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.headers["access-control-allow-origin"], "https://good.example");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_may_ask_first_without_a_token() {
    let tokens = "server.tokens=[{name='i', roles=['infer'], token='infer-0123456789'}]";
    let server = start(&["server.allowed_origins=['https://good.example']", tokens]).await;
    let ask = async |origin: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization, content-type"),
        ];
        server.ask("OPTIONS", "/v1/models/simulated/infer", &headers).await
    };

    let answer = ask("https://good.example").await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.headers["access-control-allow-headers"], "authorization, content-type");
    assert_eq!(ask("https://evil.example").await.status, 403);
    let answer = server.ask("GET", "/v2", &[("origin", "https://good.example")]).await;
    assert_eq!(answer.status, 401, "what follows needs one");
    assert_eq!(answer.headers["access-control-allow-origin"], "https://good.example");
}
