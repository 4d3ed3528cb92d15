//! Settings of Redis with which frames get lost, said loudly at the start.

use redis::{Pipeline, Value};

use crate::link::{Fault, Link, list, text};

/// Asks one server and says what is wrong with it.
pub(crate) async fn check(link: &mut Link) -> Result<Vec<String>, Fault> {
    let mut commands = Pipeline::new();
    for name in ["maxmemory", "maxmemory-policy", "appendonly", "save"] {
        commands.cmd("CONFIG").arg("GET").arg(name);
    }
    let mut values = link.ask(&commands).await?.into_iter();
    let mut setting = || -> Option<String> {
        match values.next()? {
            Value::Map(mut pairs) => text(pairs.pop()?.1),
            value => text(list(value)?.into_iter().nth(1)?),
        }
    };
    let settings = (setting(), setting(), setting(), setting());
    let (Some(max_memory), Some(eviction), Some(append_only), Some(save)) = settings else {
        return Ok(vec![
            "Redis does not say how it is set (CONFIG GET is refused), so nobody checked that it \
             keeps frames: it should have maxmemory-policy noeviction and appendonly yes"
                .to_owned(),
        ]);
    };
    Ok(judge(&max_memory, &eviction, &append_only, &save))
}

fn judge(max_memory: &str, eviction: &str, append_only: &str, save: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if eviction != "noeviction" {
        let when =
            if max_memory == "0" { "as soon as maxmemory is set" } else { "when it is full" };
        warnings.push(format!(
            "Redis removes whole streams with all their frames {when}: maxmemory-policy is \
             {eviction}; set it to noeviction"
        ));
    }
    if append_only != "yes" {
        let loses =
            if save.is_empty() { "everything" } else { "what came after its last snapshot" };
        warnings.push(format!(
            "Redis loses {loses} when it crashes: appendonly is {append_only}; set it to yes"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_loses_frames_is_warned_of() {
        assert!(judge("100mb", "noeviction", "yes", "").is_empty());
        assert!(judge("100mb", "allkeys-lru", "yes", "")[0].contains("when it is full"));
        assert!(judge("0", "noeviction", "no", "")[0].contains("everything"));
        assert_eq!(judge("0", "volatile-ttl", "no", "60 1").len(), 2);
    }
}
