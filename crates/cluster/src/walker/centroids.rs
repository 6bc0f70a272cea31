//! The mean of each server's rows, by which a client chooses the servers that it asks.
//!
//! A file that `pipeann cluster split` writes beside the indexes of servers' own rows; docs/wire.md has
//! its byte table. Opening it is the caller's.

use pipeann_engine::distance::QueryDistance;
use pipeann_engine::format::constants::MAX_DIM;
use pipeann_engine::types::{Metric, VectorSet, VectorType, to_f32};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"pacentro";
const VERSION: u32 = 1;
const HEADER: usize = 24;
const CHECKSUM: usize = 8;

/// See the module's description.
#[derive(Debug, Clone, PartialEq)]
pub struct Centroids {
    metric: Metric,
    dim: usize,
    /// Server and mean of its rows.
    means: Vec<(u32, Vec<f32>)>,
}

/// Why bytes are no centroids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CentroidsError {
    /// Too long, too short, or of a length that its counts do not give.
    #[error("centroids of {0} bytes, which is no length of theirs")]
    Length(usize),
    /// It begins otherwise.
    #[error("these are no centroids")]
    Magic,
    /// Another version.
    #[error("centroids of version {0}; this program reads version {VERSION}")]
    Version(u32),
    /// Other bytes than were written.
    #[error("the checksum of the centroids does not match")]
    Checksum,
    /// A field that cannot be.
    #[error("centroids with {0}")]
    Value(&'static str),
}

impl Centroids {
    /// The longest file of them, in bytes.
    pub const FILE_MAX: usize = 64 << 20;

    /// None yet, of vectors of this dimension.
    pub fn new(metric: Metric, dim: usize) -> Self {
        Self { metric, dim, means: Vec::new() }
    }

