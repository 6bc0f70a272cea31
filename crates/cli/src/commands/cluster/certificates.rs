//! `pipeann cluster certificates`: an authority of a cluster, and what it signs.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pipeann_server::joining::placement;

use crate::authority::Authority;
use crate::table::print_line;

/// Make an authority for a cluster, and certificates for its servers and clients
///
/// A server needs ca.pem and its own server-NUMBER.pem and .key; a client ca.pem, client.pem and
/// client.key. Whoever has ca.key can let others in: keep it away from all of them. Certificates do
/// not expire; to lock somebody out, make new ones in another directory.
#[derive(Debug, Args)]
pub(crate) struct CertificatesArgs {
    /// Servers with their names, as TOML
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,
    /// Directory that is made for them; only its owner may read it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &CertificatesArgs) -> Result<()> {
    let placement = placement(&args.topology)?;
    let out = &args.out;
    ensure!(!out.exists(), "{} exists already", out.display());
    let authority = Authority::new(placement.cluster())?;
    let mut made = vec![("ca".to_owned(), authority.certificate.clone(), authority.key.clone())];
    for server in placement.servers() {
        let (certificate, key) = authority.sign(&server.tls_name)?;
        made.push((format!("server-{}", server.number), certificate, key));
    }
    let (certificate, key) = authority.sign("client")?;
    made.push(("client".to_owned(), certificate, key));
    DirBuilder::new()
        .mode(0o700)
        .create(out)
        .with_context(|| format!("creating {}", out.display()))?;
    for (name, certificate, key) in &made {
        write(&out.join(format!("{name}.pem")), certificate)?;
        write(&out.join(format!("{name}.key")), key)?;
    }
    print_line(&format!(
        "{}: an authority, certificates of {} servers and of a client",
        out.display(),
        placement.servers().len()
    ))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.with_context(|| format!("creating {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}
