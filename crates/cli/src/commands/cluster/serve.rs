//! `pipeann cluster serve`: one server of a cluster.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_cluster::placement::Server;
use pipeann_cluster::relay::{ServerHost, ServerSettings};
use pipeann_cluster::transport::tcp::{self, Identity, Limits, Settings};
use pipeann_cluster::walker::{IndexWalker, WalkerOptions};
use pipeann_cluster::wire::PeerId;
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::pool::{Discipline, PoolOptions};
use pipeann_engine::types::{NodeId, RowId};
use pipeann_server::interrupt;
use pipeann_server::joining::Joining;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::figures;
use super::search::drawn;
use crate::columns::ColumnArgs;
use crate::opening::IndexArgs;
use crate::table::print_line;

/// Longest that a query stays at a server, whatever its asker says.
const LONGEST: Duration = Duration::from_secs(60);
/// How soon it is noticed that the server ends before it met all others.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Serve the partitions that the topology gives to one server
///
/// The directory has to hold the codes of all partitions, and the pages of those served. A search
/// that needs others goes on at the server that has them.
#[derive(Debug, Args)]
pub(crate) struct ClusterServeArgs {
    #[command(flatten)]
    joining: Joining,
    /// Which server of the topology this is
    #[arg(long, value_name = "NUMBER")]
    server: u32,
    #[command(flatten)]
    index: IndexArgs,
    /// Serve the pages of all partitions, not only of this server's: its own are those for whose sake
    /// queries begin here (`search --mode replicas --by region`)
    #[arg(long)]
    replica: bool,
    /// Directory of an index of this server's rows alone, as `split` makes it, for searches that ask
    /// every server
    #[arg(long, value_name = "DIR")]
    separate: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Memory for the index: floor (no pages stay in memory), all, or bytes as 512MiB or 1GiB
    #[arg(long, value_name = "LIMIT", default_value = "floor")]
    memory_limit: MemoryLimit,
    /// Codes that are ranked in the time of one page read, which decides whether a search among few
    /// rows ranks them all or walks the graph [default: learnt from searches]
    #[arg(long, value_name = "N")]
    codes_per_read: Option<u32>,
    /// Threads that search; 0 for one on each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Searches in flight on each thread, 1 to 64
    #[arg(long, value_name = "SEARCHES", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    in_flight: u16,
    /// When a thread takes in the next search: one (when the one before has ended, whatever
    /// --in-flight says), batches (as many as wait, when all of the last ones have ended) or always
    /// (as soon as one has ended)
    #[arg(long, value_name = "DISCIPLINE", default_value = "always")]
    discipline: Discipline,
    /// Queries of each client that may be under way at once
    #[arg(long, value_name = "QUERIES", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..))]
    slots: u32,
    /// Print a line of figures every so many seconds, and one at the end: queries and states, slots in
    /// use, what waits, and how long states are
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    figures: Option<u64>,
    /// End when the standard input does, for whoever starts this
    #[arg(long, hide = true)]
    until_eof: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ClusterServeArgs) -> Result<()> {
    interrupt::flag()?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals cannot be waited for")?;
    let placement = args.joining.placement()?;
    let server = placement.server(args.server)?.clone();
    let tls = args.joining.tls()?;
    if let Some(tls) = &tls {
        let named =
            || format!("--tls-cert is not of `{}`, as the topology has it", server.tls_name);
        tls.check_name(&server.tls_name).with_context(named)?;
    }
    // Before the index is read: whoever is in the way should not cost that.
    let listener = tcp::listen(server.address)?;
    let own = Some(server.partitions.as_slice().into());
    let (own, home) = if args.replica { (None, own) } else { (own, None) };
    let codes_per_read = args.codes_per_read;
    let reading = args.index.reading.options(args.memory_limit)?;
    let options = OpenOptions { own, home, codes_per_read, ..reading };
    let index = Index::open(&args.index.index, &options)
        .with_context(|| format!("opening {}", args.index.index.display()))?;
    let partitions = index.partitions();
    ensure!(
        partitions == placement.partitions() as usize,
        "the index has {} partitions, the topology {}",
        partitions,
        placement.partitions()
    );
    index.wait_resident()?;
    let separate = args.separate.as_ref().map(|dir| open_separate(args, dir, (&index, &server)));
    let separate = separate.transpose()?;
    let origin = index.origin();
    let others = placement.servers().len() - 1;
    let network = Settings {
        me: PeerId::Server(args.server),
        placement: placement.clone(),
        identity: Identity {
            index: origin.uuid,
            generation: origin.generation,
            codebook: origin.codebook,
        },
        slots: args.slots,
        tls,
        limits: Limits::default(),
        seed: drawn(),
    };
    let settings = ServerSettings {
        number: args.server,
        placement: Arc::new(placement),
        slots: args.slots,
        longest_us: u64::try_from(LONGEST.as_micros()).unwrap_or(u64::MAX),
    };
    // As much again may have been given up and not have ended.
    let waiting = (args.slots as usize).saturating_mul(2 * network.limits.connections);
    let sizes = PoolOptions {
        threads: args.threads,
        in_flight: args.in_flight.into(),
        waiting,
        discipline: args.discipline,
    };
    let index = Arc::new(index);
    let filters = Some(args.columns.over(&index)?);
    let separate_filters = separate
        .as_ref()
        .map(|separate| args.columns.over_some(separate, index.rows()))
        .transpose()?;
    let options =
        WalkerOptions { separate, separate_filters, filters, pool: sizes, longest: LONGEST };
    let host = ServerHost::open::<anyhow::Error>(network, listener, settings, |results| {
        Ok(IndexWalker::start(index, options, results)?)
    })?;
    print_line(&format!(
        "server {} listens on {} and has {} of {} partitions",
        args.server,
        server.address,
        if args.replica { partitions } else { server.partitions.len() },
        partitions
    ))?;
    until_ended(args, &host, others, &mut signals);
    drop(host);
    Ok(())
}

