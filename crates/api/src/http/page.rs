//! The dashboard: a page that was built beforehand (`dashboard/` says how) and is part of this
//! program. It asks for nothing from elsewhere, and may not.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
            REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse as _, Response},
};
use sha2::{Digest as _, Sha256};

use super::{ApiError, error::no_such_path};

/// A name, what it holds, and its bytes.
type File = (&'static str, &'static str, &'static [u8]);

macro_rules! built {
    ($name:literal) => {
        include_bytes!(concat!("../../../../dashboard/dist/", $name))
    };
}

const INDEX: &[u8] = built!("index.html");
const ASSETS: &[File] = &[
    ("app.js", "text/javascript; charset=utf-8", built!("assets/app.js")),
    ("app.css", "text/css; charset=utf-8", built!("assets/app.css")),
    ("microphone.js", "text/javascript; charset=utf-8", built!("assets/microphone.js")),
    ("icon.svg", "image/svg+xml", built!("assets/icon.svg")),
];

/// Whatever a model or a client is called, no script but ours runs, and nothing is sent anywhere
/// but here. `blob:` is for what the user picked or a model answered.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
     media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

/// Changes with any of the files, so that those of two versions never meet.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    digest.update(INDEX);
    for (_, _, bytes) in ASSETS {
        digest.update(bytes);
    }
    let digest = digest.finalize();
    let tag = digest.iter().take(8).fold(0, |tag: u64, byte| tag << 8 | u64::from(*byte));
    HeaderValue::try_from(format!("\"{tag:016x}\"")).unwrap_or(HeaderValue::from_static("\"\""))
});

/// `GET /`
pub(super) async fn index(headers: HeaderMap) -> Response {
    file(&headers, "text/html; charset=utf-8", INDEX)
}

/// `GET /assets/{file}`
pub(super) async fn asset(
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    match ASSETS.iter().find(|(known, _, _)| *known == name) {
        Some((_, kind, bytes)) => Ok(file(&headers, kind, bytes)),
        None => Err(no_such_path(uri).await),
    }
}

fn file(asked: &HeaderMap, kind: &'static str, bytes: &'static [u8]) -> Response {
    const HEAD: [(HeaderName, HeaderValue); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    let head = (HEAD, [(ETAG, TAG.clone())]);
    if asked.get(IF_NONE_MATCH) == Some(&*TAG) {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, [(CONTENT_TYPE, kind)], bytes).into_response()
}
