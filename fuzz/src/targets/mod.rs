//! What each target does with an input. A target's file says which bytes an input is made of.

mod backup;
mod catalogue;
mod centroids;
mod codebook;
mod collection_files;
mod diskann;
mod file_header;
mod filter;
mod flat;
mod frame;
mod graph;
mod head;
mod log_record;
mod manifest;
mod marker;
mod page;
mod planted;
mod portable;
mod rows;
mod scalar;
mod scratch;
mod stored;

pub(crate) use diskann::METADATA_BYTES as DISKANN_METADATA_BYTES;
pub(crate) use file_header::KINDS as FILE_KINDS;
pub(crate) use graph::SmallGraph;
pub(crate) use page::IDENTITY as PAGE_IDENTITY;
pub(crate) use rows::{layout as row_layout, older_layout};
pub(crate) use scalar::columns as scalar_columns;
pub(crate) use scratch::joined;

use crate::FuzzTarget;

/// A decoder that is believed to be right.
const fn target(
    name: &'static str,
    sections: &'static [&'static str],
    run: fn(&[u8], &mut crate::ReachedSections),
) -> FuzzTarget {
    FuzzTarget { name, sections, planted: false, run }
}

pub(super) const ALL: &[FuzzTarget] = &[
    target("backup", backup::SECTIONS, backup::run),
    target("catalogue", catalogue::SECTIONS, catalogue::run),
    target("centroids", centroids::SECTIONS, centroids::run),
    target("codebook", codebook::SECTIONS, codebook::run),
    target("collection-files", collection_files::SECTIONS, collection_files::run),
    target("diskann", diskann::SECTIONS, diskann::run),
    target("file-header", file_header::SECTIONS, file_header::run),
    target("filter", filter::SECTIONS, filter::run),
    target("flat", flat::SECTIONS, flat::run),
    target("frame", frame::SECTIONS, frame::run),
    target("head", head::SECTIONS, head::run),
    target("log-record", log_record::SECTIONS, log_record::run),
    target("manifest", manifest::SECTIONS, manifest::run),
    target("marker", marker::SECTIONS, marker::run),
    target("page", page::SECTIONS, page::run),
    target("portable", portable::SECTIONS, portable::run),
    target("rows", rows::SECTIONS, rows::run),
    target("scalar", scalar::SECTIONS, scalar::run),
    target("stored", stored::SECTIONS, stored::run),
    planted::OVERFLOW,
    planted::ALLOCATION,
];
