//! `pipeann db`: databases as directories: filled, looked at, checked, backed up and restored.

mod backup;
mod load;
mod milvus_lite;

use anyhow::Result;
use clap::{Args, Subcommand};
use pipeann_server::privacy;

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
    privacy::begin();
    match &args.command {
        DbCommand::Load(args) => load::load(args),
        DbCommand::Info(args) => backup::info(args),
        DbCommand::Verify(args) => backup::verify(args),
        DbCommand::Backup(args) => backup::back_up(args),
        DbCommand::Restore(args) => backup::restore_from(args),
        DbCommand::ImportMilvusLite(args) => milvus_lite::import(args),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use clap::Parser as _;

    use super::*;

    /// `db` as it is called.
    #[derive(clap::Parser)]
    struct Called {
        #[command(flatten)]
        db: DbArgs,
    }

    fn called(dir: &Path, line: &str) {
        let line = line.replace("DIR", dir.to_str().unwrap());
        let words = ["db"].into_iter().chain(line.split_whitespace());
        run(&Called::try_parse_from(words).unwrap().db).unwrap();
    }

    /// What below a directory others may look into, and how much there is.
    fn open_below(dir: &Path, open: &mut Vec<String>) -> usize {
        let mut all = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let found = std::fs::metadata(&path).unwrap();
            if found.permissions().mode() & 0o077 != 0 {
                open.push(path.display().to_string());
            }
            all += 1 + if found.is_dir() { open_below(&path, open) } else { 0 };
        }
        all
    }

    #[test]
    fn what_is_made_of_a_database_is_for_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let rows = [2_u32, 4].into_iter().flat_map(u32::to_le_bytes);
        let rows: Vec<u8> = rows.chain((0..8).flat_map(|i| (i as f32).to_le_bytes())).collect();
        let made = dir.path().join("made");
        std::fs::create_dir(&made).unwrap();
        std::fs::write(dir.path().join("rows.fbin"), rows).unwrap();
        for line in [
            "load DIR/made/one c DIR/rows.fbin --create l2 --json",
            "backup DIR/made/one DIR/made/two --json",
            "restore DIR/made/two DIR/made/three --json",
        ] {
            called(dir.path(), line);
        }
        let mut open = Vec::new();
        assert!(open_below(&made, &mut open) > 10);
        assert_eq!(open, Vec::<String>::new());
    }
}
