//! `pipeann-lab hop`: the processor time that it takes a query to get from one server to another.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender as Give, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_cli::authority::Authority;
use pipeann_cli::measure::{CpuTime, rounded};
use pipeann_cli::opening::IndexArgs;
use pipeann_cli::table::{Table, print_json, print_line};
use pipeann_cli::vectors_file::{VectorsFile, check_same_shape};
use pipeann_cluster::placement::{Placement, Server};
use pipeann_cluster::transport::tcp::{Identity, Limits, Settings, Tcp, Tls};
use pipeann_cluster::transport::{Event, Handler, Network};
use pipeann_cluster::wire::{Message, Numbers, PeerId, QueryId, State};
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::pool::{End, Pool, PoolOptions, Sink, Task};
use pipeann_engine::search::{PageSource as _, Policy, SearchParams, SearchState};
use serde_json::json;

/// Queries whose states are sent and woken.
const QUERIES: usize = 200;
/// Two that should meet have had long enough.
const MEETING: Duration = Duration::from_secs(10);

/// Measure the processor time of a hop between servers: a message there, over TLS, and waking its state
///
/// Two networks of this process send each other states, of the size that searches of this index
/// have, alone and many at once; both ends count. Then states of the lists are made ready to be gone
/// on with, on one thread. Beside them, what two threads take that hand each other a byte: the
/// share of the system, which is large where processors are virtual ones that sleep.
#[derive(Debug, Args)]
pub(crate) struct HandOverArgs {
    #[command(flatten)]
    index: IndexArgs,
    /// Queries: .u8bin, .fbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Lengths of the candidate list; messages are as long as those of the first
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_value = "20,100")]
    list: Vec<usize>,
    /// Messages that are under way at once, beside one alone
    #[arg(long, value_name = "MESSAGES", default_value_t = 64)]
    under_way: usize,
    /// Hops of each measurement
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    hops: usize,
    /// Print one JSON object for each line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &HandOverArgs) -> Result<()> {
    ensure!(args.hops > 0 && args.under_way > 0, "--hops and --under-way must be at least 1");
    ensure!(args.list.iter().all(|list| *list >= 10), "each --list must be at least 10");
    let options = args.index.reading.options(MemoryLimit::Floor)?;
    let options = OpenOptions { own: Some(vec![0].into()), ..options };
    let index = Index::open(&args.index.index, &options)
        .with_context(|| format!("opening {}", args.index.index.display()))?;
    ensure!(index.partitions() > 1, "the index has one partition, so that no search leaves it");
    index.wait_resident()?;
    let index = Arc::new(index);
    let file = VectorsFile::open(&args.queries)?;
    check_same_shape(&file, (index.dim(), index.layout().vector_type()), &args.index.index)?;
    let table = Table::new(&["what", "state bytes", "CPU us"]);
    if !args.json {
        print_line(&table.header())?;
    }
    let tell = |what: &str, bytes: usize, us: f64| {
        if args.json {
            print_json(&json!({"what": what, "state_bytes": bytes, "cpu_us": rounded(us, 3)}))
        } else {
            print_line(&table.line(&[what.to_owned(), bytes.to_string(), format!("{us:.2}")]))
        }
    };
    let mut states = Vec::new();
    for &list in &args.list {
        states.push((list, leaving(&index, &file, list)?));
    }
    let bytes = mean_len(&states[0].1);
    tell("a byte from thread to thread", 1, byte(args.hops)?)?;
    for under_way in [1, args.under_way] {
        let us = messages(bytes, under_way, args.hops)?;
        tell(&format!("message, {under_way} under way"), bytes, us)?;
    }
    for (list, states) in &states {
        let us = waking(&index, states, args.hops)?;
        tell(&format!("waking, list {list}"), mean_len(states), us)?;
    }
    Ok(())
}

fn mean_len(states: &[Vec<u8>]) -> usize {
    states.iter().map(Vec::len).sum::<usize>() / states.len()
}

struct Leaves(Mutex<Give<Option<Vec<u8>>>>);

impl Sink for Leaves {
    fn ended(&self, _ticket: u64, end: End) {
        let state = match end {
            End::Elsewhere { state, .. } => Some(state),
            End::Found(..) | End::Expanded(..) | End::Failed(_) => None,
        };
        // Whoever waits has counted the tasks.
        let _ = self.0.lock().expect("nobody panics with it").send(state);
    }
}

/// States of searches that leave the first partition.
fn leaving(index: &Arc<Index>, file: &VectorsFile, list: usize) -> Result<Vec<Vec<u8>>> {
    let (give, ended) = channel();
    let queries = file.first(QUERIES);
    let sizes =
        PoolOptions { threads: 1, in_flight: 8, waiting: queries.rows(), ..Default::default() };
    let pool = Pool::start(Arc::clone(index), &sizes, Arc::new(Leaves(Mutex::new(give))))?;
    // Those that have read here: a search that is handed over at its beginning holds hardly anything.
    let policy = Policy { home: false, ..Policy::relay(2, 8) };
    let params = SearchParams { k: 10, list, policy, ..Default::default() };
    params.validate()?;
    for row in 0..queries.rows() {
        let task = Task::Query(queries.row(row).to_vec(), Box::new(params.clone()));
        ensure!(pool.submit(row as u64, task, None).is_ok(), "the pool has room for all");
    }
    let states: Vec<_> = ended.iter().take(queries.rows()).flatten().collect();
    ensure!(!states.is_empty(), "no search left the first partition");
    Ok(states)
}

