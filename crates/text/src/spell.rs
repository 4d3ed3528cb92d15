//! What is written in signs, said in words: numbers, dates, times, money, units, abbreviations.
//!
//! One word after the other, each with a look at its neighbours. What is not known stays as it is.

use crate::{
    abbreviations::{MONTHS, dotted, month, unit, with_dot},
    numbers::{cardinal, decimal, digits, fraction, integer, ordinal, year},
};

/// The text with everything in words that a lexicon does not have.
#[must_use]
pub fn spell_out(text: &str) -> String {
    let text = plain(text);
    let is_shouting = !text.chars().any(char::is_lowercase);
    let words: Vec<&str> = text.split(' ').collect();
    let mut said: Vec<String> = Vec::with_capacity(words.len());
    let mut previous = "";
    for (at, word) in words.iter().enumerate() {
        let next = words[at + 1..].iter().find(|word| !word.trim().is_empty()).copied();
        let around = Around { previous, next: next.unwrap_or_default(), is_shouting };
        said.push(spell_word(word, &around));
        if !word.trim().is_empty() {
            previous = word;
        }
    }
    said.join(" ")
}

/// What stands beside a word.
struct Around<'a> {
    previous: &'a str,
    next: &'a str,
    is_shouting: bool,
}

/// One word with what is stuck to it.
fn spell_word(word: &str, around: &Around<'_>) -> String {
    if let Some(full) = symbol(word, around) {
        return full.to_owned();
    }
    if let Some(unit) = unit_word(word, around) {
        return unit;
    }
    let start = word.find(|letter: char| is_core(letter) || "$£€#-+.~".contains(letter));
    let (before, rest) = word.split_at(start.unwrap_or(word.len()));
    let end =
        rest.char_indices().rev().find(|(_, letter)| is_core(*letter) || "%°".contains(*letter));
    let end = end.map_or(0, |(at, letter)| at + letter.len_utf8());
    let (core, after) = rest.split_at(end);
    if let Some(full) = dotted(&format!("{core}.")).filter(|_| after.starts_with('.')) {
        let ends = around.next.is_empty() || around.next.starts_with(char::is_uppercase);
        return format!("{before}{full}{}", &after[usize::from(!ends)..]);
    }
    if after.starts_with('.')
        && let Some(full) = with_dot(core, around.next.chars().next())
    {
        // Few of them end a sentence; behind those a capital begins the next one.
        const ENDING: [&str; 11] = [
            "et cetera",
            "Junior",
            "Senior",
            "incorporated",
            "limited",
            "corporation",
            "company",
            "avenue",
            "boulevard",
            "road",
            "street",
        ];
        let ends = around.next.is_empty()
            || (ENDING.contains(&full) && around.next.starts_with(char::is_uppercase));
        return format!("{before}{full}{}", &after[usize::from(!ends)..]);
    }
    let said = number(core, around).or_else(|| address(core)).or_else(|| letters(core, around));
    let said = said.unwrap_or_else(|| core.replace(['-', '_'], " "));
    format!("{before}{said}{after}")
}

fn is_core(letter: char) -> bool {
    letter.is_alphanumeric()
}

/// Quotes, dashes and letters as the lexicon has them.
fn plain(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '’' | '‘' | 'ʼ' => said.push('\''),
            '“' | '”' | '«' | '»' => said.push('"'),
            '—' | '–' if said.ends_with(|c: char| c.is_ascii_digit()) => said.push('-'),
            '—' | '–' => said.push_str(", "),
            '−' => said.push('-'),
            '…' => said.push('.'),
            '½' => said.push_str(" 1/2"),
            '¼' => said.push_str(" 1/4"),
            '¾' => said.push_str(" 3/4"),
            'á' | 'à' | 'â' | 'ä' | 'ã' | 'å' => said.push('a'),
            'é' | 'è' | 'ê' | 'ë' => said.push('e'),
            'í' | 'ì' | 'î' | 'ï' => said.push('i'),
            'ó' | 'ò' | 'ô' | 'ö' | 'õ' | 'ø' => said.push('o'),
            'ú' | 'ù' | 'û' | 'ü' => said.push('u'),
            'ç' => said.push('c'),
            'ñ' => said.push('n'),
            'ß' => said.push_str("ss"),
            'æ' => said.push_str("ae"),
            'œ' => said.push_str("oe"),
            '\t' => said.push(' '),
            '\n' => said.push_str(" \n "),
            letter if letter.is_control() => said.push(' '),
            letter => said.push(letter),
        }
    }
    said.replace("--", ", ")
}

