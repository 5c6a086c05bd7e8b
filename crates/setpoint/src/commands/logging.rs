//! The log: to the standard error, for people or for programs.

mod rings;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use self::rings::Rings;

/// What can be said about the log.
#[derive(Debug, clap::Args)]
pub struct LogArguments {
    /// What to log
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    log_level: Level,
    /// How to log
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

/// Starts to log, and keeps the last lines. A panic becomes a line of the log too.
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
    // What libraries say of every frame drowns what was asked for, which is what this program does.
    let others = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::INFO) };
    let chosen = Targets::new().with_target("setpoint", level).with_default(others);
    let kept = tracing_subscriber::registry().with(chosen).with(rings.clone());
    match arguments.log_format {
        Format::Json => kept.with(shown.json()).init(),
        Format::Text => kept.with(shown.with_ansi(false)).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let reason = panic.payload_as_str().unwrap_or("not told");
        tracing::error!(place, reason, "panic");
    }));
    rings
}
