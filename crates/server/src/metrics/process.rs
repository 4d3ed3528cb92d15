//! What the system says of this process. What it does not say is left out.

use std::{fs, sync::LazyLock, time::SystemTime};

use super::{page::Page, table as t};

/// What `times` counts in, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

static STARTED: LazyLock<Option<f64>> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let up: f64 = fs::read_to_string("/proc/uptime").ok()?.split(' ').next()?.parse().ok()?;
    let began = fields()?.get(19)?.parse::<f64>().ok()? / TICKS_PER_SECOND;
    Some(now.as_secs_f64() - up + began)
});

/// Fields of `/proc/self/stat` after the name, which may hold anything.
fn fields() -> Option<Vec<String>> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

pub(super) fn write(page: &mut Page) {
    if let Some(fields) = fields() {
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        if let (Some(user), Some(system)) = (number(11), number(12)) {
            page.family(&t::CPU).value(&[], (user + system) / TICKS_PER_SECOND);
        }
        if let Some(threads) = number(17) {
            page.family(&t::THREADS).value(&[], threads);
        }
    }
    if let Some(resident) = status("VmRSS:") {
        page.family(&t::MEMORY).value(&[], resident * 1024.0);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        page.family(&t::FILES).size(&[], files.count());
    }
    if let Some(most) = max_files() {
        page.family(&t::MAX_FILES).value(&[], most);
    }
    if let Some(started) = *STARTED {
        page.family(&t::STARTED).value(&[], started);
    }
}

fn status(key: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

fn max_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
