//! What a frame may hold, by number.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal),+ $(,)?) => {
        /// What a frame holds.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind { $($(#[$doc])* $name = $number),+ }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];
        }
    };
}

kinds! {
    /// Who speaks, and of what.
    Hello = 1,
    /// A new query.
    Begin = 2,
    /// A query under way.
    State = 3,
    /// The answer to a query.
    Answer = 4,
    /// Why an attempt ended without an answer.
    Failure = 5,
    /// The asker wants no answer any more.
    Cancel = 6,
    /// Nodes to be read and scored, for searches whose list stays with the asker.
    Score = 7,
    /// What was read and scored.
    Scored = 8,
    /// How much may be sent.
    Credit = 9,
    /// Whether somebody is there.
    Ping = 10,
    /// Somebody is there.
    Pong = 11,
    /// The last frame of a connection.
    Goodbye = 12,
}

impl Kind {
    /// Whether frames of this kind take from the credit of a peer. Those that keep the connection
    /// itself do not, or a full peer could not say that it has room again.
    pub fn takes_credit(self) -> bool {
        !matches!(self, Self::Hello | Self::Credit | Self::Ping | Self::Pong | Self::Goodbye)
    }
}
