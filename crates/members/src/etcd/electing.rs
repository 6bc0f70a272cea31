//! Campaigns for what a server stands for, gives up what it does not, and hands over.
//!
//! An election is one transaction: the key of the leader is as it was seen, the newest term is too,
//! the server's own key stands, and nothing is settling. So it fails where anything has changed, and
//! whoever wins has a term above all before. Elections of many shards run beside each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use super::calls::proto::TxnRequest;
use super::holding::Holding;
use super::transactions::{at, delete, put, ranges, read};
use crate::election::next_term;
use crate::notices::Noticed;
use crate::records::{KeyRecord, NewestTerm, ServerSeat, Throne, Unreadable};
use crate::view::{KeyCell, Known};
use crate::{Error, LeadingServer};

/// Elections that are under way at once.
const FLIGHTS_MAX: usize = 16;
/// How soon an election that has failed is held again, if there is still cause.
const RETRY: Duration = Duration::from_millis(150);
/// The longest sleep; whatever is due has its own.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Who is to lead.
struct Heir {
    server: Uuid,
    address: String,
    /// That it has joined under.
    lease: i64,
    /// The version of its own key.
    seated: i64,
}

/// What there is to do for a shard.
enum ElectionCause {
    /// To lead it, where its key is at this version; after so long a wait for others.
    Take { revision: i64, patience: Duration },
    /// To give it up.
    Leave { revision: i64 },
}

/// Runs until it is aborted.
pub(super) async fn elect(holding: Arc<Holding>) {
    let stir = Arc::clone(&holding.stir);
    let wake = Box::new(move || stir.notify_one());
    let notices = holding.shared.view.subscribers.subscribe(Some(wake), None);
    let mut due: BTreeMap<u64, Duration> = BTreeMap::new();
    let mut flying = BTreeSet::new();
    let mut flights = JoinSet::new();
    holding.stir_all();
    loop {
        let touched =
            touched(&holding, &std::iter::from_fn(|| notices.try_next()).collect::<Vec<_>>());
        let now = holding.shared.clock.now();
        for shard in touched {
            match cause(&holding, shard) {
                None => {
                    due.remove(&shard);
                }
                Some(ElectionCause::Take { patience, .. }) => {
                    due.entry(shard).or_insert(now + patience);
                }
                Some(ElectionCause::Leave { .. }) => {
                    due.insert(shard, now);
                }
            }
        }
        let ready: Vec<u64> = due
            .iter()
            .filter(|(shard, at)| **at <= now && !flying.contains(*shard))
            .map(|(shard, _)| *shard)
            .take(FLIGHTS_MAX - flights.len())
            .collect();
        for shard in ready {
            due.remove(&shard);
            flying.insert(shard);
            let holding = Arc::clone(&holding);
            flights.spawn(async move { (shard, act(&holding, shard).await) });
        }
        let next =
            due.iter().filter(|(shard, _)| !flying.contains(*shard)).map(|(_, at)| *at).min();
        let has_room = flights.len() < FLIGHTS_MAX;
        let wait = next.filter(|_| has_room).map_or(SLEEP_MAX, |at| at.saturating_sub(now));
        tokio::select! {
            () = holding.stir.notified() => {}
            () = sleep(wait) => {}
            Some(Ok((shard, ended))) = flights.join_next() => {
                flying.remove(&shard);
                if let Err(e) = ended {
                    tracing::debug!(shard, error = %e, "an election was not held");
                }
                if cause(&holding, shard).is_some() {
                    due.insert(shard, holding.shared.clock.now() + RETRY);
                }
            }
        }
    }
}

/// The shards to look at.
fn touched(holding: &Holding, notices: &[Noticed]) -> BTreeSet<u64> {
    let (mut shards, mut all) = {
        let mut state = holding.state();
        (std::mem::take(&mut state.stirred), std::mem::take(&mut state.all_stirred))
    };
    for notice in notices {
        match notice {
            Noticed::Everything | Noticed::Servers => all = true,
            Noticed::Leader(shard) => {
                shards.insert(*shard);
            }
            Noticed::Value(_) => {}
        }
    }
    if all {
        shards.extend(holding.state().wants.keys());
        let mine = holding.shared.view.leaders();
        shards.extend(mine.iter().filter(|it| it.server == holding.info.id).map(|it| it.shard));
    }
    shards
}

fn cause(holding: &Holding, shard: u64) -> Option<ElectionCause> {
    let view = &holding.shared.view;
    let (known, me, now) = (view.throne(shard), holding.info.id, holding.shared.clock.now());
    let state = holding.state();
    let lease = state.tenure.filter(|it| !it.countdown.left(now).is_zero())?.lease;
    let wanted = state.wants.get(&shard).copied();
    let is_mine = known.as_ref().is_some_and(|it| Holding::is_mine(&state, me, shard, it));
    drop(state);
    let revision = known.as_ref().map_or(0, |it| it.revision);
    let take = |patience| wanted.is_some().then_some(ElectionCause::Take { revision, patience });
    match known.as_ref().map(|it| (&it.what, it.lease)) {
        _ if view.settling() => None,
        None | Some((Err(Unreadable::Garbage(_)), _)) => take(view.patience(shard, me)),
        // Led by a version that this one does not understand.
        Some((Err(Unreadable::Newer(_)), _)) => None,
        Some((Ok(throne), of)) if throne.server == me && of == lease => match wanted {
            None => Some(ElectionCause::Leave { revision }),
            Some(at_least) if !is_mine || throne.term <= at_least => take(Duration::ZERO),
            Some(_) => None,
        },
        // By another, or by this server's lease of before, which is about to end.
        Some((Ok(_), _)) => None,
    }
}

