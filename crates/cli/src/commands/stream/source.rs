//! Where audio comes from, and what the server is told about it.

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Audio as it is stored. Nothing is decoded here.
pub(crate) struct Sound {
    reader: Box<dyn AsyncRead + Unpin + Send>,
    /// What was read ahead to look at it.
    head: Vec<u8>,
    encoding: String,
    raw: Option<(u32, u16, u32)>,
    bytes_per_second: Option<u64>,
}

/// Bytes of one sample of a raw encoding.
fn sample_bytes(encoding: &str) -> Option<u32> {
    let encoding: paceline_audio::Encoding = encoding.parse().ok()?;
    encoding.sample_bytes().and_then(|bytes| u32::try_from(bytes).ok())
}

impl Sound {
    pub(crate) async fn open(
        file: &str,
        encoding: &str,
        rate: u32,
        channels: u16,
    ) -> anyhow::Result<Self> {
        let mut reader: Box<dyn AsyncRead + Unpin + Send> = if file == "-" {
            Box::new(tokio::io::stdin())
        } else {
            let opened = tokio::fs::File::open(file).await;
            Box::new(opened.with_context(|| format!("cannot read {file}"))?)
        };
        let raw = sample_bytes(encoding).map(|bytes| (rate, channels, bytes));
        let mut head = Vec::new();
        let bytes_per_second = if let Some((rate, channels, bytes)) = raw {
            Some(u64::from(rate) * u64::from(channels) * u64::from(bytes))
        } else {
            (&mut reader).take(64).read_to_end(&mut head).await?;
            wav_bytes_per_second(&head)
        };
        Ok(Self { reader, head, encoding: encoding.to_owned(), raw, bytes_per_second })
    }

    /// How many bytes last a second, where that is known.
    pub(crate) const fn bytes_per_second(&self) -> Option<u64> {
        self.bytes_per_second
    }

    /// What the server is told.
    pub(crate) fn format(&self) -> Value {
        match self.raw {
            Some((rate, channels, _)) => {
                json!({"encoding": self.encoding, "sample_rate": rate, "channels": channels})
            }
            None => json!({"encoding": self.encoding}),
        }
    }

    /// The next bytes, about so many; `None` at the end.
    pub(crate) async fn next(&mut self, n_bytes: usize) -> anyhow::Result<Option<Vec<u8>>> {
        let mut bytes = std::mem::take(&mut self.head);
        let missing = n_bytes.saturating_sub(bytes.len()) as u64;
        (&mut self.reader).take(missing).read_to_end(&mut bytes).await?;
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}

/// From the header of a WAV file, where the format comes first.
fn wav_bytes_per_second(head: &[u8]) -> Option<u64> {
    let is_wav = head.starts_with(b"RIFF") && head.get(8..16)? == b"WAVEfmt ";
    let rate = head.get(28..32)?.try_into().map(u32::from_le_bytes).ok()?;
    (is_wav && 0 < rate).then_some(u64::from(rate))
}
