//! `pipeann cluster status`: who is there, who leads, how far each has come, and how store and etcd are.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use pipeann_members::{Coordinator, LeadingServer, ServerInfo};
use pipeann_milvus::ask_figures;
use pipeann_store::{ClusterStore, ShardId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::operator::OperatorArgs;
use crate::table::{Table, print_json, print_line};

/// The one log of a database that servers share.
const SHARD: u64 = 0;

/// Show the servers of a database (`pipeann serve --cluster`): addresses, versions, who leads, how far
/// each has come, and how store and etcd are. Ends with an error where nobody leads, or something
/// does not answer
#[derive(Debug, Args)]
#[command(mut_arg("etcd", |etcd| etcd.help(
    "Where etcd tells who the servers are: URLs with commas between. Without it only the store is looked \
     at, as of a cluster of one server, which has no etcd"
)))]
pub(crate) struct ClusterStatusArgs {
    #[command(flatten)]
    operator: OperatorArgs,
    /// Seconds in which a server has to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(..=86_400))]
    within: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found.
struct ClusterSight {
    store: Result<StoreSight>,
    servers: Vec<ServerInfo>,
    leader: Option<LeadingServer>,
    /// What each says of itself, or why it says nothing.
    figures: Vec<Result<Value, String>>,
    /// Whether etcd answers; `None` where none is named.
    etcd: Option<bool>,
}

/// The log in the store, and how long it took to find that out.
struct StoreSight {
    begin: u64,
    end: u64,
    took: Duration,
}

/// Runs `pipeann cluster status`.
pub(crate) fn status(args: &ClusterStatusArgs) -> Result<()> {
    let sight = look(args)?;
    match args.json {
        true => print_json(&sight.json(&args.operator.cluster))?,
        false => sight.print(&args.operator.cluster)?,
    }
    match sight.complaints() {
        complaints if complaints.is_empty() => Ok(()),
        complaints => bail!("{}", complaints.join("; ")),
    }
}

fn look(args: &ClusterStatusArgs) -> Result<ClusterSight> {
    let began = Instant::now();
    let store = args.operator.open_store();
    let id = store.as_ref().map_or(Uuid::nil(), ClusterStore::cluster_id);
    let named = !args.operator.etcd.urls.is_empty();
    let etcd = named.then(|| args.operator.connect(id)).transpose()?;
    let servers = etcd.as_ref().map(|etcd| etcd.servers()).unwrap_or_default();
    let asked = ask_figures(
        &args.operator.servers(&servers)?,
        args.operator.token.as_deref(),
        Duration::from_secs(args.within),
    );
    let figures = asked.context("asking the servers")?;
    let known = figures.iter().flatten().map(|it| number(it, "applied").max(number(it, "written")));
    let known = known.max().unwrap_or(0);
    let store = store.and_then(|store| {
        let log = || {
            let begin = store.log_begin(ShardId(SHARD))?;
            let end = store.log_end(ShardId(SHARD), known)?.unwrap_or(known);
            Ok::<_, pipeann_store::ObjectsError>((begin, end))
        };
        let (begin, end) = log().context("reading the log")?;
        Ok(StoreSight { begin, end, took: began.elapsed() })
    });
    let leader = etcd.as_ref().and_then(|etcd| etcd.leader(SHARD));
    let etcd = etcd.map(|etcd| etcd.stale_since().is_none());
    Ok(ClusterSight { store, servers, leader, figures, etcd })
}

fn number(figures: &Value, name: &str) -> u64 {
    figures[name].as_u64().unwrap_or(0)
}

impl ClusterSight {
    /// The number of the log's newest object, as far as anybody knows.
    fn end(&self) -> u64 {
        let told = self.figures.iter().flatten();
        let told = told.map(|it| number(it, "applied").max(number(it, "written"))).max();
        told.unwrap_or(0).max(self.store.as_ref().map_or(0, |store| store.end))
    }

