//! When a call's answer is no longer of use to its client.

use std::time::Duration;

use tokio::time::Instant;
use tonic::metadata::MetadataMap;

/// The moment that `grpc-timeout` names, counted from now. One that cannot be read is none.
pub(super) fn deadline(metadata: &MetadataMap) -> Option<Instant> {
    let timeout = parse(metadata.get("grpc-timeout")?.to_str().ok()?)?;
    Instant::now().checked_add(timeout)
}

/// Reads up to eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        assert_eq!(parse("20m"), Some(Duration::from_millis(20)));
        assert_eq!(parse("99999999H"), Some(Duration::from_hours(99_999_999)));
        for wrong in ["", "m", "20", "-1S", "+1S", "1.5S", "123456789S", "1x", "1é"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
