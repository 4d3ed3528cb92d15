//! A model that computes nothing and takes its time about it.
//!
//! For tests, demos and capacity planning: how long a call takes, how often it fails or panics and
//! how slow the first one is are settings. A seed makes a run repeatable.

pub mod speech;

use std::time::Duration;

#[cfg(feature = "serde")]
use paceline_types::duration;
use paceline_types::{DType, Dim, Signature, Tensor, TensorSpec};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::{Backend, BackendError, Call, Outputs};

/// How the simulated model behaves. By default it answers at once and never fails.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(deny_unknown_fields, default)
)]
pub struct Settings {
    /// What every call takes.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub delay: Duration,
    /// Seconds per second of audio, where the input is audio of `sample_rate`; the longest item
    /// of a batch counts.
    pub per_second: f64,
    /// Samples per second of audio.
    pub sample_rate: u32,
    /// A call takes up to this much more or less, but never less than nothing.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub jitter: Duration,
    /// The share of rows that fail, each alone; 0 to 1.
    pub failure_rate: f64,
    /// The share of calls that panic; 0 to 1.
    pub panic_rate: f64,
    /// The first call of each instance takes this many times longer in addition.
    pub warmup_penalty: f64,
    /// What a call takes by its rows, as points `[rows, milliseconds]`; straight lines between
    /// them, and on beyond the last two.
    pub curve: Vec<(usize, f64)>,
    /// Every call keeps so many bytes for ever: what watches memory can be tried on it.
    pub leak: usize,
    /// Burn the CPU instead of sleeping.
    pub spin: bool,
    /// The same seed gives the same failures and jitter.
    pub seed: u64,
    /// The name of its one input.
    pub input: String,
    /// The name of its one output.
    pub output: String,
    /// The type of both.
    #[cfg_attr(feature = "serde", serde(with = "dtype"))]
    pub dtype: DType,
    /// What it answers.
    pub answer: Answer,
}

/// What the simulated model answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(rename_all = "snake_case")
)]
pub enum Answer {
    /// Its input.
    #[default]
    Identity,
    /// How many elements each row of its input has, as `INT32`; bytes for `BYTES`.
    Count,
    /// Speech tokens for a text, a few at a time ([`speech`]).
    Tokens,
    /// Sound for speech tokens ([`speech`]).
    Sound,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            per_second: 0.0,
            sample_rate: 16_000,
            jitter: Duration::ZERO,
            failure_rate: 0.0,
            panic_rate: 0.0,
            warmup_penalty: 0.0,
            curve: Vec::new(),
            leak: 0,
            spin: false,
            seed: 0,
            input: "INPUT".to_owned(),
            output: "OUTPUT".to_owned(),
            dtype: DType::F32,
            answer: Answer::Identity,
        }
    }
}

/// A setting that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("simulated.{field} is {value}; {allowed}")]
pub struct SettingsError {
    field: &'static str,
    value: String,
    allowed: &'static str,
}

impl Settings {
    /// The vocoder that streaming synthesis was designed around: 1, 8, 32 and 64 items take 50,
    /// 70, 150 and 280 ms.
    #[must_use]
    pub fn vocoder() -> Self {
        Self { curve: vec![(1, 50.0), (8, 70.0), (32, 150.0), (64, 280.0)], ..Self::default() }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// Names the first setting that makes no sense.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let share = "it must be from 0 to 1";
        let positive = "it must be at least 0";
        for (field, value, holds, allowed) in [
            ("failure_rate", self.failure_rate, (0.0..=1.0).contains(&self.failure_rate), share),
            ("panic_rate", self.panic_rate, (0.0..=1.0).contains(&self.panic_rate), share),
            ("per_second", self.per_second, 0.0 <= self.per_second, positive),
            ("warmup_penalty", self.warmup_penalty, 0.0 <= self.warmup_penalty, positive),
        ] {
            if !holds || !value.is_finite() {
                return Err(SettingsError { field, value: value.to_string(), allowed });
            }
        }
        let rises = self.curve.is_sorted_by(|a, b| a.0 < b.0);
        let is_sane =
            |&(rows, millis): &(usize, f64)| 0 < rows && (0.0..=3_600_000.0).contains(&millis);
        if !rises || !self.curve.iter().all(is_sane) {
            return Err(SettingsError {
                field: "curve",
                value: format!("{:?}", self.curve),
                allowed: "it must be points [rows, milliseconds] with rising rows from 1",
            });
        }
        if self.sample_rate == 0 {
            return Err(SettingsError {
                field: "sample_rate",
                value: "0".to_owned(),
                allowed: "it must be at least 1",
            });
        }
        Ok(())
    }

    /// What a call of `rows` rows takes by the curve alone, in seconds.
    fn on_curve(&self, rows: usize) -> f64 {
        let after = self
            .curve
            .partition_point(|point| point.0 < rows)
            .clamp(1, self.curve.len().max(2) - 1);
        let (low, high) = match self.curve.as_slice() {
            [] => return 0.0,
            [(_, millis)] => return millis / 1000.0,
            points => (points[after - 1], points[after]),
        };
        #[expect(clippy::cast_precision_loss, reason = "batch sizes are small")]
        let share = (rows as f64 - low.0 as f64) / (high.0 as f64 - low.0 as f64);
        // Fewer rows than the first point take what that takes.
        (low.1 + (high.1 - low.1) * share.max(0.0)) / 1000.0
    }
}

