//! One slice of a checkpoint as a safetensors file, written and read in pieces.
//!
//! The `safetensors` crate serialises from one buffer; a slice is as large as memory allows, so
//! the header is made here and the values stream through a buffer of 1 MiB. Each tensor is flat:
//! what the slice's blocks have of it. The header's texts name the set, so that a file alone tells
//! what it belongs to (PROTOCOL 27).

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use resilin_learn::kernel::extent;
use safetensors::tensor::Metadata;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::error::{Result, StoreError};
use crate::files::{Files, Writing};
use crate::manifest::{FileRecord, Manifest};
use crate::run::RunRecord;
use crate::save::{Set, SliceImage};

/// Bytes that are converted, hashed and written at once.
const CHUNK: usize = 1 << 20;

/// Longest header that is read.
const HEADER_LIMIT: u64 = 1 << 20;

/// Bytes of a value.
const VALUE: usize = size_of::<f32>();

/// Name of a slice's file.
fn file_name(image: &SliceImage<'_>) -> String {
    format!("slice-{:05}.safetensors", image.slice.0)
}

/// Writes and syncs a slice's file in `dir`; its name is not durable yet.
pub(crate) fn write(
    files: &dyn Files,
    dir: &Path,
    run: &RunRecord,
    set: &Set,
    image: &SliceImage<'_>,
) -> Result<FileRecord> {
    let name = file_name(image);
    let path = dir.join(&name);
    let file = files
        .create(&path)
        .map_err(StoreError::io("create", &path))?;
    let mut out = Hashed {
        file,
        hash: Sha256::new(),
        bytes: 0,
    };
    let mut stream = || {
        out.write_all(&header(run, set, image))?;
        let mut buffer = Vec::with_capacity(CHUNK);
        for (_, values) in image.tensors {
            for chunk in values.chunks(CHUNK / VALUE) {
                little_endian(chunk, &mut buffer);
                out.write_all(&buffer)?;
            }
        }
        Ok(())
    };
    stream().map_err(StoreError::io("write", &path))?;
    out.file.sync().map_err(StoreError::io("sync", &path))?;
    Ok(FileRecord {
        name,
        slice: image.slice,
        blocks: image.blocks.clone(),
        tensors: image
            .tensors
            .iter()
            .map(|(name, _)| (*name).into())
            .collect(),
        bytes: out.bytes,
        sha256: hex(&out.hash.finalize()),
    })
}

/// A file that hashes what goes into it.
struct Hashed {
    file: Box<dyn Writing>,
    hash: Sha256,
    bytes: u64,
}

