//! Who may connect, and who may do what: `[server.tls]` and `[[server.tokens]]`.

use std::{path::PathBuf, time::Duration};

use paceline_api::{
    access::{Role, Roles},
    tls::TlsFiles,
};
use serde::{Deserialize, Serialize};

use super::{duration, secret::Secret};

/// With what certificate the server shows itself.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSection {
    /// The certificate and those that lead from it to a root, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// Whoever wants to connect must have a certificate of one of these authorities, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// How often the files are looked at for new content, beside on SIGHUP.
    #[serde(with = "duration")]
    pub check_interval: Duration,
}

impl Default for TlsSection {
    fn default() -> Self {
        Self {
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            client_ca: None,
            check_interval: Duration::from_mins(1),
        }
    }
}

impl TlsSection {
    /// The files, all of which must be named.
    pub(crate) fn files(&self) -> Result<TlsFiles, String> {
        for (key, path) in [("certificate", &self.certificate), ("key", &self.key)] {
            if path.as_os_str().is_empty() {
                return Err(format!("server.tls.{key} must name a PEM file"));
            }
        }
        Ok(TlsFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_ca: self.client_ca.clone(),
        })
    }
}

/// One token, and what it is good for.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenSection {
    /// Whose it is.
    pub name: String,
    /// What it is good for.
    pub roles: Vec<RoleName>,
    /// The token itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// A file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A variable of the environment that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// What that variable held when the configuration was loaded.
    #[serde(skip)]
    pub(crate) from_env: Option<Secret>,
}

/// What a token is good for, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RoleName {
    /// Ask models, and ask about them.
    Infer,
    /// Open streams.
    Stream,
    /// Load and unload models.
    Admin,
    /// Read metrics.
    Metrics,
}

impl RoleName {
    const fn role(self) -> Role {
        match self {
            Self::Infer => Role::Infer,
            Self::Stream => Role::Stream,
            Self::Admin => Role::Admin,
            Self::Metrics => Role::Metrics,
        }
    }
}

/// Shorter ones can be guessed.
const MIN_LENGTH: usize = 16;

impl TokenSection {
    pub(crate) fn roles(&self) -> Roles {
        self.roles.iter().map(|role| role.role()).collect()
    }

    /// The token; `None` where it is in a variable that is not set.
    pub(crate) fn read(&self) -> Result<Option<Secret>, String> {
        if self.roles.is_empty() {
            return Err("it has no roles: name some of infer, stream, admin, metrics".to_owned());
        }
        let secret = match (&self.token, &self.token_file, &self.token_env) {
            (Some(token), None, None) => token.clone(),
            (None, Some(path), None) => std::fs::read_to_string(path)
                .map(|text| Secret::from(text.trim_end_matches(['\r', '\n']).to_owned()))
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
            (None, None, Some(_)) => match &self.from_env {
                Some(secret) => secret.clone(),
                None => return Ok(None),
            },
            _ => {
                return Err("give exactly one of token, token_file and token_env".to_owned());
            }
        };
        let text = secret.reveal();
        if text.len() < MIN_LENGTH {
            return Err(format!(
                "it is shorter than {MIN_LENGTH} characters and could be guessed; `openssl rand \
                 -hex 32` makes a good one"
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it holds characters that no header can carry; use letters, digits and \
                        ASCII signs"
                .to_owned());
        }
        Ok(Some(secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> TokenSection {
        TokenSection {
            name: "x".to_owned(),
            roles: vec![RoleName::Infer],
            token: Some(Secret::from(text.to_owned())),
            ..TokenSection::default()
        }
    }

    #[test]
    fn a_token_is_read_from_exactly_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "a-token-in-a-file\n").unwrap();
        let inline = token("a-token-in-the-config");
        let file = TokenSection { token: None, token_file: Some(path), ..inline.clone() };

        assert_eq!(inline.read().unwrap().unwrap().reveal(), "a-token-in-the-config");
        assert_eq!(file.read().unwrap().unwrap().reveal(), "a-token-in-a-file");
        let env = Some("X".to_owned());
        let unset = TokenSection { token: None, token_env: env.clone(), ..inline.clone() };
        assert_eq!(unset.read(), Ok(None));
        for wrong in [
            TokenSection { token_env: env, ..inline.clone() },
            TokenSection { token: None, ..inline.clone() },
            TokenSection { roles: Vec::new(), ..inline },
            token("short"),
            token("with spaces in the middle"),
        ] {
            assert!(wrong.read().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_token_is_never_printed() {
        let section = token("canary-canary-canary");

        let printed = format!("{section:?} {}", toml::to_string(&section).unwrap());

        assert!(!printed.contains("canary"), "{printed}");
        assert!(printed.contains("token = \"***\""), "{printed}");
    }
}