/// A sign that stands alone.
fn symbol(word: &str, around: &Around<'_>) -> Option<&'static str> {
    let is_between_numbers = around.previous.ends_with(|c: char| c.is_ascii_digit())
        && around.next.starts_with(|c: char| c.is_ascii_digit());
    Some(match word {
        "&" => "and",
        "+" => "plus",
        "=" => "equals",
        "@" => "at",
        "%" => "percent",
        "-" if is_between_numbers => "minus",
        "-" => ",",
        "/" => "slash",
        "*" | "x" | "×" if is_between_numbers => "times",
        "<" => "less than",
        ">" => "greater than",
        _ => return None,
    })
}

/// A unit with a space between it and its number: `5 °C`, `60 mph`.
fn unit_word(word: &str, around: &Around<'_>) -> Option<String> {
    let bare = word.trim_end_matches(['.', ',', ';', ':', '?', '!']);
    let is_after_number = around.previous.ends_with(|c: char| c.is_ascii_digit());
    // `5 in the box` is no length.
    if !is_after_number || bare == "in" {
        return None;
    }
    let full = unit(bare, around.previous == "1")?;
    Some(format!("{full}{}", &word[bare.len()..]))
}

/// Anything that begins with a digit or stands before one.
fn number(core: &str, around: &Around<'_>) -> Option<String> {
    if !core.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Some(rest) = core.strip_prefix('#') {
        return Some(format!("number {}", number(rest, around)?));
    }
    if let Some(rest) = core.strip_prefix('~') {
        return Some(format!("about {}", number(rest, around)?));
    }
    if let Some(rest) = core.strip_prefix('-').filter(|rest| rest.starts_with(is_digit_or_money)) {
        return Some(format!("minus {}", number(rest, around)?));
    }
    if let Some(rest) = core.strip_prefix('+') {
        return Some(format!("plus {}", number(rest, around)?));
    }
    money(core, around)
        .or_else(|| date(core))
        .or_else(|| time(core))
        .or_else(|| ordinal_word(core))
        .or_else(|| of_month(core, around))
        .or_else(|| range(core))
        .or_else(|| over(core))
        .or_else(|| measured(core, around))
        .or_else(|| Some(mixed(core, around)))
}

fn is_digit_or_money(letter: char) -> bool {
    letter.is_ascii_digit() || "$£€.".contains(letter)
}

/// `1,234.5` as its whole and its decimal part, without commas.
fn split_number(text: &str) -> Option<(String, &str)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let groups: Vec<&str> = whole.split(',').collect();
    let grouped = groups.len() == 1
        || (groups[0].len() <= 3 && groups[1..].iter().all(|group| group.len() == 3));
    let is_number = grouped
        && groups.iter().all(|group| is_digits(group))
        && is_digits(part)
        && !(whole.is_empty() && part.is_empty())
        && (!text.ends_with('.') || part.is_empty());
    is_number.then(|| (groups.concat(), part))
}

