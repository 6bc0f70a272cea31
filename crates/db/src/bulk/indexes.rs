//! The indexes of a collection after a load: those without a build get one, and all are waited
//! for.

use super::error::LoadError;
use super::progress::{IndexProgress, LoadProgress, LoadReport, LoadWatch};
use crate::catalog::IndexState;
use crate::collection::{Collection, CollectionError, IndexStatus};
use crate::ids::ErrorClass;

/// Has the declared indexes built that are not, and waits until all rows are in those that are.
/// `progress` is that of the rows.
pub(super) fn build_indexes(
    collection: &Collection,
    report: &mut LoadReport,
    progress: &LoadProgress,
    watch: &mut dyn LoadWatch,
) -> Result<(), LoadError> {
    let started = watch.elapsed();
    for index in &collection.entry()?.indexes {
        // One of no rows had too few for a graph when it was finished.
        let missing = match index.state {
            IndexState::NotBuilt | IndexState::Failed { .. } => true,
            IndexState::Finished { rows } => rows == 0,
            IndexState::Building { .. } => false,
        };
        if missing {
            collection.build_index(&index.name)?;
        }
        // One may be under way: where a load was interrupted, it goes on when the database is opened.
        let mut built = missing;
        loop {
            let status = collection.index_status(&index.name)?;
            built |= matches!(status.state, IndexState::Building { .. });
            let Some(index) = under_way(status)? else { break };
            let progress = LoadProgress { index: Some(index), ..progress.clone() };
            if watch.progress(&progress).is_break() {
                return Err(LoadError::Interrupted { rows: report.rows });
            }
            watch.pause();
        }
        report.index_time = watch.elapsed().saturating_sub(started);
        if built {
            report.indexes.push(index.name.clone());
        }
    }
    Ok(())
}

/// How far an index is, where it is not at its end.
fn under_way(status: IndexStatus) -> Result<Option<IndexProgress>, LoadError> {
    let (rows, total) = match status.state {
        IndexState::Failed { reason } => return Err(failed(status.name, reason)),
        IndexState::Building { rows_done, rows } => (rows_done, rows),
        IndexState::NotBuilt => return Ok(None),
        IndexState::Finished { .. } if status.pending == 0 => return Ok(None),
        IndexState::Finished { .. } => (status.linked, status.linked + status.pending),
    };
    match status.failed {
        Some(why) => Err(failed(status.name, why)),
        None => Ok(Some(IndexProgress { index: status.name, rows, total })),
    }
}

fn failed(index: String, why: String) -> LoadError {
    LoadError::Collection(CollectionError::Index { index, why, class: ErrorClass::Retry })
}
