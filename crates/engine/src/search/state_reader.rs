//! Numbers of a state that came as bytes, one after the other.

use super::portable_error::PortableError;

/// See the module's description.
pub(super) struct StateReader<'a>(pub(super) &'a [u8]);

impl StateReader<'_> {
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], PortableError> {
        let (head, rest) =
            self.0.split_first_chunk::<N>().ok_or(PortableError::Malformed("truncated"))?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, PortableError> {
        Ok(self.bytes::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, PortableError> {
        Ok(u16::from_le_bytes(self.bytes()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, PortableError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, PortableError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    pub(super) fn f32(&mut self) -> Result<f32, PortableError> {
        let value = f32::from_le_bytes(self.bytes()?);
        if value.is_nan() {
            Err(PortableError::Malformed("a distance is no number"))
        } else {
            Ok(value)
        }
    }

    pub(super) fn usize(&mut self) -> Result<usize, PortableError> {
        Ok(self.u32()? as usize)
    }
}
