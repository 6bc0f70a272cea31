//! The small store of values for other parts.

use super::calls::proto::*;
use super::shared::Shared;
use super::transactions::{at, delete, one, put, ranges, read};
use crate::{Error, PutIf, StoredValue, VALUE_MAX, VALUES_MAX};

/// Values of one page: the longest of them fill half of the longest answer.
const PAGE: i64 = 128;

pub(super) async fn get(shared: &Shared, name: &str) -> Result<Option<StoredValue>, Error> {
    let found = shared.calls.range(one(&shared.keys.value(name))).await?.kvs.pop();
    found.map(|it| value(shared, it)).transpose()
}

pub(super) async fn list(shared: &Shared, prefix: &str) -> Result<Vec<StoredValue>, Error> {
    let mut key = shared.keys.value(prefix).into_bytes();
    // Names are ASCII, so this is above all that begin so.
    let range_end = [key.as_slice(), &[0xff]].concat();
    let mut found = Vec::new();
    let mut revision = 0;
    loop {
        let ask = RangeRequest { key, range_end: range_end.clone(), limit: PAGE, revision };
        let page = shared.calls.range(ask).await?;
        if revision == 0 {
            revision = page.header.map_or(0, |it| it.revision);
        }
        let last = page.kvs.last().map(|it| [it.key.as_slice(), &[0]].concat());
        for it in page.kvs {
            found.push(value(shared, it)?);
        }
        if found.len() > VALUES_MAX {
            let why = format!("more than {VALUES_MAX} values begin with it");
            return Err(Error::Invalid { what: "prefix", why });
        }
        match last {
            Some(last) if page.more => key = last,
            _ => return Ok(found),
        }
    }
}

/// Writes or removes a value. The revision of that, and whether something was removed.
pub(super) async fn change(
    shared: &Shared,
    name: &str,
    bytes: Option<Vec<u8>>,
    when: PutIf,
) -> Result<(u64, bool), Error> {
    let key = shared.keys.value(name);
    let compare = match when {
        PutIf::Any => Vec::new(),
        PutIf::Absent => vec![at(&key, 0)],
        PutIf::At(0) => {
            let why = "0 is no revision; `PutIf::Absent` is meant".into();
            return Err(Error::Invalid { what: "revision", why });
        }
        PutIf::At(revision) => vec![at(&key, i64::try_from(revision).unwrap_or(i64::MAX))],
    };
    let op = bytes.map_or_else(|| delete(&key), |bytes| put(&key, bytes, 0));
    let ask = TxnRequest { compare, success: vec![op], failure: vec![read(&key)] };
    let answer = shared.calls.transact(ask).await?;
    if !answer.succeeded {
        let there = ranges(answer).next().flatten();
        let revision = there.map_or(0, |it| it.mod_revision);
        let revision = u64::try_from(revision).unwrap_or(0);
        return Err(Error::Conflict { name: name.into(), revision });
    }
    let revision = answer.header.map_or(0, |it| it.revision);
    let removed = answer.responses.iter().any(|it| {
        matches!(&it.response, Some(response_op::Response::ResponseDeleteRange(it)) if it.deleted > 0)
    });
    Ok((u64::try_from(revision).unwrap_or(0), removed))
}

fn value(shared: &Shared, it: KeyValue) -> Result<StoredValue, Error> {
    let prefix = shared.keys.value("");
    let unreadable = |why: &str| {
        let key = crate::view::key_text(&it.key);
        Error::Unreadable { key, why: why.to_owned() }
    };
    let name = std::str::from_utf8(&it.key).ok().and_then(|key| key.strip_prefix(&prefix));
    let name = name.ok_or_else(|| unreadable("is no name of a value"))?.to_owned();
    if it.value.len() > VALUE_MAX {
        return Err(unreadable(&format!("has {} bytes, {VALUE_MAX} are the most", it.value.len())));
    }
    let revision = u64::try_from(it.mod_revision).unwrap_or(0);
    Ok(StoredValue { name, bytes: it.value, revision })
}
