//! Which words of an utterance under way can be relied on, and what the last word on it is. Pure.
//!
//! The model hears an utterance from its beginning each time, with a little more of it. Its last
//! words may be guesses at half a word, and a comma may turn into a full stop; what it has said
//! three times it rarely takes back. What is stable is never taken back here, also where the model
//! does: of a hypothesis that differs in it, the final one too, only what follows is taken.

use std::collections::VecDeque;

use super::event::Transcript;

/// Hypotheses in a row that must agree on a word, the first of which may have it last.
const AGREE: usize = 3;

/// What is known of one utterance.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    stable: String,
    /// The words of that, bare.
    settled: Vec<String>,
    /// The words of the last hypotheses, bare.
    last: VecDeque<Vec<String>>,
}

impl Agreement {
    /// Takes a further hypothesis: what has been said so far.
    pub(super) fn hear(&mut self, hypothesis: &str) -> Transcript {
        let words: Vec<&str> = hypothesis.split_whitespace().collect();
        let bare: Vec<String> = words.iter().map(|word| bare(word)).collect();
        let from = self.end_of_settled(&bare);
        // The last word may be a part of a longer one.
        let to = (from + self.n_agreed(&bare[from..])).min(words.len().saturating_sub(1));
        if from < to {
            append(&mut self.stable, &words, from, to);
            // What ends the last of them may still change.
            let n_bytes = self.stable.trim_end_matches(is_mark).len();
            self.stable.truncate(n_bytes);
            self.settled.extend_from_slice(&bare[from..to]);
        }
        let mut text = self.stable.clone();
        append(&mut text, &words, from.max(to), words.len());
        if self.last.len() == AGREE - 1 {
            self.last.pop_front();
        }
        self.last.push_back(bare);
        Transcript { text, stable: self.stable.len() }
    }

    /// Takes the final hypothesis: what was said. It begins with all that was stable.
    pub(super) fn end(&self, hypothesis: &str) -> Transcript {
        if self.settled.is_empty() {
            return Transcript { text: hypothesis.to_owned(), stable: hypothesis.len() };
        }
        let words: Vec<&str> = hypothesis.split_whitespace().collect();
        let bare: Vec<String> = words.iter().map(|word| bare(word)).collect();
        let from = self.end_of_settled(&bare);
        let mut text = self.stable.clone();
        append(&mut text, &words, from, words.len());
        if from == words.len() {
            text.push_str(words.last().map_or("", |last| marks(last)));
        }
        Transcript { stable: text.len(), text }
    }

    /// How many of a hypothesis's words stand for those that are settled: as many as are most like
    /// them, by words that were changed, left out or put in.
    fn end_of_settled(&self, bare: &[String]) -> usize {
        if bare.starts_with(&self.settled) {
            return self.settled.len();
        }
        let mut costs: Vec<usize> = (0..=bare.len()).collect();
        for (at, settled) in self.settled.iter().enumerate() {
            let mut diagonal = costs[0];
            costs[0] = at + 1;
            for (other, word) in bare.iter().enumerate() {
                let change = diagonal + usize::from(settled != word);
                diagonal = costs[other + 1];
                costs[other + 1] = change.min(diagonal + 1).min(costs[other] + 1);
            }
        }
        let n_settled = self.settled.len();
        let ends = (0..=bare.len()).min_by_key(|&end| (costs[end], end.abs_diff(n_settled)));
        ends.unwrap_or(0)
    }

    /// How many words after those that are settled the last hypotheses say as well.
    fn n_agreed(&self, news: &[String]) -> usize {
        if self.last.len() < AGREE - 1 {
            return 0;
        }
        let agreed = self.last.iter().map(|last| {
            let others = &last[self.end_of_settled(last)..];
            others.iter().zip(news).take_while(|(other, word)| other == word).count()
        });
        agreed.min().unwrap_or(0)
    }
}