impl Hashed {
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

fn little_endian(values: &[f32], bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Length and JSON of the safetensors header, padded so that the values are aligned.
fn header(run: &RunRecord, set: &Set, image: &SliceImage<'_>) -> Vec<u8> {
    let mut texts = Map::new();
    let mut text = |key: &str, value: String| texts.insert(key.into(), value.into());
    text("run", run.name.clone());
    text("run_digest", hex(&run.digest));
    text("timeline", set.timeline.to_string());
    text("step", set.step.to_string());
    text("map", set.map.to_string());
    text("slice", image.slice.to_string());
    text("files", set.slices.slices().to_string());
    text(
        "blocks",
        format!("{}..{}", image.blocks.start, image.blocks.end),
    );
    text("block_length", set.layout.block().to_string());
    let mut header = Map::new();
    let mut offset = 0;
    for (name, values) in image.tensors {
        text(&format!("blake3.{name}"), tensor_digest(values));
        let end = offset + values.len() * VALUE;
        header.insert(
            (*name).into(),
            json!({"dtype": "F32", "shape": [values.len()], "data_offsets": [offset, end]}),
        );
        offset = end;
    }
    header.insert("__metadata__".into(), Value::Object(texts));
    let mut json = serde_json::to_vec(&header).expect("a header has string keys only");
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut json);
    bytes
}

fn tensor_digest(values: &[f32]) -> String {
    let mut hash = blake3::Hasher::new();
    let mut buffer = Vec::with_capacity(CHUNK);
    for chunk in values.chunks(CHUNK / VALUE) {
        little_endian(chunk, &mut buffer);
        hash.update(&buffer);
    }
    hash.finalize().to_hex().to_string()
}

/// Reads a whole file, checks its length and digest, and copies what `blocks` have (as far as
/// the file has it) into `out`: one flat vector a tensor, in the record's order, that begins with
/// the first value of `blocks`. After an error the contents of `out` are unspecified.
pub(crate) fn read(
    files: &dyn Files,
    dir: &Path,
    manifest: &Manifest,
    record: &FileRecord,
    blocks: &Range<usize>,
    out: &mut [Vec<f32>],
) -> Result<()> {
    let path = dir.join(&record.name);
    check_length(files, &path, record.bytes)?;
    let file = files.open(&path).map_err(StoreError::io("read", &path))?;
    let mut input = HashedRead {
        file: file.take(record.bytes),
        hash: Sha256::new(),
        path: &path,
    };
    let layout = &manifest.layout;
    let lengths = record.tensors.iter();
    let lengths = lengths.map(|name| extent(name, layout, record.blocks.clone()).len());
    read_header(&mut input, record, &lengths.collect::<Vec<_>>())?;
    for (name, values) in record.tensors.iter().zip(out) {
        let stored = extent(name, layout, record.blocks.clone());
        let wanted = extent(name, layout, blocks.clone());
        read_tensor(&mut input, &stored, &wanted, values)?;
    }
    input.finish(&record.sha256)
}

/// Reads a whole file and checks its length and digest.
pub(crate) fn verify(files: &dyn Files, path: &Path, bytes: u64, sha256: &str) -> Result<()> {
    check_length(files, path, bytes)?;
    let file = files.open(path).map_err(StoreError::io("read", path))?;
    HashedRead {
        file: file.take(bytes),
        hash: Sha256::new(),
        path,
    }
    .finish(sha256)
}

/// Checks that a file exists with a length.
pub(crate) fn check_length(files: &dyn Files, path: &Path, bytes: u64) -> Result<()> {
    match files
        .length(path)
        .map_err(StoreError::io("look at", path))?
    {
        Some(length) if length == bytes => Ok(()),
        Some(length) => Err(StoreError::damaged(
            path,
            format!("{length} bytes long instead of {bytes}"),
        )),
        None => Err(StoreError::damaged(path, "the file is missing")),
    }
}

/// The header is checked by the crate that others read the file with, and against the record.
fn read_header(input: &mut HashedRead<'_>, record: &FileRecord, lengths: &[usize]) -> Result<()> {
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_LIMIT {
        return Err(StoreError::damaged(input.path, "its header is too long"));
    }
    let mut header = vec![0; length as usize];
    input.read_exact(&mut header)?;
    let header: Metadata = serde_json::from_slice(&header)
        .map_err(|error| StoreError::damaged(input.path, format!("its header: {error}")))?;
    let mut end = 0;
    let mut fits = header.offset_keys() == record.tensors;
    for (name, length) in record.tensors.iter().zip(lengths) {
        let offsets = (end, end + length * VALUE);
        let info = header.info(name);
        fits &= info.is_some_and(|info| info.data_offsets == offsets);
        end = offsets.1;
    }
    if !fits {
        return Err(StoreError::damaged(
            input.path,
            "its tensors are not those of the manifest",
        ));
    }
    Ok(())
}

/// Reads one tensor with the values `stored`, of which those in `wanted` are copied.
fn read_tensor(
    input: &mut HashedRead<'_>,
    stored: &Range<usize>,
    wanted: &Range<usize>,
    out: &mut [f32],
) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut at = stored.start;
    while at < stored.end {
        let count = (stored.end - at).min(CHUNK / VALUE);
        let bytes = &mut buffer[..count * VALUE];
        input.read_exact(bytes)?;
        let from = at.max(wanted.start);
        let to = (at + count).min(wanted.end);
        if from < to {
            let bytes = &bytes[(from - at) * VALUE..(to - at) * VALUE];
            let out = &mut out[from - wanted.start..to - wanted.start];
            for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(VALUE)) {
                *value = f32::from_le_bytes(bytes.try_into().expect("chunks of a value"));
            }
        }
        at += count;
    }
    Ok(())
}

/// A file that hashes what comes out of it.
struct HashedRead<'a> {
    file: std::io::Take<Box<dyn Read + Send>>,
    hash: Sha256,
    path: &'a Path,
}

impl HashedRead<'_> {
    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.file
            .read_exact(bytes)
            .map_err(StoreError::io("read", self.path))?;
        self.hash.update(bytes);
        Ok(())
    }

    /// Hashes the rest and compares.
    fn finish(mut self, sha256: &str) -> Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = self
                .file
                .read(&mut buffer)
                .map_err(StoreError::io("read", self.path))?;
            if count == 0 {
                break;
            }
            self.hash.update(&buffer[..count]);
        }
        if hex(&self.hash.finalize()) == sha256 {
            return Ok(());
        }
        Err(StoreError::damaged(self.path, "its SHA-256 does not fit"))
    }
}
