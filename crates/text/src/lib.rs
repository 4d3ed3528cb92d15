//! Text to what a voice can say: sentences, words spelled out, phones. English; pure.
//!
//! [`spell_out`] turns what is written in signs (numbers, dates, money, abbreviations) into words,
//! [`sentences`] cuts at what a speaker would pause at, and a [`Phonemiser`] looks words up in a
//! lexicon, or works out how they sound.
//!
//! ```
//! use paceline_text::{sentences, spell_out};
//!
//! assert_eq!(spell_out("Dr. Lee paid $3.50 on 5/17/2024."),
//!     "Doctor Lee paid three dollars and fifty cents on May seventeenth, twenty twenty four.");
//! assert_eq!(sentences("One. Two, three!", 100), ["One.", "Two, three!"]);
//! ```

mod abbreviations;
mod lexicon;
mod numbers;
mod phones;
mod sentences;
mod spell;

pub use lexicon::{Lexicon, LexiconError};
pub use phones::Phonemiser;
pub use sentences::sentences;
pub use spell::spell_out;
