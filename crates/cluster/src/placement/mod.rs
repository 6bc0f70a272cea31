//! The topology: which servers there are, where, and which partitions each owns.
//!
//! A file of TOML, static while the cluster runs. Every partition has exactly one owner; a file
//! that says otherwise is refused with the partition's name. Opening the file is the caller's.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Deserialize;

/// The most partitions a topology may have.
pub const PARTITIONS_MAX: u32 = 1 << 16;
/// The most servers a topology may have.
pub const SERVERS_MAX: usize = 1024;
/// The longest topology file, in bytes.
pub const FILE_MAX: usize = 4 << 20;

/// A server of the topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its number.
    pub number: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// The name that its certificate has to carry.
    pub tls_name: String,
    /// The partitions it owns, ascending.
    pub partitions: Vec<u32>,
}

/// The servers of a cluster and what they own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    cluster: String,
    servers: Vec<Server>,
    /// The server of each partition, as an index into `servers`.
    owners: Vec<u32>,
}

/// Why a topology is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The file is longer than any topology.
    #[error("a topology of {0} bytes; at most {FILE_MAX} are read")]
    Length(usize),
    /// It is no TOML, or has fields that no topology has.
    #[error("the topology cannot be read: {0}")]
    Syntax(String),
    /// A number is out of bounds.
    #[error("{what} is {value}; it has to be from 1 to {most}")]
    Bounds {
        /// Which number.
        what: &'static str,
        /// What the file says.
        value: u64,
        /// The bound.
        most: u64,
    },
    /// The cluster's name is empty or long.
    #[error("the cluster's name has {0} bytes; it has to have from 1 to 255")]
    Name(usize),
    /// Two servers have one number.
    #[error("server {0} is named twice")]
    ServerTwice(u32),
    /// Two servers have one address.
    #[error("servers {0} and {1} have the same address {2}")]
    AddressTwice(u32, u32, SocketAddr),
    /// Two servers own a partition.
    #[error("partition {partition} is named twice: by server {first} and by server {second}")]
    PartitionTwice {
        /// Which partition.
        partition: u32,
        /// Who names it first.
        first: u32,
        /// Who names it again.
        second: u32,
    },
    /// Nobody owns a partition.
    #[error("partition {0} is owned by no server")]
    PartitionMissing(u32),
    /// A server owns a partition that there is not.
    #[error("server {server} owns partition {partition}, but there are only {partitions}")]
    PartitionUnknown {
        /// Who names it.
        server: u32,
        /// Which partition.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// No server has this number.
    #[error("the topology has no server {0}")]
    UnknownServer(u32),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: String,
    partitions: u32,
    #[serde(default)]
    server: Vec<FileServer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileServer {
    number: u32,
    address: SocketAddr,
    tls_name: Option<String>,
    partitions: Option<Vec<u32>>,
}

impl Placement {
    /// Reads a topology.
    pub fn parse(text: &str) -> Result<Self, PlacementError> {
        if text.len() > FILE_MAX {
            return Err(PlacementError::Length(text.len()));
        }
        let file: File =
            toml::from_str(text).map_err(|error| PlacementError::Syntax(error.to_string()))?;
        let bounded = |what, value: u64, most: u64| match value {
            value if value == 0 || value > most => {
                Err(PlacementError::Bounds { what, value, most })
            }
            _ => Ok(()),
        };
        bounded("the number of partitions", file.partitions.into(), PARTITIONS_MAX.into())?;
        bounded("the number of servers", file.server.len() as u64, SERVERS_MAX as u64)?;
        if file.cluster.is_empty() || file.cluster.len() > 255 {
            return Err(PlacementError::Name(file.cluster.len()));
        }
        let dealt = file.server.iter().all(|server| server.partitions.is_none());
        let count = file.server.len() as u64;
        let share = |at: u64| (u64::from(file.partitions) * at / count) as u32;
        let servers = file.server.into_iter().enumerate().map(|(at, server)| Server {
            number: server.number,
            address: server.address,
            tls_name: server.tls_name.unwrap_or_else(|| format!("server-{}", server.number)),
            partitions: match server.partitions {
                _ if dealt => (share(at as u64)..share(at as u64 + 1)).collect(),
                named => named.unwrap_or_default(),
            },
        });
        Self::new(file.cluster, file.partitions, servers.collect())
    }

    /// A placement of these servers, which own each partition below `partitions` exactly once.
    pub fn new(
        cluster: String,
        partitions: u32,
        mut servers: Vec<Server>,
    ) -> Result<Self, PlacementError> {
        servers.sort_by_key(|server| server.number);
        let mut addresses = BTreeMap::new();
        let mut owners = vec![None; partitions as usize];
        for (at, server) in servers.iter_mut().enumerate() {
            if let Some(other) = addresses.insert(server.address, server.number) {
                return Err(match other == server.number {
                    true => PlacementError::ServerTwice(other),
                    false => PlacementError::AddressTwice(other, server.number, server.address),
                });
            }
            server.partitions.sort_unstable();
            for &partition in &server.partitions {
                let owner =
                    owners.get_mut(partition as usize).ok_or(PlacementError::PartitionUnknown {
                        server: server.number,
                        partition,
                        partitions,
                    })?;
                if let Some((_, first)) = owner.replace((at as u32, server.number)) {
                    let second = server.number;
                    return Err(PlacementError::PartitionTwice { partition, first, second });
                }
            }
        }
        if let Some(pair) = servers.windows(2).find(|pair| pair[0].number == pair[1].number) {
            return Err(PlacementError::ServerTwice(pair[0].number));
        }
        let owners = owners
            .into_iter()
            .enumerate()
            .map(|(partition, owner)| match owner {
                Some((at, _)) => Ok(at),
                None => Err(PlacementError::PartitionMissing(partition as u32)),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { cluster, servers, owners })
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// All servers, by number.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server of this number.
    pub fn server(&self, number: u32) -> Result<&Server, PlacementError> {
        self.servers
            .binary_search_by_key(&number, |server| server.number)
            .map(|at| &self.servers[at])
            .map_err(|_| PlacementError::UnknownServer(number))
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u32 {
        self.owners.len() as u32
    }

    /// The number of the server that owns a partition; `None` where there is no such partition.
    pub fn owner(&self, partition: u32) -> Option<u32> {
        let at = *self.owners.get(partition as usize)?;
        Some(self.servers[at as usize].number)
    }
}
