//! Where a remote model is: one address and the protocol that is spoken there.

use std::{fmt, str::FromStr};

/// What is spoken with an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The Open Inference Protocol over gRPC.
    Grpc,
    /// The same over HTTP, with the binary tensor extension.
    Http,
}

/// One server that has the model: `grpc://host:port` or `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// What is spoken there.
    pub protocol: Protocol,
    /// Host and port.
    pub authority: http::uri::Authority,
}

/// A text that names no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no endpoint ({why}); write \"grpc://host:8001\" or \"http://host:8000\"")]
pub struct EndpointError {
    text: String,
    why: &'static str,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let wrong = |why| EndpointError { text: text.chars().take(200).collect(), why };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let protocol = match scheme {
            "grpc" => Protocol::Grpc,
            "http" => Protocol::Http,
            "https" | "grpcs" => return Err(wrong("TLS to remote models is not supported")),
            _ => return Err(wrong("its scheme is unknown")),
        };
        let authority: http::uri::Authority = rest
            .strip_suffix('/')
            .unwrap_or(rest)
            .parse()
            .map_err(|_| wrong("it is more or less than a host and a port"))?;
        match authority.port_u16() {
            Some(_) if !authority.as_str().contains('@') => Ok(Self { protocol, authority }),
            Some(_) => Err(wrong("it names a user; use `token_env`")),
            None => Err(wrong("it has no port")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            Protocol::Grpc => "grpc",
            Protocol::Http => "http",
        };
        write!(f, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_reads_back_as_itself() {
        for text in ["grpc://triton:8001", "http://127.0.0.1:8000", "http://[::1]:80"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_a_reason() {
        for (text, why) in [
            ("triton:8001", "no scheme"),
            ("ftp://triton:8001", "scheme is unknown"),
            ("https://triton:8001", "TLS"),
            ("http://triton", "no port"),
            ("http://triton:8000/v2", "more or less than a host"),
            ("http://me@triton:8000", "names a user"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
