//! What stands before every route of a listener: browsers' Host and Origin, and [`Access`].
//!
//! A request is let in after routing and before anything reads its body, so what is decided on is
//! the route that will answer, however its path was spelt.

pub(crate) mod browser;
mod guard;

use std::sync::Arc;

use axum::http::Request;
use paceline_types::ErrorCode;

pub use self::browser::{Hosts, Origins};
use self::browser::{authority, is_same_origin};
pub(crate) use self::guard::{Guard, Wire};
use crate::{
    ApiError,
    access::{Access, Credentials, Decision, Needs, Role, Roles},
    client::Client,
};

/// What a listener lets in.
#[derive(Debug, Clone)]
pub struct Gate {
    access: Arc<Access>,
    hosts: Hosts,
    origins: Origins,
    /// The roles that are of use at this listener.
    served: Roles,
    /// What those are told who ask for another role's routes.
    elsewhere: &'static str,
}

impl Gate {
    /// Lets in whom `access` allows, to the routes of every role.
    #[must_use]
    pub fn new(access: Arc<Access>) -> Self {
        Self {
            access,
            hosts: Hosts::Any,
            origins: Origins::default(),
            served: Roles::ALL,
            elsewhere: "",
        }
    }

    /// Lets in whoever comes.
    #[must_use]
    pub fn open() -> Self {
        Self::new(Arc::new(Access::open()))
    }

    /// Serves only the routes of these roles. Who asks for others is told `elsewhere`, whatever
    /// token they have.
    #[must_use]
    pub const fn serving(mut self, roles: Roles, elsewhere: &'static str) -> Self {
        self.served = roles;
        self.elsewhere = elsewhere;
        self
    }

    /// Answers only to these names.
    #[must_use]
    pub fn hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// Lets in pages of these origins, beside its own.
    #[must_use]
    pub fn origins(mut self, origins: Origins) -> Self {
        self.origins = origins;
        self
    }

    /// Whether a request may go on to a route that needs this; and whose it is, where a token says so.
    pub(crate) fn admit<B>(
        &self,
        needs: impl FnOnce() -> Needs,
        request: &Request<B>,
    ) -> Result<Option<Client>, ApiError> {
        let host = authority(request);
        self.hosts.check(host)?;
        if let Some(origin) = browser::origin(request)
            && !self.origins.has(origin)
            && !is_same_origin(origin, host)
        {
            return Err(browser::strange_origin(origin));
        }
        if self.served == Roles::ALL && self.access.is_open() {
            return Ok(None);
        }
        let needs = needs();
        if let Needs::Role(role) = needs
            && !self.served.has(role)
        {
            return Err(ApiError::new(ErrorCode::Forbidden, self.elsewhere));
        }
        let credentials = Credentials::from_headers(request.headers());
        match self.access.decide(needs, credentials) {
            Decision::Allowed => Ok(self.access.client(credentials)),
            Decision::Unauthenticated => Err(unauthenticated(credentials)),
            Decision::Forbidden(role) => Err(forbidden(role)),
        }
    }
}

fn unauthenticated(credentials: Credentials<'_>) -> ApiError {
    let sentence = match credentials {
        Credentials::None => "a token is needed here; send it as `Authorization: Bearer TOKEN`",
        Credentials::Token(_) => "this token is not one of this server's",
        Credentials::Unknown => {
            "the Authorization header holds no token; send `Authorization: Bearer TOKEN`, once"
        }
    };
    ApiError::new(ErrorCode::Unauthenticated, sentence)
}

fn forbidden(role: Role) -> ApiError {
    let sentence = format!("this token does not have the role `{}`", role.as_str());
    ApiError::new(ErrorCode::Forbidden, sentence)
}
