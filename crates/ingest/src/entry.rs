//! One frame as a producer wrote it: the fields of a stream entry, and what they mean.
//!
//! A producer says
//!
//! ```text
//! XADD paceline:{s017}:frames * k "4711 1763241600000 cam-12" d <bytes>
//! ```
//!
//! | field | meaning | when left out |
//! |---|---|---|
//! | `k` | the frame's label: number or `-`, time, camera | `q`, `t` and `c` say it |
//! | `c` | the camera, 1 to 128 bytes of UTF-8 | the camera of the stream, where each has its own |
//! | `d` | the payload | `h` must be there |
//! | `h` | a frame handle, in place of `d` | `d` must be there |
//! | `f` | what `d` is: `raw`, `jpeg` or `png` | `raw` |
//! | `y` | for `raw`: the element type, as in the Open Inference Protocol | the model's |
//! | `s` | for `raw`: the extents, as `1,3,224,224` | found from the model and the length |
//! | `q` | the producer's number for the frame; handed back with the result | nothing is handed back |
//! | `t` | when it was taken, in milliseconds since 1970 | when it was added, by its id |
//!
//! Other fields are kept in dead letters and otherwise ignored. Entries come from strangers: nothing
//! here trusts them.

use std::{fmt, str::FromStr};

use bytes::Bytes;
use paceline_frames::{Handle, Label};
use paceline_types::{DType, Shape};

/// Longest name of a camera, in bytes.
pub const MAX_CAMERA: usize = 128;
/// Most extents of a raw tensor.
const MAX_EXTENTS: usize = 8;

/// An entry's id: the millisecond it was added, and a number within that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId {
    /// Milliseconds since 1970, by the server's clock.
    pub millis: u64,
    /// Its number within the millisecond.
    pub number: u64,
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.number)
    }
}

/// Text that is no entry id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an entry id is two numbers with a dash between, such as 1763241600000-0")]
pub struct NotAnId;

impl FromStr for EntryId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let (millis, number) = text.split_once('-').ok_or(NotAnId)?;
        let parse = |text: &str| text.parse().map_err(|_| NotAnId);
        Ok(Self { millis: parse(millis)?, number: parse(number)? })
    }
}

/// What a frame carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// What its bytes are.
    pub form: Form,
    /// Where they are.
    pub data: Data,
}

/// What a frame's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// The elements of the model's first input, little-endian, row-major.
    Raw {
        /// The element type, where the producer says.
        dtype: Option<DType>,
        /// The extents, where the producer says.
        shape: Option<Shape>,
    },
    /// A PNG or JPEG file.
    Picture,
}

/// Where a frame's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// Here.
    Inline(Bytes),
    /// In memory shared with the producer.
    Shared(Handle),
}

impl Payload {
    /// Bytes of the frame, wherever they are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.data {
            Data::Inline(data) => data.len(),
            Data::Shared(handle) => usize::try_from(handle.len).unwrap_or(usize::MAX),
        }
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Whose it is.
    pub camera: String,
    /// The producer's number for it.
    pub seq: Option<u64>,
    /// When it was taken, in milliseconds since 1970.
    pub taken_ms: u64,
    /// What is in it.
    pub payload: Payload,
}

/// Why an entry is no frame. It cannot become one by trying again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// No camera.
    #[error("field `k`, the label, or `c`, the camera, is missing")]
    NoCamera,
    /// A camera's name that cannot be one.
    #[error("a camera's name must be 1 to {MAX_CAMERA} bytes of UTF-8")]
    BadCamera,
    /// A camera in another camera's stream, or in a shard that is not its own.
    #[error("camera `{0}` does not belong into this stream")]
    WrongStream(String),
    /// No payload.
    #[error("field `d`, the payload, or `h`, a frame handle, is missing")]
    NoPayload,
    /// A payload that is larger than is read.
    #[error("the payload has {actual} bytes; at most {max} are taken")]
    TooLarge {
        /// Of the payload.
        actual: usize,
        /// As configured.
        max: usize,
    },
    /// A format nobody knows.
    #[error("field `f` must be raw, jpeg or png")]
    BadFormat,
    /// A number, a type or a shape that is none.
    #[error("field `{0}` cannot be read")]
    BadField(&'static str),
}

