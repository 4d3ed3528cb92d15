//! What each listener lets in, from what the configuration says; and when that is too much to
//! start with.

use std::{net::SocketAddr, sync::Arc};

use paceline_api::{
    access::{Access, Role, Roles},
    gate::{Gate, Hosts, Origins},
    tls::{Tls, TlsError},
};

use crate::config::{ServerSection, TokenSection};

/// Why the server does not start with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Strangers could ask models.
    #[error(
        "server.{key} is {address}, which others can reach, and there is no token: listen on \
         127.0.0.1, add one under [[server.tokens]], or set server.allow_anonymous = true to let \
         everybody in"
    )]
    Exposed {
        /// Which setting.
        key: &'static str,
        /// What it says.
        address: SocketAddr,
    },
    /// Clients of a protocol without tokens could not show theirs.
    #[error(
        "server.wyoming_listen is {0}, its protocol has no tokens, and only those with a token may \
         ask models here: leave it out, or set server.allow_anonymous = true"
    )]
    Tokenless(SocketAddr),
    /// Strangers could control models.
    #[error(
        "server.admin_listen is {0}, which others can reach, and no token has the role `admin` or \
         `metrics`: listen on 127.0.0.1, or add such a token under [[server.tokens]]"
    )]
    AdminExposed(SocketAddr),
    /// A token cannot be used.
    #[error("server.tokens: the token `{name}`: {message}")]
    Token {
        /// Which.
        name: String,
        /// Why.
        message: String,
    },
    /// A certificate cannot be used.
    #[error("server.tls: {0}")]
    Tls(#[from] TlsError),
    /// Some other setting makes no sense.
    #[error("{0}")]
    Setting(String),
}

/// What the listeners let in, and what they speak.
#[derive(Debug)]
pub(crate) struct Gates {
    pub(crate) http: Gate,
    pub(crate) grpc: Gate,
    pub(crate) vosk: Option<Gate>,
    pub(crate) admin: Option<Gate>,
    pub(crate) tls: Option<Arc<Tls>>,
}

const AT_ADMIN: &str =
    "model control and metrics are served over HTTP at server.admin_listen, not here";
const NOT_EXPOSED: &str = "model control and metrics are not served where others can connect, \
                           unless a token has the role `admin` or `metrics`: add one under \
                           [[server.tokens]], or set server.admin_listen to a loopback address";
const ONLY_ADMIN: &str =
    "this listener is for model control and metrics; everything else is at server.listen";

/// Checks everything about access that can be checked without listening.
///
/// # Errors
///
/// When the server would not start with it. A token in a variable that is not set here may be set
/// where the server runs, so that is let pass.
pub fn check(section: &ServerSection) -> Result<(), AccessError> {
    gates(section, |_| Ok(())).map(drop)
}

impl Gates {
    pub(crate) fn build(section: &ServerSection) -> Result<Self, AccessError> {
        gates(section, |token| {
            let variable = token.token_env.as_deref().unwrap_or_default();
            Err(AccessError::Token {
                name: token.name.clone(),
                message: format!("the variable {variable} is not set"),
            })
        })
    }
}

fn gates(
    section: &ServerSection,
    unset: impl Fn(&TokenSection) -> Result<(), AccessError>,
) -> Result<Gates, AccessError> {
    section.validate().map_err(AccessError::Setting)?;
    let access = Arc::new(access(section, unset)?);
    refuse_exposed(section)?;
    let tls = section.tls.as_ref().map(|tls| {
        let files = tls.files().map_err(AccessError::Setting)?;
        Ok::<_, AccessError>(Arc::new(Tls::load(files)?))
    });
    let gate = |address: SocketAddr| {
        Gate::new(Arc::clone(&access))
            .hosts(hosts(section, address))
            .origins(Origins::new(section.allowed_origins.clone()))
    };
    let main = |address: SocketAddr| {
        if section.admin_listen.is_some() {
            return gate(address).serving(Roles::USE, AT_ADMIN);
        }
        let here =
            CONTROL.into_iter().filter(|role| !is_exposed(address) || grants(section, *role));
        gate(address).serving(here.fold(Roles::USE, Roles::with), NOT_EXPOSED)
    };
    let control = || CONTROL.into_iter().collect();
    Ok(Gates {
        http: main(section.listen),
        grpc: main(section.grpc_listen),
        vosk: section.vosk_listen.map(main),
        admin: section.admin_listen.map(|address| gate(address).serving(control(), ONLY_ADMIN)),
        tls: tls.transpose()?,
    })
}

/// Roles that change or show what the server is, and not what its models say.
const CONTROL: [Role; 2] = [Role::Admin, Role::Metrics];

/// Who may do what.
fn access(
    section: &ServerSection,
    unset: impl Fn(&TokenSection) -> Result<(), AccessError>,
) -> Result<Access, AccessError> {
    let mut access = if section.tokens.is_empty() {
        Access::open()
    } else if section.allow_anonymous {
        Access::anonymous(Roles::USE)
    } else {
        Access::default()
    };
    for (n, token) in section.tokens.iter().enumerate() {
        let wrong = |message| AccessError::Token { name: token.name.clone(), message };
        if section.tokens[..n].iter().any(|other| other.name == token.name) {
            return Err(wrong("there is another of this name".to_owned()));
        }
        match token.read().map_err(wrong)? {
            Some(secret) => access.add(secret.reveal(), token.roles()),
            None => unset(token)?,
        }
    }
    Ok(access)
}

