//! Numbers as words.

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: [(u64, &str); 4] = [
    (1_000_000_000_000, "trillion"),
    (1_000_000_000, "billion"),
    (1_000_000, "million"),
    (1000, "thousand"),
];
/// Longer numbers are read digit by digit.
const MAX: u64 = 1_000_000_000_000_000;

/// `1234` is one thousand two hundred thirty four.
pub(crate) fn cardinal(n: u64) -> String {
    if MAX <= n {
        return digits(&n.to_string());
    }
    let mut words = Vec::new();
    let mut left = n;
    for (scale, name) in SCALES {
        if scale <= left {
            words.push(below_thousand(left / scale));
            words.push(name.to_owned());
            left %= scale;
        }
    }
    if 0 < left || n == 0 {
        words.push(below_thousand(left));
    }
    words.join(" ")
}

fn below_thousand(n: u64) -> String {
    let place = |n: u64| usize::try_from(n).unwrap_or(0);
    match n {
        0..20 => ONES[place(n)].to_owned(),
        20..100 if n.is_multiple_of(10) => TENS[place(n / 10)].to_owned(),
        20..100 => format!("{} {}", TENS[place(n / 10)], ONES[place(n % 10)]),
        _ if n.is_multiple_of(100) => format!("{} hundred", ONES[place(n / 100)]),
        _ => format!("{} hundred {}", ONES[place(n / 100)], below_thousand(n % 100)),
    }
}

/// `21` is twenty first.
pub(crate) fn ordinal(n: u64) -> String {
    let words = cardinal(n);
    let (head, last) = words.rsplit_once(' ').map_or(("", &*words), |(head, last)| (head, last));
    let last = match last {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        _ => match last.strip_suffix('y') {
            Some(stem) => format!("{stem}ieth"),
            None => format!("{last}th"),
        },
    };
    if head.is_empty() { last } else { format!("{head} {last}") }
}

/// `1984` is nineteen eighty four, `2005` two thousand five.
pub(crate) fn year(n: u64) -> String {
    let (century, rest) = (n / 100, n % 100);
    if !(1100..2100).contains(&n) || (2000..2010).contains(&n) {
        return cardinal(n);
    }
    match rest {
        0 => format!("{} hundred", cardinal(century)),
        1..10 => format!("{} oh {}", cardinal(century), cardinal(rest)),
        _ => format!("{} {}", cardinal(century), cardinal(rest)),
    }
}

/// `407` is four zero seven.
pub(crate) fn digits(text: &str) -> String {
    let words = text.chars().filter_map(|digit| digit.to_digit(10));
    words.map(|digit| ONES[digit as usize]).collect::<Vec<_>>().join(" ")
}

/// `3.14` is three point one four; a leading zero may be left out.
pub(crate) fn decimal(whole: &str, part: &str) -> String {
    let whole = if whole.is_empty() { "zero".to_owned() } else { integer(whole) };
    if part.is_empty() { whole } else { format!("{whole} point {}", digits(part)) }
}

/// Digits as a number, or one by one where they are too many or begin with zero.
pub(crate) fn integer(text: &str) -> String {
    match text.parse() {
        Ok(n) if !(text.starts_with('0') && 1 < text.len()) => cardinal(n),
        _ => digits(text),
    }
}

/// `2` thirds, `1` half.
pub(crate) fn fraction(over: u64, under: u64) -> Option<String> {
    let name = match under {
        2 => "half".to_owned(),
        4 => "quarter".to_owned(),
        3 | 5..=20 => ordinal(under),
        _ => return None,
    };
    let plural = match (over, under) {
        (1, _) => name,
        (_, 2) => "halves".to_owned(),
        _ => format!("{name}s"),
    };
    Some(format!("{} {plural}", cardinal(over)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_read_them() {
        assert_eq!(cardinal(0), "zero");
        assert_eq!(cardinal(1_000_000), "one million");
        assert_eq!(cardinal(12_345), "twelve thousand three hundred forty five");
        assert_eq!(ordinal(21), "twenty first");
        assert_eq!(ordinal(40), "fortieth");
        assert_eq!(ordinal(112), "one hundred twelfth");
        assert_eq!(year(1984), "nineteen eighty four");
        assert_eq!(year(1905), "nineteen oh five");
        assert_eq!(year(2000), "two thousand");
        assert_eq!(year(2026), "twenty twenty six");
        assert_eq!(decimal("3", "14"), "three point one four");
        assert_eq!(decimal("", "5"), "zero point five");
        assert_eq!(integer("007"), "zero zero seven");
        assert_eq!(fraction(3, 4).unwrap(), "three quarters");
        assert_eq!(fraction(1, 2).unwrap(), "one half");
        assert_eq!(cardinal(u64::MAX).split(' ').count(), 20);
    }
}
