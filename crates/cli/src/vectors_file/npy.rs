//! `.npy`: NumPy's array file, two-dimensional, C order, f32, f16, u8 or i8, versions 1.0 to 3.0.

use anyhow::{Context, Result, bail, ensure};
use pipeann_engine::types::VectorType;

use super::Shape;
use super::bin::check_length;

const MAGIC: &[u8] = b"\x93NUMPY";
/// What messages about another type end with.
const KNOWN: &str = "f32 (<f4), f16 (<f2), u8 (|u1) or i8 (|i1)";
/// NumPy aligns the rows to this.
const ALIGN: usize = 64;

/// Reads the header and compares the length that it announces with the one found.
pub(super) fn shape(bytes: &[u8]) -> Result<Shape> {
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
    let ty = vector_type(value(header, "descr")?)?;
    match value(header, "fortran_order")? {
        v if v.starts_with("False") => {}
        v if v.starts_with("True") => {
            bail!("the array is in Fortran order; expected C order (numpy.ascontiguousarray)")
        }
        _ => bail!("its header says neither True nor False for fortran_order"),
    }
    let (rows, dim) = two_dimensions(value(header, "shape")?)?;
    let start = at + length;
    let announced = start as u128 + rows as u128 * ty.vector_bytes(dim) as u128;
    check_length(bytes.len(), announced, &format!("its header announces {rows} x {dim} {ty}"))?;
    Ok(Shape { rows, dim, ty, start })
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

fn vector_type(value: &str) -> Result<VectorType> {
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let Some(quote) = quote else {
        bail!("an array of records; expected {KNOWN}");
    };
    let descr = value[1..].split(quote).next().unwrap_or("");
    match descr {
        "<f4" => Ok(VectorType::F32),
        "<f2" => Ok(VectorType::F16),
        "|u1" | "<u1" | ">u1" | "u1" => Ok(VectorType::U8),
        "|i1" | "<i1" | ">i1" | "i1" => Ok(VectorType::I8),
        _ => bail!("components of type {descr}; expected {KNOWN}"),
    }
}

fn two_dimensions(value: &str) -> Result<(usize, usize)> {
    let inner = value
        .strip_prefix('(')
        .and_then(|v| v.split_once(')'))
        .context("its header has no shape in parentheses")?
        .0;
    let numbers: Vec<&str> = inner.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
    let [rows, dim] = numbers.as_slice() else {
        bail!("an array of {} dimensions; expected 2: rows x components", numbers.len());
    };
    let number = |n: &str| n.parse().with_context(|| format!("`{n}` in its shape is no number"));
    Ok((number(rows)?, number(dim)?))
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
