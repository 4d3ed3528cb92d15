//! Who may do what: decided here, once, for every protocol.
//!
//! A door says what a route [needs](Needs) and what the client showed; the answer is a
//! [`Decision`]. Nothing here knows routes, listeners or wires.

use std::fmt;

use axum::http::{
    HeaderMap,
    header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL},
};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use crate::client::Client;

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// Ask models, and ask about them.
    Infer,
    /// Open streams.
    Stream,
    /// Load and unload models.
    Admin,
    /// Read metrics.
    Metrics,
}

impl Role {
    /// Every role, for tables and for tests that must not miss one.
    pub const ALL: [Self; 4] = [Self::Infer, Self::Stream, Self::Admin, Self::Metrics];

    /// The role as written in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Infer => "infer",
            Self::Stream => "stream",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }
}

/// A set of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// No role.
    pub const NONE: Self = Self(0);
    /// Every role.
    pub const ALL: Self = Self(0b1111);
    /// What one needs to use models.
    pub const USE: Self = Self::NONE.with(Role::Infer).with(Role::Stream);

    /// These and one more.
    #[must_use]
    pub const fn with(self, role: Role) -> Self {
        Self(self.0 | 1 << role as u8)
    }

    /// Whether a role is among them.
    #[must_use]
    pub const fn has(self, role: Role) -> bool {
        self.0 & (1 << role as u8) != 0
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        roles.into_iter().fold(Self::NONE, Self::with)
    }
}

/// What a route asks of those who use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: whoever asks whether the server lives has no token.
    Nothing,
    /// A token, whatever it is good for. Paths that are not there need this, so that strangers
    /// cannot tell them from those that are.
    Token,
    /// A token with this role.
    Role(Role),
}

/// What a client showed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// Nothing.
    None,
    /// A token.
    Token(&'a [u8]),
    /// Something else than a token.
    Unknown,
}

/// The WebSocket subprotocols that carry a token as the one named after them. A page can set no
/// other header of a WebSocket.
pub(crate) const SUBPROTOCOLS: [&str; 2] = ["token", "bearer"];

impl<'a> Credentials<'a> {
    /// From `Authorization: Bearer x`, or `Token x`; where there is no such header, from
    /// `Sec-WebSocket-Protocol`. gRPC metadata are such headers too.
    #[must_use]
    pub fn from_headers(headers: &'a HeaderMap) -> Self {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return if headers.contains_key(AUTHORIZATION) {
                Self::Unknown
            } else {
                Self::from_subprotocols(headers)
            };
        };
        let value = value.as_bytes();
        for scheme in [&b"Bearer "[..], b"Token "] {
            if let Some((own, token)) = value.split_at_checked(scheme.len())
                && own.eq_ignore_ascii_case(scheme)
            {
                return Self::Token(token.trim_ascii());
            }
        }
        Self::Unknown
    }

    /// From `token, x` or `bearer, x`, whatever else follows, or from `openai-insecure-api-key.x`.
    fn from_subprotocols(headers: &'a HeaderMap) -> Self {
        let mut values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Self::None };
        let mut named = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let is_ours = |name: &[u8]| SUBPROTOCOLS.iter().any(|own| name == own.as_bytes());
        let first = named.next().unwrap_or_default();
        if is_ours(first) {
            return named.next().map_or(Self::Unknown, Self::Token);
        }
        let key = named.find_map(|name| name.strip_prefix(b"openai-insecure-api-key."));
        key.map_or(Self::None, Self::Token)
    }
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token(***)",
            Self::Unknown => "Unknown",
        })
    }
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Allowed,
    /// No token, or one that nobody has.
    Unauthenticated,
    /// A token that does not have this role.
    Forbidden(Role),
}

/// Who has which token. The tokens themselves are not kept, only what they hash to.
#[derive(Clone, Default)]
pub struct Access {
    tokens: Vec<Token>,
    anonymous: Roles,
}

#[derive(Clone)]
struct Token {
    digest: [u8; 32],
    roles: Roles,
}

impl Access {
    /// Nobody has a token and everybody may do everything.
    #[must_use]
    pub const fn open() -> Self {
        Self { tokens: Vec::new(), anonymous: Roles::ALL }
    }

    /// Whoever shows no token may do this much; until a token is [added](Self::add).
    #[must_use]
    pub const fn anonymous(roles: Roles) -> Self {
        Self { tokens: Vec::new(), anonymous: roles }
    }

    /// Lets whoever shows `token` do what its roles allow.
    pub fn add(&mut self, token: &str, roles: Roles) {
        self.tokens.push(Token { digest: Sha256::digest(token).into(), roles });
    }

