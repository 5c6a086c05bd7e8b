//! Log on the standard error, as text or JSON.

mod component_logs;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use self::component_logs::ComponentLogs;

/// Log flags.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// Minimum level of log messages
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    log_level: Level,
    /// Log format
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
pub fn start(args: &LogArgs) -> ComponentLogs {
    let level = match args.log_level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let component_logs = ComponentLogs::default();
    let stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Libraries log every frame at these levels, which would drown the log lines of this program.
    let library_level = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::INFO) };
    let targets = Targets::new().with_target("setpoint", level).with_default(library_level);
    let registry = tracing_subscriber::registry().with(targets).with(component_logs.clone());
    match args.log_format {
        Format::Json => registry.with(stderr.json()).init(),
        Format::Text => registry.with(stderr.with_ansi(false)).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let reason = panic.payload_as_str().unwrap_or("unknown");
        tracing::error!(location, reason, "panic");
    }));
    component_logs
}
