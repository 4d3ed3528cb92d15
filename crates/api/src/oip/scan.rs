//! A cursor over JSON text. Strict about the grammar, never recursive, never copying what it can
//! borrow.
//!
//! A general parser would build or visit every value; tensor data is most of a body and is read
//! by `elements` straight into its final bytes. So this knows tokens only, and the two readers
//! above it know what the tokens mean.

use std::borrow::Cow;

use super::{MAX_DEPTH, OipError, number};

/// Where in a text the reader stands.
#[derive(Debug, Clone)]
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Bytes read so far.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Bytes not read yet.
    pub(super) const fn left(&self) -> usize {
        self.text.len() - self.at
    }

    /// The whole text, read or not.
    pub(super) const fn text(&self) -> &'a [u8] {
        self.text
    }

    /// A reader of the same text at another place.
    pub(super) const fn moved(&self, at: usize) -> Self {
        Self { text: self.text, at }
    }

    /// The text from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The next byte, white space included.
    #[inline]
    pub(super) fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// What has not been read yet.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Moves to a place that a reader of [`text`](Self::text) came to.
    #[inline]
    pub(super) const fn move_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Moves past the byte that [`byte`](Self::byte) gave.
    #[inline]
    pub(super) const fn advance(&mut self) {
        self.at += 1;
    }

    /// The next byte that is not white space.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = self.byte()?;
            if byte > b' ' || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Moves past `token` if it comes next, white space before it included.
    #[inline]
    pub(super) fn eat(&mut self, token: u8) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    /// Moves past `word` if it comes next.
    pub(super) fn eat_word(&mut self, word: &[u8]) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// Moves past `null` if it comes next, white space before it included.
    pub(super) fn eat_null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.eat_word(b"null")
    }

    /// Moves past `token`.
    #[inline]
    pub(super) fn expect(&mut self, token: u8, name: &'static str) -> Result<(), OipError> {
        if self.eat(token) { Ok(()) } else { Err(self.fault(name)) }
    }

    /// Makes sure that only white space is left.
    pub(super) fn end(&mut self) -> Result<(), OipError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.fault("the end")) }
    }

    /// That something else is expected here.
    #[cold]
    pub(super) const fn fault(&self, expected: &'static str) -> OipError {
        OipError::Syntax { at: self.at, expected }
    }

    /// The next key of an object whose `{` has been read; `None` at its end. `first` is whether
    /// no key has been read yet. Bytes, because most keys are only compared with known ones.
    #[inline]
    pub(super) fn key(&mut self, first: bool) -> Result<Option<Cow<'a, [u8]>>, OipError> {
        if !self.item(b'}', first, "`,` or `}`")? {
            return Ok(None);
        }
        self.expect(b'"', "a string")?;
        let start = self.at;
        self.plain();
        let key = if self.byte() == Some(b'"') {
            self.at += 1;
            Cow::Borrowed(self.text.get(start..self.at - 1).unwrap_or_default())
        } else {
            self.at = start - 1;
            Cow::Owned(self.string()?.into_owned().into_bytes())
        };
        self.expect(b':', "`:`")?;
        Ok(Some(key))
    }

    /// Whether another item of a list or object follows, having moved past the comma before it
    /// or past the `close` that ends it.
    #[inline]
    pub(super) fn item(
        &mut self,
        close: u8,
        first: bool,
        name: &'static str,
    ) -> Result<bool, OipError> {
        if self.eat(close) {
            return Ok(false);
        }
        if !first {
            self.expect(b',', name)?;
        }
        Ok(true)
    }

    /// A string, borrowed unless it has escapes.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, OipError> {
        self.expect(b'"', "a string")?;
        let start = self.at;
        self.plain();
        if self.byte() == Some(b'"') {
            let plain = self.text_since(start)?;
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = String::new();
        let mut start = start;
        loop {
            text.push_str(self.text_since(start)?);
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                _ => return Err(self.fault("a closing quote, and no control character before it")),
            }
            start = self.at;
            self.plain();
        }
    }

    /// An unsigned integer; nothing where there is none.
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        self.peek();
        let (value, end) = number::unsigned(self.text, self.at)?;
        self.at = end;
        Some(value)
    }

    /// A JSON number as written; nothing where there is none.
    pub(super) fn number(&mut self) -> Option<&'a str> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        std::str::from_utf8(self.since(start)).ok()
    }

    /// Moves past one value of any kind.
    pub(super) fn skip(&mut self) -> Result<(), OipError> {
        // One bit per open level: set for an object. MAX_DEPTH is 64, so a word holds them all.
        let mut objects = 0_u64;
        let mut depth = 0_usize;
        loop {
            let opened = if let Some(open @ (b'{' | b'[')) = self.peek() {
                if depth == MAX_DEPTH {
                    return Err(OipError::TooDeep { at: self.at });
                }
                self.at += 1;
                depth += 1;
                objects = objects << 1 | u64::from(open == b'{');
                true
            } else {
                self.scalar()?;
                false
            };
            let mut first = opened;
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let more = if objects & 1 == 1 {
                    self.key(first)?.is_some()
                } else {
                    self.item(b']', first, "`,` or `]`")?
                };
                if more {
                    break;
                }
                objects >>= 1;
                depth -= 1;
                first = false;
            }
        }
    }

    fn scalar(&mut self) -> Result<(), OipError> {
        let known = match self.peek() {
            Some(b'"') => return self.string().map(drop),
            Some(b't') => self.eat_word(b"true"),
            Some(b'f') => self.eat_word(b"false"),
            Some(b'n') => self.eat_word(b"null"),
            _ => self.number().is_some(),
        };
        if known { Ok(()) } else { Err(self.fault("a value")) }
    }

    /// Moves past the bytes of a string that stand for themselves.
    #[inline]
    fn plain(&mut self) {
        let rest = self.rest();
        let special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
        self.at += rest.iter().position(special).unwrap_or(rest.len());
    }

    fn text_since(&self, start: usize) -> Result<&'a str, OipError> {
        std::str::from_utf8(self.since(start)).map_err(|error| OipError::Syntax {
            at: start + error.valid_up_to(),
            expected: "UTF-8 text",
        })
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn escape(&mut self) -> Result<char, OipError> {
        let escape = self.byte().ok_or_else(|| self.fault("an escape"))?;
        let plain = match escape {
            b'"' | b'\\' | b'/' => char::from(escape),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.fault("an escape")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode(&mut self) -> Result<char, OipError> {
        let start = self.at;
        let high = self.hex()?;
        let code = if (0xD800..0xDC00).contains(&high) && self.eat_word(b"\\u") {
            let low = self.hex()?;
            let low = low.checked_sub(0xDC00).filter(|low| *low < 0x400);
            low.map(|low| 0x1_0000 + ((high - 0xD800) << 10) + low)
        } else {
            Some(high)
        };
        code.and_then(char::from_u32)
            .ok_or(OipError::Syntax { at: start, expected: "a Unicode character" })
    }

    fn hex(&mut self) -> Result<u32, OipError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|byte| char::from(byte).to_digit(16));
            code = code << 4 | digit.ok_or_else(|| self.fault("a hexadecimal digit"))?;
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    /// Whether `text` is one value, by this reader.
    fn accepts(text: &[u8]) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.skip().and_then(|()| scanner.end()).is_ok()
    }

    #[test]
    fn nesting_ends_at_the_limit() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();

        assert!(accepts(&nested(MAX_DEPTH)));
        assert!(!accepts(&nested(MAX_DEPTH + 1)));
        let deep = vec![b'['; 1_000_000];
        assert_eq!(Scanner::new(&deep).skip(), Err(OipError::TooDeep { at: MAX_DEPTH }));
    }

    #[test]
    fn text_that_is_not_json_is_refused_where_it_goes_wrong() {
        for wrong in [
            "",
            "[",
            "]",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\"}",
            "01",
            "-",
            "1.",
            ".5",
            "+1",
            "1e",
            "nul",
            "truex",
            "[1 2]",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "[1}",
            "NaN",
            "Infinity",
            "{1:2}",
        ] {
            assert!(!accepts(wrong.as_bytes()), "{wrong}");
        }
        assert!(!accepts(b"\"\xff\""));
    }

    proptest! {
        #[test]
        fn strings_read_as_another_reader_reads_them(text in any::<String>()) {
            let escaped = serde_json::to_string(&text).unwrap();
            let mut ascii = String::from("\"");
            for unit in text.encode_utf16() {
                write!(ascii, "\\u{unit:04x}").unwrap();
            }
            ascii.push('"');

            prop_assert_eq!(&*Scanner::new(escaped.as_bytes()).string().unwrap(), &*text);
            prop_assert_eq!(&*Scanner::new(ascii.as_bytes()).string().unwrap(), &*text);
        }

        #[test]
        fn what_another_strict_reader_accepts_is_accepted_and_nothing_else(
            text in r#"[\[\]{}:,"0-9eE.+\-tfn \\ua]{0,12}|(true|false|null|\[|\]|\{"a":|\}|,|-?[0-9]{1,3}|[eE][+-]?|"b"){0,9}"#
        ) {
            // Read and thrown away, because read into a value a number must also be in range.
            let other = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();

            prop_assert_eq!(accepts(text.as_bytes()), other);
        }
    }
}
