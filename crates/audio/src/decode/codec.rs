//! Packets to samples, by the codecs of `symphonia`.

use std::fmt;

use symphonia_bundle_flac::FlacDecoder;
use symphonia_bundle_mp3::MpaDecoder;
use symphonia_codec_aac::AacDecoder;
use symphonia_core::{
    codecs::audio::{
        AudioCodecParameters, AudioDecoder, AudioDecoderOptions,
        well_known::{CODEC_ID_AAC, CODEC_ID_FLAC, CODEC_ID_MP3},
    },
    packet::PacketRef,
    units::{Duration, Timestamp},
};

use crate::DecodeError;

use super::{pcm::tamed, window::To};

/// A codec and the planes it decodes into.
pub(super) struct Codec {
    decoder: Box<dyn AudioDecoder>,
    planes: Vec<Vec<f32>>,
}

impl Codec {
    pub(super) fn mp3() -> Option<Self> {
        let mut parameters = AudioCodecParameters::new();
        parameters.for_codec(CODEC_ID_MP3);
        Self::of(MpaDecoder::try_new(&parameters, &AudioDecoderOptions::default()).ok())
    }

    /// AAC-LC with its `AudioSpecificConfig`.
    pub(super) fn aac(config: &[u8]) -> Option<Self> {
        let mut parameters = AudioCodecParameters::new();
        parameters.for_codec(CODEC_ID_AAC).with_extra_data(config.into());
        Self::of(AacDecoder::try_new(&parameters, &AudioDecoderOptions::default()).ok())
    }

    /// FLAC with its `STREAMINFO`.
    pub(super) fn flac(info: &[u8]) -> Option<Self> {
        let mut parameters = AudioCodecParameters::new();
        parameters.for_codec(CODEC_ID_FLAC).with_extra_data(info.into());
        Self::of(FlacDecoder::try_new(&parameters, &AudioDecoderOptions::default()).ok())
    }

    fn of(decoder: Option<impl AudioDecoder + 'static>) -> Option<Self> {
        decoder.map(|decoder| Self { decoder: Box::new(decoder), planes: Vec::new() })
    }

    /// Decodes a packet of `n_frames`; one that is damaged becomes as much silence.
    pub(super) fn decode(
        &mut self,
        packet: &[u8],
        n_frames: usize,
        to: &mut To<'_>,
    ) -> Result<(), DecodeError> {
        let packet = PacketRef::new(0, Timestamp::ZERO, Duration::ZERO, packet);
        match self.decoder.decode_ref(&packet) {
            Ok(decoded) => decoded.copy_to_vecs_planar(&mut self.planes),
            Err(_) => return to.output.silence(n_frames, to.sink),
        }
        for sample in self.planes.iter_mut().flatten() {
            *sample = tamed(*sample);
        }
        let planes: Vec<&[f32]> = self.planes.iter().map(Vec::as_slice).collect();
        to.output.take(&planes, to.sink)
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}
