//! By how much searches depart from an equal share of reads in flight, learnt where they run.
//!
//! Two things are measured, and neither is compared with a number of a device:
//!
//! - *crowding*, how much longer a read takes where more are in flight: the slope of the logarithm
//!   of its time over that of the reads in flight when it started. By Little's law reads in flight
//!   are the rate times the time. At a slope of zero the rate grows with them; at one it does not
//!   grow at all, and each read in vain takes another's place.
//! - *idleness*, the share of the time in which processors that search could compute and wait for
//!   reads instead.
//!
//! Where the device is crowded, searches become narrower: they read least then. Where it is not and
//! processors are idle, they become wider. Where processors are not idle, an equal share is what
//! they return to, as reads cost them time, too; and also where it is not told whether the device is
//! crowded. A search that is alone is idle by nature, and for it
//! crowding alone decides.
//!
//! The step grows while its direction stays and is halved when that changes, since what a step
//! does is seen only when searches that began after it have ended. All values are plain atomics:
//! an update lost between two threads does no harm.

use std::sync::atomic::{AtomicU32, Ordering};

/// Above it, twice the reads in flight bring less than a fifth more of them in a second, which is
/// about what twice the width reads more.
const CROWDED: f32 = 0.6;
/// Below it there is room for more.
const ROOMY: f32 = 0.25;
/// Between them it is not told which of both it is.
pub(super) const UNDECIDED: (f32, f32) = (ROOMY, CROWDED);
/// Idleness that is worth more reads.
const IDLE: f32 = 0.1;
/// Idleness that comes of waking up and not of waiting.
const BUSY: f32 = 0.03;
/// The part that one search has in what is known.
const WEIGHT: f32 = 1.0 / 8.0;
/// Steps of the logarithm of the share, at the beginning and at most, and at least.
const STEP: (f32, f32) = (1.0 / 16.0, 1.0 / 256.0);
/// The greatest step that widens: room that was not there costs all searches reads.
const STEP_WIDER: f32 = 1.0 / 32.0;

/// Whether so much crowding speaks neither for more reads nor for fewer.
fn is_undecided(crowding: f32) -> bool {
    (UNDECIDED.0..UNDECIDED.1).contains(&crowding)
}

/// What the driver of a search has measured when it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lap {
    /// Searches under way, itself among them.
    pub searches: u32,
    /// Share of its time in which its thread slept.
    pub slept: f32,
    /// Threads that search.
    pub threads: u32,
    /// Processors that they may use.
    pub processors: u32,
    /// Slope of the logarithm of the time of a read over that of the reads in flight; `None` while
    /// too few are known.
    pub crowding: Option<f32>,
    /// Pages that one thread computes in the time of a read.
    pub pages_per_read: Option<f32>,
    /// Reads in flight, of all searches.
    pub in_flight: f32,
}

impl Lap {
    /// The share of the processors' time that could be used and was not: threads that are more than
    /// there are processors for keep each other from being idle.
    fn idle(&self) -> f32 {
        let at_once = self.threads.min(self.processors).max(1);
        let busy = (1.0 - self.slept) * self.threads.max(1) as f32 / at_once as f32;
        (1.0 - busy).clamp(0.0, 1.0)
    }

    /// Whether so many reads are in flight that computing their pages takes as long as a read:
    /// whatever makes processors idle then, more reads do not help.
    fn suffices(&self) -> bool {
        let at_once = self.threads.min(self.processors).max(1) as f32;
        self.pages_per_read.is_some_and(|pages| self.in_flight >= at_once * (1.0 + pages))
    }
}

/// What searches keep to that begin now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaceShare {
    /// The widest pipeline over that of an equal share; above one, the first reads over those that
    /// a search begins with.
    pub factor: f32,
    /// Pages computed in the time of a read, of a search that is alone; zero while unknown.
    pub pages_per_read: f32,
}

impl Default for PaceShare {
    fn default() -> Self {
        Self { factor: 1.0, pages_per_read: 0.0 }
    }
}

