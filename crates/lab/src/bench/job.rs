//! Benchmark jobs: what a job file says, and where its data lie.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pipeann_engine::build::{BuildOptions, PartitionBy, VamanaOptions};
use pipeann_engine::io::BackendChoice;
use pipeann_engine::types::Metric;
use pipeann_server::opening::By;
use serde::Deserialize;

use pipeann_cli::opening::Reading;
use pipeann_cli::policy::{DEFAULT_MAX_WIDTH, PolicyArgs};
use pipeann_cli::searching::RunSettings;
use pipeann_engine::memory::MemoryLimit;

/// A whole job file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobFile {
    /// Names the outputs.
    pub(crate) name: String,
    pub(crate) data: Data,
    #[serde(default)]
    pub(crate) build: BuildSettings,
    /// Recalls at which figures are interpolated.
    #[serde(default)]
    pub(crate) targets: Vec<f64>,
    /// How often all runs are gone through, in turn; the median rate is reported.
    #[serde(default = "one")]
    pub(crate) rounds: usize,
    #[serde(rename = "run")]
    pub(crate) runs: Vec<JobRun>,
}

/// The vectors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    pub(crate) base: PathBuf,
    pub(crate) queries: PathBuf,
    /// Computed, and kept beside the index, where it is not given.
    pub(crate) truth: Option<PathBuf>,
    pub(crate) metric: String,
    #[serde(default = "ten")]
    pub(crate) k: usize,
    pub(crate) limit_queries: Option<usize>,
}

/// Build parameters; all have the defaults of `pipeann build`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BuildSettings {
    pub(crate) degree: Option<usize>,
    pub(crate) list: Option<usize>,
    pub(crate) alpha: Option<f32>,
    pub(crate) passes: Option<usize>,
    pub(crate) code_bytes: Option<usize>,
    pub(crate) threads: Option<usize>,
    pub(crate) partitions: Option<usize>,
    pub(crate) partition_by: Option<String>,
    pub(crate) page_bytes: Option<usize>,
    pub(crate) fill: Option<f64>,
    pub(crate) seed: Option<u64>,
}

/// One curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobRun {
    /// Names the curve; the policy's name where there is none.
    name: Option<String>,
    policy: String,
    pub(crate) lists: Vec<usize>,
    #[serde(default = "one")]
    threads: usize,
    #[serde(default = "one")]
    in_flight: usize,
    width: Option<u16>,
    max_width: Option<u16>,
    #[serde(default)]
    switches: Vec<String>,
    memory_limit: Option<String>,
    #[serde(default)]
    buffered: bool,
    #[serde(default)]
    sqpoll: bool,
    backend: Option<String>,
    spdk_config: Option<PathBuf>,
}

fn one() -> usize {
    1
}

fn ten() -> usize {
    10
}

impl JobFile {
    /// Reads a job file.
    ///
    /// # Errors
    /// Unreadable, unknown names, or nothing to run; the message has the line.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{}: cannot be read", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}: no job file", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let job: Self = toml::from_str(text)?;
        ensure!(!job.runs.is_empty(), "it has no [[run]]");
        let named = !job.name.is_empty()
            && job.name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
        ensure!(named, "its name names files: letters, digits, - and _ only");
        let within = |t: &f64| (0.0..=1.0).contains(t);
        ensure!(job.targets.iter().all(within), "targets are recalls between 0 and 1");
        let mut names: Vec<String> = job.runs.iter().map(JobRun::name).collect();
        names.sort();
        for pair in names.windows(2) {
            ensure!(pair[0] != pair[1], "two runs are named `{}`", pair[0]);
        }
        for run in &job.runs {
            ensure!(!run.lists.is_empty(), "run `{}` has no lists", run.name());
            run.settings(job.data.k).with_context(|| format!("run `{}`", run.name()))?;
            run.memory_limit().with_context(|| format!("run `{}`", run.name()))?;
        }
        job.data.metric()?;
        job.build.partition_by().context("[build]")?;
        Ok(job)
    }
}

impl Data {
    /// The metric.
    pub(crate) fn metric(&self) -> Result<Metric> {
        Ok(self.metric.parse()?)
    }

    /// Where a data file lies: beside the job file, else in the data directory.
    ///
    /// # Errors
    /// Where it is in neither, with both places.
    pub(crate) fn find(file: &Path, job: &Path, data: Option<&Path>) -> Result<PathBuf> {
        let beside = job.parent().unwrap_or(Path::new("")).join(file);
        let within = data.map(|d| d.join(file));
        let places: Vec<PathBuf> = std::iter::once(beside).chain(within).collect();
        places.iter().find(|p| p.exists()).cloned().with_context(|| {
            let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            format!("no such file: {} (PIPEANN_DATA names the data directory)", places.join(", "))
        })
    }
}

impl BuildSettings {
    /// By what rows come into partitions, where it is said.
    fn partition_by(&self) -> Result<Option<PartitionBy>> {
        let by = self.partition_by.as_deref().map(str::parse).transpose();
        by.map_err(anyhow::Error::msg)
    }

