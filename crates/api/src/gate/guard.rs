//! The gate as a layer of a router.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    extract::MatchedPath,
    http::Request,
    response::{IntoResponse as _, Response},
};
use futures_util::future::{Either, Ready, ready};
use tonic::Status;
use tower::{Layer, Service};

use super::Gate;
use crate::{ApiError, access::Needs};

/// How routes are told apart, and how refusals are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// By the pattern that the router matched.
    Http,
    /// By the path itself, which names the method.
    Grpc,
}

/// Lets requests through to their routes, or answers them.
#[derive(Debug, Clone)]
pub(crate) struct Guard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    gate: Arc<Gate>,
    needs: HashMap<&'static str, Needs>,
    wire: Wire,
}

impl Guard {
    /// Stands before these routes.
    pub(crate) fn new(
        gate: Arc<Gate>,
        wire: Wire,
        needs: impl IntoIterator<Item = (&'static str, Needs)>,
    ) -> Self {
        Self(Arc::new(Inner { gate, needs: needs.into_iter().collect(), wire }))
    }
}

impl Inner {
    /// What the route of a request needs. What is in no table is not open.
    fn needs<B>(&self, request: &Request<B>) -> Needs {
        let route = match self.wire {
            Wire::Http => request.extensions().get::<MatchedPath>().map(MatchedPath::as_str),
            Wire::Grpc => Some(request.uri().path()),
        };
        route.and_then(|route| self.needs.get(route)).copied().unwrap_or(Needs::Token)
    }

    fn refuse(&self, error: ApiError) -> Response {
        match self.wire {
            Wire::Http => error.into_response(),
            Wire::Grpc => Status::from(error).into_http(),
        }
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { guard: self.clone(), inner }
    }
}

/// See [`Guard`].
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Guard(guard) = &self.guard;
        match guard.gate.admit(|| guard.needs(&request), &request) {
            Ok(client) => {
                if let Some(client) = client {
                    request.extensions_mut().insert(client);
                }
                Either::Left(self.inner.call(request))
            }
            Err(error) => Either::Right(ready(Ok(guard.refuse(error)))),
        }
    }
}
