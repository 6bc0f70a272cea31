//! `pipeann-lab bench`: a job file in; a table, JSON and plots out.
//!
//! The index and computed truth are kept in the output directory and used again as long as the
//! job asks for the same ones. Runs are gone through in turn, round after round, so that a
//! device that drifts does so for all.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_cli::building::build_index;
use pipeann_cli::exact::exact;
use pipeann_cli::measure::{at_recall, median_index, rounded};
use pipeann_cli::opening;
use pipeann_cli::searching::{Figures, RunSettings, measure};
use pipeann_cli::table::{Table, print_json, print_line};
use pipeann_cli::truth::Truth;
use pipeann_cli::vectors_file::{VectorsFile, WholeFile, check_same_shape};
use pipeann_engine::build::BuildOptions;
use pipeann_engine::index::Index;
use pipeann_engine::types::VectorSet;
use pipeann_server::interrupt;
use serde_json::{Value, json};

use super::job::{Data, JobFile, JobRun};
use super::plots::{Axis, Curve, draw};
use super::width_profile::{self, ProfileArgs};

/// Run a benchmark job: a table, a JSON file and plots of recall against rate, latency and reads
///
/// A job file, where only the names of data, the metric, and a run's policy and lists must stand:
///
/// ```toml
///   name = "sift1m"                  # names the results
///   targets = [0.9, 0.95]            # recalls at which figures are interpolated
///   rounds = 3                       # all runs in turn, so often; the median rate counts
///   [data]
///   base = "sift1m.base.u8bin"       # beside the job file, or in PIPEANN_DATA
///   queries = "sift.query.u8bin"
///   truth = "sift1m.gt100.bin"       # computed where it is missing
///   metric = "l2"
///   k = 10
///   limit_queries = 2000
///   [build]                          # degree, list, alpha, passes, code_bytes, threads,
///   degree = 64                      # partitions, partition_by, page_bytes, fill, seed
///   [[run]]
///   policy = "pipe"                  # pipe, beam or page
///   lists = [20, 30, 50]
///   name = "pipe, 8 in flight"
///   threads = 1
///   in_flight = 8
///   width = 4                        # also max_width, switches = ["issue=fill"],
///   memory_limit = "floor"           # buffered, sqpoll, backend
/// ```
///
/// With `--profile-width` and an index: rate and latency at a recall by the width of the pipeline
/// and by searches in flight, and the width to take for each number of searches, as a file for
/// `--widths`.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct JobArgs {
    /// The job file
    #[arg(long, value_name = "FILE.toml", required_unless_present = "profile_width")]
    job: Option<PathBuf>,
    /// Directory for the results, the index and computed truth [default: the job's name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where data files are that are not beside the job file
    #[arg(long, value_name = "DIR", env = "PIPEANN_DATA")]
    data: Option<PathBuf>,
    /// Print one JSON object for each run and list
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// One run with one list, over all rounds.
struct Point {
    run: usize,
    figures: Figures,
    json: Value,
}

/// Runs the command.
pub(crate) fn run(args: &JobArgs) -> Result<()> {
    if args.profile.profile_width {
        return width_profile::run(&args.profile, args.json);
    }
    run_job(args.job.as_deref().context("--job names the job file")?, args)
}

fn run_job(path: &Path, args: &JobArgs) -> Result<()> {
    let job = JobFile::open(path)?;
    let find = |file: &Path| Data::find(file, path, args.data.as_deref());
    let base = VectorsFile::open(&find(&job.data.base)?)?;
    let queries = VectorsFile::open(&find(&job.data.queries)?)?;
    let set = base.set();
    check_same_shape(&queries, (set.dim(), set.vector_type()), base.path())?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(&job.name));
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let used = queries.first(job.data.limit_queries.unwrap_or(usize::MAX));
    let cancel = interrupt::flag()?;
    let truth = match &job.data.truth {
        Some(path) => Truth::of_first(&find(path)?, queries.rows(), used.rows(), job.data.k)?,
        None => own_truth(&job, &base, &queries, used, &out, &cancel)?,
    };
    let index = own_index(&job, &base, &out, &cancel)?;
    let mut rounds = Vec::new();
    for round in 0..job.rounds.max(1) {
        rounds.push(one_round(&job, &index, used, &truth, &cancel, args.json && round == 0)?);
    }
    let points = medians(rounds);
    if !args.json {
        print_tables(&job, &points)?;
    }
    write_results(&job, &points, &out)?;
    if !args.json {
        let found = out.display();
        print_line(&format!("results, plots and the index are in {found}"))?;
    }
    Ok(())
}

