//! How a command becomes part of a cluster: its topology and its certificates.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use pipeann_cluster::placement::{FILE_MAX, Placement};
use pipeann_cluster::transport::tcp::Tls;

use crate::process::one_line;

/// The cluster, and who this is to it.
#[derive(Clone, Debug, Args)]
pub struct Joining {
    /// Servers with their addresses and partitions, as TOML
    #[arg(long, value_name = "FILE")]
    pub topology: PathBuf,
    /// Certificates of the cluster's authority in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// This side's certificates in PEM, its own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    tls_key: Option<PathBuf>,
    /// Do without certificates: everything is sent as it is, to whoever claims to be a server
    #[arg(long, conflicts_with = "tls_ca")]
    insecure: bool,
}

impl Joining {
    /// On this machine, without certificates.
    pub fn insecure(topology: PathBuf) -> Self {
        Self { topology, tls_ca: None, tls_cert: None, tls_key: None, insecure: true }
    }

    /// The topology.
    ///
    /// # Errors
    /// The file cannot be read, or is no topology.
    pub fn placement(&self) -> Result<Placement> {
        placement(&self.topology)
    }

    /// The certificates, where there are any.
    ///
    /// # Errors
    /// Their files cannot be read or hold none, or are not named, without `--insecure`.
    pub fn tls(&self) -> Result<Option<Tls>> {
        let (Some(ca), Some(cert), Some(key)) = (&self.tls_ca, &self.tls_cert, &self.tls_key)
        else {
            if self.insecure {
                return Ok(None);
            }
            bail!("--tls-ca, --tls-cert and --tls-key are missing; or say --insecure");
        };
        tls([ca, cert, key]).map(Some)
    }
}

/// What becomes part of a cluster: its topology, and certificates where the files of an authority, a
/// certificate and its key are named.
///
/// # Errors
/// What went wrong, in one line.
pub fn join(
    topology: &Path,
    certificates: Option<&[PathBuf; 3]>,
) -> Result<(Placement, Option<Tls>), String> {
    let joined = placement(topology).and_then(|placement| {
        Ok((placement, certificates.map(|files| tls(files.each_ref())).transpose()?))
    });
    joined.map_err(|error| one_line(&error))
}

/// Certificates of files: of the authority, of this side, and its key.
fn tls(files: [&PathBuf; 3]) -> Result<Tls> {
    let read =
        |path: &PathBuf| std::fs::read(path).with_context(|| format!("reading {}", path.display()));
    let [ca, cert, key] = files;
    Ok(Tls::from_pem(&read(ca)?, &read(cert)?, &read(key)?)?)
}

/// The topology of a file.
///
/// # Errors
/// As [`Joining::placement`].
pub fn placement(path: &Path) -> Result<Placement> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.take(FILE_MAX as u64 + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("reading {}", path.display()))?;
    Placement::parse(&text).with_context(|| path.display().to_string())
}
