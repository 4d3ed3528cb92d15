//! Where a request stands in a trace, as W3C Trace Context writes it. Pure.

use std::fmt;

/// A place in a trace: which trace, which span of it, and whether anybody keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    is_sampled: bool,
}

impl TraceContext {
    /// A place; `None` where a number is 0, which names nothing.
    #[must_use]
    pub const fn new(trace: u128, span: u64, is_sampled: bool) -> Option<Self> {
        if trace == 0 || span == 0 { None } else { Some(Self { trace, span, is_sampled }) }
    }

    /// Reads a `traceparent` header. What is malformed counts as not there, as the standard wants.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(header).ok()?;
        let mut parts = text.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let trace = hex(parts.next()?, 32)?;
        let span = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        // Later versions may have more to say; this one has not.
        let is_known = version != 0xff && (version != 0 || parts.next().is_none());
        if is_known { Self::new(trace, span, flags & 1 == 1) } else { None }
    }

    /// Which trace.
    #[must_use]
    pub const fn trace(&self) -> u128 {
        self.trace
    }

    /// Which span of it.
    #[must_use]
    pub const fn span(&self) -> u64 {
        self.span
    }

    /// Whether anybody keeps it.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Another span of the same trace.
    #[must_use]
    pub const fn with_span(self, span: u64) -> Self {
        Self { span: if span == 0 { 1 } else { span }, ..self }
    }

    /// The span of the call that the item with this place is the first traced one of. Whoever
    /// knows the first item knows it, so nothing has to be handed from one to the other.
    #[must_use]
    pub const fn of_batch(self) -> Self {
        // Steele, Lea and Flood's mixer: different spans have different calls.
        let mut mixed = self.span.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.with_span(mixed ^ (mixed >> 31))
    }
}

/// As the `traceparent` header has it.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// Exactly so many lower-case digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_hex = text.len() == digits && text.bytes().all(is_digit);
    if is_hex { u128::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_written_is_read() {
        let context = TraceContext::parse(EXAMPLE.as_bytes()).unwrap();

        assert_eq!(context.trace(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(context.span(), 0x00f0_67aa_0ba9_02b7);
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), EXAMPLE);
        let batch = context.of_batch();
        assert_eq!(batch.trace(), context.trace());
        assert_ne!(batch.span(), context.span());
    }

    #[test]
    fn what_is_malformed_is_not_there() {
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(TraceContext::parse(&[0xff; 55]), None);
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-what-is-to-come";
        assert!(!TraceContext::parse(later.as_bytes()).unwrap().is_sampled());
    }
}
