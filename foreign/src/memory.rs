//! Memory that this process and a child see. It has no name in any file system: it is gone with the
//! last process that holds it, whatever kills them.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

/// Places begin at multiples of this many bytes: a cache line, and what vector units like.
const ALIGNMENT: u64 = 64;

/// The memory. Here it is read and written by position; the child maps it.
pub(crate) struct Memory {
    file: File,
    bytes: u64,
}

/// Where the parts of a model lie in the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Values of weights, and of a gradient.
    pub(crate) parameters: usize,
}

impl Plan {
    /// Where the weights begin.
    pub(crate) const WEIGHTS: u64 = 0;

    /// Where the gradient begins.
    pub(crate) fn gradient(self) -> u64 {
        aligned(4 * self.parameters as u64)
    }

    /// Where rows begin.
    pub(crate) fn rows(self) -> u64 {
        2 * self.gradient()
    }
}

/// The next place at or after a position.
pub(crate) fn aligned(at: u64) -> u64 {
    at.next_multiple_of(ALIGNMENT)
}

impl Memory {
    /// Empty memory, which children of this process inherit.
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("resilin-model", MemfdFlags::empty())?;
        Ok(Self {
            file: File::from(file),
            bytes: 0,
        })
    }

    /// Its number here and in the child.
    pub(crate) fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it at least this large. What is mapped stays mapped.
    pub(crate) fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        if bytes > self.bytes {
            self.file.set_len(bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Writes values at a position; returns the place after them.
    pub(crate) fn write<T: bytemuck::NoUninit>(&self, at: u64, values: &[T]) -> io::Result<u64> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.file.write_all_at(bytes, at)?;
        Ok(aligned(at + bytes.len() as u64))
    }

    /// Reads values from a position.
    pub(crate) fn read(&self, at: u64, values: &mut [f32]) -> io::Result<()> {
        self.file
            .read_exact_at(bytemuck::cast_slice_mut(values), at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_at_cache_lines_and_do_not_overlap() {
        let plan = Plan { parameters: 17 };
        assert_eq!((plan.gradient(), plan.rows()), (128, 256));
        let mut memory = Memory::new().unwrap();
        memory.reserve(plan.rows()).unwrap();
        let next = memory.write(Plan::WEIGHTS, &[1.5_f32; 17]).unwrap();
        assert_eq!(next, plan.gradient());
        memory.write(next, &[7_u32]).unwrap();
        let mut values = [0.0; 18];
        memory.read(Plan::WEIGHTS, &mut values).unwrap();
        assert_eq!((values[16], values[17]), (1.5, 0.0));
        memory.reserve(8).unwrap();
        assert_eq!(memory.bytes(), plan.rows());
    }
}
