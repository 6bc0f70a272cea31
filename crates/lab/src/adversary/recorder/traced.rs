//! The calls of `ptrace` that the recorder needs. A process is traced by the thread that started
//! it, and by no other: so everything here runs on one thread.
#![expect(unsafe_code, reason = "ptrace and waitpid have no safe interface among our dependencies")]

use std::io;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::{null_mut, without_provenance_mut};

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has ended, with this code, or as a negative number the signal that ended it.
    Gone(i32),
    /// It enters a system call, or leaves one.
    Call,
    /// It is sent a signal.
    Signal(i32),
    /// Something about tracing.
    Other,
}

/// Lets the command's process be traced by the thread that starts it.
pub(super) fn ask_to_be_traced(command: &mut Command) {
    let ask = || {
        // SAFETY: PTRACE_TRACEME reads nothing but its first argument, and is one system call, so
        // it may run between fork and exec.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<()>(), null_mut::<()>()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: `ask` makes one system call and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

/// Takes over a process that was just started, and lets it go.
pub(super) fn begin(process: i32) -> io::Result<()> {
    wait(process)?;
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SETOPTIONS, process, options as usize)?;
    go_on(process, 0)
}

/// Lets a thread run to its next call, handing it a signal unless that is 0.
pub(super) fn go_on(thread: i32, signal: i32) -> io::Result<()> {
    match request(libc::PTRACE_SYSCALL, thread, signal as usize) {
        // It was killed meanwhile, with its process.
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        done => done,
    }
}

/// The next thread of the process group that stops; `None` when all are gone.
pub(super) fn wait_group(leader: i32) -> io::Result<Option<(i32, Stop)>> {
    match wait(-leader) {
        Ok(stopped) => Ok(Some(stopped)),
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Waits until a process that was killed is gone.
pub(super) fn reap(leader: i32) -> io::Result<()> {
    while let Some((thread, stop)) = wait_group(leader)? {
        if !matches!(stop, Stop::Gone(_)) {
            go_on(thread, libc::SIGKILL)?;
        }
    }
    Ok(())
}

/// Number and arguments of the call that a stopped thread enters; `None` where it leaves one.
pub(super) fn call_entered(thread: i32) -> io::Result<Option<(u64, [u64; 6])>> {
    let info = call_info(thread)?;
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return Ok(None);
    }
    // SAFETY: the kernel filled in this variant, as `op` says.
    let entry = unsafe { info.u.entry };
    Ok(Some((entry.nr, entry.args)))
}

/// Lets a thread that enters a call run to the end of it, and returns the call's result; `None`
/// where the thread ended meanwhile.
pub(super) fn finish_call(thread: i32) -> io::Result<Option<i64>> {
    let mut signal = 0;
    loop {
        go_on(thread, signal)?;
        match wait(thread)?.1 {
            Stop::Gone(_) => return Ok(None),
            Stop::Call => {
                let info = call_info(thread)?;
                assert_eq!(info.op, libc::PTRACE_SYSCALL_INFO_EXIT, "a call ends before the next");
                // SAFETY: the kernel filled in this variant, as `op` says.
                return Ok(Some(unsafe { info.u.exit.sval }));
            }
            Stop::Signal(some) => signal = some,
            Stop::Other => signal = 0,
        }
    }
}

fn call_info(thread: i32) -> io::Result<libc::ptrace_syscall_info> {
    // SAFETY: a structure of integers, for which zeros are a value.
    let mut info: libc::ptrace_syscall_info = unsafe { mem::zeroed() };
    let bytes = without_provenance_mut::<()>(mem::size_of_val(&info));
    let into = (&raw mut info).cast::<()>();
    // SAFETY: the kernel writes at most as many bytes as it is told, which `info` has.
    match unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, bytes, into) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(info),
    }
}

fn request(request: libc::c_uint, thread: i32, data: usize) -> io::Result<()> {
    let data = without_provenance_mut::<()>(data);
    // SAFETY: the requests made here take a number as data and touch no memory of ours.
    match unsafe { libc::ptrace(request, thread, null_mut::<()>(), data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits for a thread, or with a negative number for any of a process group.
fn wait(of: i32) -> io::Result<(i32, Stop)> {
    let mut status = 0;
    let thread = loop {
        // SAFETY: `status` is a valid place for the answer.
        match unsafe { libc::waitpid(of, &raw mut status, libc::__WALL) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            thread => break thread,
        }
    };
    let stop = if libc::WIFEXITED(status) {
        Stop::Gone(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Stop::Gone(-libc::WTERMSIG(status))
    } else {
        match libc::WSTOPSIG(status) {
            call if call == libc::SIGTRAP | 0x80 => Stop::Call,
            // New threads begin with it; nobody else sends it here.
            libc::SIGSTOP | libc::SIGTRAP => Stop::Other,
            signal => Stop::Signal(signal),
        }
    };
    Ok((thread, stop))
}
