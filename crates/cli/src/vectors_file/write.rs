//! Writing vector files, in any format.

use std::path::Path;

use anyhow::{Context, Result, bail};
use pipeann_engine::types::{VectorType, from_f32, to_f32};

use super::format::Format;
use super::whole_file::WholeFile;
use super::{bin, npy};

/// Writes vectors in the format that the path's extension names.
pub struct VectorsWriter {
    file: WholeFile,
    format: Format,
    from: VectorType,
    to: VectorType,
    dim: usize,
    row: usize,
    scratch: Vec<f32>,
    bytes: Vec<u8>,
}

impl VectorsWriter {
    /// Begins a file of `rows` x `dim` vectors that are handed over as `from`.
    ///
    /// Every type may be written as f32. Others may be written as f16 and bf16, rounded, where they
    /// are within range, and as integers and bits where every component is one;
    /// [`write_row`](Self::write_row) refuses the first that is not.
    pub fn create(path: &Path, rows: usize, dim: usize, from: VectorType) -> Result<Self> {
        let format = Format::of(path)?;
        let to = format.vector_type().unwrap_or(from);
        let mut file = WholeFile::create(path)?;
        match format {
            Format::Bin(_) => {
                let mut header = [0; bin::HEADER_BYTES];
                let word = |n: usize| u32::try_from(n).context("more rows than .bin files count");
                header[..4].copy_from_slice(&word(rows)?.to_le_bytes());
                header[4..].copy_from_slice(&word(dim)?.to_le_bytes());
                file.write(&header)?;
            }
            Format::Npy => file.write(&npy::header(rows, dim, to)?)?,
            Format::Texmex(_) => {}
        }
        let scratch = vec![0.0; dim];
        Ok(Self { file, format, from, to, dim, row: 0, scratch, bytes: Vec::new() })
    }

    /// Appends one vector.
    pub fn write_row(&mut self, row: &[u8]) -> Result<()> {
        if let Format::Texmex(_) = self.format {
            self.file.write(&(self.dim as u32).to_le_bytes())?;
        }
        if self.from == self.to {
            self.file.write(row)?;
        } else {
            to_f32(row, self.from, &mut self.scratch);
            if let Some(v) = self.scratch.iter().find(|&&v| !fits(v, self.to)) {
                bail!(
                    "row {} holds {v}, which is no {}; expected {} to write {}",
                    self.row,
                    self.to,
                    expected(self.to),
                    self.format
                );
            }
            self.bytes.clear();
            from_f32(&self.scratch, self.to, &mut self.bytes);
            self.file.write(&self.bytes)?;
        }
        self.row += 1;
        Ok(())
    }

    /// Gives the file its name.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

/// Whether a component can be written as one of `ty`.
fn fits(value: f32, ty: VectorType) -> bool {
    let whole =
        |range: std::ops::RangeInclusive<f32>| value.fract() == 0.0 && range.contains(&value);
    match ty {
        VectorType::F32 => true,
        // The largest finite f16, and half a step to the next.
        VectorType::F16 => !value.is_finite() || value.abs() < 65_520.0,
        VectorType::BF16 => !value.is_finite() || value.abs() < 3.39e38,
        VectorType::U8 => whole(0.0..=255.0),
        VectorType::I8 => whole(-128.0..=127.0),
        VectorType::Binary => whole(0.0..=1.0),
    }
}

fn expected(ty: VectorType) -> &'static str {
    match ty {
        VectorType::F32 | VectorType::F16 | VectorType::BF16 => "numbers within its range",
        VectorType::U8 => "whole numbers from 0 to 255",
        VectorType::I8 => "whole numbers from -128 to 127",
        VectorType::Binary => "zeros and ones",
    }
}
