//! What this server asks of those who call, as others of its cluster are told: by the flags that people know.

use pipeann_members::CallerGuards;
use pipeann_milvus::ServeOptions;

/// The flags that keep somebody out, of those that are given. Their names stand in etcd, and mean the same in
/// all versions.
pub(super) fn guards(asks: &ServeOptions, has_peer_ca: bool) -> CallerGuards {
    let tls = asks.tls.as_ref();
    let flags = [
        ("--authorization", asks.authorization),
        ("--token", asks.token.is_some()),
        ("--tls-cert", tls.is_some()),
        ("--tls-client-ca", tls.is_some_and(|tls| tls.client_ca.is_some())),
        ("--peer-ca", has_peer_ca),
    ];
    flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use pipeann_members::memory::SharedMemory;
    use pipeann_members::{Boottime, ServerInfo, ServerKey, SharedFormats};
    use pipeann_milvus::ServerTls;
    use pipeann_replica::ClusterMembership;
    use uuid::Uuid;

    use super::*;

    fn server(id: u128, guards: Option<CallerGuards>) -> ServerInfo {
        let at = format!("10.0.0.{id}:1");
        ServerInfo {
            id: Uuid::from_u128(id),
            name: format!("server {id}"),
            address: at.clone(),
            peer_address: at,
            version: "0.1.0".into(),
            formats: SharedFormats::FIRST,
            regions: Vec::new(),
            key: ServerKey::draw(),
            guards,
            started_ms: 1,
        }
    }

    #[test]
    fn a_server_that_asks_less_or_more_than_those_that_are_there_does_not_join() {
        let tls = |client_ca| {
            let (certificate, key) = (Vec::new(), Vec::new());
            ServeOptions {
                tls: Some(ServerTls { certificate, key, client_ca }),
                ..ServeOptions::default()
            }
        };
        let none = guards(&ServeOptions::default(), false);
        let authorization = ServeOptions { authorization: true, ..ServeOptions::default() };
        let token = ServeOptions { token: Some("secret".into()), ..ServeOptions::default() };
        let all = [
            (none, ""),
            (guards(&authorization, false), "--authorization"),
            (guards(&token, false), "--token"),
            (guards(&tls(None), true), "--peer-ca, --tls-cert"),
            (guards(&tls(Some(Vec::new())), true), "--peer-ca, --tls-cert, --tls-client-ca"),
        ];
        let cluster = Uuid::from_u128(9);
        for (there, has) in &all {
            let memory = SharedMemory::new(cluster, Duration::from_secs(60), Arc::new(Boottime));
            let join = |id: u128, guards: Option<&CallerGuards>| {
                let end = memory.connect(cluster).unwrap();
                ClusterMembership::join(end, server(id, guards.cloned()))
            };
            let first = join(1, Some(there)).unwrap();
            for (comes, lacks) in &all {
                let joined = join(2, Some(comes));
                if comes == there {
                    joined.unwrap();
                    continue;
                }
                let said = joined.unwrap_err().to_string();
                assert!(said.starts_with("the server server 1 at 10.0.0.1:1 is there: "), "{said}");
                if lacks.is_empty() {
                    assert!(
                        said.contains(&format!("it has {has}, which this one lacks")),
                        "{said}"
                    );
                }
                assert!(!said.contains("secret"), "{said}");
            }
            // One of the release before does not tell.
            join(2, None).unwrap();
            // All were ended before: what is asked may be another.
            drop(first);
            for (comes, _) in &all {
                join(2, Some(comes)).unwrap();
            }
        }
    }
}
