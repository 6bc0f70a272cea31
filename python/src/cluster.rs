//! `pipeann.cluster.Client`: searches of a graph that several servers hold.

use std::collections::VecDeque;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use numpy::IntoPyArray as _;
use numpy::ndarray::{Array1, Array2};
use pipeann_cluster::relay::{self, AskerSettings, Ended, Found, NoAnswer, Query};
use pipeann_cluster::transport::tcp::{Identity, Limits, Settings};
use pipeann_cluster::walker::{Asked, ReadPolicy, Spent};
use pipeann_cluster::wire::{FailureCode, Hits, Mode, PeerId};
use pipeann_engine::pool::FILTER_MAX;
use pipeann_engine::search::DistanceRange;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::database::PyFailure;
use crate::index::IdsAndDistances;
use crate::matrix::Matrix;

/// How long something waits between looks at signals.
const PART: Duration = Duration::from_millis(100);
/// How often a state may go from one server to another.
const HOPS: u16 = 1000;
/// Attempts at a query within its time.
const ATTEMPTS: u16 = 3;
/// Queries of all threads together that wait for room at the servers.
const WAITING: usize = 1 << 16;

/// See `pipeann.cluster.Client`. Thread-safe: threads may share it.
#[pyclass(frozen, module = "pipeann.cluster", name = "ClusterClient")]
pub(crate) struct PyClusterClient {
    /// None once it is closed.
    inner: Mutex<Option<Arc<relay::Client>>>,
    /// Partitions of the cluster.
    partitions: u32,
    /// Seconds for a query.
    timeout: f64,
    /// Until when servers that were just started may not have met yet.
    met: Option<Instant>,
}

fn seconds(name: &str, given: f64) -> PyResult<Duration> {
    let refuse = |why: String| PyValueError::new_err(format!("{name} {given}: {why}"));
    let given = Duration::try_from_secs_f64(given).map_err(|e| refuse(e.to_string()))?;
    if given.is_zero() { Err(refuse("there has to be some time".to_owned())) } else { Ok(given) }
}

/// Microseconds, as the wire has them.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// From a distance on, and nearer than another; either may be left out.
fn range((from, to): (Option<f32>, Option<f32>)) -> DistanceRange {
    DistanceRange { from: from.map_or(Unbounded, Included), to: to.map_or(Unbounded, Excluded) }
}

/// A mode by its name, and whether a search reads in rounds, one record of each page.
fn mode_of(name: &str) -> PyResult<(Mode, bool)> {
    match name {
        "relay" => Ok((Mode::Relay, false)),
        "baton" => Ok((Mode::Baton, true)),
        other => {
            let message = format!("unknown mode {other:?}: expected \"relay\" or \"baton\"");
            Err(PyFailure::input(message).into())
        }
    }
}

/// Whether a message holds a filter.
fn check_travels(filter: &str) -> PyResult<()> {
    let bytes = filter.len();
    if bytes > FILTER_MAX {
        let message = format!("a filter has {bytes} bytes, at most {FILTER_MAX} can travel");
        return Err(PyFailure::input(message).into());
    }
    Ok(())
}

fn failure(row: usize, why: NoAnswer) -> PyErr {
    let message = format!("query {row}: {why}");
    let failure = match why {
        NoAnswer::Failed { code: FailureCode::Refused, .. } => PyFailure::input(message),
        NoAnswer::Failed { .. } | NoAnswer::Deadline { .. } | NoAnswer::Crowded => {
            PyFailure::retry(message)
        }
    };
    failure.at(row).into()
}

