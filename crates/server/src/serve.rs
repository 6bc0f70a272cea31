//! `pipeann serve`: a database for clients of Milvus; the flags, and what is run by them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pipeann_engine::memory::MemoryLimit;
use pipeann_milvus::{
    DEFAULT_METRICS_PORT, DEFAULT_PORT, FrontendSettings, Listening, Peers, ServeError,
    ServeOptions, ServerTls, listen,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::access_file::AccessFile;
use crate::clustered::{EndCause, Listens, Opened, ServerEnding, ServersArgs};
use crate::meanwhile::Meanwhile;
use crate::opening::{By, database_options, now};
use crate::process::{say, tell};
use crate::{interrupt, privacy};

/// Serve a database to clients of Milvus
///
/// Runs until it is interrupted; calls under way are answered then. A second interruption ends it at
/// once. What was answered is durable either way.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct ServerFlags {
    /// Read flags from this file too: TOML, the names of flags and their values; those that are given
    /// win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the database; made where it is missing
    #[arg(long, visible_alias = "data_dir", value_name = "DIR", default_value = "./data")]
    data_dir: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "HOST", default_value = "0.0.0.0")]
    host: String,
    /// Port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Searches that are done at once, and as many other calls; 0 for numbers by the CPUs
    #[arg(long, value_name = "THREADS", default_value_t = 0)]
    threads: usize,
    /// Whether searches that wait and are alike are done together
    #[arg(long, value_name = "WHETHER", default_value = "on")]
    merge: OnOff,
    /// Load a collection when it is searched or queried, as Milvus Lite does; one that was released
    /// stays so until it is loaded
    #[arg(long, alias = "auto_load")]
    auto_load: bool,
    /// Address that tells metrics: whoever reaches it learns names of collections, and how much is
    /// done in them
    #[arg(long, alias = "metrics_host", value_name = "HOST", default_value = "127.0.0.1")]
    metrics_host: String,
    /// Port there that tells metrics at /metrics and health at /healthz; 0 for none.
    /// 9091 unless given, but none where that is in use or --port is 0
    #[arg(long, alias = "metrics_port", value_name = "PORT")]
    metrics_port: Option<u16>,
    /// File to which a line of JSON is appended for each call: when, who, from where, which call, of
    /// which database, how it ended, and how long it took
    #[arg(long, alias = "access_log", value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// What clients have to send as their token: USER:PASSWORD, or a key; nothing unless given
    #[arg(long, value_name = "TOKEN", env = "PIPEANN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Ask clients who they are: users, roles and privileges as in Milvus. There is the user root with
    /// the password Milvus, until it is given another one
    #[arg(long, conflicts_with = "token")]
    authorization: bool,
    /// Encrypt connections: the server's certificates in PEM, its own first
    #[arg(long, alias = "tls_cert", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The server's private key in PEM
    #[arg(long, alias = "tls_key", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Answer only clients that show a certificate which one of these in PEM has signed
    #[arg(long, alias = "tls_client_ca", value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Memory for all collections: floor (no limit, no pages stay in memory), all (no limit, all
    /// pages stay), or bytes as 512MiB, of which the pages that are used most fill what is left
    #[arg(long, alias = "memory_limit", value_name = "LIMIT", default_value = "floor")]
    memory_limit: MemoryLimit,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    cluster: ServersArgs,
}

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

impl fmt::Debug for ServerFlags {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerFlags")
            .field("config", &self.config)
            .field("data_dir", &self.data_dir)
            .field("host", &self.host)
            .field("port", &self.port)
            .field("threads", &self.threads)
            .field("authorization", &self.authorization)
            .finish_non_exhaustive()
    }
}

impl ServerFlags {
    /// Where etcd is.
    #[cfg(test)]
    pub(crate) fn etcd(&self) -> &[String] {
        self.cluster.etcd_urls()
    }

    /// What connections are encrypted with, read.
    fn tls(&self) -> Result<Option<ServerTls>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("reading {}", path.display()))
        };
        let client_ca = self.tls_client_ca.as_ref().map(read).transpose()?;
        Ok(Some(ServerTls { certificate: read(certificate)?, key: read(key)?, client_ca }))
    }
}

/// Lets this process have as many descriptors as it may ask for: connections and files each take one.
fn take_descriptors() {
    let allowed = getrlimit(Resource::Nofile);
    // Where the system refuses, there are as many as before, and the server keeps within them.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed });
}

