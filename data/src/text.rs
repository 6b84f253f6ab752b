//! A text as rows for a language model: runs of bytes, each with the byte that follows as its class.
//!
//! The bytes are kept once, whatever rows overlap. Test rows are the end of the text, not drawn from
//! it: a drawn row would have its neighbours, and so itself, among the training rows.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resilin_learn::dataset::{
    Batch, DataError, Dataset, Manifest, SourceFile, Split, TargetKind, Targets,
};
use sha2::{Digest, Sha256};

use crate::input::{Input, hex};

/// Values of a byte.
const CLASSES: u32 = 256;

/// Which text, and how it is cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The text that is trained on.
    pub path: PathBuf,
    /// The text of the test rows; `None`: the end of the first.
    pub test_path: Option<PathBuf>,
    /// Bytes of a row, at least 1.
    pub context: usize,
    /// Bytes from the start of a row to that of the next, at least 1.
    pub stride: usize,
    /// Share of the bytes that is held out without `test_path`, in [0, 1).
    pub test_fraction: f64,
}

/// Reads a text.
///
/// # Errors
/// A file that cannot be read, or is too short for one row.
pub fn load(config: &Config) -> Result<Split, DataError> {
    let (mut bytes, file) = read(&config.path)?;
    let test = match &config.test_path {
        Some(path) => Some(read(path)?),
        None => {
            let held_out = (bytes.len() as f64 * config.test_fraction).floor() as usize;
            let end = bytes.split_off(bytes.len() - held_out);
            (held_out > 0).then(|| (end, file.clone()))
        }
    };
    let rows = |(bytes, file), path| Text::new(bytes, file, config, path);
    let train = Arc::new(rows((bytes, file), &config.path)?);
    let test_path = config.test_path.as_ref().unwrap_or(&config.path);
    let test = test.map(|test| rows(test, test_path)).transpose()?;
    Ok(Split {
        train,
        test: test.map(|test| Arc::new(test) as Arc<dyn Dataset>),
    })
}

fn read(path: &Path) -> Result<(Vec<u8>, SourceFile), DataError> {
    let mut input = Input::open(path)?;
    let mut bytes = Vec::new();
    let read = input.read_to_end(&mut bytes);
    read.map_err(|error| input.failed(&error))?;
    Ok((bytes, input.finish()?))
}

struct Text {
    bytes: Vec<u8>,
    stride: usize,
    manifest: Manifest,
}

impl Text {
    fn new(
        bytes: Vec<u8>,
        file: SourceFile,
        config: &Config,
        path: &Path,
    ) -> Result<Self, DataError> {
        let Config {
            context, stride, ..
        } = *config;
        let Some(beyond) = bytes.len().checked_sub(context + 1) else {
            return Err(DataError(format!(
                "{} has {} bytes to make rows from, and a row with the byte behind it {}: choose a \
                 smaller context or test_fraction",
                path.display(),
                bytes.len(),
                context + 1
            )));
        };
        let rows = beyond / stride + 1;
        let (Ok(_), Ok(width)) = (u32::try_from(rows), u32::try_from(context)) else {
            return Err(DataError(format!(
                "{} has {rows} rows of {context} bytes: both must stay below 2^32",
                path.display()
            )));
        };
        let manifest = Manifest {
            source: "text".into(),
            files: vec![file],
            rows: rows as u64,
            width,
            targets: TargetKind::Classes(CLASSES),
            missing: "refuse".into(),
            digest: digest(&bytes, width, stride),
        };
        tracing::info!(path = %path.display(), rows, context, "text read");
        Ok(Self {
            bytes,
            stride,
            manifest,
        })
    }
}

/// SHA-256 in hex over the context as u32 and the stride as u64, little-endian, and the bytes: what
/// the rows are follows from them.
fn digest(bytes: &[u8], context: u32, stride: usize) -> String {
    let mut hash = Sha256::new();
    hash.update(context.to_le_bytes());
    hash.update((stride as u64).to_le_bytes());
    hash.update(bytes);
    hex(&hash.finalize())
}

impl Dataset for Text {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        let count = self.manifest.rows;
        if let Some(row) = rows.iter().find(|row| u64::from(**row) >= count) {
            return Err(DataError(format!(
                "row {row} was asked for, but there are {count} rows"
            )));
        }
        let width = self.manifest.width as usize;
        let mut classes = match std::mem::take(&mut batch.targets) {
            Targets::Classes(classes) => classes,
            Targets::Values { .. } => Vec::new(),
        };
        classes.clear();
        batch.features.clear();
        for row in rows {
            let start = *row as usize * self.stride;
            let bytes = &self.bytes[start..=start + width];
            let values = bytes[..width].iter().map(|byte| f32::from(*byte));
            batch.features.extend(values);
            classes.push(bytes[width].into());
        }
        (batch.rows, batch.width) = (rows.len(), width);
        batch.targets = Targets::Classes(classes);
        Ok(())
    }
}