/// An instance of whichever model the settings are for.
///
/// # Errors
///
/// When the settings make no sense.
pub fn build(settings: &Settings, instance: u64) -> Result<Box<dyn Backend>, SettingsError> {
    let timing = Settings { answer: Answer::Identity, ..settings.clone() };
    let plain = Simulated::build(timing, instance)?;
    Ok(match settings.answer {
        Answer::Tokens => Box::new(speech::Tokens::new(plain)),
        Answer::Sound => Box::new(speech::Vocoder::new(plain)),
        Answer::Identity | Answer::Count => Box::new(Simulated::build(settings.clone(), instance)?),
    })
}

/// One instance of the simulated model.
#[derive(Debug)]
pub struct Simulated {
    settings: Settings,
    signature: Signature,
    random: ChaCha8Rng,
    is_warm: bool,
}

/// The message of a simulated failure.
pub const FAILURE: &str = "Unexpected inference failure";

impl Simulated {
    /// An instance. Instances with different numbers draw different numbers from one seed.
    ///
    /// # Errors
    ///
    /// When the settings make no sense.
    pub fn build(settings: Settings, instance: u64) -> Result<Self, SettingsError> {
        settings.validate()?;
        let spec = |name: &str, dtype, dims: &[Dim]| TensorSpec {
            name: name.to_owned(),
            dtype,
            dims: dims.to_vec(),
        };
        let output = match settings.answer {
            Answer::Identity => spec(&settings.output, settings.dtype, &[Dim::Any]),
            Answer::Count => spec(&settings.output, DType::I32, &[Dim::Fixed(1)]),
            Answer::Tokens | Answer::Sound => {
                return Err(SettingsError {
                    field: "answer",
                    value: format!("{:?}", settings.answer),
                    allowed: "it is answered by the models of `simulated::speech`",
                });
            }
        };
        let signature = Signature {
            inputs: vec![spec(&settings.input, settings.dtype, &[Dim::Any])],
            outputs: vec![output],
            batched: true,
        };
        let random = ChaCha8Rng::seed_from_u64(settings.seed.wrapping_mul(1_000_003) ^ instance);
        Ok(Self { settings, signature, random, is_warm: false })
    }

    /// Takes the time that a call of so many rows takes.
    fn take_time(&mut self, rows: usize) {
        let takes = self.next_duration(rows, 0);
        pass(takes, self.settings.spin);
    }

    /// How long the next call takes. Pure but for the dice.
    fn next_duration(&mut self, rows: usize, samples: usize) -> Duration {
        let settings = &self.settings;
        #[expect(clippy::cast_precision_loss, reason = "an hour of audio is 6e7 samples")]
        let audio_seconds = samples as f64 / f64::from(settings.sample_rate);
        let mut seconds = settings.delay.as_secs_f64()
            + settings.on_curve(rows)
            + audio_seconds * settings.per_second;
        if !std::mem::replace(&mut self.is_warm, true) {
            seconds += seconds * settings.warmup_penalty;
        }
        let jitter = settings.jitter.as_secs_f64() * self.random.random_range(-1.0..=1.0);
        Duration::from_secs_f64((seconds + jitter).max(0.0))
    }
}

impl Backend for Simulated {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_instant(&self) -> bool {
        let Settings { delay, jitter, per_second, curve, .. } = &self.settings;
        let takes_none = |&(_, millis): &(usize, f64)| millis == 0.0;
        delay.is_zero() && jitter.is_zero() && *per_second == 0.0 && curve.iter().all(takes_none)
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        let [input] = call.inputs else {
            return Err(BackendError::Failed("the simulated model takes one input".to_owned()));
        };
        let samples = input.shape().get(1).copied().unwrap_or(0);
        let takes = self.next_duration(call.rows, samples);
        pass(takes, self.settings.spin);
        if self.settings.leak != 0 {
            std::mem::forget(vec![1_u8; self.settings.leak]);
        }
        let Settings { failure_rate, panic_rate, .. } = self.settings;
        // Only dice that can fall either way are thrown, so that an echo costs nothing.
        let failed = if failure_rate == 0.0 {
            Vec::new()
        } else {
            (0..call.rows)
                .filter(|_| self.random.random_bool(failure_rate))
                .map(|row| (row, FAILURE.to_owned()))
                .collect()
        };
        let panics = panic_rate != 0.0 && self.random.random_bool(panic_rate);
        assert!(!panics, "simulated panic");
        let tensors = match self.settings.answer {
            Answer::Identity => vec![input.clone()],
            _ => vec![counts(input, call.rows)?],
        };
        Ok(Outputs { tensors, failed })
    }
}

