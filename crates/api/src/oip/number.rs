//! Numbers, read from JSON text straight into their type.
//!
//! These are the innermost loops of a JSON request. Each says `None` without a word when the text
//! is not what it wants: `elements` then looks again, slowly, and explains.

use std::str::FromStr;

use super::scan::Scanner;

// They work on a text and an index rather than on the scanner, which keeps the index in a register.
// Each gives the value and where it ends.

/// An unsigned integer.
#[inline]
pub(super) fn unsigned(text: &[u8], at: usize) -> Option<(u64, usize)> {
    whole(text, at)
}

/// A signed integer.
#[inline]
pub(super) fn signed(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = text.get(at) == Some(&b'-');
    let (value, end) = whole(text, at + usize::from(negative))?;
    let value =
        if negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() };
    Some((value?, end))
}

/// A single-precision number, correctly rounded; `None` too where that is infinite.
#[inline]
pub(super) fn single(text: &[u8], at: usize) -> Option<(f32, usize)> {
    let quick = quick(text, at).and_then(|(value, end)| Some((narrow(value)?, end)));
    let (value, end) = if quick.is_some() { quick? } else { slow(text, at)? };
    value.is_finite().then_some((value, end))
}

/// A double-precision number, correctly rounded; `None` too where that is infinite.
#[inline]
pub(super) fn double(text: &[u8], at: usize) -> Option<(f64, usize)> {
    let quick = quick(text, at);
    let (value, end) = if quick.is_some() { quick? } else { slow(text, at)? };
    value.is_finite().then_some((value, end))
}

/// Any number, by the standard library.
#[cold]
fn slow<T: FromStr>(text: &[u8], at: usize) -> Option<(T, usize)> {
    let mut scanner = Scanner::new(text).moved(at);
    let value = scanner.number()?.parse().ok()?;
    Some((value, scanner.at()))
}

/// Digits from `at` on without a leading zero, and where they end.
#[inline]
fn whole(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = digit(text, at)?;
    let Some(second) = digit(text, at + 1) else { return Some((first, at + 1)) };
    if first == 0 {
        return None;
    }
    let mut value = first * 10 + second;
    let mut end = at + 2;
    while let Some(next) = digit(text, end) {
        value = value.checked_mul(10)?.checked_add(next)?;
        end += 1;
    }
    Some((value, end))
}

#[inline]
fn digit(text: &[u8], at: usize) -> Option<u64> {
    let digit = text.get(at)?.wrapping_sub(b'0');
    (digit <= 9).then_some(u64::from(digit))
}

/// Powers of ten that `f64` holds exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A number whose digits and power of ten are both exact in `f64`, so that one multiplication or
/// division rounds it correctly (Clinger's fast path), and where it ends. `None` for all others
/// and for what is no number; the caller starts over.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "the mantissa is below 2^53")]
fn quick(text: &[u8], at: usize) -> Option<(f64, usize)> {
    let negative = text.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let mut mantissa = digit(text, start)?;
    let mut at = start + 1;
    if mantissa != 0 {
        (mantissa, at) = digits(text, at, mantissa);
    }
    let mut n_digits = at - start;
    let mut exponent = 0_isize;
    if text.get(at) == Some(&b'.') {
        let point = at + 1;
        (mantissa, at) = digits(text, point, mantissa);
        if at == point {
            return None;
        }
        n_digits += at - point;
        exponent = point.cast_signed() - at.cast_signed();
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let (power, end) = power(text, at + 1)?;
        exponent += power;
        at = end;
    }
    // Nineteen digits cannot have wrapped.
    if n_digits > 19 || mantissa >= 1 << 53 {
        return None;
    }
    let power = EXACT.get(exponent.unsigned_abs())?;
    let value = if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
    Some((if negative { -value } else { value }, at))
}

/// Reads digits behind those in `mantissa`, and says where they end; wraps where there are too
/// many.
#[inline]
fn digits(text: &[u8], mut at: usize, mut mantissa: u64) -> (u64, usize) {
    while let Some(eight) = text.get(at..).and_then(eight_digits) {
        mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(eight);
        at += 8;
    }
    while let Some(next) = digit(text, at) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(next);
        at += 1;
    }
    (mantissa, at)
}

/// The value of eight digits, where there are eight, by adding neighbours in pairs.
#[inline]
fn eight_digits(text: &[u8]) -> Option<u64> {
    let word = u64::from_le_bytes(*text.first_chunk()?);
    let high = word & 0xF0F0_F0F0_F0F0_F0F0;
    let carried = word.wrapping_add(0x0606_0606_0606_0606) & 0xF0F0_F0F0_F0F0_F0F0;
    if (high | carried >> 4) != 0x3333_3333_3333_3333 {
        return None;
    }
    let word = word & 0x0F0F_0F0F_0F0F_0F0F;
    let pairs = (word.wrapping_mul((10 << 8) + 1) >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs.wrapping_mul((100 << 16) + 1) >> 16) & 0x0000_FFFF_0000_FFFF;
    Some(fours.wrapping_mul((10_000 << 32) + 1) >> 32)
}

