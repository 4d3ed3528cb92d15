//! Which words of an utterance under way can be relied on: those that two hypotheses in a row agree
//! on. Pure.
//!
//! The model hears an utterance from its beginning each time, with a little more of it. Its last
//! words may be guesses at half a word, and a comma may turn into a full stop; what it has said
//! twice it rarely takes back. What is stable is never taken back here: if a later hypothesis
//! differs in it, only what follows is taken from that.

use super::event::Transcript;

/// What is known of one utterance.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    stable: String,
    /// Words in that.
    n_stable: usize,
    /// The words of the last hypothesis, bare.
    last: Vec<String>,
}

impl Agreement {
    /// Takes a further hypothesis: what has been said so far.
    pub(super) fn hear(&mut self, hypothesis: &str) -> Transcript {
        let words: Vec<&str> = hypothesis.split_whitespace().collect();
        let bare: Vec<String> = words.iter().map(|word| bare(word)).collect();
        let n_agreed = bare.iter().zip(&self.last).take_while(|(word, last)| word == last).count();
        // The last word may be a part of a longer one.
        let n_agreed = n_agreed.min(words.len().saturating_sub(1));
        if self.n_stable < n_agreed {
            self.push_words(&words, n_agreed);
        }
        self.last = bare;
        let mut text = self.stable.clone();
        append(&mut text, &words, self.n_stable, words.len());
        Transcript { text, stable: self.stable.len() }
    }

    fn push_words(&mut self, words: &[&str], n_agreed: usize) {
        append(&mut self.stable, words, self.n_stable, n_agreed);
        // What ends the last of them may still change.
        let n_bytes = self.stable.trim_end_matches(is_mark).len();
        self.stable.truncate(n_bytes);
        self.n_stable = n_agreed;
    }
}

/// Appends the words from `from` to `to`, after the marks of the word before them.
fn append(text: &mut String, words: &[&str], from: usize, to: usize) {
    if to <= from {
        return;
    }
    if let Some(before) = from.checked_sub(1) {
        text.push_str(marks(words[before]));
        text.push(' ');
    }
    text.push_str(&words[from..to].join(" "));
}

/// Whether a letter only ends words.
fn is_mark(letter: char) -> bool {
    letter.is_ascii_punctuation()
}

/// The marks that end a word.
fn marks(word: &str) -> &str {
    &word[word.trim_end_matches(is_mark).len()..]
}

/// A word without what may change about it.
fn bare(word: &str) -> String {
    word.trim_matches(is_mark).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hear(agreement: &mut Agreement, hypothesis: &str) -> (String, String) {
        let transcript = agreement.hear(hypothesis);
        (transcript.stable().to_owned(), transcript.text)
    }

    #[test]
    fn what_was_said_twice_is_stable_and_marks_may_change() {
        let mut agreement = Agreement::default();
        for (hypothesis, stable, text) in [
            ("And so.", "", "And so."),
            ("And so my fellow.", "And so", "And so my fellow."),
            ("And so, my fellow Americans.", "And so, my fellow", "And so, my fellow Americans."),
            (
                "And so my fellow Americans ask",
                "And so, my fellow Americans",
                "And so, my fellow Americans ask",
            ),
            // Taken back by the model; not by us.
            (
                "And sow my fellow Americans ask not",
                "And so, my fellow Americans",
                "And so, my fellow Americans ask not",
            ),
            ("And", "And so, my fellow Americans", "And so, my fellow Americans"),
            ("", "And so, my fellow Americans", "And so, my fellow Americans"),
        ] {
            let expected = (stable.to_owned(), text.to_owned());
            assert_eq!(hear(&mut agreement, hypothesis), expected, "{hypothesis}");
        }
    }

    proptest! {
        #[test]
        fn what_is_stable_only_grows_and_is_how_the_text_begins(
            hypotheses in prop::collection::vec("([abé]{1,2}[,.!]{0,2} ?){0,6}", 0..12),
        ) {
            let mut agreement = Agreement::default();
            let mut before = String::new();
            for hypothesis in &hypotheses {
                let (stable, text) = hear(&mut agreement, hypothesis);
                prop_assert!(stable.starts_with(&before), "{before:?} {stable:?}");
                prop_assert!(text.starts_with(&stable), "{stable:?} {text:?}");
                before = stable;
            }
        }

        #[test]
        fn a_speaker_who_is_understood_is_told_whole(n_words in 1..20_usize) {
            let words: Vec<String> = (0..n_words).map(|at| format!("word{at}")).collect();
            let mut agreement = Agreement::default();
            for n_heard in 1..=n_words {
                let transcript = agreement.hear(&words[..n_heard].join(" "));
                prop_assert_eq!(&transcript.text, &words[..n_heard].join(" "));
                // All but the last is said a second time.
                prop_assert_eq!(transcript.stable(), words[..n_heard - 1].join(" "));
            }
        }
    }
}
