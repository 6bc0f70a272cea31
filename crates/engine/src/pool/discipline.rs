//! When a thread takes in the next search: the three ways of BatANN's figure 8.

use std::str::FromStr;

/// When a thread takes in the next search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// When the one before has ended: one in flight, whatever was asked for.
    One,
    /// As many as wait, up to the searches in flight, when all of those before have ended (CoroSearch).
    Batches,
    /// As soon as one has ended, so that as many as were asked for are in flight.
    #[default]
    Always,
}

impl Discipline {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::One, Self::Batches, Self::Always];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Batches => "batches",
            Self::Always => "always",
        }
    }

    /// Searches in flight on a thread where so many were asked for.
    pub(super) fn in_flight(self, asked: usize) -> usize {
        if self == Self::One { 1 } else { asked }
    }
}

/// Reads a name.
impl FromStr for Discipline {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|of| of.name() == name);
        found.ok_or_else(|| format!("no discipline {name:?}; there are one, batches and always"))
    }
}

/// Where a thread stands in its batch.
#[derive(Debug)]
pub(super) struct BatchTurn {
    discipline: Discipline,
    /// Searches of a whole one.
    most: usize,
    taken: usize,
    /// Nothing joins this one any more.
    closed: bool,
}

impl BatchTurn {
    pub(super) fn new(discipline: Discipline, most: usize) -> Self {
        Self { discipline, most, taken: 0, closed: false }
    }

    /// Whether a search may be taken in. A thread that is idle begins a new batch.
    pub(super) fn admits(&mut self, idle: bool) -> bool {
        if idle {
            (self.taken, self.closed) = (0, false);
        }
        self.is_open()
    }

    /// Whether a search that comes now would be taken in.
    pub(super) fn is_open(&self) -> bool {
        self.discipline != Discipline::Batches || !self.closed
    }

    /// One was taken in.
    pub(super) fn took(&mut self) {
        self.taken += 1;
        self.closed |= self.taken == self.most;
    }

    /// No more are there.
    pub(super) fn found_none(&mut self) {
        self.closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_takes_what_is_there_up_to_its_size_and_then_nothing_until_the_thread_is_idle() {
        let mut batch = BatchTurn::new(Discipline::Batches, 3);
        for taken in 0..3 {
            assert!(batch.admits(taken == 0), "{taken}");
            batch.took();
        }
        assert!(!batch.admits(false) && !batch.is_open(), "it is full");
        assert!(batch.admits(true));
        batch.took();
        assert!(batch.admits(false));
        batch.found_none();
        assert!(!batch.admits(false), "what comes later waits for the next one");
        assert!(batch.admits(true));
        let mut always = BatchTurn::new(Discipline::Always, 1);
        always.took();
        always.found_none();
        assert!(always.admits(false) && always.is_open());
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for of in Discipline::ALL {
            assert_eq!(of.name().parse(), Ok(of));
        }
        assert!("two".parse::<Discipline>().unwrap_err().contains("batches"));
    }
}
