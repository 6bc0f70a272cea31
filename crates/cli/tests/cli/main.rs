//! The command as users run it, on small data made here.

mod bad_input;
mod bench;
mod build;
mod changes;
mod cluster;
mod collections;
mod convert;
mod data;
mod db_backup;
mod db_load;
mod gt;
mod import;
mod inspect;
mod milvus_lite;
mod search;
mod serve;
mod updates;
