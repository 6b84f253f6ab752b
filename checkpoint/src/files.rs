//! The file operations that the store is built from, as a trait that tests can break.
//!
//! Nothing else in the crate touches a file, except the lock and sled. Paths are whole; a
//! directory's entries are durable only after `sync_dir`, a file's bytes only after `sync`.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::error::{Result, StoreError};

/// A file that is being written.
pub trait Writing: Send {
    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// The system's; part of the bytes may have been written.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// The system's; the file must then be abandoned (PROTOCOL 28).
    fn sync(&mut self) -> io::Result<()>;
}

/// A file system.
pub trait Files: fmt::Debug + Send + Sync {
    /// A new file; an existing one is an error.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Writing>>;

    /// A file to write at its end; created if it is missing.
    ///
    /// # Errors
    /// The system's.
    fn append(&self, path: &Path) -> io::Result<Box<dyn Writing>>;

    /// A file to read from its beginning.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// A new directory; an existing one is an error.
    ///
    /// # Errors
    /// The system's.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Gives a file or directory another name in the same directory; a file there is replaced.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory with all that is in it.
    ///
    /// # Errors
    /// The system's; part of the contents may be gone.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Bytes of a file, `None` where there is nothing of that name.
    ///
    /// # Errors
    /// The system's.
    fn length(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Bytes that can still be written below a directory.
    ///
    /// # Errors
    /// The system's.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;
}

/// The files of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

struct RealWriting(fs::File);

impl Writing for RealWriting {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Files for RealFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Writing>> {
        Ok(Box::new(RealWriting(fs::File::create_new(path)?)))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Writing>> {
        let file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)?;
        Ok(Box::new(RealWriting(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(fs::File::open(path)?))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not Unicode is not one of ours.
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(dir)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

/// The whole contents of a file of at most `limit` bytes; `None` where there is none.
pub(crate) fn read(files: &dyn Files, path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let length = files
        .length(path)
        .map_err(StoreError::io("look at", path))?;
    let Some(length) = length else {
        return Ok(None);
    };
    if length > limit {
        return Err(StoreError::damaged(path, format!("{length} bytes long")));
    }
    let mut bytes = Vec::new();
    files
        .open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(StoreError::io("read", path))?;
    Ok(Some(bytes))
}

/// The names in a directory, none where there is no directory.
pub(crate) fn list(files: &dyn Files, dir: &Path) -> Result<Vec<String>> {
    match files.list(dir) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::io("list", dir)(error)),
    }
}

/// A new file with these contents, durable but for its entry in the directory.
pub(crate) fn create_synced(files: &dyn Files, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = files.create(path).map_err(StoreError::io("create", path))?;
    file.write_all(bytes)
        .map_err(StoreError::io("write", path))?;
    file.sync().map_err(StoreError::io("sync", path))
}

/// Makes a directory's entries durable.
pub(crate) fn sync_dir(files: &dyn Files, dir: &Path) -> Result<()> {
    files.sync_dir(dir).map_err(StoreError::io("sync", dir))
}

/// Renames within `dir` and makes the new name durable.
pub(crate) fn rename_durably(files: &dyn Files, dir: &Path, from: &str, to: &str) -> Result<()> {
    let (from, to) = (dir.join(from), dir.join(to));
    files
        .rename(&from, &to)
        .map_err(StoreError::io("rename", &from))?;
    sync_dir(files, dir)
}

/// The first of `stem-1suffix`, `stem-2suffix`, ... that is not among `taken`.
pub(crate) fn free_name(taken: &[String], stem: &str, suffix: &str) -> String {
    (1..=taken.len() + 1)
        .map(|n| format!("{stem}-{n}{suffix}"))
        .find(|name| !taken.contains(name))
        .expect("one more name than are taken is tried")
}
