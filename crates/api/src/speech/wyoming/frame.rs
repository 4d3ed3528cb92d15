//! Wyoming's frames as messages: audio is binary, everything else is text. So a connection is
//! served by the same loop as a WebSocket.
//!
//! A frame is a line of JSON, which says how many bytes of further JSON and of audio follow it.

use bytes::{Buf as _, BufMut as _, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::codec::{Decoder, Encoder};

/// Longest line.
const MAX_LINE: usize = 64 << 10;

#[derive(Debug)]
pub(in crate::speech) struct Frames {
    /// Largest data, and largest audio, of a frame.
    max: usize,
    /// A line whose frame has not come whole.
    line: Option<Line>,
}

/// What a line says.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: Option<Map<String, Value>>,
    #[serde(default)]
    data_length: Option<usize>,
    #[serde(default)]
    payload_length: Option<usize>,
}

/// Why nothing more can be read.
#[derive(Debug, thiserror::Error)]
pub(in crate::speech) enum FrameError {
    #[error(transparent)]
    Socket(#[from] std::io::Error),
    #[error("a line is longer than {MAX_LINE} bytes")]
    LongLine,
    #[error("a frame says that it has {0} bytes")]
    Large(usize),
    #[error("what follows a line is not what it says: {0}")]
    Json(#[from] serde_json::Error),
}

impl Frames {
    pub(in crate::speech) const fn new(max: usize) -> Self {
        Self { max, line: None }
    }

    fn line(&self, bytes: &mut BytesMut) -> Result<Option<Line>, FrameError> {
        let Some(end) = bytes.iter().take(MAX_LINE).position(|byte| *byte == b'\n') else {
            return if bytes.len() < MAX_LINE { Ok(None) } else { Err(FrameError::LongLine) };
        };
        let line: Line = serde_json::from_slice(&bytes[..end])?;
        bytes.advance(end + 1);
        for length in [line.data_length, line.payload_length].into_iter().flatten() {
            if self.max < length {
                return Err(FrameError::Large(length));
            }
        }
        Ok(Some(line))
    }
}

impl Decoder for Frames {
    type Item = Message;
    type Error = FrameError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Message>, FrameError> {
        if self.line.is_none() {
            self.line = self.line(bytes)?;
        }
        let Some(line) = &self.line else { return Ok(None) };
        let n_data = line.data_length.unwrap_or(0);
        let n_payload = line.payload_length.unwrap_or(0);
        if bytes.len() < n_data + n_payload {
            return Ok(None);
        }
        let (more, payload) = (bytes.split_to(n_data), bytes.split_to(n_payload).freeze());
        let Some(line) = self.line.take() else { return Ok(None) };
        if line.kind == "audio-chunk" {
            return Ok(Some(Message::Binary(payload)));
        }
        let mut data = line.data.unwrap_or_default();
        if !more.is_empty() {
            data.extend(serde_json::from_slice::<Map<String, Value>>(&more)?);
        }
        let text = json!({ "type": line.kind, "data": data }).to_string();
        Ok(Some(Message::Text(text.into())))
    }
}

impl Encoder<Message> for Frames {
    type Error = FrameError;

    /// Text is a line. A close has no frame: the connection just ends.
    fn encode(&mut self, message: Message, bytes: &mut BytesMut) -> Result<(), FrameError> {
        if let Message::Text(text) = message {
            bytes.reserve(text.len() + 1);
            bytes.put_slice(text.as_bytes());
            bytes.put_u8(b'\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that is in `bytes`, read in these chunks.
    fn read(bytes: &[u8], chunk: usize) -> Result<Vec<Message>, FrameError> {
        let mut frames = Frames::new(1 << 20);
        let (mut held, mut read) = (BytesMut::new(), Vec::new());
        for piece in bytes.chunks(chunk) {
            held.extend_from_slice(piece);
            while let Some(message) = frames.decode(&mut held)? {
                read.push(message);
            }
        }
        Ok(read)
    }

    const SPOKEN: &[u8] = b"{\"type\":\"describe\"}\n\
        {\"type\":\"transcribe\",\"version\":\"1.10.2\",\"data\":{\"language\":\"en\"},\"data_length\":12}\n\
        {\"name\":\"m\"}\
        {\"type\":\"audio-chunk\",\"data_length\":14,\"payload_length\":4}\n{\"rate\": 16000\x00\n\x7f}\
        {\"type\":\"audio-stop\",\"data_length\":null}\n";

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_frames(chunk in 1_usize..200) {
            let whole = read(SPOKEN, usize::MAX).unwrap();
            prop_assert_eq!(read(SPOKEN, chunk).unwrap(), whole);
        }

        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(read(&bytes, 7));
        }
    }

    #[test]
    fn data_comes_in_the_line_or_behind_it() {
        let messages = read(SPOKEN, 9).unwrap();

        let texts: Vec<Value> = messages
            .iter()
            .filter_map(|message| message.to_text().ok())
            .filter_map(|text| serde_json::from_str(text).ok())
            .collect();
        assert_eq!(texts[1]["data"], json!({"language": "en", "name": "m"}));
        assert!(matches!(&messages[2], Message::Binary(audio) if audio.len() == 4));
        assert_eq!(messages.len(), 4);
    }

    #[test]
    fn what_claims_too_much_is_refused_before_it_is_held() {
        let large = b"{\"type\":\"audio-chunk\",\"payload_length\":99999999999}\n";
        assert!(matches!(read(large, 5), Err(FrameError::Large(99_999_999_999))));
        assert!(matches!(read(&vec![b' '; MAX_LINE], 4096), Err(FrameError::LongLine)));
    }
}