/// A power of ten of at most three digits, and where it ends.
fn power(text: &[u8], at: usize) -> Option<(isize, usize)> {
    let negative = text.get(at) == Some(&b'-');
    let start = at + usize::from(negative || text.get(at) == Some(&b'+'));
    let (value, end) = digits(text, start, 0);
    let value = isize::try_from(value).ok().filter(|_| (1..=3).contains(&(end - start)))?;
    Some((if negative { -value } else { value }, end))
}

/// Rounds to single precision, unless the number is on the middle between two neighbours, where
/// rounding twice could differ from rounding once. Among subnormals it could too, but nothing
/// that [`quick`] gives is that small: its powers of ten end at 22.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
fn narrow(value: f64) -> Option<f32> {
    const BELOW: u64 = (1 << 29) - 1;
    const MIDDLE: u64 = 1 << 28;
    let on_middle = value.to_bits() & BELOW == MIDDLE;
    (!on_middle).then_some(value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all<T>(text: &str, read: impl Fn(&[u8], usize) -> Option<(T, usize)>) -> Option<T> {
        read(text.as_bytes(), 0).filter(|(_, end)| *end == text.len()).map(|(value, _)| value)
    }

    #[test]
    fn the_ends_of_each_integer_range_are_exact() {
        assert_eq!(read_all("18446744073709551615", unsigned), Some(u64::MAX));
        assert_eq!(read_all("18446744073709551616", unsigned), None);
        assert_eq!(read_all("-9223372036854775808", signed), Some(i64::MIN));
        assert_eq!(read_all("-9223372036854775809", signed), None);
        assert_eq!(read_all("9007199254740993", unsigned), Some((1 << 53) + 1));
        for wrong in ["01", "00", "-", "", "-01", "1.0", "1e2", "+1"] {
            assert_eq!(read_all(wrong, signed), None, "{wrong}");
        }
        assert_eq!(read_all("-0", signed), Some(0));
    }

    #[test]
    fn a_number_beyond_its_type_is_not_infinity() {
        assert_eq!(read_all("3.4028235e38", single), Some(f32::MAX));
        assert_eq!(read_all("3.5e38", single), None);
        assert_eq!(read_all("1e39", single), None);
        assert_eq!(read_all("1e400", double), None);
        // Twenty digits, which are 1 if they wrap.
        assert_eq!(read_all("18446744073709551617", double), Some(18_446_744_073_709_551_617.0));
        assert_eq!(read_all("-0.0", single).map(f32::to_bits), Some((-0.0_f32).to_bits()));
        for wrong in ["1.", ".5", "01.5", "1e", "1e+", "NaN", "-", "00", "--1"] {
            assert_eq!(read_all(wrong, single), None, "{wrong}");
            assert_eq!(read_all(wrong, double), None, "{wrong}");
        }
    }

    #[test]
    fn a_number_in_the_middle_of_two_is_rounded_once() {
        // Rounded to double first, each of these lands on the middle of two singles, and from
        // there on the wrong one.
        for text in ["1.000000536441803", "1.000001847743988", "16777217.000000001"] {
            assert_eq!(read_all(text, single), text.parse().ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_single_reads_back(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());

            for text in [format!("{value:?}"), format!("{value}"), format!("{value:e}")] {
                prop_assert_eq!(read_all(&text, single).map(f32::to_bits), Some(bits), "{}", text);
            }
        }

        #[test]
        fn every_double_reads_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());

            for text in [format!("{value:?}"), format!("{value:e}")] {
                prop_assert_eq!(read_all(&text, double).map(f64::to_bits), Some(bits), "{}", text);
            }
        }

        #[test]
        fn decimals_round_as_the_standard_library_rounds(
            text in "-?(0|[1-9][0-9]{0,12})(\\.[0-9]{1,14})?([eE][+-]?[0-9]{1,3})?"
        ) {
            let expected = text.parse::<f32>().ok().filter(|value| value.is_finite());
            prop_assert_eq!(read_all(&text, single).map(f32::to_bits), expected.map(f32::to_bits));
            let expected = text.parse::<f64>().ok().filter(|value| value.is_finite());
            prop_assert_eq!(read_all(&text, double).map(f64::to_bits), expected.map(f64::to_bits));
        }

        #[test]
        fn every_integer_reads_back(value in any::<i64>(), positive in any::<u64>()) {
            prop_assert_eq!(read_all(&value.to_string(), signed), Some(value));
            prop_assert_eq!(read_all(&positive.to_string(), unsigned), Some(positive));
        }
    }
}
