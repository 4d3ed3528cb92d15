//! `paceline speak`: has a server speak a text, and says how soon and how evenly the sound came.

use std::{
    io::{IsTerminal as _, Read, Write as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::exit::Failure;

/// Have a server speak a text.
///
/// The sound is written as a WAV while it comes; without `-o` into speech.wav, with `-o -` to standard
/// output, for a player.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpeakArgs {
    /// The text; `-` for standard input
    #[arg(value_name = "TEXT")]
    text: String,
    /// Where the sound goes; `-` for standard output
    #[arg(short, long, default_value = "speech.wav", value_name = "FILE")]
    output: PathBuf,
    /// The voice; the server's choice where it is left out
    #[arg(long)]
    voice: Option<String>,
    /// The speaking model; the server's choice where it is left out
    #[arg(long)]
    model: Option<String>,
    /// How fast; 1 is as usual
    #[arg(long)]
    speed: Option<f32>,
    /// The server
    #[arg(long, default_value = "http://127.0.0.1:8000", value_name = "URL")]
    url: String,
    /// A token, where the server wants one
    #[arg(long, env = "PACELINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

/// Bytes that are taken at once: a twentieth of a second at least.
const BUFFER: usize = 4096;

pub(crate) fn run(args: &SpeakArgs) -> Result<(), Failure> {
    Ok(speak(args)?)
}

/// How much sound came when.
#[derive(Debug, Default)]
struct Heard {
    bytes: u64,
    first: Option<Duration>,
    /// When what came so far will have been played.
    dry: Duration,
    silence: Duration,
    rate: u32,
}

impl Heard {
    /// More came.
    fn more(&mut self, bytes: usize, at: Duration) {
        self.bytes += bytes as u64;
        if self.first.is_none() {
            self.first = Some(at);
            self.dry = at;
        }
        if self.dry < at {
            self.silence += at.saturating_sub(self.dry);
            self.dry = at;
        }
        self.dry += self.time(bytes as u64);
    }

    /// How long so many bytes of 16-bit samples sound.
    fn time(&self, bytes: u64) -> Duration {
        Duration::from_micros(bytes * 500_000 / u64::from(self.rate.max(1)))
    }

    fn line(&self) -> String {
        let first = self.first.unwrap_or_default().as_millis();
        let sound = self.time(self.bytes).as_secs_f64();
        format!("first sound after {first} ms, {sound:.1} s of it")
    }
}

const HEADER: usize = 44;

fn speak(args: &SpeakArgs) -> anyhow::Result<()> {
    let text = if args.text == "-" {
        std::io::read_to_string(std::io::stdin()).context("standard input")?
    } else {
        args.text.clone()
    };
    let mut body = json!({ "input": text, "response_format": "wav" });
    for (field, value) in [
        ("voice", args.voice.as_ref().map(|voice| json!(voice))),
        ("model", args.model.as_ref().map(|model| json!(model))),
        ("speed", args.speed.map(|speed| json!(speed))),
    ] {
        if let Some(value) = value {
            body[field] = value;
        }
    }
    let began = Instant::now();
    let mut answer = ask(args, &body)?;
    let is_pipe = args.output.as_os_str() == "-";
    let mut output: Box<dyn std::io::Write> = if is_pipe {
        Box::new(std::io::stdout())
    } else {
        let file = std::fs::File::create(&args.output);
        Box::new(file.with_context(|| format!("cannot write {}", args.output.display()))?)
    };
    let shows = std::io::stderr().is_terminal();
    let mut heard = Heard::default();
    let mut header = Vec::new();
    let mut buffer = [0; BUFFER];
    loop {
        let n_read = answer.read(&mut buffer).context("the sound broke off")?;
        let part = &buffer[..n_read];
        if part.is_empty() {
            break;
        }
        output.write_all(part).context("cannot write the sound")?;
        let n_header = (HEADER - header.len()).min(part.len());
        header.extend_from_slice(&part[..n_header]);
        if let Some(rate) = header.get(24..28).and_then(|rate| rate.try_into().ok()) {
            heard.rate = u32::from_le_bytes(rate);
        }
        if n_header < part.len() {
            heard.more(part.len() - n_header, began.elapsed());
        }
        if shows {
            eprint_now(&format!("\r{}", heard.line()));
        }
    }
    drop(output);
    if heard.bytes == 0 {
        bail!("the server sent no sound");
    }
    if !is_pipe {
        finish(&args.output, heard.bytes)?;
    }
    let took = began.elapsed();
    let clear = if shows { "\r" } else { "" };
    let gaps = match heard.silence.as_millis() {
        0 => "no gap".to_owned(),
        millis => format!("{millis} ms of gaps"),
    };
    let place = if is_pipe { String::new() } else { format!(", in {}", args.output.display()) };
    eprint_now(&format!(
        "{clear}{}, all of it after {} ms, {gaps}{place}\n",
        heard.line(),
        took.as_millis()
    ));
    Ok(())
}

/// Asks the server; what it says instead of sound is an error.
fn ask(args: &SpeakArgs, body: &Value) -> anyhow::Result<impl Read + use<>> {
    let url =
        if args.url.contains("://") { args.url.clone() } else { format!("http://{}", args.url) };
    let url = format!("{}/v1/audio/speech", url.trim_end_matches('/'));
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let mut request = ureq::Agent::new_with_config(config).post(&url);
    if let Some(token) = &args.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let mut response = request.send_json(body).with_context(|| format!("cannot reach {url}"))?;
    if !response.status().is_success() {
        let said = response.body_mut().read_to_string().unwrap_or_default();
        let said: Option<Value> = serde_json::from_str(&said).ok();
        let message = said
            .as_ref()
            .and_then(|said| said["error"]["message"].as_str().or(said["error"].as_str()));
        bail!("{}", message.unwrap_or(response.status().as_str()));
    }
    Ok(response.into_body().into_reader())
}

/// Writes the sizes into the header, now that they are known.
fn finish(path: &std::path::Path, n_bytes: u64) -> anyhow::Result<()> {
    use std::io::{Seek as _, SeekFrom};
    let Ok(n_bytes) = u32::try_from(n_bytes) else { return Ok(()) };
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    // A pipe or a device has no beginning to go back to.
    if file.metadata()?.is_file() {
        for (at, size) in [(4, n_bytes.saturating_add(36)), (40, n_bytes)] {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&size.to_le_bytes())?;
        }
    }
    Ok(())
}

fn eprint_now(text: &str) {
    // Where nobody looks, nothing is lost.
    drop(std::io::stderr().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_what_passed_with_nothing_to_play() {
        let ms = Duration::from_millis;
        let mut heard = Heard { rate: 16_000, ..Heard::default() };
        heard.more(16_000, ms(80));
        heard.more(16_000, ms(300));
        heard.more(16_000, ms(1200));

        assert_eq!(heard.first, Some(ms(80)));
        assert_eq!(heard.silence, ms(120), "it was dry at 1080");
        assert_eq!(heard.time(heard.bytes), ms(1500));
    }
}
