//! Keeps a server under its lease: joins, renews, and joins again when the lease was lost or its key
//! is gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use uuid::Uuid;

use super::calls::proto::{KeyValue, TxnRequest};
use super::founding::charter;
use super::holding::{Holding, Tenure};
use super::shared::Shared;
use super::transactions::{at, one, put};
use super::watching;
use crate::lease::Countdown;
use crate::notices::Noticed;
use crate::records::{AddressHolder, KeyRecord, ServerSeat};
use crate::view::KeyCell;
use crate::{Error, ServerInfo};

/// How soon what has failed is tried again.
const RETRY: Duration = Duration::from_millis(150);

/// Joins for the first time. A server that died a moment ago and began again finds its own old lease.
pub(super) async fn join_patiently(holding: &Holding, patience: Duration) -> Result<(), Error> {
    let until = holding.shared.clock.now() + patience;
    loop {
        // Of two that join at the same moment the later one sees the other.
        let joined = match join(holding).await {
            Ok(()) => watching::servers(&holding.shared).await,
            failed => failed,
        };
        match joined {
            Err(e @ (Error::Duplicate { .. } | Error::Unreachable { .. } | Error::Late(_))) => {
                if holding.shared.clock.now() >= until {
                    return Err(e);
                }
                sleep(RETRY).await;
            }
            ended => return ended,
        }
    }
}

/// One attempt to put the server under a new lease.
async fn join(holding: &Holding) -> Result<(), Error> {
    let shared = &holding.shared;
    drop_lease(holding).await?;
    let (_, founded) = charter(shared).await?;
    let (id, key) = (holding.info.id, shared.keys.server(holding.info.id));
    let mut compare = vec![at(&shared.keys.cluster(), founded)];
    let found = shared.calls.range(one(&key)).await?.kvs.pop();
    compare.push(at(
        &key,
        free(
            found,
            |it| {
                let seat = ServerSeat::decode(&it.value).ok();
                if seat.as_ref().is_some_and(|seat| seat.instance == holding.instance) {
                    return KeyTaken::ByMyself;
                }
                let holder = seat.map_or_else(|| "of an unknown version".into(), |it| it.info.name);
                KeyTaken::By(Error::Duplicate { what: "id", value: id.to_string(), holder })
            },
            shared,
        )
        .await?,
    ));
    for address in holding.info.addresses() {
        let key = shared.keys.address(address);
        let found = shared.calls.range(one(&key)).await?.kvs.pop();
        compare.push(at(
            &key,
            free(
                found,
                |it| {
                    let holder = AddressHolder::decode(&it.value)
                        .map_or_else(|_| "of an unknown version".into(), |it| it.0.to_string());
                    KeyTaken::By(Error::Duplicate {
                        what: "address",
                        value: address.to_owned(),
                        holder,
                    })
                },
                shared,
            )
            .await?,
        ));
    }
    let sent = shared.clock.now();
    let lease = shared.calls.grant(shared.ttl()).await?;
    holding.state().granted = Some(lease.id);
    let ttl = Duration::from_secs(u64::try_from(lease.ttl).unwrap_or(0));
    let seat = ServerSeat { info: holding.info.clone(), instance: holding.instance }.encode();
    let mut success = vec![put(&key, seat.clone(), lease.id)];
    for address in holding.info.addresses() {
        success.push(put(&shared.keys.address(address), AddressHolder(id).encode(), lease.id));
    }
    let answer = shared.calls.transact(TxnRequest { compare, success, failure: vec![] }).await?;
    if !answer.succeeded {
        let why = "another server joined at the same moment".to_owned();
        return Err(Error::Unreachable { urls: shared.calls.url(), why });
    }
    let revision = answer.header.map_or(0, |it| it.revision);
    {
        let mut state = holding.state();
        let countdown = Countdown::new(sent, ttl);
        state.tenure = Some(Tenure { lease: lease.id, revision, countdown });
        state.lost = None;
    }
    shared.view.apply(KeyCell { key: key.into(), value: Some(seat), lease: lease.id, revision });
    holding.stir_all();
    Ok(())
}

enum KeyTaken {
    ByMyself,
    By(Error),
}

/// The version of a key that may be overwritten. What stands under no lease was left by nobody who is
/// alive.
async fn free(
    found: Option<KeyValue>,
    whose: impl FnOnce(&KeyValue) -> KeyTaken,
    shared: &Shared,
) -> Result<i64, Error> {
    let Some(found) = found else { return Ok(0) };
    if found.lease == 0 {
        return Ok(found.mod_revision);
    }
    match whose(&found) {
        // Of an attempt whose answer was lost: its lease goes, and its keys with it.
        KeyTaken::ByMyself => shared.calls.revoke(found.lease).await.map(|()| 0),
        KeyTaken::By(duplicate) => Err(duplicate),
    }
}

