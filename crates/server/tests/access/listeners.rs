//! Where model control is served, and where not.

use crate::support::{Http2, ask, start, try_start};

const INDEX: &str = "/v2/repository/index";
const UNLOAD: &str = "/inference.GRPCInferenceService/RepositoryModelUnload";
const METADATA: &str = "/inference.GRPCInferenceService/ServerMetadata";
const ALL: [&str; 2] = ["server.listen=0.0.0.0:0", "server.grpc_listen=0.0.0.0:0"];

#[tokio::test(flavor = "multi_thread")]
async fn control_has_its_own_listener_where_one_is_given() {
    let server = start(&["server.admin_listen=127.0.0.1:0"]).await;
    let admin = server.admin.unwrap();

    let answer = server.ask("POST", INDEX, &[]).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (403, "forbidden"));
    assert!(answer.error().contains("server.admin_listen"), "{answer:?}");
    let mut grpc = Http2::connect(server.grpc).await;
    assert_eq!(grpc.call(UNLOAD, &[]).await.as_deref(), Some("7"));
    assert_ne!(grpc.call(METADATA, &[]).await.as_deref(), Some("7"));

    assert_eq!(ask(admin, "POST", INDEX, &[]).await.status, 200);
    assert_eq!(ask(admin, "GET", "/v2/health/live", &[]).await.status, 200);
    let answer = ask(admin, "GET", "/v2/models/simulated", &[]).await;
    assert_eq!(answer.status, 403);
    assert!(answer.error().contains("server.listen"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_is_not_exposed_unless_a_token_guards_it() {
    let open = start(&[&ALL[..], &["server.allow_anonymous=true"]].concat()).await;
    let local = ([127, 0, 0, 1], open.http.port()).into();
    let answer = ask(local, "POST", INDEX, &[]).await;
    assert_eq!(answer.status, 403);
    assert!(answer.error().contains("[[server.tokens]]"), "{answer:?}");
    assert_eq!(ask(local, "GET", "/v2", &[]).await.status, 200);
    let mut grpc = Http2::connect(([127, 0, 0, 1], open.grpc.port()).into()).await;
    assert_eq!(grpc.call(UNLOAD, &[]).await.as_deref(), Some("7"));

    let tokens = "server.tokens=[{name='a', roles=['admin'], token='admin-0123456789'}]";
    let guarded = start(&[&ALL[..], &[tokens]].concat()).await;
    let local = ([127, 0, 0, 1], guarded.http.port()).into();
    assert_eq!(ask(local, "POST", INDEX, &[]).await.status, 401);
    let shown = [("authorization", "Bearer admin-0123456789")];
    assert_eq!(ask(local, "POST", INDEX, &shown).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_strangers_could_use_does_not_start() {
    for listen in ALL {
        let refused = try_start(&[listen]).await.err().unwrap();
        assert!(refused.contains("which others can reach, and there is no token"), "{refused}");
    }
}