async fn act(holding: &Holding, shard: u64) -> Result<(), Error> {
    match cause(holding, shard) {
        None => Ok(()),
        Some(ElectionCause::Leave { revision }) => step_down(holding, shard, revision).await,
        Some(ElectionCause::Take { revision, .. }) => take(holding, shard, revision).await,
    }
}

/// Which version of the newest term is known, and the term after it.
fn following(holding: &Holding, shard: u64, at_least: u64) -> Result<(i64, u64), Error> {
    let view = &holding.shared.view;
    let known = view.term(shard);
    let revision = known.as_ref().map_or(0, |it| it.revision);
    let stored = match known.map(|it| it.what) {
        Some(Ok(NewestTerm(term))) => term,
        Some(Err(Unreadable::Newer(format))) => {
            return Err(Error::Newer { key: holding.shared.keys.term(shard), format });
        }
        // The log knows too, and so does whoever has seen it.
        Some(Err(Unreadable::Garbage(_))) | None => 0,
    };
    let term = next_term(stored, view.seen(shard), at_least).ok_or(Error::TermsEnd(shard))?;
    Ok((revision, term))
}

async fn take(holding: &Holding, shard: u64, revision: i64) -> Result<(), Error> {
    let (tenure, at_least) = {
        let state = holding.state();
        (state.tenure, state.wants.get(&shard).copied())
    };
    let (Some(tenure), Some(at_least)) = (tenure, at_least) else { return Ok(()) };
    let heir = Heir {
        server: holding.info.id,
        address: holding.info.address.clone(),
        lease: tenure.lease,
        seated: tenure.revision,
    };
    if enthrone(holding, shard, revision, heir, at_least).await?.is_some() {
        holding.won(shard);
        // It may have been resigned while the answer was under way.
        holding.stir_if_unwanted(shard);
    }
    Ok(())
}

/// Names a server the leader under a new term; nothing where something has changed meanwhile.
async fn enthrone(
    holding: &Holding,
    shard: u64,
    revision: i64,
    heir: Heir,
    at_least: u64,
) -> Result<Option<LeadingServer>, Error> {
    let Heir { server, address, lease, seated } = heir;
    let shared = &holding.shared;
    let (term_revision, term) = following(holding, shard, at_least)?;
    let (leader_key, term_key) = (shared.keys.leader(shard), shared.keys.term(shard));
    let throne = Throne { server, address, term };
    let (leads, newest) = (throne.encode(), NewestTerm(term).encode());
    let ask = TxnRequest {
        compare: vec![
            at(&leader_key, revision),
            at(&term_key, term_revision),
            at(&shared.keys.server(server), seated),
            at(&shared.keys.settling(), 0),
        ],
        success: vec![put(&leader_key, leads.clone(), lease), put(&term_key, newest.clone(), 0)],
        failure: vec![read(&leader_key), read(&term_key)],
    };
    let answer = shared.calls.transact(ask).await?;
    if !answer.succeeded {
        for it in ranges(answer).flatten() {
            let (value, revision) = (Some(it.value), it.mod_revision);
            shared.view.apply(KeyCell { key: it.key, value, lease: it.lease, revision });
        }
        return Ok(None);
    }
    let revision = answer.header.map_or(0, |it| it.revision);
    let cell = |key: String, value, lease| KeyCell {
        key: key.into(),
        value: Some(value),
        lease,
        revision,
    };
    shared.view.apply(cell(term_key, newest, 0));
    shared.view.apply(cell(leader_key, leads, lease));
    Ok(Some(throne.leader(shard)))
}

/// Removes a leader's key that is at this version.
pub(super) async fn step_down(holding: &Holding, shard: u64, revision: i64) -> Result<(), Error> {
    let key = holding.shared.keys.leader(shard);
    let compare = vec![at(&key, revision)];
    let ask = TxnRequest { compare, success: vec![delete(&key)], failure: Vec::new() };
    // Where another version is there, it was removed already.
    holding.shared.calls.transact(ask).await.map(|_| ())
}

/// Names another live server the leader.
pub(super) async fn hand_over(
    holding: &Holding,
    shard: u64,
    revision: i64,
    heir: Known<ServerSeat>,
    at_least: u64,
) -> Result<LeadingServer, Error> {
    let Ok(seat) = heir.what else {
        return Err(Error::Refused("the other server's record cannot be read".into()));
    };
    let to = seat.info.id;
    let heir =
        Heir { server: to, address: seat.info.address, lease: heir.lease, seated: heir.revision };
    let handed = enthrone(holding, shard, revision, heir, at_least).await;
    match handed {
        // Its lease has ended between the look and the transaction.
        Err(Error::Refused(why)) if why.contains("lease not found") => Err(Error::NoServer(to)),
        handed => handed?.ok_or(Error::NoServer(to)),
    }
}