    /// Whether nothing is asked of anybody.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty() && self.anonymous == Roles::ALL
    }

    /// The one place where this is decided.
    #[must_use]
    pub fn decide(&self, needs: Needs, credentials: Credentials<'_>) -> Decision {
        if needs == Needs::Nothing {
            return Decision::Allowed;
        }
        let roles = match credentials {
            // Where there are no tokens, none is wrong: many clients cannot send none.
            _ if self.tokens.is_empty() => Some(self.anonymous),
            Credentials::None if self.anonymous != Roles::NONE => Some(self.anonymous),
            Credentials::None | Credentials::Unknown => None,
            Credentials::Token(token) => self.roles_of(token),
        };
        match (roles, needs) {
            (None, _) => Decision::Unauthenticated,
            (Some(roles), Needs::Role(role)) if !roles.has(role) => {
                // Who showed nothing is asked to; who showed something is told that it will not do.
                if credentials == Credentials::None {
                    Decision::Unauthenticated
                } else {
                    Decision::Forbidden(role)
                }
            }
            _ => Decision::Allowed,
        }
    }

    /// Who shows this, where that is a token which was found to be known.
    pub(crate) fn client(&self, credentials: Credentials<'_>) -> Option<Client> {
        match credentials {
            Credentials::Token(token) if !self.tokens.is_empty() => Some(Client::with(token)),
            _ => None,
        }
    }

    /// What a token is good for. Takes as long for a wrong one as for a right one.
    fn roles_of(&self, token: &[u8]) -> Option<Roles> {
        let digest = Sha256::digest(token);
        let (mut roles, mut found) = (0, Choice::from(0));
        for known in &self.tokens {
            let same = known.digest[..].ct_eq(&digest[..]);
            roles = u8::conditional_select(&roles, &known.roles.0, same);
            found |= same;
        }
        bool::from(found).then_some(Roles(roles))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("tokens", &self.tokens.len())
            .field("anonymous", &self.anonymous)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_token_comes_in_either_scheme_and_nothing_else_is_one() {
        for value in ["Bearer abc", "bearer abc", "Token abc", "BEARER  abc "] {
            assert!(Credentials::from_headers(&headers(value)) == Credentials::Token(b"abc"));
        }
        for value in ["Basic abc", "abc", "Bearer", "Bearerabc", ""] {
            assert!(Credentials::from_headers(&headers(value)) == Credentials::Unknown, "{value}");
        }
        assert!(Credentials::from_headers(&HeaderMap::new()) == Credentials::None);
        let mut twice = headers("Bearer abc");
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer def"));
        assert!(Credentials::from_headers(&twice) == Credentials::Unknown, "which one counts?");
    }

    #[test]
    fn a_page_shows_its_token_as_a_subprotocol() {
        let shown = |value| HeaderMap::from_iter([(SEC_WEBSOCKET_PROTOCOL, value)]);
        let shown = |value| shown(HeaderValue::from_static(value));
        for value in [
            "token, abc",
            "token,abc",
            "bearer, abc",
            "token, abc, x-deepgram-session-id, 5",
            "realtime, openai-insecure-api-key.abc, openai-beta.realtime-v1",
        ] {
            assert!(Credentials::from_headers(&shown(value)) == Credentials::Token(b"abc"));
        }
        assert!(Credentials::from_headers(&shown("chat")) == Credentials::None);
        assert!(Credentials::from_headers(&shown("chat, token, abc")) == Credentials::None);
        assert!(Credentials::from_headers(&shown("token")) == Credentials::Unknown);
        let mut both = shown("token, abc");
        both.extend(headers("Bearer def"));
        assert!(Credentials::from_headers(&both) == Credentials::Token(b"def"));
    }

    #[test]
    fn each_role_opens_what_needs_it_and_nothing_else() {
        let mut access = Access::default();
        for role in Role::ALL {
            access.add(role.as_str(), Roles::NONE.with(role));
        }
        for role in Role::ALL {
            for needed in Role::ALL {
                let shown = Credentials::Token(role.as_str().as_bytes());
                let decided = access.decide(Needs::Role(needed), shown);
                let expected =
                    if role == needed { Decision::Allowed } else { Decision::Forbidden(needed) };
                assert_eq!(decided, expected);
            }
        }
    }

    #[test]
    fn what_is_wrong_or_missing_is_unauthenticated_and_health_is_for_all() {
        let mut access = Access::default();
        access.add("right", Roles::ALL);
        for shown in [Credentials::None, Credentials::Unknown, Credentials::Token(b"wrong")] {
            for needs in [Needs::Token, Needs::Role(Role::Infer)] {
                assert_eq!(access.decide(needs, shown), Decision::Unauthenticated, "{shown:?}");
            }
            assert_eq!(access.decide(Needs::Nothing, shown), Decision::Allowed);
        }
        assert_eq!(access.decide(Needs::Token, Credentials::Token(b"right")), Decision::Allowed);
    }

    #[test]
    fn the_anonymous_may_do_what_they_may_and_a_wrong_token_is_not_anonymous() {
        let mut access = Access::anonymous(Roles::USE);
        access.add("admin", Roles::NONE.with(Role::Admin));
        let decide = |role, shown| access.decide(Needs::Role(role), shown);

        assert_eq!(decide(Role::Infer, Credentials::None), Decision::Allowed);
        assert_eq!(decide(Role::Admin, Credentials::None), Decision::Unauthenticated);
        assert_eq!(decide(Role::Infer, Credentials::Token(b"wrong")), Decision::Unauthenticated);
        assert_eq!(
            decide(Role::Infer, Credentials::Token(b"admin")),
            Decision::Forbidden(Role::Infer)
        );
        assert_eq!(
            Access::open().decide(Needs::Role(Role::Admin), Credentials::Token(b"any")),
            Decision::Allowed
        );
    }

    #[test]
    fn nothing_prints_a_token() {
        let mut access = Access::default();
        access.add("canary", Roles::ALL);

        let printed = format!("{access:?} {:?}", Credentials::Token(b"canary"));

        assert!(!printed.contains("canary"), "{printed}");
    }
}
