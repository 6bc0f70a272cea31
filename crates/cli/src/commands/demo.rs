//! `pipeann demo`: real vectors built, searched and compared, without a question asked.
//!
//! Data: the directory given, else the benchmark's million SIFT descriptors where they lie
//! beside the repository, else descriptors of photographs that a script of this repository
//! makes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use pipeann_engine::build::BuildOptions;
use pipeann_engine::types::Metric;
use pipeann_server::opening::By;

use crate::building::build_index;
use crate::inspection::{self, PageFigures};
use crate::opening::{self, Reading};
use crate::policy::PolicyArgs;
use crate::searching::{Figures, RunSettings, measure};
use crate::table::{print_line, print_pairs};
use crate::truth::Truth;
use crate::vectors_file::VectorsFile;
use pipeann_engine::memory::MemoryLimit;
use pipeann_server::interrupt;

/// Build an index of real vectors, search it, and compare with the exact answer
///
/// Takes the million SIFT descriptors of the benchmarks where they are there, else makes
/// descriptors of photographs (needs the Python packages of bench/data/photos-requirements.txt).
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Directory with *.base.u8bin, *.query.u8bin and *.gt100.bin
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where benchmark data are, if anywhere
    #[arg(long, value_name = "DIR", env = "PIPEANN_DATA", hide = true)]
    given: Option<PathBuf>,
    /// Directory for the index and for data that have to be made
    #[arg(long, value_name = "DIR", default_value = ".cache/demo")]
    work: PathBuf,
    /// Read through the page cache of the operating system instead of past it (O_DIRECT)
    #[arg(long)]
    buffered: bool,
    #[command(flatten)]
    by: By,
}

/// The files of a set.
struct DataSet {
    base: PathBuf,
    queries: PathBuf,
    truth: PathBuf,
}

const LISTS: [usize; 4] = [20, 30, 50, 100];
const K: usize = 10;
/// Enough for steady figures, few enough for an impatient reader.
const QUERIES: usize = 2000;
/// Where the benchmark's data lie packed, seen from the repository.
const PACKED: &str = "../shared/data";
const PHOTOS: &str = "bench/data/photos.py";
const SAMPLE_PAGES: u32 = 2000;

/// Runs the command.
pub(crate) fn run(args: &DemoArgs) -> Result<()> {
    std::fs::create_dir_all(&args.work).with_context(|| args.work.display().to_string())?;
    let by = args.by.clone();
    let reading = Reading { buffered: args.buffered, by, ..Reading::default() };
    // Devices that cannot be used are told of before the work, and held until it is done.
    let _held = reading.by.backend()?;
    let data = find_data(args)?;
    let base = VectorsFile::open(&data.base)?;
    let queries = VectorsFile::open(&data.queries)?;
    let used = queries.first(QUERIES);
    let truth = Truth::of_first(&data.truth, queries.rows(), used.rows(), K)?;
    print_line(&format!("vectors: {}", data.base.display()))?;

    let path = args.work.join("index");
    let options = BuildOptions { overwrite: true, ..BuildOptions::new(Metric::L2) };
    let cancel = interrupt::flag()?;
    let built = build_index(&base, &path, &options, None, &cancel)?;
    print_pairs(&built.pairs())?;

    let index = opening::open(&path, MemoryLimit::Floor, &reading)?;
    print_line(&format!("\nthe index ({})", path.display()))?;
    let figures = PageFigures::sample(&index, SAMPLE_PAGES)?;
    print_pairs(&inspection::pairs(&index, &figures))?;

    print_line(&format!(
        "\nsearched from disk for {} queries on 1 thread, one query in flight; recall@{K} against \
         the exact answer",
        used.rows()
    ))?;
    let names = ["pipe", "page", "beam"];
    let table = Figures::table(names.into_iter());
    print_line(&table.header())?;
    for name in names {
        let settings = RunSettings {
            name: name.to_owned(),
            policy_name: name.to_owned(),
            policy: PolicyArgs::named(name).policy()?,
            k: K,
            threads: 1,
            in_flight: 1,
            repeat: 1,
        };
        for list in LISTS {
            interrupt::check(&cancel)?;
            let (figures, _) = measure(&index, used, Some(&truth), list, &settings)?;
            print_line(&table.line(&figures.cells(name)))?;
        }
    }
    print_next_steps(&path, &data)
}

