//! Where requests enter.
//!
//! Inference is most of what a server is asked for, and the router boxes every request several
//! times on its way through the layers that a few of them need. So inference that needs none of
//! those (its body is not packed, it comes from no browser's page) goes straight to the handlers
//! that the router has too, past the same gate.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::{Bytes, HttpBody},
    http::{
        Method, Request,
        header::{ACCEPT_ENCODING, CONTENT_ENCODING, ORIGIN},
    },
    response::{IntoResponse as _, Response},
    routing::future::RouteFuture,
};
use futures_util::future::{BoxFuture, Either};
use tower::Service as _;

use super::{ApiError, App, INFER, infer, metadata::ModelPath, plain, request_id::Marks};
use crate::{client::Client, gate::Gate};

/// Where requests of a listener enter.
#[derive(Debug, Clone)]
pub struct Entrance {
    router: Router,
    straight: Option<Arc<Straight>>,
}

#[derive(Debug)]
struct Straight {
    app: App,
    gate: Arc<Gate>,
}

/// An answer to come.
type Answer = Result<Response, Infallible>;
pub(super) type Entered = Either<RouteFuture<Infallible>, BoxFuture<'static, Answer>>;

/// Every route goes through the router.
impl From<Router> for Entrance {
    fn from(router: Router) -> Self {
        Self { router, straight: None }
    }
}

impl Entrance {
    pub(super) fn new(router: Router, app: App, gate: Arc<Gate>) -> Self {
        Self { router, straight: Some(Arc::new(Straight { app, gate })) }
    }

    /// Answers a request of this client, unless it shows a token that says otherwise.
    pub(super) fn call<B>(&self, mut request: Request<B>, client: Client) -> Entered
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        if let Some(straight) = &self.straight
            && let Some(target) = Target::of(&request)
        {
            return Either::Right(Box::pin(Arc::clone(straight).answer(target, request, client)));
        }
        request.extensions_mut().insert(client);
        // A router is always ready.
        Either::Left(self.router.clone().call(request))
    }
}

impl Straight {
    /// Not an async function: what can be done at once needs no room in a future that is moved.
    fn answer<B>(
        self: Arc<Self>,
        target: Target,
        request: Request<B>,
        client: Client,
    ) -> impl Future<Output = Answer> + Send
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<axum::BoxError>,
    {
        let marks = Marks::of(request.headers());
        let admitted = self.gate.admit(|| INFER, &request);
        let (head, body) = request.into_parts();
        async move {
            let response = match admitted {
                Ok(known) => {
                    let client = Some(known.unwrap_or(client));
                    let body = self.app.bodies.read(body).await;
                    match target {
                        Target::Plain(path) => {
                            plain::answer(&self.app, &path, &head, client, body).await
                        }
                        Target::Protocol(path) => {
                            infer::answer(&self.app, path, &head.headers, client, body).await
                        }
                    }
                }
                Err(error) => Err(error),
            };
            Ok(marks.put(response.unwrap_or_else(ApiError::into_response)))
        }
    }
}

/// What can be answered straight.
#[derive(Debug, PartialEq)]
enum Target {
    Plain(ModelPath),
    Protocol(ModelPath),
}

impl Target {
    fn of<B>(request: &Request<B>) -> Option<Self> {
        let headers = request.headers();
        let needs_a_layer = headers.contains_key(ACCEPT_ENCODING)
            || headers.contains_key(CONTENT_ENCODING)
            || headers.contains_key(ORIGIN);
        let path = request.uri().path();
        if request.method() != Method::POST || needs_a_layer || path.contains('%') {
            return None;
        }
        let path = path.strip_suffix("/infer")?;
        let own = |name: &str| (!name.is_empty() && !name.contains('/')).then(|| name.to_owned());
        if let Some(model) = path.strip_prefix("/v1/models/") {
            return Some(Self::Plain(ModelPath { model: own(model)?, version: None }));
        }
        let path = path.strip_prefix("/v2/models/")?;
        let (model, version) = match path.split_once("/versions/") {
            Some((model, version)) => (model, Some(own(version)?)),
            None => (path, None),
        };
        Some(Self::Protocol(ModelPath { model: own(model)?, version }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: Method, path: &str) -> Option<Target> {
        Target::of(&Request::builder().method(method).uri(path).body(()).unwrap())
    }

    #[test]
    fn inference_goes_straight_and_nothing_else_does() {
        let path = |version: Option<&str>| ModelPath {
            model: "m".to_owned(),
            version: version.map(str::to_owned),
        };
        let post = |text| target(Method::POST, text);

        assert_eq!(post("/v1/models/m/infer?ride=on"), Some(Target::Plain(path(None))));
        assert_eq!(post("/v2/models/m/infer"), Some(Target::Protocol(path(None))));
        assert_eq!(post("/v2/models/m/versions/3/infer"), Some(Target::Protocol(path(Some("3")))));
        for other in [
            "/v1/models/infer",
            "/v1/models//infer",
            "/v1/models/a/b/infer",
            "/v1/models/m/infer/",
            "/v1/models/m/versions/3/infer",
            "/v2/models/a/b/versions/3/infer",
            "/v2/models/m/versions/3/4/infer",
            "/v2/models/m/versions//infer",
            "/v2/models/m%2Fn/infer",
            "/v2/models/m",
            "/",
        ] {
            assert_eq!(post(other), None, "{other}");
        }
        assert_eq!(target(Method::GET, "/v2/models/m/infer"), None);
    }
}