/// Processor time of making a state ready to be gone on with, microseconds.
fn waking(index: &Index, states: &[Vec<u8>], times: usize) -> Result<f64> {
    let view = index.view();
    let mut state = SearchState::new(&view);
    // The first round warms what a thread keeps.
    for bytes in states {
        state.import(&view, bytes, None)?;
    }
    let from = CpuTime::now();
    for bytes in states.iter().cycle().take(times) {
        state.import(&view, bytes, None)?;
    }
    Ok(CpuTime::now().since(from).total_us() / times as f64)
}

/// Sends each state back until there were enough hops.
struct Returning {
    left: usize,
    done: Give<()>,
    ready: Option<Give<()>>,
}

impl Handler for Returning {
    fn event(&mut self, _now_us: u64, network: &dyn Network, event: Event<'_>) {
        match event {
            Event::Up { .. } => {
                if let Some(ready) = self.ready.take() {
                    // The command may have given up waiting.
                    let _ = ready.send(());
                }
            }
            Event::Message { peer, message: message @ Message::State(_), hold: _hold } => {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    // The command waits for the first of the two that has counted to its end.
                    let _ = self.done.send(());
                } else {
                    // What is not sent on never comes back: the command gives up waiting.
                    let _ = network.send(peer, &message);
                }
            }
            _ => {}
        }
    }

    fn due(&mut self, _now_us: u64, _network: &dyn Network) -> Option<u64> {
        None
    }
}

/// Processor time of a byte from one thread to another over a local socket, microseconds.
fn byte(hops: usize) -> Result<f64> {
    let (mut here, mut there) = UnixStream::pair().context("a local socket")?;
    let echo = move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    };
    let echo = std::thread::Builder::new().name("echo".to_owned()).spawn(echo);
    let echo = echo.context("starting a thread")?;
    let mut byte = [7];
    let from = CpuTime::now();
    for _ in 0..hops.div_ceil(2) {
        here.write_all(&byte).and_then(|()| here.read_exact(&mut byte)).context("a byte")?;
    }
    let us = CpuTime::now().since(from).total_us() / hops as f64;
    drop(here);
    // Its socket has ended, and so has it.
    let _ = echo.join();
    Ok(us)
}

/// Processor time of a message from one network to the other, both ends, microseconds.
fn messages(bytes: usize, under_way: usize, hops: usize) -> Result<f64> {
    let authority = Authority::new("hop")?;
    let listeners = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)));
    let mut servers = Vec::new();
    let mut bound = Vec::new();
    for (listener, number) in listeners.into_iter().zip(0..) {
        let listener = listener.context("looking for a free port")?;
        let address = listener.local_addr().context("looking for a free port")?;
        let partitions = vec![number];
        servers.push(Server { number, address, tls_name: format!("server-{number}"), partitions });
        bound.push(listener);
    }
    let placement = Placement::new("hop".to_owned(), 2, servers)?;
    let (done, ended) = channel();
    let mut ends: Vec<(Tcp, Receiver<()>)> = Vec::new();
    for (listener, number) in bound.into_iter().zip(0..) {
        let (certificate, key) = authority.sign(&format!("server-{number}"))?;
        let tls = Tls::from_pem(
            authority.certificate.as_bytes(),
            certificate.as_bytes(),
            key.as_bytes(),
        )?;
        let settings = Settings {
            me: PeerId::Server(number),
            placement: placement.clone(),
            identity: Identity { index: [1; 16], generation: 1, codebook: 0 },
            slots: 1,
            tls: Some(tls),
            limits: Limits::default(),
            seed: u64::from(number),
        };
        let (ready, is_ready) = channel();
        let handler = Returning { left: hops.div_ceil(2), done: done.clone(), ready: Some(ready) };
        ends.push((Tcp::open(settings, Some(listener), handler)?, is_ready));
    }
    for (_, is_ready) in &ends {
        is_ready.recv_timeout(MEETING).context("two networks of this machine do not meet")?;
    }
    let state = vec![7; bytes];
    let trace = Numbers::pack([0, 1]);
    let trace = Numbers::of(&trace).expect("whole numbers");
    let from = CpuTime::now();
    for number in 0..under_way as u64 {
        let query = QueryId { asker: PeerId::Client(1), number };
        let (missing, left_us) = (Numbers::default(), 1_000_000);
        let message = State {
            query,
            attempt: 0,
            left_us,
            hops: 9,
            partition: 1,
            trace,
            missing,
            state: &state,
        };
        ends[0].0.send(PeerId::Server(1), &Message::State(message))?;
    }
    ended.recv_timeout(Duration::from_secs(600)).context("messages do not come back")?;
    Ok(CpuTime::now().since(from).total_us() / hops as f64)
}
