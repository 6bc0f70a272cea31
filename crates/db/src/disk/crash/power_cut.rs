//! What a power cut leaves.

/// What happens to that which was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCut {
    /// It is gone.
    Drop,
    /// It is there: as after a kill, or with luck.
    Keep,
    /// Each name change is gone or there, and of each file any part of what was written: cut
    /// off at any byte, or with sectors missing that hold zeros or rubbish. The seed decides.
    Torn(u64),
}