/// `$3.50`, `£20`, `€5m`, `$2 million`.
fn money(core: &str, around: &Around<'_>) -> Option<String> {
    let mut letters = core.chars();
    let (one, many, small) = match letters.next()? {
        '$' => ("dollar", "dollars", "cent"),
        '£' => ("pound", "pounds", "penny"),
        '€' => ("euro", "euros", "cent"),
        _ => return None,
    };
    let amount = letters.as_str();
    let scale = [("bn", "billion"), ("k", "thousand"), ("m", "million"), ("b", "billion")]
        .into_iter()
        .find_map(|(short, full)| Some((strip_suffix_any_case(amount, short)?, full)));
    if let Some((amount, scale)) = scale {
        let (whole, part) = split_number(amount)?;
        return Some(format!("{} {scale} {many}", decimal(&whole, part)));
    }
    let (whole, part) = split_number(amount)?;
    let is_scale = ["hundred", "thousand", "million", "billion", "trillion"]
        .iter()
        .any(|scale| around.next.to_lowercase().starts_with(scale));
    if is_scale {
        // `$2 million` is said `two million dollars`; the word after is left where it is.
        return Some(decimal(&whole, part));
    }
    let name = if whole == "1" { one } else { many };
    let cents: u64 = part.parse().unwrap_or(0);
    Some(match (part.len(), cents) {
        (0, _) | (2, 0) => format!("{} {name}", integer(&whole)),
        (2, cents) => {
            let plural = match (small, cents) {
                ("penny", 1) => "penny",
                ("penny", _) => "pence",
                (_, 1) => "cent",
                _ => "cents",
            };
            let cents = format!("{} {plural}", cardinal(cents));
            if whole == "0" || whole.is_empty() {
                cents
            } else {
                format!("{} {name} and {cents}", integer(&whole))
            }
        }
        _ => format!("{} {many}", decimal(&whole, part)),
    })
}

fn strip_suffix_any_case<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(suffix.len())?;
    let (head, tail) = text.split_at_checked(at)?;
    tail.eq_ignore_ascii_case(suffix).then_some(head).filter(|head| !head.is_empty())
}

/// `2024-05-17`, `5/17/2024`.
fn date(core: &str) -> Option<String> {
    let parts = |sign| {
        let parts: Vec<u64> =
            core.split(sign).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        <[u64; 3]>::try_from(parts).ok()
    };
    let (month, day, of) = match (parts('-'), parts('/')) {
        (Some([year, month, day]), _) if 1000 <= year => (month, day, year),
        (_, Some([month, day, year])) if 1000 <= year => (month, day, year),
        (_, Some([month, day, year])) if year < 100 => (month, day, 2000 + year),
        _ => return None,
    };
    let name = MONTHS.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    (1..=31).contains(&day).then(|| format!("{name} {}, {}", ordinal(day), year(of)))
}

/// `3:45`, `15:00`, `9:05pm`.
fn time(core: &str) -> Option<String> {
    let half = [("am", " ay m"), ("pm", " p m")]
        .into_iter()
        .find_map(|(short, full)| Some((strip_suffix_any_case(core, short)?, full)));
    let (clock, half) = half.unwrap_or((core, ""));
    let Some((hours, minutes)) = clock.split_once(':') else {
        let hour: u64 = clock.parse().ok()?;
        return (!half.is_empty() && hour <= 12).then(|| format!("{}{half}", cardinal(hour)));
    };
    let minutes = minutes.split(':').next()?;
    let (hour, minute): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
    if 24 < hour || 59 < minute || minutes.len() != 2 {
        return None;
    }
    let minutes = match minute {
        0 if half.is_empty() => " o'clock".to_owned(),
        0 => String::new(),
        1..10 => format!(" oh {}", cardinal(minute)),
        _ => format!(" {}", cardinal(minute)),
    };
    Some(format!("{}{minutes}{half}", cardinal(hour)))
}

/// `21st`.
fn ordinal_word(core: &str) -> Option<String> {
    let suffixes = ["st", "nd", "rd", "th"];
    let stem = suffixes.into_iter().find_map(|suffix| strip_suffix_any_case(core, suffix))?;
    Some(ordinal(stem.replace(',', "").parse().ok()?))
}

/// `May 5`, `5 May`.
fn of_month(core: &str, around: &Around<'_>) -> Option<String> {
    let day: u64 = core.parse().ok().filter(|day| (1..=31).contains(day))?;
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphabetic()).to_owned();
    if is_month(&bare(around.previous)) {
        return Some(ordinal(day));
    }
    is_month(&bare(around.next)).then(|| format!("the {} of", ordinal(day)))
}

