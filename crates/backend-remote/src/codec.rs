//! Messages out, bytes in: what a server sent is decoded by whoever asked, so that what cannot be
//! decoded is known to be the server's doing.

use std::marker::PhantomData;

use bytes::{Buf as _, Bytes};
use prost::Message;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Messages out, bytes in.
#[derive(Debug)]
pub(crate) struct Undecoded<Q>(PhantomData<Q>);

impl<Q> Default for Undecoded<Q> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Q: Message + 'static> Codec for Undecoded<Q> {
    type Encode = Q;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<Q: Message> Encoder for Undecoded<Q> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, message: Q, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<Q> Decoder for Undecoded<Q> {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