#[pymethods]
impl PyClusterClient {
    /// Dials the servers of a topology, and waits until all are there, or where fewer will do for as
    /// long as it may.
    #[staticmethod]
    #[pyo3(signature = (topology, certificates, timeout, connect_timeout, all_servers))]
    fn open(
        py: Python<'_>,
        topology: PathBuf,
        certificates: Option<[PathBuf; 3]>,
        timeout: f64,
        connect_timeout: f64,
        all_servers: bool,
    ) -> PyResult<Self> {
        let (attempt, at_most) = (
            seconds("timeout", timeout)? / u32::from(ATTEMPTS),
            seconds("connect_timeout", connect_timeout)?,
        );
        let (placement, tls) = pipeann_server::joining::join(&topology, certificates.as_ref())
            .map_err(PyFailure::input)?;
        let (servers, partitions) = (placement.servers().len(), placement.partitions());
        // Told apart from other clients of the cluster.
        let seed = uuid::Uuid::new_v4().as_u64_pair().0;
        let me = PeerId::Client(seed);
        let limits = Limits::default();
        let identity = Identity::default();
        let network = Settings { me, placement, identity, slots: 0, tls, limits, seed };
        let attempt_us = micros(attempt);
        let settings = AskerSettings { me, attempt_us, attempts: ATTEMPTS, waiting: WAITING };
        let client = relay::Client::open(network, settings)
            .map_err(|error| PyFailure::retry(error.to_string()))?;
        let until = Instant::now().checked_add(at_most);
        loop {
            let left = until.map_or(PART, |until| until.saturating_duration_since(Instant::now()));
            let all = py.detach(|| client.wait_up(servers, left.min(PART)));
            let some = !all_servers && left.is_zero() && client.missing().len() < servers;
            if all || some {
                let inner = Mutex::new(Some(Arc::new(client)));
                return Ok(Self { inner, partitions, timeout, met: until });
            }
            py.check_signals()?;
            let in_vain =
                client.waits_in_vain() && (all_servers || client.missing().len() == servers);
            if left.is_zero() || in_vain {
                let how = match in_vain {
                    true => "cannot be asked".to_owned(),
                    false => format!("did not answer within {connect_timeout} s"),
                };
                let message = format!(
                    "of the {servers} servers of the topology these {how}: {}",
                    client.missing_in_words()
                );
                return Err(PyFailure::retry(message).into());
            }
        }
    }

    /// Searches a batch of queries; rows, distances and what each query took.
    #[pyo3(signature = (
        queries, k, list_length, mode, width, ahead, filter, within, partial, in_flight, timeout
    ))]
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python function")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        k: u32,
        list_length: u32,
        mode: &str,
        width: Option<u16>,
        ahead: Option<u16>,
        filter: &str,
        within: Option<(Option<f32>, Option<f32>)>,
        partial: bool,
        in_flight: usize,
        timeout: Option<f64>,
    ) -> PyResult<(IdsAndDistances<'py>, Bound<'py, PyDict>)> {
        let client = self.client()?;
        let (mode, baton) = mode_of(mode)?;
        if in_flight == 0 {
            return Err(PyFailure::input("in_flight is 0, but must be at least 1").into());
        }
        check_travels(filter)?;
        let at_most = seconds("timeout", timeout.unwrap_or(self.timeout))?;
        let matrix = Matrix::new(queries, None)?;
        let set = matrix.vectors()?;
        let list = list_length.max(k);
        let policy = ReadPolicy { baton, width, ahead };
        let (width, ahead) = (policy.width(), policy.ahead(k, list));
        let within = range(within.unwrap_or_default());
        let (round_robin, ty) = (false, set.vector_type());
        let asked = Asked { k, list, width, ahead, baton, round_robin, ty, within };
        let parameters = asked.encode_among(filter.as_bytes());
        let ask = |row: usize, left: Duration| {
            let query = Query {
                mode,
                parameters: parameters.clone(),
                vector: set.row(row).to_vec(),
                left_us: micros(left),
                hops: HOPS,
                at: None,
                partial,
            };
            client.ask(query).map_err(|why| failure(row, why))
        };
        let (mut under_way, mut found) = (VecDeque::new(), Vec::with_capacity(set.rows()));
        let mut next = 0;
        while found.len() < set.rows() {
            if next < set.rows() && under_way.len() < in_flight {
                under_way.push_back((ask(next, at_most)?, Instant::now()));
                next += 1;
                continue;
            }
            let Some((mut answer, begun)) = under_way.pop_front() else { break };
            let row = found.len();
            let ended = loop {
                let left = at_most.saturating_sub(begun.elapsed());
                let meeting = left > PART && self.met.is_some_and(|met| Instant::now() < met);
                match ended(py, answer, left)? {
                    // Servers dial each other while they are dialled.
                    Err(NoAnswer::Failed { code: FailureCode::PartitionGone, .. }) if meeting => {
                        py.detach(|| std::thread::park_timeout(PART));
                        py.check_signals()?;
                        answer = ask(row, at_most.saturating_sub(begun.elapsed()))?;
                    }
                    Ok(Found { missing, .. })
                        if meeting && !missing.is_empty() && client.missing().is_empty() =>
                    {
                        py.detach(|| std::thread::park_timeout(PART));
                        py.check_signals()?;
                        answer = ask(row, at_most.saturating_sub(begun.elapsed()))?;
                    }
                    ended => break ended,
                }
            };
            found.push(ended.map_err(|why| failure(row, why))?);
        }
        told(py, &found, k as usize, self.partitions)
    }

    /// Servers that cannot be reached now.
    fn missing(&self) -> PyResult<Vec<u32>> {
        Ok(self.client()?.missing())
    }

    /// Ends the connections; what is under way ends first.
    fn close(&self, py: Python<'_>) {
        let client = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(client));
    }
}

