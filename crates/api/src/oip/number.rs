//! Numbers, read from JSON text straight into their type.
//!
//! These are the innermost loops of a JSON request. Each says `None` without a word when the text
//! is not what it wants: `elements` then looks again, slowly, and explains.

use super::scan::Scanner;

/// An unsigned integer. Stops behind its digits.
#[inline]
pub(super) fn unsigned(scanner: &mut Scanner<'_>) -> Option<u64> {
    let first = digit(scanner)?;
    scanner.advance();
    let mut value = first;
    let Some(second) = digit(scanner) else { return Some(value) };
    if first == 0 {
        return None;
    }
    value = value * 10 + second;
    scanner.advance();
    while let Some(next) = digit(scanner) {
        value = value.checked_mul(10)?.checked_add(next)?;
        scanner.advance();
    }
    Some(value)
}

/// A signed integer. Stops behind its digits.
#[inline]
pub(super) fn signed(scanner: &mut Scanner<'_>) -> Option<i64> {
    if scanner.byte() == Some(b'-') {
        scanner.advance();
        0_i64.checked_sub_unsigned(unsigned(scanner)?)
    } else {
        i64::try_from(unsigned(scanner)?).ok()
    }
}

/// A single-precision number, correctly rounded; `None` too where that is infinite.
#[inline]
pub(super) fn single(scanner: &mut Scanner<'_>) -> Option<f32> {
    let start = scanner.at();
    let value = if let Some(value) = quick(scanner).and_then(narrow) {
        value
    } else {
        *scanner = scanner.rewound(start);
        scanner.number()?.parse::<f32>().ok()?
    };
    value.is_finite().then_some(value)
}

/// A double-precision number, correctly rounded; `None` too where that is infinite.
#[inline]
pub(super) fn double(scanner: &mut Scanner<'_>) -> Option<f64> {
    let start = scanner.at();
    let value = if let Some(value) = quick(scanner) {
        value
    } else {
        *scanner = scanner.rewound(start);
        scanner.number()?.parse::<f64>().ok()?
    };
    value.is_finite().then_some(value)
}

#[inline]
fn digit(scanner: &Scanner<'_>) -> Option<u64> {
    let digit = scanner.byte()?.wrapping_sub(b'0');
    (digit <= 9).then_some(u64::from(digit))
}

/// Powers of ten that `f64` holds exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A number whose digits and power of ten are both exact in `f64`, so that one multiplication or
/// division rounds it correctly (Clinger's fast path). `None` for all others and for what is no
/// number; the caller starts over.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "the mantissa is below 2^53")]
fn quick(scanner: &mut Scanner<'_>) -> Option<f64> {
    let negative = scanner.byte() == Some(b'-');
    if negative {
        scanner.advance();
    }
    let start = scanner.at();
    let mut mantissa = digit(scanner)?;
    scanner.advance();
    if mantissa != 0 {
        mantissa = digits(scanner, mantissa);
    }
    let mut n_digits = scanner.at() - start;
    let mut exponent = 0_isize;
    if scanner.byte() == Some(b'.') {
        scanner.advance();
        let point = scanner.at();
        mantissa = digits(scanner, mantissa);
        let n_decimals = scanner.at() - point;
        if n_decimals == 0 {
            return None;
        }
        n_digits += n_decimals;
        exponent = -n_decimals.cast_signed();
    }
    if matches!(scanner.byte(), Some(b'e' | b'E')) {
        exponent += power(scanner)?;
    }
    // Nineteen digits cannot have wrapped.
    if n_digits > 19 || mantissa >= 1 << 53 {
        return None;
    }
    let power = EXACT.get(exponent.unsigned_abs())?;
    let value = if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
    Some(if negative { -value } else { value })
}

/// Reads digits behind those in `mantissa`; wraps where there are too many.
#[inline]
fn digits(scanner: &mut Scanner<'_>, mut mantissa: u64) -> u64 {
    while let Some(next) = digit(scanner) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(next);
        scanner.advance();
    }
    mantissa
}

