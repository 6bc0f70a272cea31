//! `.npy`: NumPy's array file, versions 1.0 to 3.0: vectors in two dimensions, C order, f32, f16, u8 or
//! i8; and columns of numbers in one dimension.

use anyhow::{Context, Result, bail, ensure};
use pipeann_engine::types::VectorType;

use super::file_shape::{FileShape, check_length};
use super::number::NumberType;

const MAGIC: &[u8] = b"\x93NUMPY";
/// What messages about another type end with.
const KNOWN: &str = "f32 (<f4), f16 (<f2), u8 (|u1) or i8 (|i1)";
/// NumPy aligns the rows to this.
const ALIGN: usize = 64;

/// Reads the header of an array of vectors and compares the length that it announces with the one
/// found.
pub(super) fn shape(bytes: &[u8]) -> Result<FileShape> {
    let (header, start) = dictionary(bytes)?;
    let ty = vector_type(value(header, "descr")?)?;
    in_c_order(header)?;
    let [rows, dim] = dimensions(header, "rows x components")?;
    let announced = start as u128 + rows as u128 * ty.vector_bytes(dim) as u128;
    check_length(bytes.len(), announced, &format!("its header announces {rows} x {dim} {ty}"))?;
    Ok(FileShape { rows, dim, ty, start })
}

/// What the header of a column says.
pub(super) struct ColumnShape {
    /// Numbers in it.
    pub(super) len: usize,
    pub(super) ty: NumberType,
    /// Where they begin.
    pub(super) start: usize,
}

/// The same of a column of numbers.
pub(super) fn column(bytes: &[u8]) -> Result<ColumnShape> {
    let (header, start) = dictionary(bytes)?;
    let descr = quoted(value(header, "descr")?).context("an array of records")?;
    let ty = NumberType::of(descr)
        .with_context(|| format!("numbers of type {descr}; expected <i4, <i8, <f4, <f8 or |b1"))?;
    in_c_order(header)?;
    let [len] = dimensions(header, "a value for each row")?;
    let announced = start as u128 + len as u128 * ty.bytes() as u128;
    check_length(bytes.len(), announced, &format!("its header announces {len} numbers {descr}"))?;
    Ok(ColumnShape { len, ty, start })
}

/// The header's dictionary, and where the array begins.
fn dictionary(bytes: &[u8]) -> Result<(&str, usize)> {
    ensure!(bytes.starts_with(MAGIC), "it does not begin with NumPy's magic \\x93NUMPY");
    let cut = "truncated: the file ends within its header";
    let major = *bytes.get(6).context(cut)?;
    let (length, at) = match major {
        1 => {
            let l = bytes.get(8..10).context(cut)?;
            (u16::from_le_bytes([l[0], l[1]]) as usize, 10_usize)
        }
        2 | 3 => {
            let l = bytes.get(8..12).context(cut)?;
            (u32::from_le_bytes([l[0], l[1], l[2], l[3]]) as usize, 12)
        }
        v => bail!("version {v} of the format; expected 1 to 3"),
    };
    let header = bytes.get(at..at + length).context(cut)?;
    let header = std::str::from_utf8(header).context("its header is no text")?;
    Ok((header, at + length))
}

fn in_c_order(header: &str) -> Result<()> {
    match value(header, "fortran_order")? {
        v if v.starts_with("False") => Ok(()),
        v if v.starts_with("True") => {
            bail!("the array is in Fortran order; expected C order (numpy.ascontiguousarray)")
        }
        _ => bail!("its header says neither True nor False for fortran_order"),
    }
}

/// What follows `'key':` in the header's dictionary.
fn value<'h>(header: &'h str, key: &str) -> Result<&'h str> {
    for quote in ['\'', '"'] {
        let quoted = format!("{quote}{key}{quote}");
        if let Some(at) = header.find(&quoted) {
            let rest = header[at + quoted.len()..].trim_start();
            return Ok(rest.strip_prefix(':').context("its header is no dictionary")?.trim_start());
        }
    }
    bail!("its header has no `{key}`")
}

/// What stands between the quotes that a value begins with; `None` where it begins with none.
fn quoted(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    Some(value[1..].split(quote).next().unwrap_or(""))
}

fn vector_type(value: &str) -> Result<VectorType> {
    let Some(descr) = quoted(value) else {
        bail!("an array of records; expected {KNOWN}");
    };
    match descr {
        "<f4" => Ok(VectorType::F32),
        "<f2" => Ok(VectorType::F16),
        "|u1" | "<u1" | ">u1" | "u1" => Ok(VectorType::U8),
        "|i1" | "<i1" | ">i1" | "i1" => Ok(VectorType::I8),
        _ => bail!("components of type {descr}; expected {KNOWN}"),
    }
}

/// The lengths of an array of `N` dimensions, which are `meant`.
fn dimensions<const N: usize>(header: &str, meant: &str) -> Result<[usize; N]> {
    let inner = value(header, "shape")?
        .strip_prefix('(')
        .and_then(|v| v.split_once(')'))
        .context("its header has no shape in parentheses")?
        .0;
    let numbers: Vec<&str> = inner.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
    let found = numbers.len();
    ensure!(found == N, "an array of {found} dimensions; expected {N}: {meant}");
    let mut lengths = [0; N];
    for (length, n) in lengths.iter_mut().zip(numbers) {
        *length = n.parse().with_context(|| format!("`{n}` in its shape is no number"))?;
    }
    Ok(lengths)
}

/// The header of an array of `rows` x `dim`, version 1.0.
///
/// # Errors
/// NumPy has no name for bfloat16 and none for packed bits.
pub(super) fn header(rows: usize, dim: usize, ty: VectorType) -> Result<Vec<u8>> {
    let descr = match ty {
        VectorType::F32 => "<f4",
        VectorType::F16 => "<f2",
        VectorType::U8 => "|u1",
        VectorType::I8 => "|i1",
        VectorType::BF16 => bail!("NumPy has no bfloat16; write .bf16bin"),
        VectorType::Binary => bail!("NumPy has no packed bits; write .bbin"),
    };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}");
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.push_str(&" ".repeat(unpadded.next_multiple_of(ALIGN) - unpadded));
    text.push('\n');
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
    Ok(out)
}
