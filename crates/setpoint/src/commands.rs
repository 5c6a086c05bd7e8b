//! Subcommands, one module each.

mod admission_flags;
mod api_client;
pub mod certs;
mod encryption;
mod engine;
mod flags;
mod fleet;
mod logging;
pub mod node;
mod request_limits;
pub mod run;
pub mod store;
pub mod token;
pub mod up;
pub mod users;

use std::path::{Path, PathBuf};

use anyhow::Context;

/// Default data directory: in the user's data directory.
fn default_data_dir() -> anyhow::Result<PathBuf> {
    let base = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let base = base.or_else(home).context("no home directory: set --data-dir")?;
    Ok(base.join("setpoint"))
}

/// Data directory of a flag, or the default one.
fn data_dir_or_default(dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    dir.map_or_else(default_data_dir, |dir| Ok(dir.to_owned()))
}

/// Formats a number of bytes for people.
fn human_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(4) as usize;
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{:.1} {}", bytes as f64 / (1u64 << (10 * unit)) as f64, units[unit]),
    }
}

/// Formats a count with its noun.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_counts_are_formatted_for_people() {
        assert_eq!(
            (human_bytes(0), human_bytes(1023), human_bytes(1536)),
            ("0 B".into(), "1023 B".into(), "1.5 KiB".into())
        );
        assert_eq!(human_bytes(5 << 30), "5.0 GiB");
        assert_eq!((counted(1, "object"), counted(2, "object")), ("1 object".into(), "2 objects".into()));
    }
}
