//! Files as readers see them: unpacked while their bytes on disk are counted and hashed.
//!
//! Gzip is told by its first two bytes, never by the name, and all members of the file are read
//! (a decoder that stops after the first loses rows without an error).

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use resilin_learn::dataset::{DataError, SourceFile};
use sha2::{Digest, Sha256};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// One open file.
pub(crate) struct Input {
    /// The path as errors name it.
    pub(crate) path: String,
    name: String,
    content: Content,
}

enum Content {
    Plain(BufReader<Hashed>),
    Gzip(Box<BufReader<MultiGzDecoder<BufReader<Hashed>>>>),
}

struct Hashed {
    inner: Box<dyn Read>,
    hash: Sha256,
    bytes: u64,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        Self::new(
            path.display().to_string(),
            name.to_string_lossy().into(),
            Box::new(file),
        )
    }

    /// Bytes that are part of the program.
    pub(crate) fn embedded(name: &str, bytes: &'static [u8]) -> Result<Self, DataError> {
        Self::new(name.into(), name.into(), Box::new(bytes))
    }

    fn new(path: String, name: String, inner: Box<dyn Read>) -> Result<Self, DataError> {
        let mut raw = BufReader::new(Hashed {
            inner,
            hash: Sha256::new(),
            bytes: 0,
        });
        let start = raw
            .fill_buf()
            .map_err(|error| DataError(format!("cannot read {path}: {error}")))?;
        let content = if start.starts_with(&GZIP_MAGIC) {
            Content::Gzip(Box::new(BufReader::new(MultiGzDecoder::new(raw))))
        } else {
            Content::Plain(raw)
        };
        Ok(Self {
            path,
            name,
            content,
        })
    }

    /// What a failed read means.
    pub(crate) fn failed(&self, error: &io::Error) -> DataError {
        match self.content {
            Content::Plain(_) => DataError(format!("cannot read {}: {error}", self.path)),
            Content::Gzip(_) => DataError(format!(
                "cannot unpack {}: {error}; the gzip file is damaged or cut short, fetch it again",
                self.path
            )),
        }
    }

    /// The file's entry in the manifest, once all of it has been read.
    pub(crate) fn finish(mut self) -> Result<SourceFile, DataError> {
        let drained = io::copy(&mut self, &mut io::sink());
        drained.map_err(|error| self.failed(&error))?;
        let raw = match self.content {
            Content::Plain(raw) => raw,
            Content::Gzip(unpacked) => unpacked.into_inner().into_inner(),
        };
        let Hashed { hash, bytes, .. } = raw.into_inner();
        Ok(SourceFile {
            name: self.name,
            bytes,
            sha256: hex(&hash.finalize()),
        })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.content {
            Content::Plain(raw) => raw.read(buffer),
            Content::Gzip(unpacked) => unpacked.read(buffer),
        }
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.content {
            Content::Plain(raw) => raw.fill_buf(),
            Content::Gzip(unpacked) => unpacked.fill_buf(),
        }
    }

    fn consume(&mut self, count: usize) {
        match &mut self.content {
            Content::Plain(raw) => raw.consume(count),
            Content::Gzip(unpacked) => unpacked.consume(count),
        }
    }
}

/// The files of a path: itself, or a directory's files sorted by the bytes of their names.
///
/// Names that begin with `.` or `_` and names that end in `.crc` are what tools leave behind; they
/// and sub-directories are passed over.
pub(crate) fn parts(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let kind = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !kind.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| unreadable(path, &error))? {
        let entry = entry.map_err(|error| unreadable(path, &error))?;
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        let left_behind =
            bytes.starts_with(b".") || bytes.starts_with(b"_") || bytes.ends_with(b".crc");
        let full = entry.path();
        let kind = fs::metadata(&full).map_err(|error| unreadable(&full, &error))?;
        if !left_behind && kind.is_file() {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Err(DataError(format!(
            "directory {} holds no data file (hidden, `_` and .crc names do not count)",
            path.display()
        )));
    }
    names.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
    Ok(names.iter().map(|name| path.join(name)).collect())
}

fn unreadable(path: &Path, error: &io::Error) -> DataError {
    DataError(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{} does not exist: correct the path in [data], or say --data DIR",
            path.display()
        ),
        _ => format!("cannot read {}: {error}", path.display()),
    })
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
