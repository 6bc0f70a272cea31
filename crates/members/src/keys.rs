//! The layout of keys in etcd, below `/pipeann/<cluster name>/`.
//!
//! | key | holds | under a lease |
//! |---|---|---|
//! | `cluster` | whose name it is, and the length of leases | no |
//! | `settling` | that all of this was made anew a moment ago | its own, never renewed |
//! | `addresses/<host:port>` | the id of the server that has it | the server's |
//! | `leaders/<shard>` | who leads the shard | the leader's |
//! | `servers/<id>` | what a server tells of itself | the server's |
//! | `terms/<shard>` | the newest term that was given | no |
//! | `values/<name>` | a value of another part | no |
//!
//! Shards are 16 hexadecimal digits. One watch covers `leaders` to `values`.

use uuid::Uuid;

use crate::Error;

/// The keys of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    prefix: String,
}

/// A key that was told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamedKey {
    Settling,
    Server(Uuid),
    Leader(u64),
    Term(u64),
    Value(String),
}

impl KeySpace {
    /// Refuses a name that is no single part of a key.
    pub(crate) fn new(cluster: &str) -> Result<Self, Error> {
        let sound = (1..=64).contains(&cluster.len())
            && cluster.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !sound {
            let shown: String = cluster.chars().take(64).collect();
            let why = format!("{shown:?} is not of 1 to 64 letters, digits and -_.");
            return Err(Error::Invalid { what: "name of the cluster", why });
        }
        Ok(Self { prefix: format!("/pipeann/{cluster}/") })
    }

    pub(crate) fn cluster(&self) -> String {
        format!("{}cluster", self.prefix)
    }

    pub(crate) fn settling(&self) -> String {
        format!("{}settling", self.prefix)
    }

    pub(crate) fn address(&self, address: &str) -> String {
        format!("{}addresses/{address}", self.prefix)
    }

    pub(crate) fn server(&self, id: Uuid) -> String {
        format!("{}servers/{id}", self.prefix)
    }

    pub(crate) fn leader(&self, shard: u64) -> String {
        format!("{}leaders/{shard:016x}", self.prefix)
    }

    pub(crate) fn term(&self, shard: u64) -> String {
        format!("{}terms/{shard:016x}", self.prefix)
    }

    pub(crate) fn value(&self, name: &str) -> String {
        format!("{}values/{name}", self.prefix)
    }

    /// Where servers stand.
    pub(crate) fn servers(&self) -> (String, String) {
        (format!("{}servers/", self.prefix), format!("{}servers0", self.prefix))
    }

    /// What is listed: all that the view holds.
    pub(crate) fn listed(&self) -> (String, String) {
        (format!("{}leaders/", self.prefix), format!("{}terms0", self.prefix))
    }

    /// What is watched: that, and the values.
    pub(crate) fn watched(&self) -> (String, String) {
        (format!("{}leaders/", self.prefix), format!("{}values0", self.prefix))
    }

    /// Which key this is, if it is one that the view or a subscriber wants to know of.
    pub(crate) fn parse(&self, key: &[u8]) -> Option<NamedKey> {
        let key = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        if key == "settling" {
            return Some(NamedKey::Settling);
        }
        let (kind, name) = key.split_once('/')?;
        match kind {
            "servers" => {
                let id = Uuid::try_parse(name).ok()?;
                (id.to_string() == name).then_some(NamedKey::Server(id))
            }
            "leaders" => shard(name).map(NamedKey::Leader),
            "terms" => shard(name).map(NamedKey::Term),
            "values" => Some(NamedKey::Value(name.to_owned())),
            _ => None,
        }
    }
}

fn shard(name: &str) -> Option<u64> {
    let digits = name.len() == 16 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    digits.then(|| u64::from_str_radix(name, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let keys = KeySpace::new("blue").unwrap();
        let id = Uuid::from_u128(7);
        let parse = |key: String| keys.parse(key.as_bytes());
        assert_eq!(parse(keys.server(id)), Some(NamedKey::Server(id)));
        assert_eq!(parse(keys.leader(u64::MAX)), Some(NamedKey::Leader(u64::MAX)));
        assert_eq!(parse(keys.term(0x1f)), Some(NamedKey::Term(0x1f)));
        assert_eq!(parse(keys.value("a/b")), Some(NamedKey::Value("a/b".into())));
        assert_eq!(parse(keys.settling()), Some(NamedKey::Settling));
        assert_eq!(parse(keys.cluster()), None);
        for strange in ["leaders/1", "leaders/000000000000001F", "servers/x", "other/x", ""] {
            assert_eq!(parse(format!("/pipeann/blue/{strange}")), None, "{strange}");
        }
        assert_eq!(keys.parse(b"/pipeann/green/settling"), None);
        assert_eq!(keys.parse(&[0xff]), None);
    }

    #[test]
    fn one_range_holds_what_is_watched() {
        let keys = KeySpace::new("blue").unwrap();
        let (from, to) = keys.watched();
        let inside = |key: String| from <= key && key < to;
        let id = Uuid::max();
        assert!(inside(keys.settling()) && inside(keys.server(id)) && inside(keys.leader(0)));
        assert!(inside(keys.term(u64::MAX)) && inside(keys.value("~")));
        assert!(!inside(keys.cluster()) && !inside(keys.address("a:1")));
        let (from, to) = keys.servers();
        let inside = |key: String| from <= key && key < to;
        assert!(inside(keys.server(id)) && !inside(keys.settling()) && !inside(keys.leader(0)));
        let (from, to) = keys.listed();
        let inside = |key: String| from <= key && key < to;
        assert!(inside(keys.settling()) && inside(keys.term(u64::MAX)) && !inside(keys.value("-")));
    }

    #[test]
    fn a_name_is_one_part_of_a_key() {
        for bad in ["", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(KeySpace::new(bad).is_err(), "{bad}");
        }
    }
}
