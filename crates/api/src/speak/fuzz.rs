//! A way in for fuzz targets.

use axum::{extract::Query, http::Uri};

use super::{deepgram, deepgram_ws, openai};

/// What is asked of the doors to synthesis: the address, and the body or a message of a socket.
pub fn speak(query: &str, body: &[u8]) {
    if let Ok(uri) = format!("/v1/speak?{query}").parse::<Uri>()
        && let Ok(Query(wishes)) = Query::<deepgram::Wishes>::try_from_uri(&uri)
    {
        drop(wishes.form());
        drop(wishes.raw_form());
    }
    drop(deepgram::read(body));
    drop(serde_json::from_slice::<deepgram_ws::Said>(body));
    drop(serde_json::from_slice::<openai::Ask>(body));
}
