//! How long a device may end nothing of what it has.
//!
//! Counted in looks, of which there are ten a second, and not by the clock: a process that was stopped has
//! not looked, and finds what has ended meanwhile at its next look.

/// Looks after which a device that ends nothing is lost. As long as the kernel waits for an SSD.
const LOST: u32 = 300;
/// Looks after which one that is lost is not waited for any more: a failed controller ends nothing.
const GIVEN_UP: u32 = 10;

/// What a silence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterSilence {
    /// Nothing.
    Waits,
    /// The device is to be used no more.
    Lost,
    /// What it has will not end.
    GivenUp,
}

/// The silence of one device.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    looks: u32,
    heard: bool,
}

impl Silence {
    /// Something has ended.
    pub(crate) fn heard(&mut self) {
        self.heard = true;
    }

    /// To be called ten times a second, with what the device has, and whether it is lost already.
    pub(crate) fn look(&mut self, at_device: usize, is_lost: bool) -> AfterSilence {
        if std::mem::take(&mut self.heard) || at_device == 0 {
            self.looks = 0;
            return AfterSilence::Waits;
        }
        self.looks += 1;
        match is_lost {
            true if self.looks > GIVEN_UP => AfterSilence::GivenUp,
            false if self.looks > LOST => {
                self.looks = 0;
                AfterSilence::Lost
            }
            _ => AfterSilence::Waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until one says so.
    fn looks(silence: &mut Silence, is_lost: bool, says: AfterSilence) -> u32 {
        let mut looks = 1;
        while silence.look(3, is_lost) != says {
            looks += 1;
        }
        looks
    }

    #[test]
    fn a_device_is_lost_after_a_long_silence_and_given_up_after_a_short_one_behind_that() {
        let mut silence = Silence::default();
        assert_eq!(looks(&mut silence, false, AfterSilence::Lost), LOST + 1);
        assert_eq!(looks(&mut silence, true, AfterSilence::GivenUp), GIVEN_UP + 1);
    }

    #[test]
    fn one_that_has_nothing_or_ends_something_is_not_silent() {
        let mut silence = Silence::default();
        for round in 0..4 * LOST {
            if round % LOST == 0 {
                silence.heard();
            }
            assert_eq!(silence.look(3, false), AfterSilence::Waits, "{round}");
        }
        let mut silence = Silence::default();
        assert!((0..2 * LOST).all(|_| silence.look(0, false) == AfterSilence::Waits));
        assert!((0..2 * GIVEN_UP).all(|_| silence.look(0, true) == AfterSilence::Waits));
    }
}
