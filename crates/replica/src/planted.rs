//! Faults on purpose, which a simulation has to notice.

/// What a simulation breaks on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerFault {
    /// A change is answered whatever became of its put.
    AnsweredBeforePut,
    /// A server that was elected once takes its lead for certain.
    LeaseTakenForGranted,
    /// A server that leads does not wait for its own changes before it reads the latest.
    ChangesUnderWayMissed,
    /// A follower says that it has a batch before it has applied it.
    SaidBeforeApplied,
    /// A new leader does not apply what it reads while it opens its term.
    OpeningNotApplied,
    /// How far the log is applied is noted without the requests up to there.
    RequestsNotNoted,
    /// A generation names the position at which its files were ready, not the one before.
    GenerationNamedLate,
    /// An edge sends a change again under another id.
    RepeatedWithoutId,
    /// A bounded read is answered by whatever is there.
    BoundNotKept,
    /// What is put counts as applied, also where its writers are told of a failure.
    PutTakenForApplied,
    /// A follower takes the end of the log that it saw for the one that a read asks for.
    EndSeenBefore,
}
