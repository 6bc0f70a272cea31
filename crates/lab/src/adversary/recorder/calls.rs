//! System calls that change files, by number.

/// A call about to happen; addresses are in the memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedCall {
    Open {
        dir: i32,
        path: u64,
        flags: u64,
    },
    CreateDir {
        dir: i32,
        path: u64,
    },
    Remove {
        dir: i32,
        path: u64,
        is_dir: bool,
    },
    Rename {
        from: (i32, u64),
        to: (i32, u64),
    },
    Sync {
        file: i32,
    },
    Write {
        file: i32,
        from: u64,
        bytes: u64,
        at: Option<u64>,
    },
    Extend {
        file: i32,
        to: u64,
    },
    SetLength {
        file: i32,
        to: u64,
    },
    /// Changes an open file in another way.
    NotUnderstood {
        file: i32,
        what: &'static str,
    },
}

/// The call of this number, if it can change a file.
#[expect(clippy::cast_possible_wrap, reason = "numbers of calls and files are small")]
pub(super) fn call(number: u64, args: [u64; 6]) -> Option<RecordedCall> {
    let file = |at: usize| args[at] as u32 as i32;
    let not_understood =
        |at: usize, what| Some(RecordedCall::NotUnderstood { file: file(at), what });
    match number as i64 {
        libc::SYS_openat => {
            Some(RecordedCall::Open { dir: file(0), path: args[1], flags: args[2] })
        }
        libc::SYS_mkdirat => Some(RecordedCall::CreateDir { dir: file(0), path: args[1] }),
        libc::SYS_unlinkat => {
            let is_dir = args[2] & libc::AT_REMOVEDIR as u64 != 0;
            Some(RecordedCall::Remove { dir: file(0), path: args[1], is_dir })
        }
        libc::SYS_renameat | libc::SYS_renameat2 => {
            Some(RecordedCall::Rename { from: (file(0), args[1]), to: (file(2), args[3]) })
        }
        libc::SYS_fsync | libc::SYS_fdatasync => Some(RecordedCall::Sync { file: file(0) }),
        libc::SYS_write => {
            Some(RecordedCall::Write { file: file(0), from: args[1], bytes: args[2], at: None })
        }
        libc::SYS_pwrite64 => Some(RecordedCall::Write {
            file: file(0),
            from: args[1],
            bytes: args[2],
            at: Some(args[3]),
        }),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            not_understood(0, "a vectored write")
        }
        libc::SYS_ftruncate => Some(RecordedCall::SetLength { file: file(0), to: args[1] }),
        libc::SYS_fallocate if args[1] == 0 => {
            Some(RecordedCall::Extend { file: file(0), to: args[2].saturating_add(args[3]) })
        }
        // Room behind the end, which no reader sees.
        libc::SYS_fallocate if args[1] == libc::FALLOC_FL_KEEP_SIZE as u64 => None,
        libc::SYS_fallocate => not_understood(0, "a special preallocation"),
        libc::SYS_sendfile => not_understood(0, "a copy in the kernel"),
        libc::SYS_copy_file_range => not_understood(2, "a copy in the kernel"),
        libc::SYS_sync_file_range => not_understood(0, "a partial sync"),
        libc::SYS_mmap => {
            let shared = args[3] & libc::MAP_SHARED as u64 != 0;
            let writes = args[2] & libc::PROT_WRITE as u64 != 0;
            if shared && writes { not_understood(4, "a mapped write") } else { None }
        }
        _ => by_path(number, args),
    }
}

/// Calls with plain paths, which newer machines do not have.
#[cfg(target_arch = "x86_64")]
fn by_path(number: u64, args: [u64; 6]) -> Option<RecordedCall> {
    let dir = libc::AT_FDCWD;
    match number.cast_signed() {
        libc::SYS_open => Some(RecordedCall::Open { dir, path: args[0], flags: args[1] }),
        libc::SYS_mkdir => Some(RecordedCall::CreateDir { dir, path: args[0] }),
        libc::SYS_rmdir => Some(RecordedCall::Remove { dir, path: args[0], is_dir: true }),
        libc::SYS_unlink => Some(RecordedCall::Remove { dir, path: args[0], is_dir: false }),
        libc::SYS_rename => Some(RecordedCall::Rename { from: (dir, args[0]), to: (dir, args[1]) }),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn by_path(_: u64, _: [u64; 6]) -> Option<RecordedCall> {
    None
}