    fn leads(&self, server: &ServerInfo) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.server == server.id)
    }

    fn complaints(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Err(error) = &self.store {
            all.push(format!("the store: {error:#}"));
        }
        if self.etcd == Some(false) {
            all.push("etcd does not answer".into());
        }
        if self.etcd.is_some() && self.leader.is_none() {
            all.push("no server leads".into());
        }
        for (server, figures) in self.servers.iter().zip(&self.figures) {
            match figures {
                Err(why) => all.push(format!("{} does not answer: {why}", server.name)),
                Ok(figures) => {
                    let trouble = figures["trouble"].as_str();
                    all.extend(trouble.map(|trouble| format!("{}: {trouble}", server.name)));
                }
            }
        }
        all
    }

    fn json(&self, cluster: &str) -> Value {
        let end = self.end();
        let servers = self.servers.iter().zip(&self.figures).map(|(server, figures)| {
            let mut told = json!({
                "name": server.name, "id": server.id.to_string(), "address": server.address,
                "peer_address": server.peer_address, "version": server.version,
                "formats": server.formats, "started_ms": server.started_ms,
                "leads": self.leads(server),
            });
            match figures {
                Ok(figures) => {
                    told["behind"] = json!(end.saturating_sub(number(figures, "applied")));
                    told["figures"] = figures.clone();
                }
                Err(why) => told["error"] = json!(why),
            }
            told
        });
        let servers = servers.collect::<Vec<_>>();
        let store = match &self.store {
            Ok(it) => {
                json!({"log_begin": it.begin, "log_end": it.end, "took_s": it.took.as_secs_f64()})
            }
            Err(error) => json!({"error": format!("{error:#}")}),
        };
        json!({
            "cluster": cluster,
            "leader": self.leader.as_ref().map(|leader| leader.server.to_string()),
            "leader_address": self.leader.as_ref().map(|leader| &leader.address),
            "election_term": self.leader.as_ref().map(|leader| leader.term),
            "log_end": end, "store": store,
            "etcd": self.etcd.map(|answers| json!({"answers": answers})),
            "servers": servers, "complaints": self.complaints(),
        })
    }

    fn print(&self, cluster: &str) -> Result<()> {
        let end = self.end();
        if self.etcd.is_none() {
            print_line(&format!(
                "{cluster}: the log's newest object is {end}; who serves it is told with --etcd"
            ))?;
            return self.print_store();
        }
        self.print_servers(end)?;
        let leader = self.leader.as_ref().map_or("nobody", |leader| &leader.address);
        print_line(&format!("{cluster}: {leader} leads; the log's newest object is {end}"))?;
        self.print_store()?;
        let answers = self.etcd == Some(true);
        print_line(&format!("etcd: {}", if answers { "answers" } else { "does not answer" }))
    }

    fn print_servers(&self, end: u64) -> Result<()> {
        let titles =
            ["server", "address", "version", "role", "term", "applied", "behind", "age, s"];
        let names = self.servers.iter().map(|server| &*server.name);
        let table = Table::new(&titles).first_column(names);
        print_line(&table.header())?;
        for (server, figures) in self.servers.iter().zip(&self.figures) {
            let mut cells =
                vec![server.name.clone(), server.address.clone(), server.version.clone()];
            match figures {
                Ok(figures) => {
                    let role = match figures["ending"].as_bool() {
                        Some(true) => "ends",
                        _ if self.leads(server) => "leads",
                        _ => "follows",
                    };
                    let applied = number(figures, "applied");
                    let age =
                        figures["age_s"].as_f64().map_or("-".into(), |age| format!("{age:.2}"));
                    let behind = end.saturating_sub(applied);
                    let term = number(figures, "term");
                    let numbers = [term, applied, behind].map(|number| number.to_string());
                    cells.push(role.into());
                    cells.extend(numbers);
                    cells.push(age);
                }
                Err(_) => cells.push("silent".into()),
            }
            print_line(&table.line(&cells))?;
        }
        Ok(())
    }

    fn print_store(&self) -> Result<()> {
        match &self.store {
            Ok(store) => print_line(&format!(
                "store: answers, {:.0} ms; its log begins with object {}",
                store.took.as_secs_f64() * 1e3,
                store.begin
            )),
            Err(error) => print_line(&format!("store: {error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `status` as it is called.
    #[derive(Debug, clap::Parser)]
    struct Called {
        #[command(flatten)]
        status: ClusterStatusArgs,
    }

    #[test]
    fn without_etcd_it_tells_the_store_and_the_log() {
        let root = tempfile::tempdir().unwrap();
        let url = format!("file://{}", root.path().display());
        let sight = |url: &str| {
            let words = ["status", "--cluster", "c", "--store", url];
            look(&<Called as clap::Parser>::try_parse_from(words).unwrap().status).unwrap()
        };
        ClusterStore::open(&url, "c").unwrap();
        let found = sight(&url);
        assert_eq!(found.complaints(), [""; 0]);
        let told = found.json("c");
        assert_eq!(told["etcd"], Value::Null);
        assert_eq!((&told["store"]["log_begin"], &told["log_end"]), (&json!(1), &json!(0)));
        let gone = sight(&format!("{url}/nowhere")).complaints();
        assert!(gone.len() == 1 && gone[0].starts_with("the store: "), "{gone:?}");
    }
}
