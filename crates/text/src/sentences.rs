//! Where a long text may be cut: after sentences, else after clauses, else between words.

/// Cuts a text into parts of at most `most` characters, each ending where a speaker would pause.
/// Nothing but spaces between parts is lost. A part is shorter than it could be: the first sentence
/// is there as soon as possible, and each has its own melody.
#[must_use]
pub fn sentences(text: &str, most: usize) -> Vec<String> {
    let most = most.max(1);
    let mut parts = Vec::new();
    for sentence in split_after(text, ends_sentence) {
        fit(sentence, most, &mut parts);
    }
    parts
}

/// Adds a sentence, in pieces where it is too long.
fn fit(sentence: &str, most: usize, parts: &mut Vec<String>) {
    if sentence.chars().count() <= most {
        parts.push(sentence.to_owned());
        return;
    }
    let mut piece = String::new();
    let clauses = split_after(sentence, |before, _| before.ends_with([',', ';', ':', '—']));
    for clause in clauses {
        for chunk in words_that_fit(clause, most) {
            let joined = piece.chars().count() + 1 + chunk.chars().count();
            if !piece.is_empty() && most < joined {
                parts.push(std::mem::take(&mut piece));
            }
            if !piece.is_empty() {
                piece.push(' ');
            }
            piece.push_str(&chunk);
        }
    }
    if !piece.is_empty() {
        parts.push(piece);
    }
}

/// A clause in pieces of whole words; a word that is too long alone is cut.
fn words_that_fit(clause: &str, most: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in clause.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(most) {
            let n_there = pieces.last().map_or(0, |piece| piece.chars().count());
            if n_there != 0 && most < n_there + 1 + part.len() {
                pieces.push(String::new());
            }
            if let Some(piece) = pieces.last_mut() {
                if !piece.is_empty() {
                    piece.push(' ');
                }
                piece.extend(part);
            }
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Cuts at every space where `ends` says so of what is before and after it, and at empty lines.
fn split_after(text: &str, ends: impl Fn(&str, &str) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.char_indices().filter(|(_, letter)| letter.is_whitespace()) {
        let (before, after) = (text[start..at].trim_end(), text[at..].trim_start());
        let is_paragraph = text[at..].len() - after.len() > 1
            && text[at..text.len() - after.len()].matches('\n').count() > 1;
        if !before.trim().is_empty() && (is_paragraph || ends(before, after)) {
            parts.push(text[start..at].trim());
            start = at;
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether a sentence ends between two texts: after a full stop, a question or an exclamation mark,
/// quotes and brackets allowed, unless what follows goes on in lower case.
fn ends_sentence(before: &str, after: &str) -> bool {
    let bare = before.trim_end_matches(['"', '\'', ')', ']', '”', '’']);
    let Some(mark) = bare.chars().last().filter(|mark| ['.', '?', '!', '…'].contains(mark))
    else {
        return false;
    };
    let next = after.trim_start_matches(['"', '\'', '(', '[', '“', '‘']).chars().next();
    let goes_on = next.is_some_and(char::is_lowercase);
    // `J. Smith`: one letter and a dot is a name, not an end.
    let last_word = bare.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_initial = mark == '.'
        && last_word.chars().count() == 2
        && last_word.starts_with(char::is_uppercase)
        && !last_word.starts_with('I');
    !goes_on && !is_initial
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_cut_after_sentences_and_nowhere_else() {
        assert_eq!(
            sentences(
                "Hello there! \"How are you?\" she asked. J. Smith left... Then, quiet.",
                200
            ),
            ["Hello there!", "\"How are you?\" she asked.", "J. Smith left...", "Then, quiet."]
        );
        assert_eq!(sentences("A title\n\nThe first line\nof text.", 200).len(), 2);
        assert_eq!(sentences("  \n ", 200), Vec::<String>::new());
    }

    #[test]
    fn long_sentences_are_cut_after_clauses_and_then_between_words() {
        let text = "When the rain came, and it came late, we were all inside the little house.";
        assert_eq!(
            sentences(text, 40),
            ["When the rain came, and it came late,", "we were all inside the little house."]
        );
        let parts = sentences("one two three four five six", 10);
        assert_eq!(parts, ["one two", "three four", "five six"]);
    }

    proptest! {
        #[test]
        fn nothing_but_space_is_lost_and_no_part_is_too_long(
            text in "([A-Za-z]{1,12}[,.;!? \n]{1,3}){0,30}",
            most in 1_usize..60,
        ) {
            let parts = sentences(&text, most);
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();

            prop_assert_eq!(letters(&parts.concat()), letters(&text));
            prop_assert!(parts.iter().all(|part| part.chars().count() <= most && !part.is_empty()));
        }
    }
}
