//! Log on the standard error, as text or JSON.

mod rings;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use self::rings::Rings;

/// Log flags.
#[derive(Debug, clap::Args)]
pub struct LogArguments {
    /// Minimum level of log lines
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    log_level: Level,
    /// Format of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Starts logging, and keeps the last lines in memory. A panic is logged too.
pub fn start(arguments: &LogArguments) -> Rings {
    let level = match arguments.log_level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let rings = Rings::default();
    let shown = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Libraries log every frame at these levels, which would drown the log lines of this program.
    let others = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::INFO) };
    let chosen = Targets::new().with_target("setpoint", level).with_default(others);
    let kept = tracing_subscriber::registry().with(chosen).with(rings.clone());
    match arguments.log_format {
        Format::Json => kept.with(shown.json()).init(),
        Format::Text => kept.with(shown.with_ansi(false)).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let reason = panic.payload_as_str().unwrap_or("unknown");
        tracing::error!(place, reason, "panic");
    }));
    rings
}
