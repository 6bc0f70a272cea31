//! Credit: how many bytes a peer may send before it is granted more.
//!
//! A grant is a total since the connection began, not an increment. One that arrives twice or
//! behind a later one changes nothing.

/// What this side may send.
#[derive(Debug)]
pub(super) struct Sending {
    granted: u64,
    sent: u64,
}

impl Sending {
    pub(super) fn new(granted: u64) -> Self {
        Self { granted, sent: 0 }
    }

    /// Takes credit for so many bytes, where there is enough.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let enough = self.granted - self.sent >= bytes;
        if enough {
            self.sent += bytes;
        }
        enough
    }

    /// What was granted in all.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// The peer grants this much in all. Says whether that is more than before.
    pub(super) fn grant(&mut self, total: u64) -> bool {
        let more = total > self.granted;
        self.granted = self.granted.max(total);
        more
    }
}

/// What the peer may send, and what of it is still held here.
#[derive(Debug)]
pub(super) struct Receiving {
    window: u64,
    granted: u64,
    received: u64,
    returned: u64,
}

impl Receiving {
    pub(super) fn new(window: u64) -> Self {
        Self { window, granted: window, received: 0, returned: 0 }
    }

    /// Bytes came in. Says whether the peer was allowed them.
    pub(super) fn receive(&mut self, bytes: u64) -> bool {
        self.received += bytes;
        self.received <= self.granted
    }

    /// What was granted in all.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Bytes that came in and are held.
    pub(super) fn held(&self) -> u64 {
        self.received - self.returned
    }

    /// Bytes are held no longer. Gives the total to be granted once half the window can be: fewer
    /// grants than messages, and never none while the peer waits for a frame within the other half.
    pub(super) fn give_back(&mut self, bytes: u64) -> Option<u64> {
        self.returned += bytes;
        let total = self.returned + self.window;
        (total - self.granted >= self.window / 2).then(|| {
            self.granted = total;
            total
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_sent_again() {
        let (mut to, mut from) = (Sending::new(100), Receiving::new(100));
        assert!(to.take(60) && from.receive(60));
        assert!(!to.take(60), "beyond the grant");
        assert_eq!(from.give_back(40), None, "less than half the window");
        let total = from.give_back(20).expect("more than half");
        assert_eq!(total, 160);
        assert!(to.grant(total) && !to.grant(total), "twice is once");
        assert!(!to.grant(90), "a late one takes nothing back");
        assert!(to.take(100) && from.receive(100));
        assert!(!from.receive(1), "more than was granted");
    }
}
