//! How a server ends: asked by a signal or by `cluster drain`, which are the same, or cut off from what
//! the log reaches back to.
//!
//! It hands its lead over before it stops to take calls, so that nobody waits for the end of its lease;
//! what is under way is answered.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pipeann_replica::ReplicaStatus;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Opened;
use crate::process::say;

/// How long others may take to hear from etcd that another server leads.
const HEARSAY: Duration = Duration::from_millis(300);
/// How long the leader's calls may take to end, and another server to lead.
const HANDING_OVER: Duration = Duration::from_secs(10);

/// Why a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// It was asked to, by this.
    Asked(&'static str),
    /// It is to begin anew: it cannot go on with what it has open.
    CutOff,
}

/// Waits until this server is to end.
pub(crate) struct ServerEnding {
    asked: mpsc::Receiver<EndCause>,
    tell: mpsc::Sender<EndCause>,
}

impl ServerEnding {
    /// Looks out for signals from now on.
    ///
    /// # Errors
    /// Where they cannot be waited for.
    pub(crate) fn by_signals() -> Result<Self> {
        let mut signals =
            Signals::new([SIGINT, SIGTERM]).context("signals cannot be waited for")?;
        let (tell, asked) = mpsc::channel();
        let by_signal = tell.clone();
        let wait = move || {
            if signals.forever().next().is_some() {
                // Nobody waits any more where this fails.
                let _ = by_signal.send(EndCause::Asked("a signal"));
            }
        };
        thread::Builder::new().name("signals".into()).spawn(wait).context("no thread")?;
        Ok(Self { asked, tell })
    }

    /// Looks out for `cluster drain` too, where there are others.
    ///
    /// # Errors
    /// Where there is no thread.
    pub(crate) fn by_drain_of(&self, opened: &Opened) -> Result<()> {
        let Opened::Clustered { members: Some(members), .. } = opened else { return Ok(()) };
        let (watch, tell) = (members.drain_watch(), self.tell.clone());
        let wait = move || {
            // Where the membership has ended first, nobody is asked.
            if watch.wait() {
                let _ = tell.send(EndCause::Asked("pipeann cluster drain"));
            }
        };
        thread::Builder::new().name("drain".into()).spawn(wait).context("no thread")?;
        Ok(())
    }

    /// Looks out for word that the log does not reach back to what this server has. Whoever would send it
    /// ends with the database.
    ///
    /// # Errors
    /// Where there is no thread.
    pub(crate) fn by_cut_off(&self, cut_off: mpsc::Receiver<()>) -> Result<()> {
        let tell = self.tell.clone();
        let wait = move || {
            if cut_off.recv().is_ok() {
                let _ = tell.send(EndCause::CutOff);
            }
        };
        thread::Builder::new().name("cut-off".into()).spawn(wait).context("no thread")?;
        Ok(())
    }

    /// Returns when it is to end, and says why.
    pub(crate) fn wait(&self) -> EndCause {
        self.asked.recv().expect("one sender is here")
    }
}

impl Opened {
    /// Has another server lead, where this one does and there is another: it begins none of the leader's
    /// calls, lets those under way end (`running` of them), and returns when another server leads or it
    /// has waited long enough.
    pub(crate) fn hand_over(&self, running: impl Fn() -> usize) {
        let Self::Clustered { replica, members: Some(members), .. } = self else { return };
        let led = replica.status().leads;
        replica.close_lead();
        let until = Instant::now() + HANDING_OVER;
        if !replica.wait_until(until, |_| running() == 0) {
            say(format_args!("{} calls are handed over with the lead", running()));
        }
        let handed = members.hand_over();
        replica.nudge();
        match (led, handed) {
            (Some(term), Ok(Some(heir))) => {
                say(format_args!("{} at {} is to lead", heir.name, heir.address));
                let leads_elsewhere = |status: ReplicaStatus| {
                    status.leads.is_none() && status.position.is_some_and(|at| at.term > term)
                };
                let until = Instant::now() + HANDING_OVER;
                if !replica.wait_until(until, |it| leads_elsewhere(it.status())) {
                    say("no other server was seen to lead");
                }
                // Whoever has not heard of it yet is refused, and not cut off.
                replica.wait_until(Instant::now() + HEARSAY, |_| false);
            }
            (_, Ok(_)) => {}
            (_, Err(error)) => say(format_args!("the lead was given up: {error}")),
        }
    }
}