/// Runs the command, until it is interrupted.
///
/// # Errors
/// What keeps the server from beginning.
pub fn run(args: &ServerFlags) -> Result<()> {
    take_descriptors();
    privacy::begin();
    privacy::keep(&args.data_dir);
    // The second signal ends the process whatever it is doing.
    let interrupted = interrupt::flag()?;
    let ending = ServerEnding::by_signals()?;
    let options = ServeOptions {
        host: args.host.clone(),
        port: args.port,
        threads: args.threads,
        merge: args.merge == OnOff::On,
        auto_load: args.auto_load,
        metrics_host: args.metrics_host.clone(),
        metrics_port: None,
        access_log: args.access_log.as_deref().map(AccessFile::open).transpose()?,
        token: args.token.clone(),
        authorization: args.authorization,
        tls: args.tls()?,
        ..ServeOptions::default()
    };
    while serve(args, &options, (&ending, &interrupted))? == EndCause::CutOff {
        say("this server cannot go on with what it has open; it is opened anew");
    }
    Ok(())
}

/// Serves until it is told to end, or cannot go on with what it has. Before it serves, a signal ends it.
fn serve(
    args: &ServerFlags,
    options: &ServeOptions,
    (ending, interrupted): (&ServerEnding, &AtomicBool),
) -> Result<EndCause> {
    let mut options = options.clone();
    let tls = options.tls.as_ref();
    let identity = tls.map(|tls| (tls.certificate.clone(), tls.key.clone()));
    let listens = Listens { host: &args.host, port: args.port, identity, asks: &options };
    let joined = args.cluster.join(&args.data_dir, &listens)?;
    let mut meanwhile = None;
    if let Some(joined) = &joined {
        let meanwhile =
            meanwhile.insert(Meanwhile::begin(joined, &mut options, args.metrics_port)?);
        if joined.wants_generation()? {
            meanwhile.tell(joined);
            joined.take_generation(interrupted)?;
        }
    }
    let mut settings = database_options(Some(args.memory_limit));
    settings.collection.flush_behind = true;
    settings.collection.graph.backend = Some(args.by.backend()?);
    let (cut_off, is_cut_off) = sync_channel(1);
    let opened = match joined {
        Some(joined) => joined.open(settings, cut_off, interrupted)?,
        None => Some(Opened::alone(&args.data_dir, settings)?),
    };
    let Some(opened) = opened else {
        meanwhile.map(Meanwhile::end);
        return Ok(EndCause::CutOff);
    };
    let database = Arc::clone(opened.database());
    let peers = opened.peers();
    options.peers = peers.clone().map(|peers| peers as Arc<dyn Peers>);
    let settings = FrontendSettings { database, now: Arc::new(now) };
    meanwhile.as_mut().map(Meanwhile::leave_metrics);
    let listening = listen_with_metrics(settings, options, args.metrics_port)?;
    // Somebody has taken connections until now, so none was refused.
    let told = meanwhile.is_some_and(Meanwhile::end);
    if let Some(peers) = peers {
        peers.begin();
    }
    say_where(args, &listening, told);
    ending.by_drain_of(&opened)?;
    ending.by_cut_off(is_cut_off)?;
    let cause = ending.wait();
    if let EndCause::Asked(by) = cause {
        say(format_args!("ending, asked by {by}; calls under way are answered first"));
        opened.hand_over(|| listening.led_calls());
    }
    listening.stop();
    opened.close();
    Ok(cause)
}

/// Says where calls are taken, and what of that is open to everybody; `told` where it said so before.
fn say_where(args: &ServerFlags, listening: &Listening, told: bool) {
    let address = listening.address();
    if !address.ip().is_loopback() {
        if args.token.is_none() && !args.authorization {
            say(format_args!(
                "anyone who reaches {address} can read and write this database; see \
                 --authorization and --token"
            ));
        } else if args.tls_cert.is_none() {
            say(format_args!("passwords and rows pass to {address} unencrypted; see --tls_cert"));
        }
    }
    let what = if told { "all data is at" } else { "listening on" };
    tell(format_args!("{what} {address}"));
    if let Some(address) = listening.metrics_address() {
        tell(format_args!("metrics at http://{address}/metrics"));
    }
}

/// Listens; does without metrics where nobody has asked for them and their port is in use.
fn listen_with_metrics(
    settings: FrontendSettings,
    options: ServeOptions,
    port: Option<u16>,
) -> Result<Listening> {
    // Who takes any port does not want a certain one beside it.
    let asked = port.or_else(|| (options.port == 0).then_some(0));
    if let Some(port) = asked {
        let metrics_port = (port != 0).then_some(port);
        return Ok(listen(settings, &ServeOptions { metrics_port, ..options })?);
    }
    let usual = ServeOptions { metrics_port: Some(DEFAULT_METRICS_PORT), ..options.clone() };
    match listen(settings.clone(), &usual) {
        Err(error @ ServeError::Address { port: DEFAULT_METRICS_PORT, .. }) => {
            say(format_args!("{error}; no metrics are told, see --metrics-port"));
            Ok(listen(settings, &options)?)
        }
        other => Ok(other?),
    }
}
