//! Every route of every protocol, asked by everybody.

use paceline_api::{access::Needs, access::Role, grpc::METHODS, http};

use crate::support::{Http2, ask, start};

/// A token for each role, and one that nobody has.
const TOKENS: &str = "server.tokens=[
    {name='i', roles=['infer'], token='infer-0123456789'},
    {name='s', roles=['stream'], token='stream-0123456789'},
    {name='a', roles=['admin'], token='admin-0123456789'},
    {name='m', roles=['metrics'], token='metrics-0123456789'},
]";

fn header(role: Role) -> String {
    format!("Bearer {}-0123456789", role.as_str())
}

fn others(needed: Role) -> impl Iterator<Item = Role> {
    Role::ALL.into_iter().filter(move |role| *role != needed)
}

/// What shows no token of this server's.
const STRANGERS: &[&[(&str, &str)]] = &[
    &[],
    &[("authorization", "Bearer wrong-0123456789")],
    &[("authorization", "Bearer infer-012345678")],
    &[("authorization", "Bearer INFER-0123456789")],
    &[("authorization", "Bearer ")],
    &[("authorization", "Basic infer-0123456789")],
    &[("authorization", "infer-0123456789")],
    &[("authorization", "Bearer infer-0123456789, Bearer admin-0123456789")],
    &[("x-http-method-override", "GET"), ("cookie", "token=infer-0123456789")],
];

#[tokio::test(flavor = "multi_thread")]
async fn every_http_route_is_open_to_its_role_and_to_nobody_else() {
    let server = start(&[TOKENS]).await;
    let mut http2 = Http2::connect(server.http).await;
    let mut n_guarded = 0;
    for (pattern, needs) in http::needs() {
        let path = pattern
            .replace("{model}", "nobody")
            .replace("{camera}", "nobody")
            .replace("{version}", "1");
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"] {
            let at = format!("{method} {path}");
            let Needs::Role(needed) = needs else {
                let answer = server.ask(method, &path, &[]).await;
                assert!(![401, 403].contains(&answer.status.as_u16()), "{at}: {answer:?}");
                continue;
            };
            n_guarded += 1;
            for stranger in STRANGERS {
                let answer = server.ask(method, &path, stranger).await;
                assert_eq!(answer.status, 401, "{at} {stranger:?}");
                assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"paceline\"");
                if method != "HEAD" {
                    assert_eq!(answer.code(), "unauthenticated");
                    assert_eq!(
                        answer.body["request_id"],
                        answer.headers["x-request-id"].to_str().unwrap()
                    );
                }
                assert_eq!(http2.ask(method, &path, stranger).await.status, 401, "{at}");
            }
            for role in others(needed) {
                let shown = [("authorization", &*header(role))];
                assert_eq!(server.ask(method, &path, &shown).await.status, 403, "{at} {role:?}");
                assert_eq!(http2.ask(method, &path, &shown).await.status, 403, "{at} {role:?}");
            }
            let shown = [("authorization", &*header(needed))];
            for answer in
                [server.ask(method, &path, &shown).await, http2.ask(method, &path, &shown).await]
            {
                assert!(![401, 403].contains(&answer.status.as_u16()), "{at}: {answer:?}");
            }
        }
    }
    assert!(n_guarded > 50, "{n_guarded}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_grpc_method_is_open_to_its_role_and_to_nobody_else() {
    const UNAUTHENTICATED: Option<&str> = Some("16");
    const PERMISSION_DENIED: Option<&str> = Some("7");
    let server = start(&[TOKENS]).await;
    let mut client = Http2::connect(server.grpc).await;
    for (path, needs) in METHODS {
        let Needs::Role(needed) = *needs else {
            let code = client.call(path, &[]).await;
            assert!(![UNAUTHENTICATED, PERMISSION_DENIED].contains(&code.as_deref()), "{path}");
            continue;
        };
        for stranger in STRANGERS {
            let code = client.call(path, stranger).await;
            assert_eq!(code.as_deref(), UNAUTHENTICATED, "{path} {stranger:?}");
        }
        for role in others(needed) {
            let code = client.call(path, &[("authorization", &header(role))]).await;
            assert_eq!(code.as_deref(), PERMISSION_DENIED, "{path} {role:?}");
        }
        let code = client.call(path, &[("authorization", &header(needed))]).await;
        assert!(![UNAUTHENTICATED, PERMISSION_DENIED].contains(&code.as_deref()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_path_gets_past() {
    let server = start(&[TOKENS]).await;
    let infer = header(Role::Infer);
    let (nobody, user) = ([], [("authorization", &*infer)]);
    for path in [
        "/v2/repository/models/simulated/unload",
        "//v2/repository/models/simulated/unload",
        "/v2//repository/models/simulated/unload",
        "/v2/repository/models/simulated/unload/",
        "/V2/REPOSITORY/models/simulated/unload",
        "/v2/./repository/models/simulated/unload",
        "/v2/health/live/../../repository/models/simulated/unload",
        "/v2/health/live/%2e%2e/%2e%2e/repository/models/simulated/unload",
        "/v2/%72epository/models/simulated/unload",
        "/v2/repository/models/simulated/unload?x=/v2/health/live",
        "/v2/repository/models/simulated%2funload",
        "/inference.GRPCInferenceService/RepositoryModelUnload",
        "/nothing",
        "*",
    ] {
        let answer = server.ask("POST", path, &nobody).await;
        assert!([400, 401].contains(&answer.status.as_u16()), "{path}: {answer:?}");
        let answer = server.ask("POST", path, &user).await;
        assert!([400, 403, 404].contains(&answer.status.as_u16()), "{path}: {answer:?}");
        let mut grpc = Http2::connect(server.grpc).await;
        if path != "*" {
            assert_eq!(grpc.call(path, &nobody).await.as_deref(), Some("16"), "{path}");
            assert_ne!(grpc.call(path, &user).await, None, "{path}");
        }
    }
    let answer = server.ask("GET", "/v2/models/simulated/ready", &nobody).await;
    assert_eq!(answer.status, 200, "it is still loaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_anonymous_may_infer_where_that_is_allowed_and_no_more() {
    let server = start(&[TOKENS, "server.allow_anonymous=true"]).await;

    assert_eq!(server.ask("GET", "/v2/models/simulated", &[]).await.status, 200);
    assert_eq!(server.ask("POST", "/v2/repository/index", &[]).await.status, 401);
    let wrong = [("authorization", "Bearer wrong-0123456789")];
    assert_eq!(server.ask("GET", "/v2/models/simulated", &wrong).await.status, 401);
    let admin = [("authorization", "Token admin-0123456789")];
    assert_eq!(server.ask("POST", "/v2/repository/index", &admin).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tokens_any_token_will_do() {
    let server = start(&[]).await;
    let any = [("authorization", "Bearer whatever")];

    assert_eq!(ask(server.http, "GET", "/v2", &any).await.status, 200);
    assert_eq!(ask(server.http, "POST", "/v2/repository/index", &any).await.status, 200);
}
