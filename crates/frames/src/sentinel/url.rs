//! What a Sentinel address says, in the form that is common among clients. Pure.

use redis::{Client, ConnectionAddr, ConnectionInfo};

use crate::address::AddressError;

/// Where Sentinels listen when nothing else is said.
const PORT: u16 = 26379;
const FORM: &str = "it must be like \
    redis+sentinel://[user:password@]host[:26379][,host...]/service[/db]\
    [?sentinel_username=...&sentinel_password=...]";
/// Stands for a server that is not known yet. No host has such a name.
const NOBODY: &str = "nobody.invalid";

/// The parts of an address.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Where the Sentinels are.
    pub(crate) hosts: Vec<(String, u16)>,
    /// What they are asked for.
    pub(crate) service: String,
    /// How the server is spoken to.
    pub(crate) server: ConnectionInfo,
    /// How the Sentinels are.
    pub(crate) sentinel: ConnectionInfo,
}

/// Reads what comes after `://`. What is wrong is said without repeating it: there may be a password
/// in it.
pub(crate) fn parse(rest: &str) -> Result<Parts, AddressError> {
    read(rest).map_err(|wrong| {
        let value = format!("an address of Sentinels {wrong}");
        AddressError { field: "url", value, allowed: FORM }
    })
}

fn read(rest: &str) -> Result<Parts, &'static str> {
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = place.rsplit_once('@').unwrap_or(("", place));
    let (service, db) = path.split_once('/').unwrap_or((path, ""));
    if service.is_empty() {
        return Err("without the name of a service");
    }
    if !db.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("whose database is not a number");
    }
    let (mut sentinel_user, mut sentinel_password) = ("", "");
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sentinel_username", value)) => sentinel_user = value,
            Some(("sentinel_password", value)) => sentinel_password = value,
            _ => return Err("with an option that there is not"),
        }
    }
    let own = format!("{sentinel_user}:{sentinel_password}");
    let wrong = "with a user or a password that cannot be read (are they percent-encoded?)";
    Ok(Parts {
        hosts: hosts.split(',').map(host).collect::<Result<_, _>>()?,
        service: service.to_owned(),
        server: spoken_as(user, db).ok_or(wrong)?,
        sentinel: spoken_as(if own == ":" { "" } else { &own }, "").ok_or(wrong)?,
    })
}

/// A host and its port; an address with colons is in brackets.
fn host(text: &str) -> Result<(String, u16), &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("with a `[` that is not closed")?;
            match port.strip_prefix(':') {
                None if !port.is_empty() => return Err("with something after a `]`"),
                port => (host, port),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("with an IPv6 address that is not in brackets");
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err("with a host that has no name");
    }
    let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| "with a port that is none"));
    match port? {
        0 => Err("with a port that is none"),
        port => Ok((host.to_owned(), port)),
    }
}

/// What a user and a database mean, as the client library reads them.
fn spoken_as(user: &str, db: &str) -> Option<ConnectionInfo> {
    let at = if user.is_empty() { "" } else { "@" };
    let client = Client::open(format!("redis://{user}{at}{NOBODY}/{db}")).ok()?;
    let info = client.get_connection_info();
    // Somewhere else it leads if the user holds what ends one.
    let is_whole = matches!(info.addr(), ConnectionAddr::Tcp(host, _) if host == NOBODY);
    is_whole.then(|| info.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_says_where_sentinels_are_and_what_they_watch() {
        let parts = read("me:a%40b@one:7000,two,[::1]:7001,[fe80::1]/cameras/3").unwrap();

        let hosts = [("one", 7000), ("two", 26379), ("::1", 7001), ("fe80::1", 26379)];
        assert_eq!(parts.hosts, hosts.map(|(host, port)| (host.to_owned(), port)));
        assert_eq!(parts.service, "cameras");
        let settings = parts.server.redis_settings();
        let user = (settings.username(), settings.password(), settings.db());
        assert_eq!(user, (Some("me"), Some("a@b"), 3));
        let settings = parts.sentinel.redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (None, None, 0));
    }

    #[test]
    fn sentinels_have_a_user_of_their_own() {
        let parts = read("one/x?sentinel_username=s&sentinel_password=p%2Fq").unwrap();
        let settings = parts.sentinel.redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("s"), Some("p/q")));
        assert_eq!(parts.server.redis_settings().password(), None);

        let parts = read("one/x/0?sentinel_password=p").unwrap();
        let settings = parts.sentinel.redis_settings();
        assert_eq!((settings.username(), settings.password()), (None, Some("p")));
    }

    #[test]
    fn what_is_wrong_is_said_and_no_password_is() {
        for (rest, wrong) in [
            ("u:secret@one", "without the name of a service"),
            ("u:secret@one/", "without the name of a service"),
            ("u:secret@/x", "with a host that has no name"),
            ("u:secret@one,,two/x", "with a host that has no name"),
            ("u:secret@one:/x", "with a port that is none"),
            ("u:secret@one:0/x", "with a port that is none"),
            ("u:secret@one:65536/x", "with a port that is none"),
            ("u:secret@::1/x", "with an IPv6 address that is not in brackets"),
            ("u:secret@[::1/x", "with a `[` that is not closed"),
            ("u:secret@[::1]7/x", "with something after a `]`"),
            ("u:secret@one/x/y", "whose database is not a number"),
            ("u:secret@one/x/-1", "whose database is not a number"),
            ("u:secret@one/x/99999999999999999999", "with a user or a password"),
            ("u:secret@one/x?password=secret", "with an option that there is not"),
            ("u:secret#@one/x", "with a user or a password that cannot be read"),
        ] {
            let said = parse(rest).unwrap_err().to_string();
            let begins = format!("url is an address of Sentinels {wrong}");
            assert!(said.starts_with(&begins), "{rest}: {said}");
            assert!(said.ends_with(FORM) && !said.contains("secret"), "{said}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_an_address_or_refused(rest in "[a-z0-9:@/,?&=#%\\[\\]. ]{0,40}") {
            if let Ok(parts) = read(&rest) {
                prop_assert!(!parts.hosts.is_empty() && !parts.service.is_empty());
                prop_assert!(parts.hosts.iter().all(|(host, port)| !host.is_empty() && *port != 0));
            }
        }
    }
}
