//! What stands in the keys: JSON with a format number.
//!
//! Two versions run side by side during an upgrade. A field that is not known is ignored, so a later
//! version may add some; a greater format says that what is known means something else now, and such
//! a record is neither read nor overwritten. Everything else that is no record is garbage, which may
//! be overwritten. Nothing longer than [`RECORD_MAX`] is parsed.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{CallerGuards, LeadingServer, ServerInfo, ServerKey, SharedFormats, TERM_MAX};

/// The format of all records.
const FORMAT: u32 = 1;
/// The longest record, in bytes.
pub(crate) const RECORD_MAX: usize = 8 << 10;

/// Why a record is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is of a later format.
    Newer(u32),
    /// It is none.
    Garbage(String),
}

/// Something that stands in a key.
pub(crate) trait KeyRecord: Sized {
    /// What stands there in JSON.
    type Fields: Serialize + DeserializeOwned;
    fn fields(&self) -> Self::Fields;
    /// Refuses what cannot be.
    fn checked(fields: Self::Fields) -> Result<Self, String>;

    fn encode(&self) -> Vec<u8> {
        let whole = Formatted { format: FORMAT, fields: self.fields() };
        serde_json::to_vec(&whole).expect("fields are numbers, texts and lists of them")
    }

    fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let garbage = |why: String| Unreadable::Garbage(why);
        if bytes.len() > RECORD_MAX {
            return Err(garbage(format!("{} bytes, {RECORD_MAX} are the most", bytes.len())));
        }
        let head: FormatHead = serde_json::from_slice(bytes).map_err(|e| garbage(e.to_string()))?;
        match head.format {
            FORMAT => {}
            0 => return Err(garbage("format 0".into())),
            newer => return Err(Unreadable::Newer(newer)),
        }
        let whole: Formatted<Self::Fields> =
            serde_json::from_slice(bytes).map_err(|e| garbage(e.to_string()))?;
        Self::checked(whole.fields).map_err(garbage)
    }
}

#[derive(Deserialize)]
struct FormatHead {
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct Formatted<T> {
    format: u32,
    #[serde(flatten)]
    fields: T,
}

fn id(text: &str) -> Result<Uuid, String> {
    Uuid::try_parse(text).map_err(|_| "an id is no uuid".to_owned())
}

fn term(given: u64) -> Result<u64, String> {
    if (1..=TERM_MAX).contains(&given) { Ok(given) } else { Err(format!("term {given}")) }
}

/// Whose a name is, and how long leases are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charter {
    pub(crate) cluster: Uuid,
    pub(crate) ttl_s: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct CharterFields {
    cluster: String,
    ttl_s: u32,
}

impl KeyRecord for Charter {
    type Fields = CharterFields;

    fn fields(&self) -> CharterFields {
        CharterFields { cluster: self.cluster.to_string(), ttl_s: self.ttl_s }
    }

    fn checked(fields: CharterFields) -> Result<Self, String> {
        if !(1..=60).contains(&fields.ttl_s) {
            return Err(format!("leases of {} s", fields.ttl_s));
        }
        Ok(Self { cluster: id(&fields.cluster)?, ttl_s: fields.ttl_s })
    }
}

/// A server, and which of its lives it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerSeat {
    pub(crate) info: ServerInfo,
    /// Drawn for each joining, so that one finds what it wrote itself.
    pub(crate) instance: Uuid,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SeatFields {
    id: String,
    instance: String,
    name: String,
    address: String,
    peer_address: String,
    version: String,
    #[serde(default)]
    formats: SharedFormats,
    #[serde(default)]
    regions: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guards: Option<CallerGuards>,
    started_ms: u64,
}

impl KeyRecord for ServerSeat {
    type Fields = SeatFields;

    fn fields(&self) -> SeatFields {
        let info = self.info.clone();
        SeatFields {
            id: info.id.to_string(),
            instance: self.instance.to_string(),
            name: info.name,
            address: info.address,
            peer_address: info.peer_address,
            version: info.version,
            formats: info.formats,
            regions: info.regions,
            key: info.key.text().to_owned(),
            guards: info.guards,
            started_ms: info.started_ms,
        }
    }

    fn checked(fields: SeatFields) -> Result<Self, String> {
        let info = ServerInfo {
            id: id(&fields.id)?,
            name: fields.name,
            address: fields.address,
            peer_address: fields.peer_address,
            version: fields.version,
            formats: fields.formats,
            regions: fields.regions,
            key: ServerKey::of(fields.key),
            guards: fields.guards,
            started_ms: fields.started_ms,
        };
        info.check().map_err(|e| e.to_string())?;
        Ok(Self { info, instance: id(&fields.instance)? })
    }
}

/// Who leads a shard; its number is in the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Throne {
    pub(crate) server: Uuid,
    pub(crate) address: String,
    pub(crate) term: u64,
}

impl Throne {
    pub(crate) fn leader(&self, shard: u64) -> LeadingServer {
        LeadingServer { shard, server: self.server, address: self.address.clone(), term: self.term }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ThroneFields {
    server: String,
    address: String,
    term: u64,
}

impl KeyRecord for Throne {
    type Fields = ThroneFields;

    fn fields(&self) -> ThroneFields {
        let (server, address) = (self.server.to_string(), self.address.clone());
        ThroneFields { server, address, term: self.term }
    }

    fn checked(fields: ThroneFields) -> Result<Self, String> {
        if fields.address.len() > 255 {
            return Err("an address of more than 255 bytes".into());
        }
        Ok(Self { server: id(&fields.server)?, address: fields.address, term: term(fields.term)? })
    }
}

/// The newest term of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewestTerm(pub(crate) u64);

#[derive(Serialize, Deserialize)]
pub(crate) struct NewestTermFields {
    term: u64,
}

impl KeyRecord for NewestTerm {
    type Fields = NewestTermFields;

    fn fields(&self) -> NewestTermFields {
        NewestTermFields { term: self.0 }
    }

    fn checked(fields: NewestTermFields) -> Result<Self, String> {
        term(fields.term).map(Self)
    }
}

/// Whose an address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressHolder(pub(crate) Uuid);

#[derive(Serialize, Deserialize)]
pub(crate) struct AddressHolderFields {
    server: String,
}

impl KeyRecord for AddressHolder {
    type Fields = AddressHolderFields;

    fn fields(&self) -> AddressHolderFields {
        AddressHolderFields { server: self.0.to_string() }
    }

    fn checked(fields: AddressHolderFields) -> Result<Self, String> {
        id(&fields.server).map(Self)
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