fn refuse_exposed(section: &ServerSection) -> Result<(), AccessError> {
    if section.tokens.is_empty() && !section.allow_anonymous {
        for (key, address) in [
            ("listen", Some(section.listen)),
            ("grpc_listen", Some(section.grpc_listen)),
            ("vosk_listen", section.vosk_listen),
            ("wyoming_listen", section.wyoming_listen),
        ] {
            if let Some(address) = address.filter(|address| is_exposed(*address)) {
                return Err(AccessError::Exposed { key, address });
            }
        }
    }
    if let Some(address) = section.wyoming_listen
        && !section.tokens.is_empty()
        && !section.allow_anonymous
    {
        return Err(AccessError::Tokenless(address));
    }
    match section.admin_listen {
        Some(address)
            if is_exposed(address) && !CONTROL.iter().any(|role| grants(section, *role)) =>
        {
            Err(AccessError::AdminExposed(address))
        }
        _ => Ok(()),
    }
}

/// Whether some token has this role.
fn grants(section: &ServerSection, role: Role) -> bool {
    section.tokens.iter().any(|token| token.roles().has(role))
}

/// Whether others than this machine can reach an address.
fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// Where only this machine can reach, a name that is not its own is a page's trick. Elsewhere
/// names cannot be known, unless they are said.
fn hosts(section: &ServerSection, address: SocketAddr) -> Hosts {
    if is_exposed(address) && section.allowed_hosts.is_empty() {
        Hosts::Any
    } else {
        Hosts::Only(section.allowed_hosts.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load::load;

    use super::*;

    fn check_with(sets: &[&str]) -> Result<(), String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let config = load(None, [], &sets).map_err(|error| error.to_string())?;
        check(&config.server).map_err(|error| error.to_string())
    }

    const TOKEN: &str = "server.tokens=[{name='a', roles=['infer'], token='0123456789abcdef'}]";
    const ADMIN: &str = "server.tokens=[{name='a', roles=['admin'], token='0123456789abcdef'}]";

    #[test]
    fn an_exposed_server_needs_a_token_or_says_that_it_needs_none() {
        for key in ["server.listen", "server.grpc_listen", "server.vosk_listen"] {
            for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
                let listen = format!("{key}={address}");
                let refused = check_with(&[&listen]).unwrap_err();
                assert!(refused.starts_with(&format!("{key} is ")), "{refused}");
                for way in ["127.0.0.1", "[[server.tokens]]", "server.allow_anonymous = true"] {
                    assert!(refused.contains(way), "{refused}");
                }
                check_with(&[&listen, TOKEN]).unwrap();
                check_with(&[&listen, "server.allow_anonymous=true"]).unwrap();
            }
            for address in ["127.0.0.1:0", "127.8.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
                check_with(&[&format!("{key}={address}")]).unwrap();
            }
        }
    }

    #[test]
    fn a_protocol_without_tokens_is_served_only_where_none_is_needed() {
        let (wyoming, anyone) =
            ("server.wyoming_listen=127.0.0.1:0", "server.allow_anonymous=true");
        check_with(&[wyoming]).unwrap();
        let refused = check_with(&[wyoming, TOKEN]).unwrap_err();
        assert!(refused.contains("has no tokens"), "{refused}");
        check_with(&[wyoming, TOKEN, anyone]).unwrap();
        let exposed = "server.wyoming_listen=0.0.0.0:0";
        assert!(check_with(&[exposed]).unwrap_err().starts_with("server.wyoming_listen is "));
        check_with(&[exposed, anyone]).unwrap();
    }

    #[test]
    fn exposed_control_needs_a_token_of_its_own() {
        let admin = "server.admin_listen=0.0.0.0:0";
        for others in [&[][..], &["server.allow_anonymous=true"], &[TOKEN]] {
            let refused = check_with(&[&[admin], others].concat()).unwrap_err();
            assert!(refused.contains("no token has the role `admin`"), "{refused}");
        }
        check_with(&[admin, ADMIN]).unwrap();
        check_with(&["server.admin_listen=127.0.0.1:0"]).unwrap();
    }

    #[test]
    fn tokens_that_cannot_be_used_are_named() {
        for (tokens, words) in [
            ("[{name='a', roles=['infer'], token='short'}]", "the token `a`: it is shorter"),
            ("[{name='a', roles=['infer'], token_file='/nowhere'}]", "cannot read /nowhere"),
            ("[{name='a', token='0123456789abcdef'}]", "it has no roles"),
            (
                "[{name='a', roles=['infer'], token='0123456789abcdef'},
                  {name='a', roles=['infer'], token='0123456789abcdeg'}]",
                "another of this name",
            ),
        ] {
            let refused = check_with(&[&format!("server.tokens={tokens}")]).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn a_variable_that_is_not_set_stops_the_server_and_not_the_check() {
        let sets = ["server.tokens=[{name='a', roles=['infer'], token_env='NO_SUCH'}]".to_owned()];
        let config = load(None, [], &sets).unwrap();
        check(&config.server).unwrap();
        let refused = Gates::build(&config.server).unwrap_err().to_string();
        assert!(refused.contains("the variable NO_SUCH is not set"), "{refused}");

        let set = [("NO_SUCH".to_owned(), "0123456789abcdef".to_owned())];
        Gates::build(&load(None, set, &sets).unwrap().server).unwrap();
    }

    #[test]
    fn a_certificate_that_is_not_there_is_named() {
        let refused = check_with(&["server.tls.certificate=/nowhere.pem"]).unwrap_err();
        assert!(refused.contains("server.tls.key must name a PEM file"), "{refused}");
        let refused =
            check_with(&["server.tls.certificate=/nowhere.pem", "server.tls.key=/no.pem"])
                .unwrap_err();
        assert!(refused.starts_with("server.tls: cannot read the certificate /nowhere.pem"));
    }
}
