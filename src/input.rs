//! Small files that a person names: the job and the token.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The text of a regular file of at most `most` bytes. Pipes and devices are refused before they
/// are opened: they may never end.
///
/// # Errors
/// What is wrong with the file, without its name.
pub(crate) fn text(path: &Path, most: usize) -> Result<String, String> {
    let explain = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "there is no such file; check the path".into(),
        _ => error.to_string(),
    };
    let found = fs::metadata(path).map_err(explain)?;
    if !found.is_file() {
        return Err("not a regular file; write it to one".into());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(explain)?;
    // It may have grown since; one byte more than allowed tells.
    let read = file.take(most as u64 + 1).read_to_end(&mut bytes);
    read.map_err(explain)?;
    if bytes.len() > most {
        return Err(format!("more than {most} bytes, which is the most"));
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8 text; save it as such".into())
}