/// What is known of an entry before its fields are read.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The entry's id.
    pub id: EntryId,
    /// The camera whose own stream it came from.
    pub camera: Option<&'a str>,
    /// Largest payload that is taken.
    pub max_bytes: usize,
}

/// Reads an entry's fields.
///
/// # Errors
///
/// When they are no frame.
pub fn read(
    origin: Origin<'_>,
    fields: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<Frame, EntryError> {
    let mut raw = Fields::default();
    for (name, value) in fields {
        let place = match &*name {
            b"k" => &mut raw.label,
            b"c" => &mut raw.camera,
            b"d" => &mut raw.data,
            b"h" => &mut raw.handle,
            b"f" => &mut raw.format,
            b"y" => &mut raw.dtype,
            b"s" => &mut raw.shape,
            b"q" => &mut raw.seq,
            b"t" => &mut raw.taken,
            _ => continue,
        };
        *place = Some(value);
    }
    let Label { number, taken_ms, camera } = raw.label(origin)?;
    if camera.is_empty() || MAX_CAMERA < camera.len() {
        return Err(EntryError::BadCamera);
    }
    if origin.camera.is_some_and(|own| own != camera) {
        return Err(EntryError::WrongStream(clip(&camera)));
    }
    let payload = raw.payload()?;
    if origin.max_bytes < payload.len() {
        return Err(EntryError::TooLarge { actual: payload.len(), max: origin.max_bytes });
    }
    Ok(Frame { camera, seq: number, taken_ms, payload })
}

#[derive(Default)]
struct Fields {
    label: Option<Vec<u8>>,
    camera: Option<Vec<u8>>,
    data: Option<Vec<u8>>,
    handle: Option<Vec<u8>>,
    format: Option<Vec<u8>>,
    dtype: Option<Vec<u8>>,
    shape: Option<Vec<u8>>,
    seq: Option<Vec<u8>>,
    taken: Option<Vec<u8>>,
}

impl Fields {
    /// What the frame is called, in one field or in three.
    fn label(&mut self, origin: Origin<'_>) -> Result<Label, EntryError> {
        if let Some(label) = self.label.take() {
            return parse(&label, "k");
        }
        let camera = match (self.camera.take(), origin.camera) {
            (None, None) => return Err(EntryError::NoCamera),
            (None, Some(own)) => own.to_owned(),
            (Some(name), _) => String::from_utf8(name).map_err(|_| EntryError::BadCamera)?,
        };
        let number = self.seq.as_deref().map(|text| parse(text, "q")).transpose()?;
        let taken = self.taken.as_deref().map(|text| parse(text, "t")).transpose()?;
        Ok(Label { number, taken_ms: taken.unwrap_or(origin.id.millis), camera })
    }

    fn payload(self) -> Result<Payload, EntryError> {
        let data = match (self.handle, self.data) {
            (Some(handle), _) => Data::Shared(parse(&handle, "h")?),
            (None, Some(data)) => Data::Inline(data.into()),
            (None, None) => return Err(EntryError::NoPayload),
        };
        let form = match self.format.as_deref() {
            Some(b"jpeg" | b"png") => Form::Picture,
            None | Some(b"raw") => Form::Raw {
                dtype: self.dtype.map(|text| parse(&text, "y")).transpose()?,
                shape: self.shape.map(|text| extents(&text)).transpose()?,
            },
            Some(_) => return Err(EntryError::BadFormat),
        };
        Ok(Payload { form, data })
    }
}

fn parse<T: FromStr>(text: &[u8], field: &'static str) -> Result<T, EntryError> {
    let text = std::str::from_utf8(text).map_err(|_| EntryError::BadField(field))?;
    text.parse().map_err(|_| EntryError::BadField(field))
}

fn extents(text: &[u8]) -> Result<Shape, EntryError> {
    let shape: Shape = text
        .split(|&byte| byte == b',')
        .take(MAX_EXTENTS + 1)
        .map(|extent| parse(extent, "s"))
        .collect::<Result<_, _>>()?;
    if MAX_EXTENTS < shape.len() { Err(EntryError::BadField("s")) } else { Ok(shape) }
}

/// A stranger's words, short enough and harmless enough to repeat.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(fields: &[(&str, &[u8])]) -> Result<Frame, EntryError> {
        let origin =
            Origin { id: EntryId { millis: 1000, number: 2 }, camera: None, max_bytes: 100 };
        read(origin, fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())))
    }

    #[test]
    fn a_plain_frame_is_raw_and_dated_by_its_id() {
        let frame = entry(&[("c", b"door"), ("d", b"xyz")]).unwrap();

        assert_eq!(frame.camera, "door");
        assert_eq!(frame.taken_ms, 1000);
        let data = Data::Inline(Bytes::from_static(b"xyz"));
        assert_eq!(frame.payload, Payload { form: Form::Raw { dtype: None, shape: None }, data });
    }

    #[test]
    fn what_the_producer_says_is_taken() {
        let fields: [(&str, &[u8]); 6] =
            [("c", b"a"), ("q", b"7"), ("t", b"55"), ("y", b"UINT8"), ("s", b"1,2"), ("d", b"xy")];
        let frame = entry(&fields).unwrap();

        assert_eq!((frame.seq, frame.taken_ms), (Some(7), 55));
        let shape = Some(Shape::from_slice(&[1, 2]));
        assert_eq!(frame.payload.form, Form::Raw { dtype: Some(DType::U8), shape });
    }

    #[test]
    fn a_label_says_in_one_field_what_three_say() {
        let frame = entry(&[("k", b"7 55 door 3"), ("d", b"xy")]).unwrap();

        assert_eq!((&*frame.camera, frame.seq, frame.taken_ms), ("door 3", Some(7), 55));
        let fields: [(&str, &[u8]); 4] =
            [("c", b"door 3"), ("q", b"7"), ("t", b"55"), ("d", b"xy")];
        assert_eq!(entry(&fields), Ok(frame));
        assert_eq!(entry(&[("k", b"7 door"), ("d", b"x")]), Err(EntryError::BadField("k")));
        assert_eq!(entry(&[("k", b"7 55 "), ("d", b"x")]), Err(EntryError::BadCamera));
    }

    #[test]
    fn a_handle_stands_in_place_of_the_bytes_and_counts_as_many() {
        let frame = entry(&[("c", b"a"), ("f", b"jpeg"), ("h", b"ring-1:2:3:77")]).unwrap();

        assert_eq!((frame.payload.form.clone(), frame.payload.len()), (Form::Picture, 77));
        let too_large = entry(&[("c", b"a"), ("h", b"ring-1:2:3:101")]);
        assert_eq!(too_large, Err(EntryError::TooLarge { actual: 101, max: 100 }));
        assert_eq!(entry(&[("c", b"a"), ("h", b"../x:2:3:4")]), Err(EntryError::BadField("h")));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(entry(&[("d", b"x")]), Err(EntryError::NoCamera));
        assert_eq!(entry(&[("c", b"a")]), Err(EntryError::NoPayload));
        assert_eq!(entry(&[("c", b""), ("d", b"x")]), Err(EntryError::BadCamera));
        assert_eq!(entry(&[("c", b"\xff"), ("d", b"x")]), Err(EntryError::BadCamera));
        assert_eq!(
            entry(&[("c", b"a"), ("d", &[0; 101])]),
            Err(EntryError::TooLarge { actual: 101, max: 100 })
        );
        assert_eq!(entry(&[("c", b"a"), ("d", b"x"), ("f", b"gif")]), Err(EntryError::BadFormat));
        assert_eq!(
            entry(&[("c", b"a"), ("d", b"x"), ("s", b"1,1,1,1,1,1,1,1,1")]),
            Err(EntryError::BadField("s"))
        );
    }

    #[test]
    fn the_last_value_that_may_be_is_taken_and_the_next_is_not() {
        let named = |n: usize| entry(&[("c", "x".repeat(n).as_bytes()), ("d", b"x")]);
        assert_eq!(named(128).map(|frame| frame.camera.len()), Ok(128));
        assert_eq!(named(129), Err(EntryError::BadCamera));
        let sized = |n: usize| entry(&[("c", b"a"), ("d", &vec![0; n])]);
        assert_eq!(sized(100).map(|frame| frame.payload.len()), Ok(100));
        assert_eq!(sized(0).map(|frame| frame.payload.is_empty()), Ok(true));
        assert_eq!(sized(1).map(|frame| frame.payload.is_empty()), Ok(false));
        let shape = entry(&[("c", b"a"), ("d", b"x"), ("s", b"1,1,1,1,1,1,1,1")]).unwrap();
        let shape_of = |frame: Frame| match frame.payload.form {
            Form::Raw { shape, .. } => shape,
            Form::Picture => None,
        };
        assert_eq!(shape_of(shape).map(|shape| shape.len()), Some(8));
    }

    #[test]
    fn in_a_stream_of_its_own_a_camera_need_not_be_named_and_no_other_may_be() {
        let origin = Origin { id: EntryId::default(), camera: Some("door"), max_bytes: 9 };
        let entry = |fields: &[(&str, &[u8])]| {
            read(
                origin,
                fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())),
            )
        };

        assert_eq!(entry(&[("d", b"x")]).unwrap().camera, "door");
        assert_eq!(entry(&[("c", b"door"), ("d", b"x")]).unwrap().camera, "door");
        let other = entry(&[("c", b"do\nor"), ("d", b"x")]).unwrap_err();
        assert_eq!(other, EntryError::WrongStream("do\\nor".to_owned()));
    }

    #[test]
    fn every_form_has_its_word() {
        let form = |word: &[u8]| {
            Ok::<_, EntryError>(entry(&[("c", b"a"), ("d", b"x"), ("f", word)])?.payload.form)
        };

        assert_eq!((form(b"jpeg"), form(b"png")), (Ok(Form::Picture), Ok(Form::Picture)));
        assert_eq!(form(b"raw"), Ok(Form::Raw { dtype: None, shape: None }));
    }

    #[test]
    fn a_strangers_words_are_repeated_clipped_and_escaped() {
        assert_eq!(clip(&"x".repeat(65)), "x".repeat(64));
        assert_eq!(clip("a\u{7}"), "a\\u{7}");
    }

    proptest! {
        #[test]
        fn no_entry_makes_it_panic(fields in proptest::collection::vec(
            (prop_oneof![Just(b"c".to_vec()), Just(b"s".to_vec()), Just(b"q".to_vec()),
                         Just(b"k".to_vec()), Just(b"d".to_vec()), Just(b"f".to_vec()), any::<Vec<u8>>()],
             any::<Vec<u8>>()), 0..8))
        {
            let origin = Origin { id: EntryId::default(), camera: None, max_bytes: 50 };
            if let Ok(frame) = read(origin, fields) {
                prop_assert!(!frame.camera.is_empty() && frame.camera.len() <= MAX_CAMERA);
                prop_assert!(frame.payload.len() <= 50);
            }
        }

        #[test]
        fn ids_are_read_as_they_are_written(millis: u64, number: u64) {
            let id = EntryId { millis, number };
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