    /// Adds the mean of a server's rows. Of a server without any there is none, and it is not asked.
    ///
    /// # Panics
    /// Where the rows have another dimension.
    pub fn add(&mut self, server: u32, rows: VectorSet<'_>) {
        assert_eq!(rows.dim(), self.dim, "rows of one index");
        if rows.rows() == 0 {
            return;
        }
        let (mut sum, mut row) = (vec![0.0_f64; self.dim], vec![0.0; self.dim]);
        for at in 0..rows.rows() {
            rows.row_f32(at, &mut row);
            if self.metric.normalises() {
                // Its length means nothing.
                let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
                row.iter_mut().for_each(|x| *x /= norm);
            }
            sum.iter_mut().zip(&row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        let mean = sum.into_iter().map(|sum| (sum / rows.rows() as f64) as f32);
        self.means.push((server, mean.collect()));
    }

    /// The dimension of their vectors.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The servers whose rows are nearest by their mean to a vector of this type, at most so many.
    ///
    /// # Panics
    /// Where the vector has another dimension.
    pub fn nearest(&self, vector: &[u8], ty: VectorType, most: usize) -> Vec<u32> {
        let mut query = vec![0.0; self.dim];
        to_f32(vector, ty, &mut query);
        let bytes =
            |vector: &[f32]| vector.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        let query = bytes(&query);
        // Of bits, how many of them differ is a squared distance.
        let metric = match self.metric {
            Metric::L2 | Metric::InnerProduct | Metric::Cosine => self.metric,
            _ => Metric::L2,
        };
        let distance = QueryDistance::new(metric, VectorType::F32, &query);
        let ranked =
            self.means.iter().map(|(server, mean)| (distance.distance(&bytes(mean)), *server));
        let mut ranked: Vec<(f32, u32)> = ranked.collect();
        ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().map(|(_, server)| server).take(most).collect()
    }

    /// The bytes of their file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        for number in [VERSION, self.metric as u32, self.dim as u32, self.means.len() as u32] {
            out.extend(number.to_le_bytes());
        }
        for (server, mean) in &self.means {
            out.extend(server.to_le_bytes());
            mean.iter().for_each(|x| out.extend(x.to_le_bytes()));
        }
        out.extend(xxh3_64(&out).to_le_bytes());
        out
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`CentroidsError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, CentroidsError> {
        let length = CentroidsError::Length(bytes.len());
        if !(HEADER + CHECKSUM..=Self::FILE_MAX).contains(&bytes.len()) {
            return Err(length);
        }
        if bytes[..8] != MAGIC {
            return Err(CentroidsError::Magic);
        }
        let number =
            |bytes: &[u8], at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let version = number(bytes, 8);
        if version != VERSION {
            return Err(CentroidsError::Version(version));
        }
        let (body, sum) = bytes.split_at(bytes.len() - CHECKSUM);
        if sum != xxh3_64(body).to_le_bytes() {
            return Err(CentroidsError::Checksum);
        }
        let metric = u16::try_from(number(body, 12)).ok().and_then(Metric::from_code);
        let metric = metric.ok_or(CentroidsError::Value("an unknown metric"))?;
        let (dim, servers) = (number(body, 16) as usize, number(body, 20) as usize);
        if !(1..=MAX_DIM).contains(&dim) {
            return Err(CentroidsError::Value("a dimension that no index has"));
        }
        let entry = 4 + 4 * dim as u64;
        if entry.saturating_mul(servers as u64) != (body.len() - HEADER) as u64 {
            return Err(length);
        }
        let mut means: Vec<(u32, Vec<f32>)> = Vec::with_capacity(servers);
        for entry in body[HEADER..].chunks_exact(4 + 4 * dim) {
            let server = number(entry, 0);
            if means.last().is_some_and(|(before, _)| *before >= server) {
                return Err(CentroidsError::Value("servers out of order"));
            }
            let mean: Vec<f32> =
                entry[4..].chunks_exact(4).map(|x| f32::from_bits(number(x, 0))).collect();
            if mean.iter().any(|x| !x.is_finite()) {
                return Err(CentroidsError::Value("a mean that is no number"));
            }
            means.push((server, mean));
        }
        Ok(Self { metric, dim, means })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Centroids {
        let mut centroids = Centroids::new(Metric::L2, 2);
        for (server, rows) in [(2, [0, 0, 4, 8]), (5, [200, 100, 100, 200]), (9, [0, 90, 4, 110])] {
            centroids.add(server, VectorSet::new(&rows, 2, VectorType::U8).unwrap());
        }
        centroids
    }

    #[test]
    fn servers_are_ranked_by_the_mean_of_their_rows() {
        let centroids = some();
        assert_eq!(centroids.nearest(&[3, 90], VectorType::U8, 2), [9, 2]);
        assert_eq!(centroids.nearest(&[160, 160], VectorType::U8, 1), [5]);
        assert_eq!(centroids.nearest(&[0, 0], VectorType::U8, 7), [2, 9, 5]);
    }

    #[test]
    fn they_are_read_as_they_were_written_and_no_other_bytes_are() {
        let bytes = some().encode();
        assert_eq!(Centroids::decode(&bytes), Ok(some()));
        // What docs/wire.md says of its length.
        assert_eq!(bytes.len(), 24 + 3 * (4 + 2 * 4) + 8);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            assert!(Centroids::decode(&other).is_err(), "byte {at}");
            assert!(Centroids::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        let mut later = bytes.clone();
        later[8] = 9;
        let told = Centroids::decode(&later).unwrap_err().to_string();
        assert!(told.contains("version 9"), "{told}");
        // A length that its counts do not give, under a right checksum.
        let mut many = bytes[..bytes.len() - 8].to_vec();
        many[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        many.extend(xxh3_64(&many).to_le_bytes());
        assert_eq!(Centroids::decode(&many), Err(CentroidsError::Length(many.len())));
        // A dimension costs whoever searches by it, though no mean has it.
        let mut wide = Centroids::new(Metric::L2, 2).encode();
        wide.truncate(24);
        wide[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        wide.extend(xxh3_64(&wide).to_le_bytes());
        assert!(matches!(Centroids::decode(&wide), Err(CentroidsError::Value(_))));
    }
}
