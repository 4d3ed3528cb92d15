//! The terminal: taken over, written to, listened to, and given back as it was.

use std::{
    io::{self, Stdout, Write as _},
    time::Duration,
};

use crossterm::{
    cursor::{Hide, MoveTo, Show},
    event::{self, Event, KeyCode, KeyModifiers},
    execute,
    style::Print,
    terminal::{
        Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
        enable_raw_mode, size,
    },
};

use super::draw::Canvas;

/// What the person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Up,
    Down,
    None,
}

/// The terminal while it is ours.
#[derive(Debug)]
pub(super) struct Screen(Stdout);

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let mut stdout = io::stdout();
        enable_raw_mode()?;
        // From here on it is given back whatever happens.
        execute!(stdout, EnterAlternateScreen, Hide)?;
        Ok(Self(stdout))
    }

    pub(super) fn show(&mut self, text: &str) -> io::Result<()> {
        execute!(self.0, MoveTo(0, 0))?;
        for line in text.lines() {
            execute!(self.0, Print(line), Clear(ClearType::UntilNewLine), Print("\r\n"))?;
        }
        execute!(self.0, Clear(ClearType::FromCursorDown))?;
        self.0.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nobody left to tell if this fails.
        drop(execute!(self.0, Show, LeaveAlternateScreen));
        drop(disable_raw_mode());
    }
}

/// How much room there is.
pub(super) fn canvas() -> Canvas {
    let (columns, rows) = size().unwrap_or((100, 40));
    Canvas { columns: columns.into(), rows: rows.into(), has_colours: true }
}

/// Waits for a key, at most so long. The terminal must be ours.
pub(super) fn wait(patience: Duration) -> io::Result<Key> {
    if !event::poll(patience)? {
        return Ok(Key::None);
    }
    let Event::Key(key) = event::read()? else { return Ok(Key::None) };
    Ok(match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        _ => Key::None,
    })
}