/// Appends the words from `from` to `to`, after the marks of the word before them.
fn append(text: &mut String, words: &[&str], from: usize, to: usize) {
    if to <= from {
        return;
    }
    if !text.is_empty() {
        text.push_str(from.checked_sub(1).map_or("", |before| marks(words[before])));
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
    fn what_was_said_three_times_is_stable_and_marks_may_change() {
        let mut agreement = Agreement::default();
        for (hypothesis, stable, text) in [
            ("And so.", "", "And so."),
            ("And so my fellow.", "", "And so my fellow."),
            ("And so, my fellow Americans.", "And so", "And so, my fellow Americans."),
            (
                "And so my fellow Americans ask",
                "And so my fellow",
                "And so my fellow Americans ask",
            ),
            // Taken back by the model; not by us.
            (
                "And sow my fellow Americans ask not",
                "And so my fellow Americans",
                "And so my fellow Americans ask not",
            ),
            (
                "And my fellow Americans ask not",
                "And so my fellow Americans ask",
                "And so my fellow Americans ask not",
            ),
            ("And", "And so my fellow Americans ask", "And so my fellow Americans ask"),
            ("", "And so my fellow Americans ask", "And so my fellow Americans ask"),
        ] {
            let expected = (stable.to_owned(), text.to_owned());
            assert_eq!(hear(&mut agreement, hypothesis), expected, "{hypothesis}");
        }
        for (hypothesis, text) in [
            ("And so, my fellow Americans, ask not.", "And so my fellow Americans ask not."),
            ("Sew my fellow Americans ask: not!", "And so my fellow Americans ask: not!"),
            ("And so my fellow Americans ask.", "And so my fellow Americans ask."),
            ("Something else", "And so my fellow Americans ask"),
        ] {
            assert_eq!(agreement.end(hypothesis).text, text, "{hypothesis}");
        }
    }

    #[test]
    fn the_last_word_is_the_models_own_where_nothing_was_stable() {
        assert_eq!(Agreement::default().end(" As  not. ").text, " As  not. ");
    }

    /// Texts as a model may give them, of few words so that they agree now and then.
    fn hypotheses() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("([abé]{1,2}[,.!]{0,2} ?){0,6}", 1..12)
    }

    proptest! {
        #[test]
        fn what_is_stable_only_grows_and_is_how_every_later_text_begins(said in hypotheses()) {
            let mut agreement = Agreement::default();
            let mut before = String::new();
            for hypothesis in &said {
                let (stable, text) = hear(&mut agreement, hypothesis);
                prop_assert!(stable.starts_with(&before), "{before:?} {stable:?}");
                prop_assert!(text.starts_with(&stable), "{stable:?} {text:?}");
                before = stable;
                // Whatever the model says in the end.
                for last in &said {
                    let last = agreement.end(last);
                    prop_assert!(last.text.starts_with(&before), "{before:?} {:?}", last.text);
                    prop_assert_eq!(last.stable, last.text.len());
                }
            }
        }

        #[test]
        fn a_model_that_takes_nothing_back_has_the_last_word(said in hypotheses()) {
            let mut agreement = Agreement::default();
            for hypothesis in &said {
                let stable = agreement.hear(hypothesis).stable().to_owned();
                for last in &said {
                    let words = |text: &str| text.split_whitespace().map(bare).collect::<Vec<_>>();
                    if words(last).starts_with(&words(&stable)) {
                        prop_assert_eq!(words(&agreement.end(last).text), words(last));
                    }
                }
            }
        }

        #[test]
        fn a_hypothesis_that_has_nothing_of_what_is_stable_has_as_many_words_in_its_place(
            n_settled in 1..6_usize, n_others in 0..9_usize
        ) {
            let settled: Vec<String> = (0..n_settled).map(|at| format!("word{at}")).collect();
            let mut agreement = Agreement::default();
            for _ in 0..3 {
                agreement.hear(&format!("{} more", settled.join(" ")));
            }
            let others: Vec<String> = (0..n_others).map(|at| format!("other{at}")).collect();

            let last = agreement.end(&others.join(" ")).text;

            let kept = settled.iter().chain(others.iter().skip(n_settled)).cloned();
            prop_assert_eq!(last, kept.collect::<Vec<_>>().join(" "));
        }

        #[test]
        fn a_speaker_who_is_understood_is_told_whole(n_words in 1..20_usize) {
            let words: Vec<String> = (0..n_words).map(|at| format!("word{at}")).collect();
            let mut agreement = Agreement::default();
            for n_heard in 1..=n_words {
                let transcript = agreement.hear(&words[..n_heard].join(" "));
                prop_assert_eq!(&transcript.text, &words[..n_heard].join(" "));
                // Stable is what was there two hypotheses ago.
                prop_assert_eq!(transcript.stable(), words[..n_heard.saturating_sub(2)].join(" "));
            }
            prop_assert_eq!(agreement.end(&words.join(" ")).text, words.join(" "));
        }
    }
}