fn is_month(word: &str) -> bool {
    let capital = word.starts_with(char::is_uppercase);
    capital
        && (month(word).is_some() || with_dot(word, None).is_some_and(|full| month(full).is_some()))
}

/// `5-10`, `1914-1918`, `555-1234`.
fn range(core: &str) -> Option<String> {
    let parts: Vec<&str> = core.split('-').collect();
    if parts.len() < 2 || !parts.iter().all(|part| split_number(part).is_some()) {
        return None;
    }
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    if 2 < parts.len() || lengths == [3, 4] {
        return Some(parts.iter().map(|part| digits(part)).collect::<Vec<_>>().join(", "));
    }
    let said = |part: &str| {
        let (whole, fraction) = split_number(part)?;
        let is_year = lengths == [4, 4] && fraction.is_empty();
        Some(if is_year { year(whole.parse().ok()?) } else { decimal(&whole, fraction) })
    };
    Some(format!("{} to {}", said(parts[0])?, said(parts[1])?))
}

/// `3/4`, `24/7`.
fn over(core: &str) -> Option<String> {
    let (over, under) = core.split_once('/')?;
    let (over, under): (u64, u64) = (over.parse().ok()?, under.parse().ok()?);
    let small = Some(()).filter(|()| over < under).and_then(|()| fraction(over, under));
    Some(small.unwrap_or_else(|| format!("{} {}", cardinal(over), cardinal(under))))
}

/// A number with or without a unit stuck to it: `20%`, `5km`, `1990s`, `3.14`.
fn measured(core: &str, around: &Around<'_>) -> Option<String> {
    let end =
        core.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(core.len());
    let (amount, stuck) = core.split_at(end);
    let (whole, part) = split_number(amount)?;
    if stuck.is_empty() {
        let is_unit =
            |word: &str| unit(word.trim_end_matches(['.', ',', '?', '!']), false).is_some();
        let is_year = part.is_empty() && amount.len() == 4 && !is_unit(around.next);
        return Some(match whole.parse() {
            Ok(n) if is_year && (1100..2100).contains(&n) => year(n),
            _ => decimal(&whole, part),
        });
    }
    if (stuck == "s" || stuck == "'s") && part.is_empty() {
        let n: u64 = whole.parse().ok()?;
        let said = if amount.len() == 4 { year(n) } else { cardinal(n) };
        return Some(match said.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{said}s"),
        });
    }
    let unit = unit(stuck, whole == "1" && part.is_empty())?;
    Some(format!("{} {unit}", decimal(&whole, part)))
}

/// Letters and digits in one word, `B2B`: each by itself.
fn mixed(core: &str, around: &Around<'_>) -> String {
    let mut groups: Vec<String> = Vec::new();
    for letter in core.chars() {
        let same = |group: &String| {
            let last = group.chars().last();
            last.is_some_and(|last| last.is_ascii_digit() == letter.is_ascii_digit())
        };
        match groups.last_mut().filter(|group| same(group)) {
            Some(group) => group.push(letter),
            None => groups.push(letter.to_string()),
        }
    }
    let say = |group: &String| {
        if group.starts_with(|c: char| c.is_ascii_digit()) {
            return integer(group);
        }
        let group = group.replace('.', " point ").replace('-', " ");
        letters(&group, around).unwrap_or(group)
    };
    groups.iter().map(say).collect::<Vec<_>>().join(" ")
}

/// `anna@example.org`, `www.example.org/start`.
fn address(core: &str) -> Option<String> {
    let bare = core.trim_start_matches("https://").trim_start_matches("http://");
    let is_inside = |sign: char| bare.find(sign).is_some_and(|at| 0 < at && at + 1 < bare.len());
    let is_name = bare.split(['.', '/', '@']).all(|part| !part.is_empty());
    if !(is_inside('@') || is_inside('.')) || !is_name {
        return None;
    }
    let said = bare.replace("www.", "w w w dot ").replace('.', " dot ").replace('@', " at ");
    Some(said.replace('/', " slash ").replace(['-', '_'], " "))
}

