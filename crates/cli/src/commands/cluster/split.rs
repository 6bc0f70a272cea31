//! `pipeann cluster split`: an index of its own for the rows of each server.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_cluster::walker::Centroids;
use pipeann_engine::build::{BuildOptions, SourceRows, VamanaOptions, build_rows};
use pipeann_engine::index::{Index, OpenOptions};
use pipeann_engine::memory::MemoryLimit;
use pipeann_engine::types::VectorSet;
use pipeann_server::interrupt;
use pipeann_server::joining::placement;

use crate::building::quietly;
use crate::opening::Reading;
use crate::table::print_line;

/// The file of centroids in the directory that is made.
pub(super) const CENTROIDS: &str = "centroids";

/// Make for each server of a topology an index of its rows alone, for searches that ask all servers
///
/// The rows are those of the partitions that the server has of an index; rows, row ids, metric and
/// parameters are that index's, and each graph is built anew. The directory has its name once it is whole. `serve --separate` serves them for
/// `search --mode scatter`. The mean of each server's rows goes to the file `centroids`, by which
/// `--nearest` asks some servers alone.
#[derive(Debug, Args)]
pub(crate) struct ClusterSplitArgs {
    /// Servers with their addresses and partitions, as TOML
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,
    /// Directory of the index whose rows are split
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Directory that is made; each server's index is its server-NUMBER
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Threads; 0 for one on each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

/// Runs the command.
pub(crate) fn run(args: &ClusterSplitArgs) -> Result<()> {
    let placement = placement(&args.topology)?;
    ensure!(!args.out.exists(), "{} exists already", args.out.display());
    // What was cut short never bears the name, and is begun anew.
    let making = unfinished(&args.out)?;
    if making.exists() {
        std::fs::remove_dir_all(&making)
            .with_context(|| format!("removing {}", making.display()))?;
    }
    std::fs::create_dir(&making).with_context(|| format!("creating {}", making.display()))?;
    let cancel = interrupt::flag()?;
    let mut centroids: Option<Centroids> = None;
    for server in placement.servers() {
        let own = Some(server.partitions.as_slice().into());
        let options = OpenOptions { own, ..args.reading.options(MemoryLimit::Floor)? };
        let index = Index::open(&args.from, &options)
            .with_context(|| format!("opening {}", args.from.display()))?;
        ensure!(
            index.partitions() == placement.partitions() as usize,
            "the index has {} partitions, the topology {}",
            index.partitions(),
            placement.partitions()
        );
        let (ids, vectors) = index
            .standing_rows(&mut |_| {})
            .with_context(|| format!("reading {}", args.from.display()))?;
        let (manifest, codebook) = (index.manifest(), index.codebook());
        let (layout, built) = (&manifest.layout, &manifest.build);
        let graph = VamanaOptions {
            degree: layout.max_degree(),
            list: built.list as usize,
            alpha: built.alpha,
            passes: built.passes as usize,
            seed: built.seed,
            threads: args.threads,
            ..VamanaOptions::default()
        };
        let options = BuildOptions {
            graph,
            codes: codebook.kind(),
            code_bytes: Some(codebook.code_bytes()),
            page_bytes: Some(layout.page_bytes()),
            fill: layout.fill(),
            ..BuildOptions::new(manifest.metric)
        };
        let set = VectorSet::new(&vectors, layout.dim(), layout.vector_type())
            .context("whole vectors were read")?;
        let of_index = || Centroids::new(manifest.metric, layout.dim());
        centroids.get_or_insert_with(of_index).add(server.number, set);
        let rows = SourceRows { ids: &ids, applied: manifest.applied };
        let name = format!("server-{}", server.number);
        quietly(|bars| build_rows(set, rows, &making.join(&name), &options, bars, &cancel))?;
        print_line(&format!("{}: {} rows", args.out.join(&name).display(), ids.len()))?;
    }
    let path = making.join(CENTROIDS);
    let bytes = centroids.map(|centroids| centroids.encode()).unwrap_or_default();
    std::fs::write(&path, bytes)
        .and_then(|()| File::open(&path)?.sync_all())
        .and_then(|()| File::open(&making)?.sync_all())
        .with_context(|| format!("writing {}", path.display()))?;
    std::fs::rename(&making, &args.out).with_context(|| format!("naming {}", args.out.display()))
}

/// The directory beside `out` in which it is made.
fn unfinished(out: &Path) -> Result<PathBuf> {
    let name = out.file_name().with_context(|| format!("{} has no name", out.display()))?;
    let mut name = name.to_owned();
    name.push(".unfinished");
    Ok(out.with_file_name(name))
}