/// Waits for whatever is to end the server, and tells meanwhile when it has met the others.
fn until_ended(
    args: &ClusterServeArgs,
    host: &ServerHost<IndexWalker>,
    others: usize,
    signals: &mut Signals,
) {
    let ending = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| tell_when_met(host, args.server, others, ending));
        let every = args.figures.map(Duration::from_secs);
        let telling = every.map(|every| {
            scope.spawn(move || figures::tell_every(every, args.server, host, ending))
        });
        if args.until_eof {
            let mut nothing = [0];
            while std::io::stdin().read(&mut nothing).is_ok_and(|read| read > 0) {}
        } else {
            signals.forever().next();
        }
        ending.store(true, Ordering::Relaxed);
        if let Some(telling) = telling {
            telling.thread().unpark();
        }
    });
}

/// The index of this server's rows alone, beside the one that all servers have together.
fn open_separate(
    args: &ClusterServeArgs,
    dir: &Path,
    (index, server): (&Index, &Server),
) -> Result<Arc<Index>> {
    let codes_per_read = args.codes_per_read;
    let options = OpenOptions { codes_per_read, ..args.index.reading.options(args.memory_limit)? };
    let separate =
        Index::open(dir, &options).with_context(|| format!("opening {}", dir.display()))?;
    check_separate(&separate, index, server)?;
    separate.wait_resident()?;
    Ok(Arc::new(separate))
}

/// Refuses an index that has not the rows of a server's partitions alone: answers would have some rows
/// twice and lack others.
pub(super) fn check_separate(separate: &Index, index: &Index, server: &Server) -> Result<()> {
    let path = separate.path().display();
    let shape = |index: &Index| (index.dim(), index.layout().vector_type(), index.metric());
    ensure!(shape(separate) == shape(index), "{path} holds other vectors than the index");
    let of_server = |node| {
        let partition = index.partition_of(index.layout().page_of(node));
        server.partitions.iter().any(|own| *own as usize == partition)
    };
    let own = index.rows_here()?.into_iter().filter(|(_, node)| of_server(*node));
    let (own, alone) = (sorted(own), sorted(separate.rows_here()?));
    ensure!(
        own == alone,
        "the {} rows of {path} are not the {} that server {} has of the index; `cluster split` \
         makes an index of those",
        alone.len(),
        own.len(),
        server.number
    );
    Ok(())
}

/// The rows' own numbers, ascending.
fn sorted(rows: impl IntoIterator<Item = (RowId, NodeId)>) -> Vec<RowId> {
    let mut rows: Vec<_> = rows.into_iter().map(|(row, _)| row).collect();
    rows.sort_unstable();
    rows
}

/// Prints a line once all others are connected: before that a query that goes to one of them is begun
/// again by its client.
fn tell_when_met(host: &ServerHost<IndexWalker>, server: u32, others: usize, ending: &AtomicBool) {
    while !ending.load(Ordering::Relaxed) {
        if host.wait_up(others, LOOK_AGAIN) {
            // Whoever reads it may have gone, and the server serves on.
            let _ = print_line(&format!("server {server} is connected to the {others} others"));
            return;
        }
    }
}
