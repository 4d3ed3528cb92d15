//! What is written short and said in full.

/// Written with a dot, whatever comes after it.
const WITH_DOT: &[(&str, &str)] = &[
    ("mr", "Mister"),
    ("mrs", "Missus"),
    ("ms", "Miss"),
    ("dr", "Doctor"),
    ("prof", "Professor"),
    ("rev", "Reverend"),
    ("gen", "General"),
    ("capt", "Captain"),
    ("lt", "Lieutenant"),
    ("sgt", "Sergeant"),
    ("sen", "Senator"),
    ("gov", "Governor"),
    ("jr", "Junior"),
    ("sr", "Senior"),
    ("vs", "versus"),
    ("etc", "et cetera"),
    ("approx", "approximately"),
    ("dept", "department"),
    ("est", "established"),
    ("ave", "avenue"),
    ("blvd", "boulevard"),
    ("rd", "road"),
    ("mt", "mount"),
    ("ft", "fort"),
    ("inc", "incorporated"),
    ("ltd", "limited"),
    ("corp", "corporation"),
    ("co", "company"),
    ("jan", "January"),
    ("feb", "February"),
    ("mar", "March"),
    ("apr", "April"),
    ("jun", "June"),
    ("jul", "July"),
    ("aug", "August"),
    ("sep", "September"),
    ("sept", "September"),
    ("oct", "October"),
    ("nov", "November"),
    ("dec", "December"),
    ("mon", "Monday"),
    ("tue", "Tuesday"),
    ("wed", "Wednesday"),
    ("thu", "Thursday"),
    ("fri", "Friday"),
    ("sat", "Saturday"),
    ("sun", "Sunday"),
];

/// Letters with dots between them.
const DOTTED: &[(&str, &str)] = &[
    ("e.g.", "for example"),
    ("i.e.", "that is"),
    ("a.m.", "ay m"),
    ("p.m.", "p m"),
    ("u.s.a.", "u s ay"),
    ("u.s.", "u s"),
    ("u.k.", "u k"),
    ("u.n.", "u n"),
    ("ph.d.", "p h d"),
    ("b.c.", "b c"),
    ("a.d.", "ay d"),
];

/// After a number: one, several.
const UNITS: &[(&str, &str, &str)] = &[
    ("km", "kilometer", "kilometers"),
    ("m", "meter", "meters"),
    ("cm", "centimeter", "centimeters"),
    ("mm", "millimeter", "millimeters"),
    ("kg", "kilogram", "kilograms"),
    ("g", "gram", "grams"),
    ("mg", "milligram", "milligrams"),
    ("lb", "pound", "pounds"),
    ("lbs", "pound", "pounds"),
    ("oz", "ounce", "ounces"),
    ("ft", "foot", "feet"),
    ("in", "inch", "inches"),
    ("mi", "mile", "miles"),
    ("mph", "mile per hour", "miles per hour"),
    ("kmh", "kilometer per hour", "kilometers per hour"),
    ("ms", "millisecond", "milliseconds"),
    ("sec", "second", "seconds"),
    ("min", "minute", "minutes"),
    ("hr", "hour", "hours"),
    ("hrs", "hour", "hours"),
    ("kb", "kilobyte", "kilobytes"),
    ("mb", "megabyte", "megabytes"),
    ("gb", "gigabyte", "gigabytes"),
    ("tb", "terabyte", "terabytes"),
    ("hz", "hertz", "hertz"),
    ("khz", "kilohertz", "kilohertz"),
    ("mhz", "megahertz", "megahertz"),
    ("ghz", "gigahertz", "gigahertz"),
    ("kw", "kilowatt", "kilowatts"),
    ("°c", "degree celsius", "degrees celsius"),
    ("°f", "degree fahrenheit", "degrees fahrenheit"),
    ("°", "degree", "degrees"),
    ("%", "percent", "percent"),
];

/// The months, from January.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// What a word with a dot after it stands for. `next` is the word after it: a saint has a name.
pub(crate) fn with_dot(word: &str, next: Option<char>) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    if lower == "st" {
        return Some(if next.is_some_and(char::is_uppercase) { "Saint" } else { "street" });
    }
    if lower == "no" {
        return next.is_some_and(|next| next.is_ascii_digit()).then_some("number");
    }
    // Short words that are words too are only short for something when written so.
    let is_word =
        ["mar", "jun", "sun", "sat", "wed", "mon", "sen", "gen", "co", "rev", "est", "dec"]
            .contains(&lower.as_str());
    if is_word && !word.starts_with(char::is_uppercase) {
        return None;
    }
    WITH_DOT.iter().find(|(short, _)| *short == lower).map(|(_, full)| *full)
}

/// What letters with dots stand for.
pub(crate) fn dotted(word: &str) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    DOTTED.iter().find(|(short, _)| *short == lower).map(|(_, full)| *full)
}

/// What a unit after a number stands for.
pub(crate) fn unit(word: &str, is_one: bool) -> Option<&'static str> {
    let lower = word.to_lowercase();
    let found = UNITS.iter().find(|(short, _, _)| *short == lower);
    found.map(|(_, one, many)| if is_one { *one } else { *many })
}

/// The number of a month, from 1.
pub(crate) fn month(word: &str) -> Option<usize> {
    MONTHS.iter().position(|month| month.eq_ignore_ascii_case(word)).map(|at| at + 1)
}