/// Ends a lease of before, if there is one.
async fn drop_lease(holding: &Holding) -> Result<(), Error> {
    let granted = holding.state().granted;
    if let Some(lease) = granted {
        holding.shared.calls.revoke(lease).await?;
        holding.state().granted = None;
    }
    Ok(())
}

/// Runs until the server leaves; then revokes the lease and says so.
pub(super) async fn keep(holding: Arc<Holding>, kept: watch::Sender<bool>) {
    let nudge = Arc::clone(&holding.nudge);
    let wake = Box::new(move || nudge.notify_one());
    let notices = holding.shared.view.subscribers.subscribe(Some(wake), None);
    let mut warned = BTreeSet::new();
    let work = async {
        look_beside(&holding, &mut warned);
        loop {
            let wait = step(&holding).await;
            tokio::select! {
                () = sleep(wait) => {}
                () = holding.nudge.notified() => {
                    let of_servers = |it| matches!(it, Noticed::Everything | Noticed::Servers);
                    let told: Vec<bool> =
                        std::iter::from_fn(|| notices.try_next()).map(of_servers).collect();
                    if told.contains(&true) {
                        look_for_myself(&holding).await;
                        look_beside(&holding, &mut warned);
                    }
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = holding.leaving.notified() => {}
    }
    holding.state().tenure = None;
    if let Err(e) = drop_lease(&holding).await {
        tracing::debug!(error = %e, "a lease is left to end by itself");
    }
    kept.send_replace(true);
}

/// Renews where it is time, or joins again; how long until the next time.
async fn step(holding: &Holding) -> Duration {
    let shared = &holding.shared;
    let tenure = holding.state().tenure;
    let Some(tenure) = tenure else {
        if let Err(e) = join(holding).await {
            holding.state().why = e.to_string();
            return RETRY;
        }
        tracing::info!(server = %holding.info.id, "joined again");
        return Duration::ZERO;
    };
    let sent = shared.clock.now();
    if sent < tenure.countdown.renewal() {
        return tenure.countdown.renewal() - sent;
    }
    let within = (tenure.countdown.ttl() / 4).min(shared.calls.timeout);
    match shared.calls.renew(tenure.lease, within).await {
        Ok(Some(ttl)) => {
            let was_over = tenure.countdown.left(shared.clock.now()).is_zero();
            if let Some(tenure) = &mut holding.state().tenure {
                tenure.countdown.renewed(sent, ttl);
            }
            if was_over {
                holding.stir_all();
            }
            until_renewal(holding)
        }
        Ok(None) => {
            lose(holding, "the lease has ended");
            Duration::ZERO
        }
        Err(e) => {
            holding.state().why = e.to_string();
            RETRY
        }
    }
}

fn until_renewal(holding: &Holding) -> Duration {
    let tenure = holding.state().tenure;
    let now = holding.shared.clock.now();
    tenure.map_or(Duration::ZERO, |it| it.countdown.renewal().saturating_sub(now))
}

fn lose(holding: &Holding, why: &str) {
    let now = holding.shared.clock.now();
    let mut state = holding.state();
    if state.tenure.take().is_some() {
        state.lost = Some(now);
        state.why = why.to_owned();
        holding.shared.tallies.lease_losses.add();
        tracing::warn!(server = %holding.info.id, why, "the lease is lost");
    }
}

/// Where the view does not know this server, etcd is asked; it may have been emptied.
async fn look_for_myself(holding: &Holding) {
    let Some(tenure) = holding.state().tenure else { return };
    let known = holding.shared.view.server(holding.info.id);
    if known.is_some_and(|it| it.revision == tenure.revision) {
        return;
    }
    let key = holding.shared.keys.server(holding.info.id);
    let Ok(found) = holding.shared.calls.range(one(&key)).await else { return };
    if found.kvs.first().is_none_or(|it| it.mod_revision != tenure.revision) {
        lose(holding, "its key is gone from etcd");
    }
}

/// Warns once of each server that cannot stand beside this one, and is there: since both joined while the
/// other was away, or since it is of before and does not tell what it asks of those who call.
fn look_beside(holding: &Holding, warned: &mut BTreeSet<(Uuid, u64)>) {
    let servers = holding.shared.view.servers();
    let one = |it: &ServerInfo| (it.id, it.started_ms);
    warned.retain(|known| servers.iter().any(|it| one(it) == *known));
    for other in servers.iter().filter(|it| it.id != holding.info.id) {
        let untold = holding.info.guards.is_some() && other.guards.is_none();
        let why = match holding.info.check_beside(other) {
            Err(why) => why.to_string(),
            Ok(()) if untold => format!(
                "the server {} at {}, of version {}, does not tell what it asks of those who call: it has \
                 to ask the same as this one",
                other.name, other.address, other.version
            ),
            Ok(()) => continue,
        };
        if warned.insert(one(other)) {
            tracing::warn!("{why}");
        }
    }
}