    /// The engine's options.
    pub(crate) fn options(&self, metric: Metric) -> BuildOptions {
        let default = BuildOptions::new(metric);
        let graph = &default.graph;
        BuildOptions {
            graph: VamanaOptions {
                degree: self.degree.unwrap_or(graph.degree),
                list: self.list.unwrap_or(graph.list),
                alpha: self.alpha.unwrap_or(graph.alpha),
                passes: self.passes.unwrap_or(graph.passes),
                threads: self.threads.unwrap_or(graph.threads),
                seed: self.seed.unwrap_or(graph.seed),
                ..*graph
            },
            code_bytes: self.code_bytes,
            fill: self.fill.unwrap_or(default.fill),
            page_bytes: self.page_bytes,
            partitions: self.partitions.unwrap_or(default.partitions),
            partition_by: self
                .partition_by()
                .expect("names are looked at when the job is read")
                .unwrap_or(default.partition_by),
            ..default
        }
    }
}

impl JobRun {
    /// The curve's name.
    pub(crate) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.policy.clone())
    }

    /// How to search.
    pub(crate) fn settings(&self, k: usize) -> Result<RunSettings> {
        let switches: Result<Vec<_>, String> = self.switches.iter().map(|s| s.parse()).collect();
        let policy = PolicyArgs {
            policy: self.policy.clone(),
            width: self.width,
            max_width: self.max_width.unwrap_or(DEFAULT_MAX_WIDTH),
            switches: switches.map_err(anyhow::Error::msg)?,
            widths: None,
            ahead: None,
        };
        ensure!((1..=64).contains(&self.in_flight), "in_flight must be from 1 to 64");
        Ok(RunSettings {
            name: self.name(),
            policy_name: self.policy.clone(),
            policy: policy.policy()?,
            k,
            threads: pipeann_cli::searching::threads(self.threads),
            in_flight: self.in_flight,
            repeat: 1,
        })
    }

    /// Memory for the index.
    pub(crate) fn memory_limit(&self) -> Result<MemoryLimit> {
        let limit = self.memory_limit.as_deref().unwrap_or("floor");
        limit.parse().map_err(anyhow::Error::msg)
    }

    /// How the index is read.
    pub(crate) fn reading(&self) -> Result<Reading> {
        let backend = self.backend.as_deref().map_or(Ok(BackendChoice::Auto), str::parse)?;
        let by = By { backend, spdk_config: self.spdk_config.clone() };
        Ok(Reading { buffered: self.buffered, sqpoll: self.sqpoll, no_warming: false, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = 'a'\n[data]\nbase = 'b.fbin'\nqueries = 'q.fbin'\nmetric = 'l2'\n";

    #[test]
    fn a_small_job_has_the_defaults() {
        let job =
            JobFile::parse(&format!("{HEAD}[[run]]\npolicy = 'pipe'\nlists = [10, 20]\n")).unwrap();
        assert_eq!((job.data.k, job.rounds, job.runs[0].name().as_str()), (10, 1, "pipe"));
        assert_eq!(job.runs[0].memory_limit().unwrap(), MemoryLimit::Floor);
        assert_eq!(job.build.options(Metric::L2), BuildOptions::new(Metric::L2));
    }

    #[test]
    fn a_job_says_by_what_rows_come_into_partitions() {
        for (name, by) in PartitionBy::ALL {
            let build = format!("[build]\npartitions = 3\npartition_by = '{name}'\n");
            let job = format!("{HEAD}{build}[[run]]\npolicy = 'pipe'\nlists = [10]\n");
            let options = JobFile::parse(&job).unwrap().build.options(Metric::L2);
            assert_eq!((options.partitions, options.partition_by), (3, by));
        }
    }

    #[test]
    fn mistakes_are_named() {
        let refused =
            |rest: &str| format!("{:#}", JobFile::parse(&format!("{HEAD}{rest}")).unwrap_err());
        let run = "[[run]]\npolicy = 'pipe'\nlists = [10]\n";
        assert!(refused("").contains("run"));
        assert!(refused(&format!("{run}colour = 1\n")).contains("colour"));
        assert!(refused(&format!("{run}switches = ['x=y']\n")).contains("x=y"));
        assert!(refused(&format!("{run}memory_limit = 'much'\n")).contains("much"));
        assert!(refused(&format!("{run}in_flight = 65\n")).contains("in_flight"));
        let partition = refused(&format!("[build]\npartition_by = 'colour'\n{run}"));
        assert!(partition.contains("colour") && partition.contains("kmeans"), "{partition}");
        assert!(refused(&format!("{run}{run}")).contains("two runs are named `pipe`"));
        assert!(refused("[[run]]\npolicy = 'best'\nlists = [1]\n").contains("best"));
        assert!(refused("[[run]]\npolicy = 'pipe'\nlists = []\n").contains("no lists"));
        let metric = HEAD.replace("'l2'", "'l3'");
        assert!(
            format!("{:#}", JobFile::parse(&format!("{metric}{run}")).unwrap_err()).contains("l3")
        );
        let name = HEAD.replace("'a'", "'../a'");
        assert!(
            format!("{:#}", JobFile::parse(&format!("{name}{run}")).unwrap_err())
                .contains("names files")
        );
    }
}
