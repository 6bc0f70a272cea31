//! One file for each command.

pub(crate) mod build;
pub(crate) mod cluster;
pub(crate) mod convert;
pub(crate) mod db;
pub(crate) mod demo;
pub(crate) mod estimate;
pub(crate) mod gt;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod partition;
pub(crate) mod raw;
pub(crate) mod search;
