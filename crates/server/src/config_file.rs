//! The flags of the server, read from a file.
//!
//! A file is TOML: the names of flags and their values. It is put before the flags that are given, so
//! that those win; an environment variable wins over the file too. The command itself says which flags
//! there are, and refuses what it would refuse.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Command;
use toml::Value;

/// The flag that names the file.
const FLAG: &str = "config";
/// The subcommand that has it; else the command itself has it.
const SERVE: &str = "serve";

/// The arguments of a program, with the flags of the file that they name: where it has a subcommand
/// `serve`, after that alone.
///
/// # Errors
/// A file that cannot be read, is no TOML, or has flags that the command does not take.
pub fn expanded(command: Command, given: Vec<OsString>) -> Result<Vec<OsString>> {
    let subcommand = command.find_subcommand(SERVE);
    // The program's own name, and that of the subcommand.
    let names = if subcommand.is_some() { 2 } else { 1 };
    if subcommand.is_some() && given.get(1).is_none_or(|name| name != SERVE) {
        return Ok(given);
    }
    let Some(path) = named_file(&given) else { return Ok(given) };
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("reading the configuration {}", path.display()))?;
    let flags = flags(subcommand.unwrap_or(&command), &text, &path)?;
    let mut all: Vec<OsString> = given[..names].to_vec();
    all.extend(flags);
    all.extend_from_slice(&given[names..]);
    Ok(all)
}

fn named_file(given: &[OsString]) -> Option<PathBuf> {
    let flag = format!("--{FLAG}");
    let mut given = given.iter();
    while let Some(argument) = given.next() {
        if argument == OsStr::new(&flag) {
            return given.next().map(PathBuf::from);
        }
        let joined = argument.to_str().and_then(|text| text.strip_prefix(&format!("{flag}=")));
        if let Some(path) = joined {
            return Some(PathBuf::from(path));
        }
    }
    None
}

/// Whether the environment has a variable, which then wins over the file.
#[expect(clippy::disallowed_methods, reason = "clap reads the same one, later")]
fn is_set(name: &OsStr) -> bool {
    std::env::var_os(name).is_some()
}

/// The flags that a file asks for.
fn flags(command: &Command, text: &str, path: &Path) -> Result<Vec<OsString>> {
    let table: toml::Table =
        text.parse().with_context(|| format!("the configuration {} is no TOML", path.display()))?;
    let mut flags = Vec::new();
    for (key, value) in table {
        let flag = command.get_arguments().find(|argument| {
            let names = argument.get_long_and_visible_aliases().unwrap_or_default();
            let hidden = argument.get_all_aliases().unwrap_or_default();
            names.into_iter().chain(hidden).any(|name| name == key) && key != FLAG
        });
        let Some(flag) = flag else {
            bail!("the configuration {} has the unknown key `{key}`", path.display());
        };
        if flag.get_env().is_some_and(is_set) {
            continue;
        }
        let long = format!("--{key}");
        match value {
            Value::Boolean(is_on) if !flag.get_action().takes_values() => {
                flags.extend(is_on.then(|| OsString::from(long)));
            }
            Value::String(_) | Value::Integer(_) | Value::Float(_)
                if flag.get_action().takes_values() =>
            {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                flags.push(OsString::from(format!("{long}={text}")));
            }
            other => bail!(
                "the configuration {} gives `{key}` a value that it cannot have: {other}",
                path.display()
            ),
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, CommandFactory as _, Parser as _};

    use super::*;
    use crate::ServerCli;
    use crate::serve::ServerFlags;

    fn parsed(text: &str, given: &[&str]) -> Result<ServerCli> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("server.toml");
        std::fs::write(&path, text)?;
        let mut all = vec![OsString::from("server"), OsString::from("--config"), path.into()];
        all.extend(given.iter().map(OsString::from));
        Ok(ServerCli::try_parse_from(expanded(ServerCli::command(), all)?)?)
    }

    /// A command that serves, and does other things.
    fn with_subcommands() -> Command {
        let serve = ServerFlags::augment_args(Command::new(SERVE));
        Command::new("pipeann").subcommands([serve, Command::new("demo")])
    }

    #[test]
    fn a_file_has_the_names_of_flags_and_flags_win() {
        let text = "port = 1\nhost = \"::1\"\ndata_dir = \"/d\"\nauthorization = true\n";
        let args = format!("{:?}", parsed(text, &["--port", "2"]).unwrap());
        for part in ["port: 2", "host: \"::1\"", "data_dir: \"/d\"", "authorization: true"] {
            assert!(args.contains(part), "{part} in {args}");
        }
        let off = format!("{:?}", parsed("authorization = false", &[]).unwrap());
        assert!(off.contains("authorization: false"), "{off}");
    }

    #[test]
    fn a_list_that_is_given_takes_the_place_of_the_files() {
        let text = "cluster = \"c\"\nstore = \"file:///s\"\netcd = \"http://a,http://b\"\n";
        let urls = |given: &[&str]| parsed(text, given).unwrap().serve.etcd().to_owned();
        assert_eq!(urls(&[]), ["http://a", "http://b"]);
        assert_eq!(urls(&["--etcd", "http://c"]), ["http://c"]);
        assert_eq!(urls(&["--etcd=http://c,http://d"]), ["http://c", "http://d"]);
    }

    #[test]
    fn what_no_flag_would_take_is_refused() {
        let refused = |text: &str| parsed(text, &[]).unwrap_err().to_string();
        assert!(refused("prot = 1").contains("unknown key `prot`"));
        assert!(refused("config = \"x\"").contains("unknown key `config`"));
        assert!(refused("port = ").contains("is no TOML"));
        assert!(refused("port = true").contains("a value that it cannot have"));
        assert!(refused("authorization = 1").contains("a value that it cannot have"));
        assert!(refused("port = 70000").contains("70000"));
        let missing = ["pipeann", "serve", "--config=/nowhere"].map(OsString::from).to_vec();
        let error = expanded(with_subcommands(), missing).unwrap_err().to_string();
        assert!(error.contains("/nowhere"), "{error}");
    }

    #[test]
    fn other_commands_read_no_file() {
        let given = ["pipeann", "demo", "--config", "/nowhere"].map(OsString::from).to_vec();
        assert_eq!(expanded(with_subcommands(), given.clone()).unwrap(), given);
    }
}
