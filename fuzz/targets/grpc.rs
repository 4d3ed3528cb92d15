//! Requests over gRPC; what was understood is understood again when it is written out.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use paceline_api::oip::{
    grpc::{decode_request, encode_request},
    proto::ModelInferRequest,
};
use prost::Message as _;

fuzz_target!(|data: &[u8]| {
    let Ok(message) = ModelInferRequest::decode(Bytes::copy_from_slice(data)) else { return };
    if let Ok(request) = decode_request(message) {
        decode_request(encode_request(request)).expect("what was read can be read again");
    }
});