/// Capitals that are said letter by letter.
fn letters(core: &str, around: &Around<'_>) -> Option<String> {
    const SPELLED: [&str; 22] = [
        "US", "USA", "UK", "EU", "UN", "IT", "AI", "TV", "PC", "FBI", "CIA", "API", "CPU", "GPU",
        "ID", "UI", "IBM", "CEO", "CIO", "BA", "MA", "IQ",
    ];
    let n_letters = core.len();
    let is_short_form = (2..=5).contains(&n_letters)
        && core.bytes().all(|byte| byte.is_ascii_uppercase())
        && !around.is_shouting;
    let has_vowel = core.contains(['A', 'E', 'I', 'O', 'U', 'Y']);
    if !is_short_form || (has_vowel && !SPELLED.contains(&core)) {
        return None;
    }
    let name = |letter: char| match letter {
        // The letter, and not the article.
        'A' => "ay".to_owned(),
        letter => letter.to_ascii_lowercase().to_string(),
    };
    Some(core.chars().map(name).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_in_signs_is_said_in_words() {
        for (written, said) in [
            ("I have 47 books.", "I have forty seven books."),
            (
                "1,234,567 people",
                "one million two hundred thirty four thousand five hundred sixty seven people",
            ),
            (
                "It was -5 °C, or 23%.",
                "It was minus five degrees celsius, or twenty three percent.",
            ),
            ("In 1984 and 2026.", "In nineteen eighty four and twenty twenty six."),
            ("the 1990s", "the nineteen nineties"),
            ("the 21st of May", "the twenty first of May"),
            ("May 5, 2024", "May fifth, twenty twenty four"),
            ("on 5 May", "on the fifth of May"),
            ("2024-05-17", "May seventeenth, twenty twenty four"),
            ("5/17/2024", "May seventeenth, twenty twenty four"),
            ("at 3:45 p.m. today", "at three forty five p m today"),
            ("at 9:05am", "at nine oh five ay m"),
            ("at 15:00", "at fifteen o'clock"),
            ("$3.50", "three dollars and fifty cents"),
            ("£1 and €0.99", "one pound and ninety nine cents"),
            ("$5m", "five million dollars"),
            ("1914-1918", "nineteen fourteen to nineteen eighteen"),
            ("pages 5-10", "pages five to ten"),
            ("call 555-1234", "call five five five, one two three four"),
            ("3/4 of it", "three quarters of it"),
            ("5km at 60 mph", "five kilometers at sixty miles per hour"),
            ("Dr. Smith vs. Mr. Jones", "Doctor Smith versus Mister Jones"),
            ("apples, pears, etc. We left.", "apples, pears, et cetera. We left."),
            ("St. Mary lives on Main St. today", "Saint Mary lives on Main street today"),
            ("No. 5, e.g. this", "number five, for example this"),
            ("the FBI and NASA", "the f b i and NASA"),
            ("the U.S. army", "the u s army"),
            ("salt & pepper", "salt and pepper"),
            ("well-known", "well known"),
            ("mail me@example.org", "mail me at example dot org"),
            ("B2B, #7", "B two B, number seven"),
            ("He said — no.", "He said ,  no."),
            ("She’s naïve", "She's naive"),
            ("Nothing to see (here)!", "Nothing to see (here)!"),
        ] {
            assert_eq!(spell_out(written), said, "{written}");
        }
    }

    proptest! {
        /// Whatever is written, no digit is left for the lexicon to stumble over, and nothing panics.
        #[test]
        fn no_digit_is_left(text in "[ -~°£€—’é]{0,60}") {
            let said = spell_out(&text);
            prop_assert!(!said.contains(|c: char| c.is_ascii_digit()), "{said}");
        }
    }
}