/// Uses what stands at `path` where it was made for `wanted`, else makes it.
fn made_for(path: &Path, wanted: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut note = path.as_os_str().to_owned();
    note.push(".made-for");
    let note = PathBuf::from(note);
    if path.exists() && std::fs::read_to_string(&note).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    // Until the new one is there, the old one must not pass for it.
    if note.exists() {
        std::fs::remove_file(&note).with_context(|| note.display().to_string())?;
    }
    make()?;
    std::fs::write(&note, wanted).with_context(|| note.display().to_string())
}

/// A file as far as it can be told apart without reading it.
fn identity(file: &VectorsFile) -> Result<String> {
    let path = file.path().canonicalize().with_context(|| file.path().display().to_string())?;
    let meta = path.metadata().with_context(|| path.display().to_string())?;
    let modified = meta.modified().with_context(|| path.display().to_string())?;
    Ok(format!("{} {} bytes {modified:?}", path.display(), meta.len()))
}

fn own_truth(
    job: &JobFile,
    base: &VectorsFile,
    queries: &VectorsFile,
    used: VectorSet<'_>,
    out: &Path,
    cancel: &AtomicBool,
) -> Result<Truth> {
    let path = out.join("truth.bin");
    let k = job.data.k.max(100).min(base.rows());
    let wanted = format!(
        "{}\n{}\n{} queries, k {k}, {}",
        identity(base)?,
        identity(queries)?,
        used.rows(),
        job.data.metric
    );
    made_for(&path, &wanted, || {
        exact(base.set(), used, k, job.data.metric()?, cancel)?.write(&path)
    })?;
    Truth::of_first(&path, used.rows(), used.rows(), job.data.k)
}

fn own_index(
    job: &JobFile,
    base: &VectorsFile,
    out: &Path,
    cancel: &AtomicBool,
) -> Result<PathBuf> {
    let path = out.join("index");
    let options = job.build.options(job.data.metric()?);
    let options = BuildOptions { overwrite: true, ..options };
    let wanted = format!("{}\n{options:?}\n{}", identity(base)?, env!("CARGO_PKG_VERSION"));
    made_for(&path, &wanted, || {
        let built = build_index(base, &path, &options, None, cancel)?;
        let report = out.join("build.json");
        std::fs::write(&report, format!("{:#}\n", built.json()))
            .with_context(|| report.display().to_string())
    })?;
    Ok(path)
}

fn open(run: &JobRun, path: &Path) -> Result<Index> {
    opening::open(path, run.memory_limit()?, &run.reading()?)
}

fn one_round(
    job: &JobFile,
    index: &Path,
    queries: VectorSet<'_>,
    truth: &Truth,
    cancel: &AtomicBool,
    print: bool,
) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for (at, run) in job.runs.iter().enumerate() {
        let settings: RunSettings = run.settings(job.data.k)?;
        let index = open(run, index).with_context(|| format!("run `{}`", settings.name))?;
        for &list in &run.lists {
            interrupt::check(cancel)?;
            let (figures, _) = measure(&index, queries, Some(truth), list, &settings)
                .with_context(|| format!("run `{}`", settings.name))?;
            let json = figures.json(&index, &settings);
            if print {
                print_json(&json)?;
            }
            points.push(Point { run: at, figures, json });
        }
    }
    Ok(points)
}

/// Of each run and list the round with the median rate.
fn medians(mut rounds: Vec<Vec<Point>>) -> Vec<Point> {
    let count = rounds.first().map_or(0, Vec::len);
    let mut chosen = Vec::with_capacity(count);
    for at in (0..count).rev() {
        let times: Vec<f64> = rounds.iter().map(|r| r[at].figures.wall_s).collect();
        let median = median_index(&times);
        chosen.extend(rounds.iter_mut().enumerate().filter_map(|(i, round)| {
            let point = round.pop();
            point.filter(|_| i == median)
        }));
    }
    chosen.reverse();
    chosen
}