/// How many elements each row has, or bytes where the elements are strings.
fn counts(input: &Tensor, rows: usize) -> Result<Tensor, BackendError> {
    let per_row = input.n_elements() / rows.max(1);
    let counts: Vec<u8> = if input.dtype() == DType::Bytes {
        let sizes: Vec<usize> = input.byte_elements().map(<[u8]>::len).collect();
        let rows = sizes.chunks(per_row.max(1)).map(|row| as_i32(row.iter().sum()));
        rows.flat_map(i32::to_le_bytes).collect()
    } else {
        std::iter::repeat_n(as_i32(per_row), rows).flat_map(i32::to_le_bytes).collect()
    };
    Tensor::build(DType::I32, [rows, 1].as_slice().into(), counts.into())
        .map_err(|error| BackendError::Failed(error.to_string()))
}

fn as_i32(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "taking time is what the simulated model does")]
fn pass(takes: Duration, spin: bool) {
    if takes.is_zero() {
        return;
    }
    if !spin {
        std::thread::sleep(takes);
        return;
    }
    let began = std::time::Instant::now();
    while began.elapsed() < takes {
        std::hint::spin_loop();
    }
}

/// Datatypes by their protocol names.
#[cfg(feature = "serde")]
mod dtype {
    use paceline_types::DType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
    pub(super) fn serialize<S: Serializer>(
        value: &DType,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<DType, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(model: &mut Simulated, rows: usize, samples: usize) -> f64 {
        model.next_duration(rows, samples).as_secs_f64() * 1000.0
    }

    fn build(settings: Settings) -> Simulated {
        Simulated::build(settings, 0).unwrap()
    }

    fn call(model: &mut Simulated, rows: usize) -> Result<Outputs, BackendError> {
        let input = Tensor::from_f32(&[rows, 2], &vec![0.5; rows * 2]).unwrap();
        model.run(&Call { inputs: &[input], rows })
    }

    #[test]
    fn the_curve_goes_through_its_points_and_on_beyond_them() {
        let mut model = build(Settings::vocoder());

        for (rows, expected) in
            [(1, 50.0), (8, 70.0), (20, 110.0), (32, 150.0), (64, 280.0), (96, 410.0)]
        {
            let takes = millis(&mut model, rows, 0);
            assert!((takes - expected).abs() < 1e-6, "{rows} rows: {takes}");
        }
    }

    #[test]
    fn audio_costs_by_its_length_and_the_first_call_of_each_instance_warms_up_once() {
        let settings = Settings {
            delay: Duration::from_millis(500),
            per_second: 0.3,
            warmup_penalty: 10.0,
            ..Settings::default()
        };
        for instance in 0..2 {
            let mut model = Simulated::build(settings.clone(), instance).unwrap();
            assert!((millis(&mut model, 1, 16_000) - 8800.0).abs() < 1e-6);
            assert!((millis(&mut model, 1, 16_000) - 800.0).abs() < 1e-6);
        }
    }

    #[test]
    fn jitter_larger_than_the_delay_never_goes_below_nothing() {
        let settings = Settings {
            delay: Duration::from_millis(1),
            jitter: Duration::from_millis(50),
            ..Settings::default()
        };
        let mut model = build(settings);

        let all: Vec<f64> = (0..200).map(|_| millis(&mut model, 1, 0)).collect();
        assert!(all.contains(&0.0) && all.iter().any(|&takes| 40.0 < takes));
    }

    #[test]
    fn a_seed_repeats_its_failures_and_instances_differ() {
        let settings = Settings { failure_rate: 0.3, seed: 7, ..Settings::default() };
        let failures = |instance| {
            let mut model = Simulated::build(settings.clone(), instance).unwrap();
            (0..50)
                .flat_map(|_| call(&mut model, 4).unwrap().failed)
                .map(|(row, _)| row)
                .collect::<Vec<_>>()
        };

        assert_eq!(failures(0), failures(0));
        assert_ne!(failures(0), failures(1));
        let share = f64::from(u32::try_from(failures(0).len()).unwrap()) / 200.0;
        assert!((0.2..0.4).contains(&share), "{share}");
    }

    #[test]
    fn it_counts_elements_or_bytes() {
        let mut model =
            build(Settings { answer: Answer::Count, dtype: DType::Bytes, ..Settings::default() });
        let data = bytes::Bytes::from_static(b"\x02\0\0\0hi\x03\0\0\0you");
        let input = Tensor::build(DType::Bytes, [2, 1].as_slice().into(), data).unwrap();

        let outputs = model.run(&Call { inputs: &[input], rows: 2 }).unwrap();

        assert_eq!(outputs.tensors[0].data()[..], [2, 0, 0, 0, 3, 0, 0, 0]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = |settings: Settings| settings.validate().unwrap_err().to_string();

        assert_eq!(
            refused(Settings { failure_rate: 1.5, ..Settings::default() }),
            "simulated.failure_rate is 1.5; it must be from 0 to 1"
        );
        assert_eq!(
            refused(Settings { curve: vec![(8, 70.0), (1, 50.0)], ..Settings::default() }),
            "simulated.curve is [(8, 70.0), (1, 50.0)]; it must be points [rows, milliseconds] with rising rows from 1"
        );
    }
}
