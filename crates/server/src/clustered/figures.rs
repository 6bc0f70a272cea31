//! What a server of several tells of itself: figures for Prometheus, and an object for `cluster status`.

use std::time::{Duration, Instant};

use pipeann_milvus::{MetricFamily, MetricValue};
use pipeann_replica::{
    ClusterMembership, CommitCounts, FORMATS, Replica, ReplicaStatus, SizeCounts,
};
use serde_json::{Value, json};

/// Whose figures they are.
pub(super) struct FiguredServer<'a> {
    pub(super) replica: &'a Replica,
    /// Without it this server is the only one.
    pub(super) members: Option<&'a ClusterMembership>,
    /// When it began to answer.
    pub(super) began: Instant,
}

/// Low bits of a hybrid timestamp, which count within a millisecond.
const COUNT_BITS: u32 = 18;

fn gauge(name: &'static str, help: &'static str, value: f64) -> MetricFamily {
    MetricFamily::one(name, help, MetricValue::Gauge(value))
}

fn counter(name: &'static str, help: &'static str, value: u64) -> MetricFamily {
    MetricFamily::one(name, help, MetricValue::Counter(value))
}

/// The bounds of a histogram: from which power of two to which, and of what.
struct PowerBounds {
    least: usize,
    most: usize,
    unit: f64,
}

/// A histogram by powers of two.
fn histogram(
    name: &'static str,
    help: &'static str,
    sizes: &SizeCounts,
    PowerBounds { least, most, unit }: PowerBounds,
) -> MetricFamily {
    let bounds = sizes.buckets(least, most).into_iter();
    let buckets = bounds.map(|(bound, count)| (bound * unit, count)).collect();
    let sum = sizes.sum as f64 * unit;
    MetricFamily::one(name, help, MetricValue::Histogram { sum, buckets })
}

/// The figures. `docs/guide/metrics.md` lists them.
pub(super) fn families(of: &FiguredServer<'_>) -> Vec<MetricFamily> {
    let mut all = log(of);
    all.extend(store(of));
    all.extend(etcd(of));
    all
}

fn log(of: &FiguredServer<'_>) -> Vec<MetricFamily> {
    let replica = of.replica;
    let (status, commits) = (replica.status(), replica.commits());
    let term = status.position.map_or(0, |at| at.term);
    let yes = |is: bool| f64::from(u8::from(is));
    let mut all = vec![
        MetricFamily::by(
            "pipeann_cluster_info",
            "1, with the name of the cluster that this server is one of",
            "cluster",
            vec![(replica.store().cluster().to_owned(), MetricValue::Gauge(1.0))],
        ),
        gauge("pipeann_cluster_leads", "Whether this server leads", yes(status.leads.is_some())),
        gauge(
            "pipeann_cluster_ending",
            "Whether this server hands its lead over and is about to end",
            yes(replica.is_closing()),
        ),
        gauge(
            "pipeann_cluster_term",
            "Term of the newest object of the log that is applied here",
            term as f64,
        ),
        gauge(
            "pipeann_cluster_log_applied",
            "Number of the newest object of the log that is applied here",
            applied(&status, &commits) as f64,
        ),
        gauge(
            "pipeann_cluster_log_written",
            "Number of the newest object of the log that this server has put; 0 before the first",
            commits.written as f64,
        ),
        gauge(
            "pipeann_cluster_log_applied_time_seconds",
            "When that object was put, by the leader's clock, in seconds since 1970",
            (status.timestamp >> COUNT_BITS) as f64 / 1e3,
        ),
        gauge(
            "pipeann_cluster_log_trouble",
            "Whether something keeps this server from reading or writing the log",
            yes(status.trouble.is_some()),
        ),
    ];
    if let Some(age) = replica.age() {
        let help = "How old the data here may be: all that was acknowledged before is applied";
        all.push(gauge("pipeann_cluster_log_age_seconds", help, age.as_secs_f64()));
    }
    all.extend([
        histogram(
            "pipeann_cluster_commit_changes",
            "Changes that shared an object of the log",
            &commits.changes,
            PowerBounds { least: 0, most: 16, unit: 1.0 },
        ),
        histogram(
            "pipeann_cluster_commit_bytes",
            "Bytes of changes that shared an object of the log",
            &commits.bytes,
            PowerBounds { least: 6, most: 25, unit: 1.0 },
        ),
        histogram(
            "pipeann_cluster_commit_seconds",
            "Time in which an object of the log was put",
            &commits.micros,
            PowerBounds { least: 6, most: 25, unit: 1e-6 },
        ),
        counter(
            "pipeann_cluster_commit_failures",
            "Objects of the log that were not put, or of which that is not known",
            commits.failed,
        ),
    ]);
    all
}

