//! A form with a file, as browsers and `OpenAI`'s clients send it.
//!
//! What says how the file is to be heard may come after it, so the file is held until the form has
//! been read: as large as any request's body may be, and no larger.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header::CONTENT_TYPE},
};
use multer::{Constraints, Error, Multipart, SizeLimit};

use crate::{
    ApiError,
    speech::fields::{Fields, clip, wrong},
};

/// Largest field beside the file.
const MAX_FIELD: u64 = 64 << 10;

/// A form.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) fields: Fields,
    /// The file's bytes, in the pieces in which they came.
    pub(super) file: Vec<Bytes>,
}

/// Reads a form of at most so many bytes.
pub(super) async fn read(headers: &HeaderMap, body: Body, max: usize) -> Result<Form, ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind)
        .map_err(|_| wrong("the body must be multipart/form-data with a file"))?;
    let max = max as u64;
    let sizes = SizeLimit::new().whole_stream(max).per_field(MAX_FIELD).for_field("file", max);
    let constraints = Constraints::new().size_limit(sizes);
    let mut parts = Multipart::with_constraints(body.into_data_stream(), boundary, constraints);
    let mut fields = Fields::default();
    let mut file = None;
    while let Some(mut part) = parts.next_field().await.map_err(|error| unread(&error))? {
        let name = part.name().unwrap_or_default().to_owned();
        if name == "file" {
            let mut pieces = Vec::new();
            while let Some(piece) = part.chunk().await.map_err(|error| unread(&error))? {
                pieces.push(piece);
            }
            file = Some(pieces);
        } else {
            fields.add(name, part.text().await.map_err(|error| unread(&error))?)?;
        }
    }
    let file = file.ok_or_else(|| wrong("the form has no field `file`"))?;
    Ok(Form { fields, file })
}

fn unread(error: &Error) -> ApiError {
    match error {
        Error::StreamSizeExceeded { .. } => ApiError::too_large(),
        Error::FieldSizeExceeded { field_name: Some(name), .. } if name == "file" => {
            ApiError::too_large()
        }
        Error::FieldSizeExceeded { field_name, .. } => {
            let name = clip(field_name.as_deref().unwrap_or_default());
            wrong(format!("the field `{name}` is larger than {MAX_FIELD} bytes"))
        }
        error => wrong(format!("the form could not be read: {error}")),
    }
}
