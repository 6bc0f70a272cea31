//! What a server tells of itself, and what of that is believed.

use std::fmt;

use uuid::Uuid;

use crate::{CallerGuards, Error, SharedFormats};

/// The longest text of each kind, in bytes.
const TEXT_MAX: usize = 64;
const ADDRESS_MAX: usize = 255;
/// The most regions of a server.
const REGIONS_MAX: usize = 64;

/// What only servers of the cluster know of one of them: it is drawn anew each time that its process
/// begins, and stands in etcd. Servers of before have none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServerKey(String);

impl ServerKey {
    /// A new one, of 122 random bits.
    pub fn draw() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }

    /// Its text; empty where there is none.
    pub fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn of(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for ServerKey {
    /// Without its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerKey")
    }
}

/// A server as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its own for as long as its directory lives.
    pub id: Uuid,
    /// For people to read.
    pub name: String,
    /// Where clients reach it, as `host:port`.
    pub address: String,
    /// Where other servers reach it, as `host:port`.
    pub peer_address: String,
    /// Its version.
    pub version: String,
    /// What it writes and reads of what servers share.
    pub formats: SharedFormats,
    /// The regions whose data it is to hold.
    pub regions: Vec<String>,
    /// What others of the cluster show it that ask it as servers.
    pub key: ServerKey,
    /// What it asks of those who call. Servers of before do not tell.
    pub guards: Option<CallerGuards>,
    /// When its process began, in milliseconds since 1970.
    pub started_ms: u64,
}

impl ServerInfo {
    /// Refuses by name what no server is.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.id.is_nil() {
            return Err(Error::Invalid { what: "id of the server", why: "is nil".into() });
        }
        text("name of the server", &self.name)?;
        text("version of the server", &self.version)?;
        self.formats.check()?;
        if !self.key.text().is_empty() {
            text("key of the server", self.key.text())?;
        }
        if let Some(guards) = &self.guards {
            guards.check(text)?;
        }
        address("address for clients", &self.address)?;
        address("address for peers", &self.peer_address)?;
        if self.regions.len() > REGIONS_MAX {
            let why = format!("{} are given, {REGIONS_MAX} are the most", self.regions.len());
            return Err(Error::Invalid { what: "regions", why });
        }
        self.regions.iter().try_for_each(|region| text("region", region))
    }

    /// Its addresses, each once.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        let mut both = vec![self.address.as_str(), self.peer_address.as_str()];
        both.dedup();
        both
    }
}

fn text(what: &'static str, given: &str) -> Result<(), Error> {
    if given.is_empty() || given.len() > TEXT_MAX || given.chars().any(char::is_control) {
        let why =
            format!("has {} bytes; 1 to {TEXT_MAX} that can be printed are needed", given.len());
        return Err(Error::Invalid { what, why });
    }
    Ok(())
}

fn address(what: &'static str, given: &str) -> Result<(), Error> {
    let sound = given.len() <= ADDRESS_MAX
        && given.chars().all(|c| c.is_ascii_graphic() && c != '/')
        && given.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
        });
    if sound {
        return Ok(());
    }
    let shown: String = given.chars().take(TEXT_MAX).collect();
    Err(Error::Invalid { what, why: format!("{shown:?} is no host:port") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ServerInfo {
        ServerInfo {
            id: Uuid::from_u128(1),
            name: "one".into(),
            address: "10.0.0.1:19530".into(),
            peer_address: "[fe80::1]:7000".into(),
            version: "0.1.0".into(),
            formats: SharedFormats::FIRST,
            regions: vec!["eu".into()],
            key: ServerKey::draw(),
            guards: Some(["--authorization"].into_iter().collect()),
            started_ms: 5,
        }
    }

    #[test]
    fn what_no_server_is_is_refused_by_name() {
        info().check().unwrap();
        let refused = |change: fn(&mut ServerInfo)| {
            let mut it = info();
            change(&mut it);
            it.check().unwrap_err().to_string()
        };
        assert!(refused(|it| it.id = Uuid::nil()).starts_with("id of the server"));
        assert!(refused(|it| it.name.clear()).starts_with("name of the server"));
        assert!(refused(|it| it.key = ServerKey("x".repeat(65))).starts_with("key of the server"));
        assert!(refused(|it| it.name = "a\nb".into()).starts_with("name of the server"));
        assert!(refused(|it| it.version = "x".repeat(65)).contains("65 bytes"));
        for bad in ["host", ":1", "host:0", "host:70000", "a/b:1", "ho st:1"] {
            let mut it = info();
            it.address = bad.into();
            assert!(it.check().unwrap_err().to_string().contains(bad));
        }
        assert!(refused(|it| it.peer_address.clear()).starts_with("address for peers"));
        assert!(refused(|it| it.regions = vec!["r".into(); 65]).contains("64 are the most"));
    }
}
