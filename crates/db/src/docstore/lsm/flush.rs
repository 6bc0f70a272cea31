//! Flushing and compacting, in the order that the [module above](super) explains.

use std::sync::{Arc, PoisonError};

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree};

use super::{LsmRows, tree};
use crate::docstore::StoreError;
use crate::docstore::state_file::StoreState;
use crate::ids::Seq;

/// Size of tables below the first level. Merges rewrite whole tables.
const TABLE_BYTES: u64 = 32 << 20;

impl LsmRows {
    pub(super) fn flush_trees(&self) -> Result<Seq, StoreError> {
        // A flush that panicked has changed neither `STATE` nor this copy of it half-way.
        let mut on_disk = self.on_disk.lock().unwrap_or_else(PoisonError::into_inner);
        let next = {
            let mut writer = self.writer();
            self.write_late(&writer, usize::MAX);
            self.rows.rotate_memtable();
            self.keys.rotate_memtable();
            writer.sealed_bytes += std::mem::take(&mut writer.active_bytes);
            let counted = self.published.applied().max(writer.counted);
            StoreState {
                counted,
                durable: self.published.applied(),
                next_row: self.published.next_row(),
                counts: (*self.published.counts()).clone(),
                collection: on_disk.collection,
            }
        };
        if next == *on_disk {
            return Ok(on_disk.durable);
        }
        let watermark = self.published.watermark();
        let flush =
            |of: &AnyTree| tree("flush", &self.dir, || of.flush(&of.get_flush_lock(), watermark));
        flush(&self.keys)?;
        if self.rows.sealed_memtable_count() > 0 {
            let counted = StoreState { durable: on_disk.durable, ..next.clone() };
            counted.write(&self.dir)?;
            *on_disk = counted;
            flush(&self.rows)?;
        }
        next.write(&self.dir)?;
        let durable = next.durable;
        *on_disk = next;
        self.published.set_durable(durable);
        {
            let mut writer = self.writer();
            writer.sealed_bytes = 0;
            // No batch is half applied here, so everything numbered so far is whole.
            self.published.advance(self.batches.get());
        }
        self.drop_old_versions()?;
        Ok(durable)
    }

    /// Frees the write buffers that only versions before the flush hold.
    fn drop_old_versions(&self) -> Result<(), StoreError> {
        let watermark = self.published.watermark();
        for of in [&self.rows, &self.keys] {
            tree("tidy", &self.dir, || {
                let path = &of.tree_config().path;
                of.get_version_history_lock().maintenance(path, watermark)
            })?;
        }
        Ok(())
    }

    pub(super) fn compact_trees(&self) -> Result<bool, StoreError> {
        self.write_all_late();
        let strategy = Arc::new(Leveled::default().with_table_target_size(TABLE_BYTES));
        let mut changed = false;
        for of in [&self.keys, &self.rows] {
            let before = of.current_version().id();
            let watermark = self.published.watermark();
            tree("compact", &self.dir, || of.compact(strategy.clone(), watermark))?;
            changed |= of.current_version().id() != before;
        }
        if changed {
            let _writer = self.writer();
            self.published.advance(self.batches.get());
        }
        Ok(changed)
    }
}
