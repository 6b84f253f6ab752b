//! One process at a time owns a state directory: a kernel lock that a dead holder cannot keep.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::error::{Result, StoreError};

/// How long a start waits for the lock: a killed holder's lock can outlive it for an instant.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);

/// After how long a wait is said: a holder that was killed is gone by then, a living one is not.
const SILENT: Duration = Duration::from_millis(200);

/// How often it is tried.
pub(crate) const LOCK_RETRY: Duration = Duration::from_millis(50);

/// The held lock; released when dropped or when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: fs::File,
}

impl Lock {
    /// Takes the lock file at `path` and writes this process's id into it.
    pub(crate) fn take(path: &Path, wait: Duration) -> Result<Self> {
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(StoreError::io("open the lock", path))?;
        let begun = Instant::now();
        let mut said = false;
        while let Err(error) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK && error != rustix::io::Errno::INTR {
                return Err(StoreError::io("lock", path)(error.into()));
            }
            let waited = begun.elapsed();
            if waited >= SILENT && !said {
                said = true;
                let held = held(path, &mut file);
                tracing::warn!("{held}; waiting up to {} s for its end", wait.as_secs());
            }
            if waited >= wait {
                return Err(held(path, &mut file));
            }
            thread::sleep(LOCK_RETRY);
        }
        // Only a hint for people: a full disk must not keep the holder of the lock out.
        if let Err(error) = write_holder(&mut file) {
            tracing::warn!(path = %path.display(), %error, "cannot write the process id");
        }
        Ok(Self { _file: file })
    }
}

fn held(path: &Path, file: &mut fs::File) -> StoreError {
    StoreError::Held {
        path: path.to_path_buf(),
        holder: holder(file).unwrap_or_else(|_| "unknown".into()),
    }
}

fn holder(file: &mut fs::File) -> io::Result<String> {
    file.rewind()?;
    let mut text = String::new();
    file.take(32).read_to_string(&mut text)?;
    let text = text.trim();
    Ok(if text.is_empty() { "unknown" } else { text }.into())
}

fn write_holder(file: &mut fs::File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
