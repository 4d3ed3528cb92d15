//! Browsers run strangers' pages beside the user's own. What a page cannot forge is the name it
//! reached us by (`Host`) and where it came from (`Origin`), so both are checked.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    http::{
        HeaderMap, HeaderValue, Method, Request, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
            ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
        },
    },
    response::Response,
};
use futures_util::future::{BoxFuture, Either};
use paceline_types::ErrorCode;
use tower::{Layer, Service};

use super::Gate;
use crate::ApiError;

/// The names that a listener answers to. A page whose name was made to point here afterwards (DNS
/// rebinding) still says its own name.
#[derive(Debug, Clone, Default)]
pub enum Hosts {
    /// Any name: others reach this listener by names that it cannot know.
    #[default]
    Any,
    /// `localhost`, addresses, and these.
    Only(Vec<String>),
}

impl Hosts {
    pub(super) fn check(&self, host: Option<&str>) -> Result<(), ApiError> {
        let (Self::Only(names), Some(host)) = (self, host) else { return Ok(()) };
        let name = without_port(host);
        // Nobody can make an address point elsewhere; only names can be.
        let is_known = name.eq_ignore_ascii_case("localhost")
            || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
            || names.iter().any(|known| name.eq_ignore_ascii_case(known));
        if is_known {
            return Ok(());
        }
        let sentence = format!(
            "this server does not answer to the name `{}`; server.allowed_hosts names those it does",
            clip(name)
        );
        Err(ApiError::misdirected(sentence))
    }
}

/// The origins whose pages are let in beside the server's own.
#[derive(Debug, Clone, Default)]
pub struct Origins(Vec<String>);

impl Origins {
    /// These, as a browser writes them (`https://example.org`), or `*` for all.
    #[must_use]
    pub const fn new(origins: Vec<String>) -> Self {
        Self(origins)
    }

    pub(super) fn has(&self, origin: &str) -> bool {
        self.0.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
    }
}

/// The name that a request was sent to.
pub(super) fn authority<B>(request: &Request<B>) -> Option<&str> {
    // HTTP/2 has it in the URI, HTTP/1.1 in a header.
    match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        // What is no text is no name that anybody has.
        None => request.headers().get(HOST).map(|host| host.to_str().unwrap_or("?")),
    }
}

/// The page that a request comes from, where it comes from one.
pub(super) fn origin<B>(request: &Request<B>) -> Option<&str> {
    request.headers().get(ORIGIN).map(|origin| origin.to_str().unwrap_or("?"))
}

/// Whether a page came from the name that it asks.
pub(super) fn is_same_origin(origin: &str, host: Option<&str>) -> bool {
    // A proxy may have taken off the TLS, so the scheme says nothing.
    let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    page.zip(host).is_some_and(|(page, host)| page.eq_ignore_ascii_case(host))
}

pub(super) fn strange_origin(origin: &str) -> ApiError {
    let sentence = format!(
        "pages of `{}` may not use this server; server.allowed_origins names those that may",
        clip(origin)
    );
    ApiError::new(ErrorCode::Forbidden, sentence)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A stranger's words, short and without control characters.
fn clip(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(64).collect()
}

/// Tells browsers which pages may read the answers.
#[derive(Debug, Clone)]
pub(crate) struct CorsLayer(pub(crate) Arc<Gate>);

impl<S> Layer<S> for CorsLayer {
    type Service = Cors<S>;

    fn layer(&self, inner: S) -> Cors<S> {
        Cors { gate: Arc::clone(&self.0), inner }
    }
}

/// See [`CorsLayer`].
#[derive(Debug, Clone)]
pub(crate) struct Cors<S> {
    gate: Arc<Gate>,
    inner: S,
}

impl<S> Service<Request<Body>> for Cors<S>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.gate.origins.0.is_empty() {
            return Either::Left(self.inner.call(request));
        }
        let Some(origin) = request.headers().get(ORIGIN).cloned() else {
            return Either::Left(self.inner.call(request));
        };
        if !self.gate.origins.has(origin.to_str().unwrap_or("?")) {
            return Either::Left(self.inner.call(request));
        }
        let asks_first = request.method() == Method::OPTIONS
            && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let host_checked = self.gate.hosts.check(authority(&request));
        if asks_first && host_checked.is_ok() {
            let response = permission(request.headers(), origin);
            return Either::Right(Box::pin(std::future::ready(Ok(response))));
        }
        let answer = self.inner.call(request);
        Either::Right(Box::pin(async move {
            let mut response = answer.await?;
            let headers = response.headers_mut();
            let readable = "x-request-id, inference-header-content-length";
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(readable));
            name_origin(headers, origin);
            Ok(response)
        }))
    }
}

/// The answer to a browser that asks before it sends what its page wants to send. Such questions
/// carry no token; what follows is judged like everything else.
fn permission(asked: &HeaderMap, origin: HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    if let Some(wanted) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    name_origin(headers, origin);
    response
}

fn name_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_can_be_made_to_point_here() {
        let hosts = Hosts::Only(vec!["paceline.internal".to_owned()]);
        for known in ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:80", "[::1]:8000"] {
            assert!(hosts.check(Some(known)).is_ok(), "{known}");
        }
        assert!(hosts.check(Some("paceline.internal:8000")).is_ok());
        assert!(hosts.check(None).is_ok(), "no browser leaves it out");
        for strange in [
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "paceline.internal.evil.example",
            "evil.example:localhost",
            "",
            "?",
        ] {
            assert!(hosts.check(Some(strange)).is_err(), "{strange}");
            assert!(Hosts::Any.check(Some(strange)).is_ok());
        }
    }

    #[test]
    fn an_origin_is_whole_or_not_that_origin() {
        let origins = Origins::new(vec!["https://good.example".to_owned()]);
        assert!(origins.has("https://good.example"));
        for strange in
            ["null", "http://good.example", "https://good.example.evil", "https://good.example:1"]
        {
            assert!(!origins.has(strange), "{strange}");
        }
        assert!(is_same_origin("http://localhost:8000", Some("localhost:8000")));
        assert!(!is_same_origin("http://localhost:3000", Some("localhost:8000")));
        assert!(!is_same_origin("null", Some("null")));
        assert!(!is_same_origin("http://localhost:8000", None));
    }
}
