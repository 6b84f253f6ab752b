//! The log of a process: lines on standard error, as many as `RESILIN_LOG` asks for.

use std::io::IsTerminal;

use resilin_actors::Exit;
use tracing_subscriber::filter::LevelFilter;

/// The environment variable with the level; the processes that `train` starts inherit it.
pub(crate) const VARIABLE: &str = "RESILIN_LOG";

/// Starts the log. Without the variable only warnings and errors are shown: everything else has a
/// place in the status, the ledger or the report.
pub(crate) fn start() -> Result<(), Exit> {
    let level = match std::env::var(VARIABLE) {
        Ok(level) => level.parse::<LevelFilter>().map_err(|_| {
            Exit::Usage(format!(
                "{VARIABLE}={level} is no level; set off, error, warn, info, debug or trace"
            ))
        })?,
        Err(_) => LevelFilter::WARN,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // Standard error may be gone.
        .log_internal_errors(false);
    // A program that set up its own log before calling `main` keeps it.
    let _ = log.try_init();
    Ok(())
}
