//! Which formats of what servers share a server writes, and which it reads: what lets two versions stand
//! side by side, or keeps them apart by name.

use serde::{Deserialize, Serialize};

use crate::{Error, ServerInfo};

/// Formats of what servers share, by number: objects of the log, records in them, calls among servers. A
/// change that servers of before cannot read makes the next number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFormats {
    /// The one that it writes.
    pub writes: u32,
    /// The oldest that it reads.
    pub oldest_read: u32,
    /// The newest that it reads.
    pub newest_read: u32,
}

impl SharedFormats {
    /// Those of the first version, which did not tell them.
    pub const FIRST: Self = Self { writes: 1, oldest_read: 1, newest_read: 1 };

    /// Whether it reads a format.
    pub fn reads(&self, format: u32) -> bool {
        (self.oldest_read..=self.newest_read).contains(&format)
    }

    /// Refuses what no server tells: one reads at least what it writes itself.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.writes > 0 && self.reads(self.writes) {
            return Ok(());
        }
        let Self { writes, oldest_read, newest_read } = self;
        let why = format!("writes {writes}, and reads {oldest_read} to {newest_read}");
        Err(Error::Invalid { what: "formats of the server", why })
    }
}

impl Default for SharedFormats {
    fn default() -> Self {
        Self::FIRST
    }
}

impl ServerInfo {
    /// Refuses to stand beside a server that cannot read what this one writes, or the other way round, or
    /// that asks something else of those who call.
    ///
    /// # Errors
    /// [`Error::Incompatible`], which says what to upgrade; [`Error::OtherGuards`], which says what the
    /// other has and this one lacks, or the other way round.
    pub fn check_beside(&self, other: &Self) -> Result<(), Error> {
        let refused = |why: String| {
            let (server, address) = (other.name.clone(), other.address.clone());
            Err(Error::Incompatible { server, address, version: other.version.clone(), why })
        };
        let (mine, theirs) = (self.formats, other.formats);
        if !theirs.reads(mine.writes) {
            return refused(format!(
                "it reads formats {} to {} of what servers share, and this one writes {}",
                theirs.oldest_read, theirs.newest_read, mine.writes
            ));
        }
        if !mine.reads(theirs.writes) {
            return refused(format!(
                "it writes format {} of what servers share, and this one reads {} to {}",
                theirs.writes, mine.oldest_read, mine.newest_read
            ));
        }
        self.check_guards_beside(other)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ServerKey;

    fn server(writes: u32, oldest_read: u32, newest_read: u32) -> ServerInfo {
        ServerInfo {
            id: Uuid::from_u128(writes.into()),
            name: "one".into(),
            address: "10.0.0.1:19530".into(),
            peer_address: "10.0.0.1:19530".into(),
            version: format!("0.{writes}.0"),
            formats: SharedFormats { writes, oldest_read, newest_read },
            regions: Vec::new(),
            key: ServerKey::default(),
            guards: None,
            started_ms: 5,
        }
    }

    #[test]
    fn servers_stand_side_by_side_that_read_each_other() {
        let [first, careful, bold] = [server(1, 1, 1), server(1, 1, 2), server(2, 1, 2)];
        first.check_beside(&careful).unwrap();
        careful.check_beside(&first).unwrap();
        careful.check_beside(&bold).unwrap();
        bold.check_beside(&careful).unwrap();
        let refused = bold.check_beside(&first).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the server one at 10.0.0.1:19530, of version 0.1.0, is there: it reads formats 1 to 1 of \
             what servers share, and this one writes 2"
        );
        let refused = first.check_beside(&bold).unwrap_err().to_string();
        assert!(
            refused.ends_with("writes format 2 of what servers share, and this one reads 1 to 1")
        );
    }

    #[test]
    fn a_server_reads_what_it_writes() {
        server(2, 1, 2).check().unwrap();
        for (writes, oldest, newest) in [(0, 0, 3), (3, 1, 2), (1, 2, 2)] {
            let refused = server(writes, oldest, newest).formats.check().unwrap_err().to_string();
            assert!(refused.starts_with("formats of the server"), "{refused}");
        }
    }
}
