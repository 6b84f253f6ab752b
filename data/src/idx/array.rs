//! One IDX file: two zero bytes, the element type, the number of dimensions, their sizes as
//! big-endian u32, then the elements, big-endian, last dimension fastest.
//!
//! The header is a claim: memory is only taken for bytes that are really there.

use std::io::{self, Read};

use resilin_learn::dataset::{DataError, SourceFile};

use crate::input::Input;

/// Element types of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    U8,
    I8,
    I16,
    I32,
    F32,
    F64,
}

impl Element {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0x08 => Self::U8,
            0x09 => Self::I8,
            0x0b => Self::I16,
            0x0c => Self::I32,
            0x0d => Self::F32,
            0x0e => Self::F64,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Every element is exact in f64.
    fn value(self, bytes: &[u8]) -> f64 {
        let sized = "chunks have the element's size";
        match self {
            Self::U8 => f64::from(bytes[0]),
            Self::I8 => f64::from(bytes[0].cast_signed()),
            Self::I16 => f64::from(i16::from_be_bytes(bytes.try_into().expect(sized))),
            Self::I32 => f64::from(i32::from_be_bytes(bytes.try_into().expect(sized))),
            Self::F32 => f64::from(f32::from_be_bytes(bytes.try_into().expect(sized))),
            Self::F64 => f64::from_be_bytes(bytes.try_into().expect(sized)),
        }
    }
}

/// The elements of one file.
pub(crate) struct Array {
    pub(crate) path: String,
    pub(crate) element: Element,
    /// Size of the first dimension.
    pub(crate) items: usize,
    /// Elements in one item: the product of the other dimensions.
    pub(crate) width: usize,
    bytes: Vec<u8>,
}

impl Array {
    /// Elements in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        self.bytes
            .chunks_exact(self.element.bytes())
            .map(|bytes| self.element.value(bytes))
    }

    /// Reads a whole file.
    pub(crate) fn read(mut input: Input) -> Result<(Self, SourceFile), DataError> {
        let path = input.path.clone();
        let (element, shape) = header(&mut input)?;
        let (width, promised) = claim(element, &shape).ok_or_else(|| {
            DataError(format!(
                "{path}: the header promises {} elements, more than a file can hold: it is \
                 damaged, fetch it again",
                dimensions(&shape)
            ))
        })?;
        let mut bytes = Vec::new();
        let read = input.by_ref().take(promised).read_to_end(&mut bytes);
        read.map_err(|error| input.failed(&error))?;
        if (bytes.len() as u64) < promised {
            return Err(DataError(format!(
                "{path}: the header promises {} elements ({promised} bytes), but {} bytes are \
                 there: the file is cut short, fetch it again",
                dimensions(&shape),
                bytes.len()
            )));
        }
        let rest = io::copy(&mut input, &mut io::sink()).map_err(|error| input.failed(&error))?;
        if rest > 0 {
            return Err(DataError(format!(
                "{path}: {rest} bytes follow the {promised} that the header promises ({} \
                 elements): cut them off, or correct the header",
                dimensions(&shape)
            )));
        }
        let array = Self {
            path,
            element,
            items: shape[0] as usize,
            width,
            bytes,
        };
        Ok((array, input.finish()?))
    }
}

/// Elements in an item, and bytes in all; `None` where no file can hold as many.
fn claim(element: Element, shape: &[u32]) -> Option<(usize, u64)> {
    let width = shape[1..]
        .iter()
        .try_fold(1u64, |all, size| all.checked_mul(u64::from(*size)))?;
    let bytes = width
        .checked_mul(u64::from(shape[0]))?
        .checked_mul(element.bytes() as u64)?;
    (bytes <= isize::MAX as u64).then_some((usize::try_from(width).ok()?, bytes))
}

/// Element type and sizes of the dimensions, of which there is at least one.
fn header(input: &mut Input) -> Result<(Element, Vec<u32>), DataError> {
    let mut magic = [0; 4];
    exactly(input, &mut magic)?;
    let element = Element::of(magic[2]).filter(|_| magic[..2] == [0, 0] && magic[3] > 0);
    let Some(element) = element else {
        return Err(DataError(format!(
            "{} begins with {magic:02x?}, which is no IDX header (00 00, type 08 09 0b 0c 0d or \
             0e, dimensions): give an IDX file",
            input.path
        )));
    };
    let mut shape = Vec::new();
    for _ in 0..magic[3] {
        let mut size = [0; 4];
        exactly(input, &mut size)?;
        shape.push(u32::from_be_bytes(size));
    }
    if shape[1..].contains(&0) {
        return Err(DataError(format!(
            "{}: a dimension is 0 in {}: items must hold at least one element",
            input.path,
            dimensions(&shape)
        )));
    }
    Ok((element, shape))
}

fn exactly(input: &mut Input, bytes: &mut [u8]) -> Result<(), DataError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => DataError(format!(
            "{} ends within its IDX header, or its gzip stream is cut short: fetch it again",
            input.path
        )),
        _ => input.failed(&error),
    })
}

fn dimensions(shape: &[u32]) -> String {
    let sizes: Vec<String> = shape.iter().map(u32::to_string).collect();
    sizes.join(" x ")
}
