//! Opening some partitions of an index: their pages are read here, those of others are not.
//!
//! What a search needs in memory is here of the whole index: codes, codebook and head index. Of
//! the partitions that others hold no other file is opened, so none has to be there.

use super::Index;
use super::error::OpenError;
use crate::format::{FileKind, Manifest, NamedFile};
use crate::search::Owned;
use crate::types::PageId;

/// Which partitions of an index are opened.
pub(super) struct OpenedPart {
    /// By number; `None` where all are.
    own: Option<Vec<bool>>,
}

impl OpenedPart {
    /// All partitions.
    pub(super) const fn all() -> Self {
        Self { own: None }
    }

    /// The partitions of these numbers, or all.
    ///
    /// # Errors
    /// [`OpenError::Partition`] where the index has no partition of such a number.
    pub(super) fn of(manifest: &Manifest, numbers: Option<&[u32]>) -> Result<Self, OpenError> {
        let partitions = manifest.partitions.len();
        let Some(numbers) = numbers else { return Ok(Self { own: None }) };
        let mut own = vec![false; partitions];
        for &number in numbers {
            let known = own.get_mut(number as usize);
            *known.ok_or(OpenError::Partition { number, partitions })? = true;
        }
        Ok(Self { own: Some(own) })
    }

    pub(super) fn has(&self, partition: usize) -> bool {
        self.own.as_ref().is_none_or(|own| own[partition])
    }

    /// Files that have to be there.
    pub(super) fn files(&self, manifest: &Manifest) -> Vec<NamedFile> {
        let foreign = |file: &NamedFile| {
            let of = manifest.partitions.iter().position(|p| {
                let inside = file.path.strip_prefix(p.dir.as_str());
                inside.is_some_and(|rest| rest.starts_with('/'))
            });
            of.is_some_and(|partition| !self.has(partition)) && file.kind != FileKind::Codes
        };
        manifest.files().into_iter().filter(|file| !foreign(file)).collect()
    }

    /// The pages that are read here; `None` where all are.
    pub(super) fn pages(&self, manifest: &Manifest) -> Option<Owned> {
        self.own.as_ref()?;
        let own = manifest.partitions.iter().enumerate().filter(|(number, _)| self.has(*number));
        Some(Owned::new(own.map(|(_, p)| p.first_page..p.first_page + p.pages)))
    }
}

impl Index {
    /// Number of partitions, those that others hold among them.
    pub fn partitions(&self) -> usize {
        self.manifest.partitions.len()
    }

    /// The partition that a page is of.
    pub fn partition_of(&self, page: PageId) -> usize {
        self.manifest.partitions.partition_point(|p| p.first_page <= page.0).saturating_sub(1)
    }

    /// The pages of some partitions; `None` where there is no partition of one of these numbers.
    pub fn pages_of(&self, numbers: &[u32]) -> Option<Owned> {
        let partition = |number: &u32| self.manifest.partitions.get(*number as usize);
        let pages = numbers.iter().map(partition);
        let pages = pages.map(|p| p.map(|p| p.first_page..p.first_page + p.pages));
        Some(Owned::new(pages.collect::<Option<Vec<_>>>()?))
    }

    /// The first node of each partition, ascending: those of others among them.
    pub fn partition_starts(&self) -> Vec<u32> {
        let first = |page| self.layout().node(PageId(page), 0).0;
        self.manifest.partitions.iter().map(|partition| first(partition.first_page)).collect()
    }

    /// Whether the pages of a partition are read here.
    pub fn reads_partition(&self, number: usize) -> bool {
        let Some(partition) = self.manifest.partitions.get(number) else { return false };
        self.pages.is_here(partition.first_page)
    }
}