/// A power of ten of at most three digits.
fn power(scanner: &mut Scanner<'_>) -> Option<isize> {
    scanner.advance();
    let negative = scanner.byte() == Some(b'-');
    if negative || scanner.byte() == Some(b'+') {
        scanner.advance();
    }
    let start = scanner.at();
    let value = digits(scanner, 0);
    let n_digits = scanner.at() - start;
    let value = isize::try_from(value).ok().filter(|_| (1..=3).contains(&n_digits))?;
    Some(if negative { -value } else { value })
}

/// Rounds to single precision, unless rounding twice could differ from rounding once: on the
/// middle between two neighbours, and among subnormals.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
fn narrow(value: f64) -> Option<f32> {
    const BELOW: u64 = (1 << 29) - 1;
    const MIDDLE: u64 = 1 << 28;
    let on_middle = value.to_bits() & BELOW == MIDDLE;
    let subnormal = value.abs() < f64::from(f32::MIN_POSITIVE) && value != 0.0;
    (!on_middle && !subnormal).then_some(value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole<T>(text: &str, read: impl FnOnce(&mut Scanner<'_>) -> Option<T>) -> Option<T> {
        let mut scanner = Scanner::new(text.as_bytes());
        read(&mut scanner).filter(|_| scanner.left() == 0)
    }

    #[test]
    fn the_ends_of_each_integer_range_are_exact() {
        assert_eq!(whole("18446744073709551615", unsigned), Some(u64::MAX));
        assert_eq!(whole("18446744073709551616", unsigned), None);
        assert_eq!(whole("-9223372036854775808", signed), Some(i64::MIN));
        assert_eq!(whole("-9223372036854775809", signed), None);
        assert_eq!(whole("9007199254740993", unsigned), Some((1 << 53) + 1));
        for wrong in ["01", "00", "-", "", "-01", "1.0", "1e2", "+1"] {
            assert_eq!(whole(wrong, signed), None, "{wrong}");
        }
        assert_eq!(whole("-0", signed), Some(0));
    }

    #[test]
    fn a_number_beyond_its_type_is_not_infinity() {
        assert_eq!(whole("3.4028235e38", single), Some(f32::MAX));
        assert_eq!(whole("3.5e38", single), None);
        assert_eq!(whole("1e39", single), None);
        assert_eq!(whole("1e400", double), None);
        assert_eq!(whole("-0.0", single).map(f32::to_bits), Some((-0.0_f32).to_bits()));
        for wrong in ["1.", ".5", "01.5", "1e", "1e+", "NaN", "-", "00", "--1"] {
            assert_eq!(whole(wrong, single), None, "{wrong}");
            assert_eq!(whole(wrong, double), None, "{wrong}");
        }
    }

    #[test]
    fn a_number_in_the_middle_of_two_is_rounded_once() {
        // Rounded to double first, each of these lands on the middle of two singles.
        for text in ["16777217.000000001", "1.00000005960464484", "1.00000005960464477"] {
            assert_eq!(whole(text, single), text.parse().ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_single_reads_back(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());

            for text in [format!("{value:?}"), format!("{value}"), format!("{value:e}")] {
                prop_assert_eq!(whole(&text, single).map(f32::to_bits), Some(bits), "{}", text);
            }
        }

        #[test]
        fn every_double_reads_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());

            for text in [format!("{value:?}"), format!("{value:e}")] {
                prop_assert_eq!(whole(&text, double).map(f64::to_bits), Some(bits), "{}", text);
            }
        }

        #[test]
        fn decimals_round_as_the_standard_library_rounds(
            text in "-?(0|[1-9][0-9]{0,12})(\\.[0-9]{1,14})?([eE][+-]?[0-9]{1,3})?"
        ) {
            let expected = text.parse::<f32>().ok().filter(|value| value.is_finite());
            prop_assert_eq!(whole(&text, single).map(f32::to_bits), expected.map(f32::to_bits));
            let expected = text.parse::<f64>().ok().filter(|value| value.is_finite());
            prop_assert_eq!(whole(&text, double).map(f64::to_bits), expected.map(f64::to_bits));
        }

        #[test]
        fn every_integer_reads_back(value in any::<i64>(), positive in any::<u64>()) {
            prop_assert_eq!(whole(&value.to_string(), signed), Some(value));
            prop_assert_eq!(whole(&positive.to_string(), unsigned), Some(positive));
        }
    }
}
