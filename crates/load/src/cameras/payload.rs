//! What frames are made of: bytes that check themselves, pictures that are made up, or files.

use std::{fs, path::Path};

use image::{ImageFormat, Rgb, RgbImage};
use paceline_frames::{Format, shard::stable_hash};

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of a tensor, checksummed.
    Raw,
    /// JPEG pictures.
    Jpeg,
    /// PNG pictures.
    Png,
    /// Bytes of a tensor in shared memory.
    Handle,
}

/// Why there is nothing to send.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// A folder or a file that cannot be read.
    #[error("{0}: {1}")]
    Unreadable(String, std::io::Error),
    /// A folder without such files.
    #[error("{0} holds no file whose name ends with one of: {1}")]
    NoFiles(String, &'static str),
    /// A picture that cannot be made.
    #[error("no picture could be made: {0}")]
    Picture(#[from] image::ImageError),
    /// Too few bytes to number a frame and check it.
    #[error("a raw frame has at least {least} bytes here, to be numbered and checked", least = HEAD)]
    TooSmall,
}

/// Bytes before the filling of a raw frame: its number and its checksum.
pub(crate) const HEAD: usize = 16;

/// Makes frames.
#[derive(Debug)]
pub struct Payloads {
    kind: Kind,
    bytes: usize,
    /// Files or made pictures, one after the other; none for raw frames that are made up.
    pictures: Vec<(Format, Vec<u8>)>,
}

impl Payloads {
    /// Made up: raw frames of `bytes`, pictures of about `side` x `side` pixels.
    ///
    /// # Errors
    ///
    /// When that is too small.
    pub fn synthetic(kind: Kind, bytes: usize, side: u32) -> Result<Self, PayloadError> {
        let mut pictures = Vec::new();
        match kind {
            Kind::Raw | Kind::Handle if bytes < HEAD => return Err(PayloadError::TooSmall),
            Kind::Raw | Kind::Handle => {}
            Kind::Jpeg => pictures = make(side, Format::Jpeg)?,
            Kind::Png => pictures = make(side, Format::Png)?,
        }
        Ok(Self { kind, bytes, pictures })
    }

    /// The files of a folder, in the order of their names, over and over.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn files(kind: Kind, folder: &Path) -> Result<Self, PayloadError> {
        let named = |path: &Path| path.display().to_string();
        let failed = |path: &Path, error| PayloadError::Unreadable(named(path), error);
        let entries = fs::read_dir(folder).map_err(|error| failed(folder, error))?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let mut pictures = Vec::new();
        for path in paths {
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            let format = match (kind, &*ending) {
                (Kind::Raw, "raw" | "bin") => Format::Raw,
                (Kind::Jpeg | Kind::Handle, "jpg" | "jpeg") => Format::Jpeg,
                (Kind::Png | Kind::Handle, "png") => Format::Png,
                _ => continue,
            };
            pictures.push((format, fs::read(&path).map_err(|error| failed(&path, error))?));
        }
        if pictures.is_empty() {
            let endings = match kind {
                Kind::Raw => ".raw .bin",
                Kind::Jpeg => ".jpg .jpeg",
                Kind::Png => ".png",
                Kind::Handle => ".jpg .jpeg .png",
            };
            return Err(PayloadError::NoFiles(named(folder), endings));
        }
        Ok(Self { kind, bytes: 0, pictures })
    }

    /// What frames carry.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes of the largest frame.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.pictures.iter().map(|(_, data)| data.len()).max().unwrap_or(self.bytes)
    }

    /// Writes a camera's frame into `into`.
    pub(crate) fn write(&self, camera: &str, number: u64, into: &mut Vec<u8>) -> Format {
        into.clear();
        if self.pictures.is_empty() {
            into.extend(number.to_le_bytes());
            into.extend(checksum(camera, number, self.bytes).to_le_bytes());
            // What fills it up differs from frame to frame.
            let fill = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            into.extend(fill.iter().cycle().take(self.bytes - HEAD));
            return Format::Raw;
        }
        let at = usize::try_from(number).unwrap_or(0) % self.pictures.len();
        let (format, data) = &self.pictures[at];
        into.extend_from_slice(data);
        *format
    }
}

/// Whether a result of a model that answers its input is the answer to this frame.
pub(crate) fn is_own(camera: &str, number: u64, answer: &[u8]) -> bool {
    let Some((head, _)) = answer.split_first_chunk::<8>() else { return false };
    let sum = answer.get(8..HEAD).unwrap_or_default();
    u64::from_le_bytes(*head) == number
        && sum == checksum(camera, number, answer.len()).to_le_bytes()
}

fn checksum(camera: &str, number: u64, bytes: usize) -> u64 {
    stable_hash(format!("{camera} {number} {bytes}").as_bytes())
}

/// Eight pictures that differ.
fn make(side: u32, format: Format) -> Result<Vec<(Format, Vec<u8>)>, PayloadError> {
    let side = side.max(8);
    let kind = if format == Format::Png { ImageFormat::Png } else { ImageFormat::Jpeg };
    let picture = |number: u32| {
        let pixel = |x: u32, y: u32| {
            let wave = (x * (number + 3) / 8) ^ (y * 5 / 8);
            let byte = |value: u32| u8::try_from(value % 256).unwrap_or(0);
            Rgb([byte(wave), byte(x + number * 31), byte(y * 2)])
        };
        let mut bytes = std::io::Cursor::new(Vec::new());
        RgbImage::from_fn(side, side, pixel).write_to(&mut bytes, kind)?;
        Ok((format, bytes.into_inner()))
    };
    (0..8).map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_frame_knows_whose_it_is() {
        let payloads = Payloads::synthetic(Kind::Raw, 40, 0).unwrap();
        let mut frame = Vec::new();
        payloads.write("cam-1", 7, &mut frame);

        assert!(is_own("cam-1", 7, &frame));
        assert!(!is_own("cam-1", 8, &frame) && !is_own("cam-2", 7, &frame));
        assert!(!is_own("cam-1", 7, &frame[..39]) && !is_own("cam-1", 7, b"short"));
        assert!(Payloads::synthetic(Kind::Handle, 15, 0).is_err());
    }

    #[test]
    fn files_are_sent_in_turn_and_a_folder_without_any_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Payloads::files(Kind::Jpeg, folder.path()).is_err());
        for (name, text) in [("b.jpg", "two"), ("a.jpeg", "one"), ("c.txt", "none")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let payloads = Payloads::files(Kind::Jpeg, folder.path()).unwrap();

        let mut frame = Vec::new();
        let sent: Vec<Vec<u8>> = (0..3)
            .map(|number| {
                assert_eq!(payloads.write("cam", number, &mut frame), Format::Jpeg);
                frame.clone()
            })
            .collect();
        assert_eq!(sent, [b"one", b"two", b"one"]);
    }
}