/// The number of the newest object that is applied here. A leader notes that now and then, and has what
/// it has put.
fn applied(status: &ReplicaStatus, commits: &CommitCounts) -> u64 {
    let noted = status.position.map_or(0, |at| at.number);
    if status.leads.is_some() { noted.max(commits.written) } else { noted }
}

fn store(of: &FiguredServer<'_>) -> Vec<MetricFamily> {
    let asked = of.replica.store().requests();
    let named = |all: &[(&str, u64)]| -> Vec<_> {
        all.iter().map(|(name, count)| ((*name).to_owned(), MetricValue::Counter(*count))).collect()
    };
    let requests = [
        ("put", asked.puts),
        ("get", asked.gets),
        ("list", asked.lists),
        ("delete", asked.deletes),
    ];
    let bytes = [("put", asked.bytes_put), ("get", asked.bytes_got)];
    vec![
        MetricFamily::by(
            "pipeann_store_requests",
            "What the store was asked for, each try counted",
            "operation",
            named(&requests),
        ),
        MetricFamily::by(
            "pipeann_store_bytes",
            "Bytes of objects that went to the store and came from it",
            "operation",
            named(&bytes),
        ),
        counter("pipeann_store_errors", "Requests that the store did not answer", asked.errors),
    ]
}

fn etcd(of: &FiguredServer<'_>) -> Vec<MetricFamily> {
    let Some(members) = of.members else { return Vec::new() };
    let traffic = members.traffic();
    let left = members.lease_left().as_secs_f64();
    vec![
        gauge(
            "pipeann_lease_left_seconds",
            "For how long this server's lease certainly runs",
            left,
        ),
        counter("pipeann_lease_renewals", "Renewals of the lease that were sent", traffic.renewals),
        counter(
            "pipeann_lease_losses",
            "Leases that ended before this server ended them",
            traffic.lease_losses,
        ),
        counter("pipeann_elections_won", "Elections that this server won", traffic.elections),
        counter("pipeann_etcd_writes", "Transactions, grants and revocations", traffic.writes),
        counter("pipeann_etcd_reads", "Ranges that were read", traffic.reads),
        counter(
            "pipeann_etcd_refused_records",
            "Keys whose content was refused",
            traffic.refused_records,
        ),
    ]
}

/// What `cluster status` shows of a server.
pub(super) fn figures(of: &FiguredServer<'_>) -> Value {
    let replica = of.replica;
    let (status, commits, asked) =
        (replica.status(), replica.commits(), replica.store().requests());
    json!({
        "server": of.members.map(|members| members.name()),
        "id": replica.server().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "formats": FORMATS,
        "leads": status.leads.is_some(),
        "ending": replica.is_closing(),
        "term": status.position.map_or(0, |at| at.term),
        "applied": applied(&status, &commits),
        "applied_ms": status.timestamp >> COUNT_BITS,
        "written": commits.written,
        "age_s": replica.age().map(|age| age.as_secs_f64()),
        "trouble": status.trouble,
        "lease_left_s": of.members.map(|members| members.lease_left().as_secs_f64()),
        "store_requests": asked.all(),
        "store_errors": asked.errors,
        "up_s": Duration::as_secs(&of.began.elapsed()),
    })
}