impl PyClusterClient {
    fn client(&self) -> PyResult<Arc<relay::Client>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(|| PyFailure::closed("the client was closed").into())
    }
}

/// How a query ends that has so long. Waits in parts, so that an interrupt ends it.
fn ended(py: Python<'_>, mut answer: Receiver<Ended>, left: Duration) -> PyResult<Ended> {
    // Whoever ends queries at their deadlines does so by then, or was stopped.
    let until = Instant::now().checked_add(left.saturating_add(Duration::from_secs(1)));
    loop {
        let waited;
        (answer, waited) = py.detach(move || {
            let waited = answer.recv_timeout(PART);
            (answer, waited)
        });
        match waited {
            Ok(ended) => return Ok(ended),
            Err(RecvTimeoutError::Timeout) if until.is_none_or(|until| Instant::now() < until) => {
                py.check_signals()?;
            }
            Err(_) => {
                let silent = String::new();
                return Ok(Err(NoAnswer::Deadline { attempts: 0, silent }));
            }
        }
    }
}

/// Answers as tables; places that nothing was found for have row -1 at infinity.
fn told<'py>(
    py: Python<'py>,
    found: &[Found],
    k: usize,
    partitions: u32,
) -> PyResult<(IdsAndDistances<'py>, Bound<'py, PyDict>)> {
    let mut ids = Array2::from_elem((found.len(), k), -1_i64);
    let mut distances = Array2::from_elem((found.len(), k), f32::INFINITY);
    let mut spent = Vec::with_capacity(found.len());
    for (at, answer) in found.iter().enumerate() {
        let malformed = || PyFailure::retry(format!("query {at}: an answer that cannot be read"));
        let hits = Hits::of(&answer.hits).ok_or_else(malformed)?;
        for (place, hit) in hits.iter().take(k).enumerate() {
            ids[(at, place)] = hit.row.cast_signed();
            distances[(at, place)] = hit.distance;
        }
        spent.push(Spent::decode(&answer.stats).ok_or_else(malformed)?);
    }
    let stats = PyDict::new(py);
    let counts = |of: fn(&Spent) -> u32| {
        Array1::from_iter(spent.iter().map(|spent| i64::from(of(spent)))).into_pyarray(py)
    };
    stats.set_item("reads", counts(|s| s.reads))?;
    stats.set_item("pages_from_memory", counts(|s| s.from_memory))?;
    stats.set_item("hops", counts(|s| s.explored))?;
    stats.set_item("code_distances", counts(|s| s.codes))?;
    stats.set_item("moves", counts(|s| s.moves))?;
    let attempts = found.iter().map(|found| i64::from(found.attempts));
    stats.set_item("attempts", Array1::from_iter(attempts).into_pyarray(py))?;
    let servers: Vec<_> = found.iter().map(|found| found.trace.clone()).collect();
    stats.set_item("servers", servers)?;
    let of = f64::from(partitions.max(1));
    let coverage = found.iter().map(|found| (of - found.missing.len() as f64) / of);
    stats.set_item("coverage", Array1::from_iter(coverage).into_pyarray(py))?;
    let missing: Vec<_> = found.iter().map(|found| found.missing.clone()).collect();
    stats.set_item("missing", missing)?;
    Ok(((ids.into_pyarray(py), distances.into_pyarray(py)), stats))
}
