//! A process that makes backups while it writes is killed at random moments: whatever has the
//! name of a backup is a whole one, and what the others left goes by itself.
//!
//! The child is this test binary itself, running `backs_up_until_killed`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pipeann_db::catalog::UnixMs;
use pipeann_db::snapshot::{BackupOptions, backup_directory, restore, verify_backup};

use crate::data::{batch, collection, create, names, open, rows};

const ROUNDS: u64 = 6;

#[test]
#[ignore = "runs as the child of `a_killed_backup_never_passes_for_a_whole_one`"]
fn backs_up_until_killed() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let Some((round, dir)) = line.trim_end().split_once(' ') else { return };
    let (round, dir): (u32, &Path) = (round.parse().unwrap(), dir.as_ref());
    let database = open(&dir.join("d"));
    let c = if round == 0 { create(&database) } else { collection(&database) };
    println!("ready");
    for count in 0_u32.. {
        let some: Vec<_> = (0..50).map(|i| (i, round * 1000 + count)).collect();
        c.upsert(batch(&some), None).unwrap();
        if count % 3 == 2 {
            c.flush().unwrap();
        }
        let before = (count > 0).then(|| dir.join(format!("b-{round}-{}", count - 1)));
        let target = dir.join(format!("b-{round}-{count}"));
        database.backup(&target, before.as_deref()).unwrap();
        // The reader is gone when this process is to be killed.
        let _ = writeln!(std::io::stdout().lock(), "made {count} .");
    }
}

#[test]
fn a_killed_backup_never_passes_for_a_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut whole, mut unfinished) = (0, 0);
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "backup_kill::backs_up_until_killed", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{round} {}", dir.path().display()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|l| l.unwrap());
        assert!(lines.any(|line| line.ends_with("ready")), "round {round}: the child began");
        let made = lines.by_ref().take(2 + round as usize).count();
        // Somewhere in the next one.
        let (_never, wait) = std::sync::mpsc::channel::<()>();
        let _ = wait.recv_timeout(Duration::from_millis(1 + 3 * round));
        child.kill().unwrap();
        let answered = made + lines.filter(|line| line.ends_with('.')).count();
        assert!(!child.wait().unwrap().success());
        for name in names(dir.path()).iter().filter(|name| name.starts_with("b-")) {
            let backup = dir.path().join(name);
            if name.contains(".partial-") {
                unfinished += usize::from(backup.is_dir());
                continue;
            }
            assert_eq!(verify_backup(&backup).unwrap(), [], "round {round}, {name}");
        }
        for count in 0..answered {
            let backup = dir.path().join(format!("b-{round}-{count}"));
            let restored = dir.path().join(format!("r-{round}-{count}"));
            restore(&backup, &restored).unwrap();
            let found = rows(&collection(&open(&restored)));
            let seed = round as u32 * 1000 + count as u32;
            assert!(found.len() == 50 && found.iter().all(|row| row.1 == seed), "{found:?}");
            whole += 1;
        }
        // Whoever writes next clears pins away, and whoever makes that backup its beginnings.
        let database = open(&dir.path().join("d"));
        assert_eq!(names(&dir.path().join("d/pins")), [""; 0]);
        assert_eq!(database.verify().unwrap(), []);
        drop(database);
        let target = dir.path().join(format!("b-{round}-{answered}"));
        if !target.exists() {
            let options = BackupOptions { since: None, pins: None, now: UnixMs(1) };
            backup_directory(&dir.path().join("d"), &target, &options).unwrap();
            let begun = format!("b-{round}-{answered}.partial-");
            let left = names(dir.path()).into_iter().find(|name| name.starts_with(&begun));
            assert_eq!(left, None, "round {round}");
        }
        fs::remove_dir_all(target).unwrap();
    }
    assert!(whole > 10, "{whole} backups were made, {unfinished} left unfinished");
}