/// A number that threads share.
#[derive(Debug)]
struct SharedRate(AtomicU32);

impl SharedRate {
    const fn new(value: f32) -> Self {
        Self(AtomicU32::new(value.to_bits()))
    }

    fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, value: f32) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Moves towards what was seen, and to it where nothing was seen before.
    fn learn(&self, seen: f32) -> f32 {
        let old = self.get();
        let new = if old.is_nan() { seen } else { old + (seen - old) * WEIGHT };
        self.set(new);
        new
    }
}

/// One of the two loads: alone, or among others.
#[derive(Debug)]
struct Regime {
    /// Logarithm of the factor.
    log: SharedRate,
    /// The last step, with its direction.
    step: SharedRate,
    crowding: SharedRate,
    /// Idleness among others, pages in the time of a read alone.
    second: SharedRate,
}

impl Default for Regime {
    fn default() -> Self {
        Self {
            log: SharedRate::new(0.0),
            step: SharedRate::new(0.0),
            crowding: SharedRate::new(f32::NAN),
            second: SharedRate::new(f32::NAN),
        }
    }
}

impl Regime {
    /// A step towards `direction`, within `bounds` of the logarithm.
    fn go(&self, direction: f32, bounds: (f32, f32)) {
        if direction == 0.0 {
            return;
        }
        let last = self.step.get();
        let size = match last * direction {
            0.0 => STEP.0,
            same if same > 0.0 => same * (1.0 + 1.0 / 32.0),
            turned => -turned / 2.0,
        };
        let most = if direction > 0.0 { STEP_WIDER } else { STEP.0 };
        let size = size.clamp(STEP.1, most);
        self.step.set(size * direction);
        self.log.set((self.log.get() + size * direction).clamp(bounds.0, bounds.1));
    }
}

/// See the module's description. Shared by all searches of an index.
#[derive(Debug, Default)]
pub(super) struct Pace {
    alone: Regime,
    among: Regime,
}

impl Pace {
    /// Factors that searches among others may come to: down to a single read, and up to a width
    /// that hardly grows any more while they go on.
    const BOUNDS: (f32, f32) = (1.0 / 12.0, 2.0);

    /// The same of a search that is alone, for which an equal share is the widest.
    const LEAST_ALONE: f32 = 1.0 / 32.0;

    /// What searches keep to now, among so many.
    pub(super) fn share(&self, searches: u32) -> PaceShare {
        let regime = if searches > 1 { &self.among } else { &self.alone };
        let pages_per_read = if searches > 1 { 0.0 } else { self.alone.second.get().max(0.0) };
        PaceShare { factor: regime.log.get().exp(), pages_per_read }
    }

    /// Learns from a search that ended.
    pub(super) fn note(&self, lap: &Lap) {
        if lap.searches > 1 {
            let idle = self.among.second.learn(lap.idle());
            let crowding = lap.crowding.map(|seen| self.among.crowding.learn(seen));
            let back = -self.among.log.get();
            let direction = match crowding {
                _ if idle < BUSY && back.abs() < STEP.0 => 0.0,
                _ if idle < BUSY => back.signum(),
                Some(crowding) if crowding > CROWDED => -1.0,
                Some(crowding) if crowding < ROOMY && idle > IDLE && !lap.suffices() => 1.0,
                Some(crowding) if is_undecided(crowding) && back.abs() > STEP.0 => back.signum(),
                _ => 0.0,
            };
            self.among.go(direction, (Self::BOUNDS.0.ln(), Self::BOUNDS.1.ln()));
        } else {
            if let Some(pages) = lap.pages_per_read {
                self.alone.second.learn(pages);
            }
            let direction = match lap.crowding.map(|seen| self.alone.crowding.learn(seen)) {
                Some(crowding) if crowding > CROWDED => -1.0,
                Some(crowding) if crowding < ROOMY => 1.0,
                _ => 0.0,
            };
            self.alone.go(direction, (Self::LEAST_ALONE.ln(), 0.0));
        }
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
