//! `pipeann db`: databases as directories: filled, looked at, checked, backed up and restored.

mod backup;
mod load;
mod milvus_lite;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Fill databases, look at them, check them, back them up and restore them
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    Load(load::LoadArgs),
    /// Show what a database or a backup holds
    Info(backup::DirArgs),
    /// Read all of a database or a backup and name all damage
    ///
    /// A database is read as of now, also beside a writer. The exit code is 1 where anything is
    /// damaged.
    Verify(backup::DirArgs),
    /// Back up a database, also beside a writer
    Backup(backup::BackupArgs),
    /// Make a database of a backup, checking every byte
    Restore(backup::RestoreArgs),
    ImportMilvusLite(milvus_lite::MilvusLiteArgs),
}

/// Runs the command.
pub(crate) fn run(args: &DbArgs) -> Result<()> {
    match &args.command {
        DbCommand::Load(args) => load::load(args),
        DbCommand::Info(args) => backup::info(args),
        DbCommand::Verify(args) => backup::verify(args),
        DbCommand::Backup(args) => backup::back_up(args),
        DbCommand::Restore(args) => backup::restore_from(args),
        DbCommand::ImportMilvusLite(args) => milvus_lite::import(args),
    }
}
