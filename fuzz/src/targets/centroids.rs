//! Means of servers' rows, as found, and with their checksum made right as well.

use pipeann_cluster::walker::{Centroids, CentroidsError};

use super::scratch::sealed_xxh3;
use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["as found", "sealed", "servers", "newer version"];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let found = bounded(data.len(), || Centroids::decode(data));
    reached.mark("as found", found.is_ok());
    reached.mark("newer version", matches!(found, Err(CentroidsError::Version(_))));
    let Some(bytes) = sealed_xxh3(data) else { return };
    let Ok(centroids) = bounded(bytes.len(), || Centroids::decode(&bytes)) else { return };
    reached.mark("sealed", true);
    let zeros = vec![0; centroids.dim() * size_of::<f32>()];
    let near = centroids.nearest(&zeros, pipeann_engine::types::VectorType::F32, usize::MAX);
    reached.mark("servers", !near.is_empty());
    assert_eq!(Centroids::decode(&centroids.encode()), Ok(centroids));
}