fn print_next_steps(index: &Path, data: &DataSet) -> Result<()> {
    let index = index.display();
    let queries = data.queries.display();
    let truth = data.truth.display();
    print_line("\nnext")?;
    let search = format!("pipeann search --index {index} --queries {queries} --truth {truth}");
    for line in [
        format!("{search} --in-flight 8"),
        format!("{search} --memory-limit all"),
        format!("pipeann inspect --index {index} --verify"),
        format!("pipeann raw --index {index} --depth 64"),
        "pipeann build --base FILE --index DIR --metric l2   # your own vectors".to_owned(),
    ] {
        print_line(&format!("  {line}"))?;
    }
    Ok(())
}

fn find_data(args: &DemoArgs) -> Result<DataSet> {
    if let Some(dir) = &args.data {
        return data_in(dir);
    }
    let sift = |dir: &Path| DataSet {
        base: dir.join("sift1m.base.u8bin"),
        queries: dir.join("sift.query.u8bin"),
        truth: dir.join("sift1m.gt100.bin"),
    };
    let unpacked = args.work.join("sift1m");
    let given = args.given.iter().map(PathBuf::as_path).chain([Path::new(PACKED)]);
    let places: Vec<&Path> = given.chain([unpacked.as_path()]).collect();
    if let Some(dir) = places.iter().find(|dir| sift(dir).base.exists()) {
        return Ok(sift(dir));
    }
    if let Some(dir) = places.iter().find(|dir| dir.join("unpack.py").exists()) {
        eprintln!("unpacking {}", dir.display());
        python(&[&dir.join("unpack.py"), &unpacked])?;
        return Ok(sift(&unpacked));
    }
    let photos = args.work.join("photos");
    if data_in(&photos).is_err() {
        ensure!(
            Path::new(PHOTOS).exists(),
            "{PHOTOS} is not here: run the demo in the repository, or give --data DIR with \
             *.base.u8bin, *.query.u8bin and *.gt100.bin"
        );
        eprintln!("making descriptors of photographs in {}", photos.display());
        python(&[Path::new(PHOTOS), Path::new("--out"), photos.as_path()])
            .context("bench/data/photos-requirements.txt lists the Python packages needed")?;
    }
    data_in(&photos)
}

/// The one set in a directory.
fn data_in(dir: &Path) -> Result<DataSet> {
    let entries = std::fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut names: Vec<String> =
        entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    let one = |suffix: &str| {
        let found: Vec<&String> = names.iter().filter(|n| n.ends_with(suffix)).collect();
        match found.as_slice() {
            [name] => Ok(dir.join(name)),
            [] => bail!("{}: no file *{suffix}", dir.display()),
            _ => bail!("{}: more than one file *{suffix}", dir.display()),
        }
    };
    Ok(DataSet {
        base: one(".base.u8bin")?,
        queries: one(".query.u8bin")?,
        truth: one(".gt100.bin")?,
    })
}

/// Runs a Python script; what it prints goes to standard error.
fn python(arguments: &[&Path]) -> Result<()> {
    let status = Command::new("python3")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .context("python3 cannot be started")?;
    ensure!(status.success(), "{} failed ({status})", arguments[0].display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_must_hold_exactly_one_set() {
        let dir = tempfile::tempdir().unwrap();
        let refused = || data_in(dir.path()).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(refused().contains("no file *.base.u8bin"));
        for name in ["a.base.u8bin", "a.query.u8bin", "a.gt100.bin"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(data_in(dir.path()).unwrap().truth, dir.path().join("a.gt100.bin"));
        std::fs::write(dir.path().join("b.gt100.bin"), "").unwrap();
        assert!(refused().contains("more than one file *.gt100.bin"));
    }
}
