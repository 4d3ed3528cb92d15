//! A frame's label: its number, when it was taken and whose it is, in one field.
//!
//! `4711 1763241600000 cam-0` says what the fields `q`, `t` and `c` say. Redis pays for every field four
//! times, when a frame is added and read and when its result is; one is a tenth cheaper in all than
//! three. The camera comes last, so that its name may hold anything.
//!
//! A result says which frame it is of by its key, the frame's entry id and label:
//! `1763241600123-0 4711 1763241600000 cam-0`. No two frames have the same, and a frame that Redis gives
//! out again has the one it had.

use std::{fmt, str::FromStr};

/// What a frame is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label<C = String> {
    /// The producer's number for it; written `-` where it has none.
    pub number: Option<u64>,
    /// When it was taken, in milliseconds since 1970.
    pub taken_ms: u64,
    /// Whose it is.
    pub camera: C,
}

/// Text that is no label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a label is a number or -, a time and a camera, such as `4711 1763241600000 cam-0`")]
pub struct NotALabel;

impl<C: fmt::Display> fmt::Display for Label<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "{number} {} {}", self.taken_ms, self.camera),
            None => write!(f, "- {} {}", self.taken_ms, self.camera),
        }
    }
}

impl<C: fmt::Display> Label<C> {
    /// The key of this frame's result.
    #[must_use]
    pub fn result_key(&self, frame: impl fmt::Display) -> String {
        format!("{frame} {self}")
    }
}

impl Label {
    /// The frame's entry id and label, by the key of its result.
    ///
    /// # Errors
    ///
    /// When the text is no such key.
    pub fn of_result(key: &str) -> Result<(&str, Self), NotALabel> {
        let (frame, label) = key.split_once(' ').ok_or(NotALabel)?;
        Ok((frame, label.parse()?))
    }
}

impl FromStr for Label {
    type Err = NotALabel;

    fn from_str(text: &str) -> Result<Self, NotALabel> {
        let (number, rest) = text.split_once(' ').ok_or(NotALabel)?;
        let (taken, camera) = rest.split_once(' ').ok_or(NotALabel)?;
        let parse = |text: &str| text.parse().map_err(|_| NotALabel);
        let number = if number == "-" { None } else { Some(parse(number)?) };
        Ok(Self { number, taken_ms: parse(taken)?, camera: camera.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_label_says_again_what_it_was_made_of(
            number in proptest::option::of(any::<u64>()), taken_ms: u64, camera in ".*")
        {
            let label = Label { number, taken_ms, camera };
            prop_assert_eq!(label.to_string().parse(), Ok(label.clone()));
            let key = label.result_key("7-1");
            prop_assert_eq!(Label::of_result(&key), Ok(("7-1", label)));
        }

        #[test]
        fn no_text_is_too_odd(text in ".*") {
            drop(text.parse::<Label>());
            drop(Label::of_result(&text));
        }
    }

    #[test]
    fn what_is_no_label_is_refused() {
        for text in ["", "7", "7 8", "x 8 cam", "7 x cam", "-1 8 cam"] {
            assert_eq!(text.parse::<Label>(), Err(NotALabel), "{text}");
            assert_eq!(Label::of_result(text), Err(NotALabel), "{text}");
        }
    }
}
