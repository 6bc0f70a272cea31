//! `pipeann cluster restore`: a database as it was at a moment, from the log in a store.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use clap::Args;
use jiff::Timestamp;
use pipeann_db::catalog::UnixMs;
use pipeann_db::database::DatabaseOptions;
use pipeann_replica::{RestoreError, RestoredLog, restore_into_store, restore_to_directory};
use pipeann_server::opening::now;
use pipeann_server::privacy;
use pipeann_store::ClusterStore;
use serde_json::json;

use crate::table::{print_json, print_line};

/// How long the store is asked again where it does not answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Make a database as it was at a moment, from the log of a cluster (`pipeann serve --cluster`): in a
/// directory for one server, or in a new store for another cluster
#[derive(Debug, Args)]
pub(crate) struct ClusterRestoreArgs {
    /// The name of the cluster that is read; it may run meanwhile
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Its store: file:///DIRECTORY or s3://BUCKET/PREFIX
    #[arg(long, value_name = "URL")]
    store: String,
    /// The moment, by the leader's clock: as 2026-11-25T14:05:00.250Z or with another offset, or `now`.
    /// What was acknowledged before is in, what began after it is not
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    at: AskedMoment,
    /// The directory to make, for `pipeann serve --data-dir`
    #[arg(long, value_name = "DIR", required_unless_present = "into")]
    to: Option<PathBuf>,
    /// A store that holds no log yet, for servers of a cluster of the name --as
    #[arg(long, value_name = "URL", requires = "named", conflicts_with = "to")]
    into: Option<String>,
    /// The name of the new cluster
    #[arg(id = "named", long = "as", value_name = "NAME", requires = "into")]
    named: Option<String>,
    /// A directory to work in, with room for all files, where the log of the cluster was cut; it is made,
    /// and removed again
    #[arg(long, value_name = "DIR", requires = "into")]
    scratch: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A moment that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedMoment {
    Now,
    At(UnixMs),
}

fn parse_moment(text: &str) -> Result<AskedMoment, String> {
    if text == "now" {
        return Ok(AskedMoment::Now);
    }
    let moment: Timestamp = text.parse().map_err(|_| {
        format!("`{text}` is no moment; as 2026-11-25T14:05:00Z, or with an offset as +01:00")
    })?;
    let ms = moment.as_millisecond();
    u64::try_from(ms)
        .map(|ms| AskedMoment::At(UnixMs(ms)))
        .map_err(|_| "that is before 1970".to_owned())
}

/// A moment as people read it.
fn shown(UnixMs(ms): UnixMs) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    moment.map_or_else(|| format!("{ms} ms"), |moment| moment.to_string())
}

/// Why a moment was not restored; moments as `--at` takes them.
fn failed(at: UnixMs, error: RestoreError) -> Error {
    let earliest = match &error {
        RestoreError::NotCovered { from: Some(from), .. } if *from > at => Some(shown(*from)),
        _ => None,
    };
    let told = match earliest {
        Some(earliest) => Error::msg(format!("{error}; the earliest moment is {earliest}")),
        None => Error::new(error),
    };
    told.context(format!("restoring {}", shown(at)))
}

/// Runs `pipeann cluster restore`.
pub(crate) fn restore(args: &ClusterRestoreArgs) -> Result<()> {
    privacy::begin();
    let store = ClusterStore::open_to_read(&args.store, &args.cluster, PATIENCE);
    let store = store.with_context(|| format!("opening the store at {}", args.store))?;
    let now_ms = now();
    let at = match args.at {
        AskedMoment::Now => now_ms,
        AskedMoment::At(at) => at,
    };
    let failed = |error| failed(at, error);
    let (restored, place) = match (&args.to, &args.into, &args.named) {
        (None, Some(url), Some(name)) => {
            let into = ClusterStore::open(url, name);
            let into = into.with_context(|| format!("opening the store at {url}"))?;
            let scratch = args.scratch.as_deref().map(|dir| (dir, DatabaseOptions::new(now)));
            let restored = restore_into_store(&store, (at, now_ms), &into, scratch);
            (restored.map_err(failed)?, url.clone())
        }
        (Some(dir), ..) => {
            let options = DatabaseOptions::new(now);
            let restored = restore_to_directory(&store, (at, now_ms), dir, options);
            (restored.map_err(failed)?, dir.display().to_string())
        }
        (None, ..) => anyhow::bail!("--to DIR or --into URL is needed"),
    };
    let RestoredLog { objects, changes, position, written } = restored;
    if args.json {
        let number = position.map(|at| at.number);
        return print_json(&json!({
            "at_ms": at.0, "place": place, "objects": objects, "changes": changes,
            "number": number, "written_ms": written.0,
        }));
    }
    print_line(&format!(
        "{place}: {changes} changes of {objects} objects, the last one of {}",
        shown(written)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_an_offset_and_are_told_as_they_were_given() {
        let at = |ms| Ok(AskedMoment::At(UnixMs(ms)));
        assert_eq!(parse_moment("1970-01-01T00:00:01.5Z"), at(1500));
        assert_eq!(parse_moment("1970-01-01T01:00:00+01:00"), at(0));
        assert_eq!(parse_moment("now"), Ok(AskedMoment::Now));
        for bad in ["", "yesterday", "2026-11-25", "2026-11-25T14:00:00", "1969-01-01T00:00:00Z"] {
            parse_moment(bad).unwrap_err();
        }
        assert_eq!(shown(UnixMs(1500)), "1970-01-01T00:00:01.5Z");
    }

    #[test]
    fn the_earliest_moment_is_told_as_it_can_be_asked_for() {
        let refused = |at: u64, from: Option<u64>| {
            let (moment, from, why) = (UnixMs(at), from.map(UnixMs), "it is later".to_owned());
            let error = failed(moment, RestoreError::NotCovered { moment, from, why });
            error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
        };
        let said = refused(1_577_836_800_000, Some(1_795_891_366_995));
        assert_eq!(
            said,
            "restoring 2020-01-01T00:00:00Z: the store does not cover that moment: it is later; the \
             earliest moment is 2026-11-28T18:42:46.995Z"
        );
        let (_, earliest) = said.rsplit_once(' ').unwrap();
        assert_eq!(parse_moment(earliest), Ok(AskedMoment::At(UnixMs(1_795_891_366_995))));
        // It is another thing that it lacks.
        assert!(!refused(2000, Some(1000)).contains("earliest"));
        assert!(!refused(2000, None).contains("earliest"));
    }
}
