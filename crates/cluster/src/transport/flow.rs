//! Credit: how many bytes a peer may send before it is granted more.
//!
//! A grant is a total since the connection began, not an increment. One that arrives twice or
//! behind a later one changes nothing.

/// What this side may send.
#[derive(Debug)]
pub(super) struct Sending {
    granted: u64,
    sent: u64,
    /// The shortest message that was refused since somebody was told of room.
    wanted: Option<u64>,
}

impl Sending {
    pub(super) fn new(granted: u64) -> Self {
        Self { granted, sent: 0, wanted: None }
    }

    /// Takes credit for so many bytes, where there is enough.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let enough = self.granted - self.sent >= bytes;
        if enough {
            self.sent += bytes;
        } else {
            self.refuse(bytes);
        }
        enough
    }

    /// A message of so many bytes is refused, for want of credit or of another room.
    pub(super) fn refuse(&mut self, bytes: u64) {
        self.wanted = Some(self.wanted.map_or(bytes, |least| least.min(bytes)));
    }

    /// The shortest message that was refused since somebody was told of room.
    pub(super) fn wanted(&self) -> Option<u64> {
        self.wanted
    }

    /// Whether there is credit for the shortest of what was refused, once for each time that there is:
    /// whoever is told of room sends one message at least. A grant of a byte tells nobody.
    pub(super) fn room(&mut self) -> bool {
        let left = self.granted - self.sent;
        self.wanted.take_if(|least| *least <= left).is_some()
    }

    /// What was granted in all.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// The peer grants this much in all.
    pub(super) fn grant(&mut self, total: u64) {
        self.granted = self.granted.max(total);
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
        to.grant(total);
        to.grant(total);
        assert_eq!(to.granted(), 160, "twice is once");
        to.grant(90);
        assert!(to.take(100), "a late one takes nothing back");
        assert!(from.receive(100));
        assert!(!from.receive(1), "more than was granted");
    }

    #[test]
    fn who_was_refused_is_told_when_there_is_credit_for_the_shortest() {
        let mut to = Sending::new(0);
        assert!(!to.room(), "nobody was refused");
        for bytes in [60, 40, 50] {
            assert!(!to.take(bytes));
        }
        for total in 1..40 {
            to.grant(total);
            assert!(!to.room(), "{total} of 40");
        }
        to.grant(40);
        assert!(to.room() && !to.room(), "once");
        assert!(!to.take(60) && to.take(40));
        to.grant(99);
        assert!(!to.room(), "59 of 60");
        to.grant(100);
        assert!(to.room() && to.take(60));
        to.grant(200);
        assert!(!to.room(), "nobody was refused since");
    }
}
