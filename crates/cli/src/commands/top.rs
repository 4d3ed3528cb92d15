//! `paceline top`: what a server does, live in a terminal, from `/v1/stats` and `explain`.

mod draw;
mod sample;
mod screen;

use std::{io::IsTerminal as _, time::Duration};

use anyhow::Context as _;
use clap::Args;

use self::{
    draw::{Canvas, draw},
    sample::{Rates, Sample, Source},
    screen::{Key, Screen},
};
use crate::exit::{self, Failure};

/// Show what a server does, live.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopArgs {
    /// The server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8000")]
    url: String,
    /// A token with the role `infer`, where the server asks for one
    #[arg(long, value_name = "TOKEN", env = "PACELINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one table, of what happened within one interval, and exit
    #[arg(long)]
    once: bool,
    /// Print what the server says, as JSON, and exit
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let source = Source::new(&args.url, args.token.as_deref());
    if args.json {
        let text = serde_json::to_string_pretty(&source.raw()?).context("not JSON")?;
        return exit::print(&(text + "\n"));
    }
    if args.once || !std::io::stdout().is_terminal() {
        let before = source.look()?;
        #[expect(clippy::disallowed_methods, reason = "a person waits for the second look")]
        std::thread::sleep(args.interval);
        let now = source.look()?;
        let rates = Rates::between(Some(&before), &now);
        return exit::print(&draw(&args.url, &now, &rates, 0, Canvas::PLAIN));
    }
    Ok(watch(&source, args)?)
}

/// Looks again and again until the person has seen enough.
fn watch(source: &Source, args: &TopArgs) -> anyhow::Result<()> {
    let mut before: Option<Sample> = None;
    let mut chosen = 0_usize;
    let mut screen = Screen::open()?;
    loop {
        match source.look() {
            Ok(now) => {
                chosen = chosen.min(now.models.len().saturating_sub(1));
                let rates = Rates::between(before.as_ref(), &now);
                screen.show(&draw(&args.url, &now, &rates, chosen, screen::canvas()))?;
                before = Some(now);
            }
            Err(error) => screen.show(&format!("{error:#}\n\nLooking again; q ends.\n"))?,
        }
        match screen::wait(args.interval)? {
            Key::Quit => return Ok(()),
            Key::Up => chosen = chosen.saturating_sub(1),
            Key::Down => chosen += 1,
            Key::None => {}
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let parsed = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(100)..=Duration::from_mins(1);
    if allowed.contains(&parsed) { Ok(parsed) } else { Err("from 100ms to 1m".to_owned()) }
}
