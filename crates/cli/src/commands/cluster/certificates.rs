//! `pipeann cluster certificates`: an authority of a cluster, and what it signs.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{ArgGroup, Args};
use pipeann_server::joining::placement;

use crate::authority::Authority;
use crate::table::print_line;

/// Make an authority for a cluster, and certificates for its servers and clients
///
/// A server needs ca.pem and its own server-NUMBER.pem and .key (HOST.pem and .key where hosts are
/// named); a client ca.pem, client.pem and client.key. Whoever has ca.key can let others in: keep it
/// away from all of them. Certificates do not expire; to lock somebody out, make new ones in another
/// directory.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("servers").required(true).args(["topology", "host"])))]
pub(crate) struct CertificatesArgs {
    /// Servers of one graph with their names, as TOML
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Servers of one database: a name or an IP address by which clients and other servers reach
    /// one, as in its --advertise; again for each of them
    #[arg(long, value_name = "HOST", requires = "cluster")]
    host: Vec<String>,
    /// The cluster's name, where hosts are named
    #[arg(long, value_name = "NAME", conflicts_with = "topology")]
    cluster: Option<String>,
    /// Directory that is made for them; only its owner may read it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &CertificatesArgs) -> Result<()> {
    let out = &args.out;
    ensure!(!out.exists(), "{} exists already", out.display());
    let (cluster, servers) = named_servers(args)?;
    let authority = Authority::new(&cluster)?;
    let mut made = vec![("ca".to_owned(), authority.certificate.clone(), authority.key.clone())];
    for NamedServer { file, name } in &servers {
        let (certificate, key) = authority.sign(name)?;
        made.push((file.clone(), certificate, key));
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
        servers.len()
    ))
}

/// Whose certificate is in which files.
struct NamedServer {
    /// Without their endings.
    file: String,
    /// The name or address that it is for.
    name: String,
}

/// The cluster's name, and its servers.
fn named_servers(args: &CertificatesArgs) -> Result<(String, Vec<NamedServer>)> {
    let Some(topology) = &args.topology else {
        let hosts: BTreeSet<_> = args.host.iter().collect();
        ensure!(hosts.len() == args.host.len(), "a host is named twice");
        let named = hosts.into_iter().map(|host| {
            let is_host = host
                .starts_with(|first: char| first.is_ascii_alphanumeric() || first == ':')
                && host.chars().all(|it| it.is_ascii_alphanumeric() || ".-:".contains(it));
            ensure!(is_host, "{host:?} is no host: a name or an IP address, without a port");
            let is_ours = ["ca", "client"].contains(&host.as_str());
            ensure!(!is_ours, "{host}.pem is the name of another file; name this host in full");
            Ok(NamedServer { file: host.clone(), name: host.clone() })
        });
        let servers = named.collect::<Result<_>>()?;
        return Ok((args.cluster.clone().unwrap_or_default(), servers));
    };
    let placement = placement(topology)?;
    let named = placement.servers().iter().map(|server| NamedServer {
        file: format!("server-{}", server.number),
        name: server.tls_name.clone(),
    });
    Ok((placement.cluster().to_owned(), named.collect()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.with_context(|| format!("creating {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}
