//! Whose the name of a cluster is, and making everything anew after etcd has lost its data.
//!
//! Who finds no charter writes one, and with it, in one transaction, the key `settling` under a lease
//! of its own that nobody renews. While that key stands nobody is elected: a server that has not
//! heard of the loss may count on its old lease for as long, and answer what needs the newest write.

use std::time::Duration;

use super::calls::proto::*;
use super::shared::Shared;
use super::transactions::{at, one, put};
use crate::Error;
use crate::records::{Charter, KeyRecord, Unreadable};

/// The oldest version whose calls are the ones used here, and its numbers.
const LEAST: (&str, (u32, u32)) = ("3.4", (3, 4));

/// Looks at etcd's version and at the charter, and writes one where there is none.
pub(super) async fn check(shared: &Shared) -> Result<Charter, Error> {
    match shared.calls.status().await {
        Ok(status) => check_version(shared, &status.version)?,
        // Some versions let only administrators ask. What is too old then fails by its calls.
        Err(Error::Credentials(why)) if why.contains("permission denied") => {}
        Err(e) => return Err(e),
    }
    charter(shared).await.map(|(charter, _)| charter)
}

fn check_version(shared: &Shared, version: &str) -> Result<(), Error> {
    let mut numbers = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let found = numbers.next().flatten().zip(numbers.next().flatten());
    if found.is_some_and(|found| found >= LEAST.1) {
        return Ok(());
    }
    let (url, version) = (shared.calls.url(), super::calls::short(version));
    Err(Error::TooOld { url, version, least: LEAST.0 })
}

/// The charter, and which version of it. KeyRecord where there is none.
pub(super) async fn charter(shared: &Shared) -> Result<(Charter, i64), Error> {
    let key = shared.keys.cluster();
    loop {
        let found = shared.calls.range(one(&key)).await?.kvs.pop();
        if let Some(found) = found {
            let charter = Charter::decode(&found.value).map_err(|e| match e {
                Unreadable::Newer(format) => Error::Newer { key: key.clone(), format },
                Unreadable::Garbage(why) => Error::Unreadable { key: key.clone(), why },
            })?;
            if charter.cluster == shared.cluster || shared.cluster.is_nil() {
                return Ok((charter, found.mod_revision));
            }
            let name = key.trim_end_matches("/cluster").trim_start_matches("/pipeann/").into();
            let (ours, theirs) = (shared.cluster, charter.cluster);
            return Err(Error::OtherCluster { name, ours, theirs });
        }
        if !shared.founds {
            let why = format!("etcd has no key {key}: no server of it has been there");
            return Err(Error::Invalid { what: "name of the cluster", why });
        }
        found_cluster(shared, &key).await?;
    }
}

async fn found_cluster(shared: &Shared, key: &str) -> Result<(), Error> {
    let ttl = shared.ttl();
    let lease = shared.calls.grant(ttl).await?;
    // etcd may have made it longer, never shorter.
    if Duration::from_secs(u64::try_from(lease.ttl).unwrap_or(0)) < ttl {
        return Err(Error::Refused(format!(
            "a lease of {ttl:?} was asked for, not {} s",
            lease.ttl
        )));
    }
    let ttl_s = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
    let charter = Charter { cluster: shared.cluster, ttl_s };
    let written = TxnRequest {
        compare: vec![at(key, 0)],
        success: vec![
            put(key, charter.encode(), 0),
            put(&shared.keys.settling(), b"1".to_vec(), lease.id),
        ],
        failure: Vec::new(),
    };
    if shared.calls.transact(written).await?.succeeded {
        tracing::info!(key, "a cluster begins in etcd, or begins anew; elections wait for a lease");
    } else {
        shared.calls.revoke(lease.id).await?;
    }
    Ok(())
}
