//! Feeds the view: a list, then a watch from there on.
//!
//! Whatever ends a watch (a connection, a compaction, another server's turn, etcd itself) is followed
//! by a new list. A watch that went on from an old revision would wait for ever in an etcd whose
//! revisions have begun anew.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::calls::proto::*;
use super::shared::Shared;
use crate::Error;
use crate::view::KeyCell;

/// Keys of one page. With the longest of records a page is far below the longest answer.
const PAGE: i64 = 500;
/// How long after the end of a watch it is tried again: at first, and at most.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Runs until the runtime ends. A list that was just read has this revision.
pub(super) async fn watch(shared: Arc<Shared>, mut listed: Option<i64>) {
    let mut pause = PAUSE;
    loop {
        let begun = shared.clock.now();
        let Err(why) = follow(&shared, listed.take()).await;
        let now = shared.clock.now();
        shared.view.stale(now);
        pause = if now - begun > PAUSE_MAX { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
        tracing::debug!(error = %why, "the watch has ended");
        tokio::time::sleep(pause).await;
    }
}

async fn follow(shared: &Shared, listed: Option<i64>) -> Result<Infallible, Error> {
    let mut turns = shared.calls.turns();
    turns.borrow_and_update();
    let listed = match listed {
        Some(listed) => listed,
        None => list(shared).await?,
    };
    let (key, range_end) = shared.keys.watched();
    let create = WatchCreateRequest {
        key: key.into(),
        range_end: range_end.into(),
        start_revision: listed + 1,
    };
    let mut changes = shared.calls.watch(create).await?;
    let ended = |why: String| Error::Unreachable { urls: shared.calls.urls(), why };
    loop {
        let change = tokio::select! {
            _ = turns.changed() => return Err(ended("another connection is used".into())),
            change = changes.message() => change,
        };
        let change = change.map_err(|e| ended(super::calls::short(e.message())))?;
        let change = change.ok_or_else(|| ended("etcd has ended it".into()))?;
        if change.canceled {
            let revision = change.compact_revision;
            let why = super::calls::short(&change.cancel_reason);
            return Err(ended(format!("cancelled, compacted at {revision}: {why}")));
        }
        for event in change.events {
            let is_put = event.r#type() == event::EventType::Put;
            if let Some(it) = event.kv {
                shared.view.apply(cell(it, is_put));
            }
        }
    }
}

/// Reads all keys that the view holds, as of one revision, which is returned.
pub(super) async fn list(shared: &Shared) -> Result<i64, Error> {
    shared.tallies.lists.add();
    let (revision, cells) = read(shared, shared.keys.listed()).await?;
    shared.view.replace(cells);
    Ok(revision)
}

/// Reads which servers are there now, whatever the watch has told until now.
pub(super) async fn servers(shared: &Shared) -> Result<(), Error> {
    let (_, cells) = read(shared, shared.keys.servers()).await?;
    cells.into_iter().for_each(|cell| shared.view.apply(cell));
    Ok(())
}

/// Reads the keys of a range, as of one revision.
async fn read(
    shared: &Shared,
    (mut key, range_end): (String, String),
) -> Result<(i64, Vec<KeyCell>), Error> {
    let mut revision = 0;
    let mut cells = Vec::new();
    loop {
        let ask = RangeRequest {
            key: key.into(),
            range_end: range_end.clone().into(),
            limit: PAGE,
            revision,
        };
        let page = shared.calls.range(ask).await?;
        if revision == 0 {
            revision = page.header.map_or(0, |it| it.revision);
        }
        let last = page.kvs.last().map(|it| it.key.clone());
        cells.extend(page.kvs.into_iter().map(|it| cell(it, true)));
        match last {
            Some(mut last) if page.more && cells.len() < CELLS_MAX => {
                last.push(0);
                key = String::from_utf8(last).map_err(|_| {
                    let key = shared.keys.listed().0;
                    Error::Unreadable { key, why: "a key below it is no text".into() }
                })?;
            }
            _ => break,
        }
    }
    Ok((revision, cells))
}

/// More keys than a view holds are not read.
const CELLS_MAX: usize = 3 * crate::SHARDS_MAX;

fn cell(it: KeyValue, is_there: bool) -> KeyCell {
    let value = is_there.then_some(it.value);
    KeyCell { key: it.key, value, lease: it.lease, revision: it.mod_revision }
}