/// What is plotted and interpolated: name, label, value of a point.
type PlottedValue = (&'static str, &'static str, fn(&Figures) -> f64);
const QUANTITIES: [PlottedValue; 4] = [
    ("qps", "queries per second", Figures::qps),
    ("mean_us", "mean latency, us", |f| f.latency.mean_us),
    ("reads", "page reads per query", Figures::reads),
    ("cpu_us", "CPU per query, us", Figures::cpu_us),
];

fn curve(points: &[Point], run: usize, value: fn(&Figures) -> f64) -> Vec<(f64, f64)> {
    let own = points.iter().filter(|p| p.run == run);
    own.filter_map(|p| Some((p.figures.recall?, value(&p.figures)))).collect()
}

fn at_targets(job: &JobFile, points: &[Point], run: usize) -> Vec<(f64, [Option<f64>; 4])> {
    let at = |target| QUANTITIES.map(|(_, _, value)| at_recall(&curve(points, run, value), target));
    job.targets.iter().map(|&target| (target, at(target))).collect()
}

fn print_tables(job: &JobFile, points: &[Point]) -> Result<()> {
    let names: Vec<String> = job.runs.iter().map(JobRun::name).collect();
    let table = Figures::table(names.iter().map(String::as_str));
    print_line(&table.header())?;
    for p in points {
        print_line(&table.line(&p.figures.cells(&names[p.run])))?;
    }
    if job.targets.is_empty() {
        return Ok(());
    }
    print_line("\ninterpolated at recall (- where it lies outside of what was measured)")?;
    let table = Table::new(&["run", "recall", "QPS", "mean us", "reads", "CPU us"])
        .first_column(names.iter().map(String::as_str));
    print_line(&table.header())?;
    for (run, name) in names.iter().enumerate() {
        for (target, [qps, mean, reads, cpu]) in at_targets(job, points, run) {
            let cell = |v: Option<f64>, decimals: usize| {
                v.map_or("-".to_owned(), |v| format!("{v:.decimals$}"))
            };
            let cells = [
                name.clone(),
                target.to_string(),
                cell(qps, 0),
                cell(mean, 0),
                cell(reads, 1),
                cell(cpu, 0),
            ];
            print_line(&table.line(&cells))?;
        }
    }
    Ok(())
}

fn write_results(job: &JobFile, points: &[Point], out: &Path) -> Result<()> {
    let names: Vec<String> = job.runs.iter().map(JobRun::name).collect();
    ensure!(points.iter().all(|p| p.run < names.len()), "a point without a run");
    let targets: Vec<Value> = names
        .iter()
        .enumerate()
        .flat_map(|(run, name)| {
            at_targets(job, points, run).into_iter().map(move |(target, values)| {
                let mut row = json!({ "run": name, "recall": target });
                for ((quantity, ..), value) in QUANTITIES.iter().zip(values) {
                    row[*quantity] = json!(value.map(|v| rounded(v, 3)));
                }
                row
            })
        })
        .collect();
    let all = json!({
        "job": job.name, "rounds": job.rounds,
        "points": points.iter().map(|p| &p.json).collect::<Vec<_>>(),
        "targets": targets,
    });
    let mut file = WholeFile::create(&out.join(format!("{}.json", job.name)))?;
    file.write(format!("{all:#}\n").as_bytes())?;
    file.finish()?;
    for (quantity, label, value) in QUANTITIES {
        let curves: Vec<Curve> = names
            .iter()
            .enumerate()
            .map(|(run, name)| Curve { name: name.clone(), points: curve(points, run, value) })
            .collect();
        let title = format!("{}: {label} over recall@{}", job.name, job.data.k);
        let path = out.join(format!("{}-{quantity}.svg", job.name));
        draw(&path, Axis { title: &title, label, falls: quantity == "qps" }, &curves)?;
    }
    Ok(())
}
