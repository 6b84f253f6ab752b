//! All printing of the program. Who reads may have gone, and a device may be full: neither is a
//! reason to panic, and a training goes on.

use std::io::{ErrorKind, Write};

use resilin_actors::Exit;
use serde::Serialize;

/// Writes one line to standard output. A reader that has gone does not want to know.
///
/// # Errors
/// If the line cannot be written for another reason.
pub(crate) fn line(text: &str) -> Result<(), Exit> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Exit::Fault(format!(
            "cannot write to standard output: {error}; give it a place that takes it"
        ))),
    }
}

/// Writes one line on the way to a result, if it can be written: what is under way goes on.
pub(crate) fn progress(text: &str) {
    let _ = line(text);
}

/// Writes one object on one line of standard output.
///
/// # Errors
/// As [`line`].
pub(crate) fn json(value: &impl Serialize) -> Result<(), Exit> {
    line(&serde_json::to_string(value).expect("what is printed has string keys only"))
}

/// Writes one line to standard error, if somebody reads it.
pub(crate) fn log(text: &str) {
    // There is no other place to say that it failed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
