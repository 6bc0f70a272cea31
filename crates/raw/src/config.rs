//! `spdk_bdevs.json`: which devices, in which order.
//!
//! The keys are those of PipeANN's documentation, `ssds` and `hugedir`. Three more may stand beside
//! them: `poller` (`auto`, `spin`, `yield` or `sleep`), `pin` (`auto`, `on` or `off`) and `lost`
//! (`files` or `fail`), what becomes of reads of an SSD that was pulled out. An entry of
//! `ssds` is the PCI address of an SSD, a transport of NVMe over a network, or a file that stands in
//! for one.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::devices::{DevicesOptions, OnLoss};
use crate::pinning::Pinning;
use crate::poller::Idle;

/// One device of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ssd {
    /// An SSD behind its PCI address, as `0000:66:00.0`.
    Pci(String),
    /// One behind a network: a transport as SPDK writes it, `trtype:TCP adrfam:IPv4 traddr:..`.
    Transport(String),
    /// A file that stands in for one.
    File(PathBuf),
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The devices, in the order of the stripe.
    pub ssds: Vec<Ssd>,
    /// Where huge pages are mounted.
    pub hugedir: Option<String>,
    /// How devices are served.
    pub serve: DevicesOptions,
}

/// A file that is none.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error(
        "cannot read {}: {source}; it lists the SSDs as {{\"ssds\": [..], \"hugedir\": ..}}, and is \
         looked for in the working directory unless --spdk-config names it", path.display()
    )]
    Read {
        /// Where it was looked for.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It says something else than it may.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigText {
    ssds: Vec<String>,
    hugedir: Option<String>,
    poller: Option<String>,
    pin: Option<String>,
    lost: Option<String>,
}

impl Config {
    /// Where it is looked for unless told otherwise: in the working directory.
    pub const NAME: &str = "spdk_bdevs.json";

    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let shown = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: shown(), source })?;
        // Files are named from where the list stands.
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder)
            .map_err(|reason| ConfigError::Content { path: path.to_owned(), reason })
    }

    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let text: ConfigText = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let ssds =
            text.ssds.iter().map(|entry| ssd(entry, folder)).collect::<Result<Vec<_>, _>>()?;
        if ssds.is_empty() {
            return Err("`ssds` is empty".into());
        }
        for (i, ssd) in ssds.iter().enumerate() {
            if ssds[..i].contains(ssd) {
                return Err(format!("`ssds` lists {} twice", text.ssds[i]));
            }
        }
        let idle = match text.poller.as_deref() {
            None | Some("auto") => None,
            Some("spin") => Some(Idle::Spin),
            Some("yield") => Some(Idle::Yield),
            Some("sleep") => Some(Idle::Sleep),
            Some(other) => {
                return Err(format!("`poller` is `{other}`: auto, spin, yield or sleep"));
            }
        };
        let pinning = match text.pin.as_deref() {
            None | Some("auto") => Pinning::Auto,
            Some("on") => Pinning::On,
            Some("off") => Pinning::Off,
            Some(other) => return Err(format!("`pin` is `{other}`: auto, on or off")),
        };
        let on_loss = match text.lost.as_deref() {
            None | Some("files") => OnLoss::Files,
            Some("fail") => OnLoss::Fail,
            Some(other) => return Err(format!("`lost` is `{other}`: files or fail")),
        };
        let serve = DevicesOptions { idle, pinning, on_loss };
        Ok(Self { ssds, hugedir: text.hugedir, serve })
    }

    /// The entries that need SPDK, as they are written.
    pub fn needing_spdk(&self) -> impl Iterator<Item = &str> {
        self.ssds.iter().filter_map(|ssd| match ssd {
            Ssd::Pci(address) | Ssd::Transport(address) => Some(address.as_str()),
            Ssd::File(_) => None,
        })
    }
}

fn ssd(entry: &str, folder: &Path) -> Result<Ssd, String> {
    if is_pci(entry) {
        return Ok(Ssd::Pci(entry.to_ascii_lowercase()));
    }
    if entry.contains("trtype:") {
        return Ok(Ssd::Transport(entry.to_owned()));
    }
    if entry.contains('/') {
        return Ok(Ssd::File(folder.join(entry)));
    }
    Err(format!(
        "`ssds` lists `{entry}`, which is neither a PCI address as 0000:66:00.0, nor the path of a \
         file with a slash in it, as ./ssd0.raw"
    ))
}

/// Whether it is `domain:bus:device.function` in hexadecimal digits.
fn is_pci(entry: &str) -> bool {
    let shape = [4, 2, 2, 1];
    let parts: Vec<&str> = entry.split([':', '.']).collect();
    parts.len() == 4
        && entry.rfind(':') < entry.find('.')
        && parts.iter().zip(shape).all(|(part, digits)| {
            part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/where"))
    }

    #[test]
    fn the_file_of_the_documentation_is_read_in_its_order() {
        let text = r#"{
          "ssds": ["0000:66:00.0", "0000:67:00.0", "0000:68:00.0", "0000:E4:00.0"],
          "hugedir": "/dev/hugepages"
        }"#;
        let config = parsed(text).unwrap();
        let pci = ["0000:66:00.0", "0000:67:00.0", "0000:68:00.0", "0000:e4:00.0"];
        assert_eq!(config.ssds, pci.map(|address| Ssd::Pci(address.into())));
        assert_eq!(config.hugedir.as_deref(), Some("/dev/hugepages"));
        assert_eq!(config.needing_spdk().count(), 4);
    }

    #[test]
    fn files_and_transports_may_stand_for_ssds() {
        let text = r#"{"ssds": ["./a", "/b", "trtype:TCP adrfam:IPv4"], "poller": "yield", "pin": "off",
                "lost": "fail"}"#;
        let config = parsed(text).unwrap();
        assert_eq!(config.ssds[0], Ssd::File("/where/./a".into()));
        assert_eq!(config.ssds[1], Ssd::File("/b".into()));
        assert_eq!(config.needing_spdk().collect::<Vec<_>>(), ["trtype:TCP adrfam:IPv4"]);
        let idle = Some(Idle::Yield);
        let serve = DevicesOptions { idle, pinning: Pinning::Off, on_loss: OnLoss::Fail };
        assert_eq!(config.serve, serve);
    }

    #[test]
    fn what_it_may_not_say_is_named() {
        for (text, named) in [
            (r#"{"ssds": []}"#, "empty"),
            (r#"{"ssds": ["0000:66:00.0", "0000:66:00.0"]}"#, "0000:66:00.0 twice"),
            (r#"{"ssds": ["/a"], "stripe": 4096}"#, "stripe"),
            (r#"{"hugedir": "/dev/hugepages"}"#, "ssds"),
            (r#"{"ssds": ["nvme0n1"]}"#, "nvme0n1"),
            (r#"{"ssds": ["0000:66:00"]}"#, "0000:66:00"),
            (r#"{"ssds": ["/a"], "poller": "fast"}"#, "fast"),
            (r#"{"ssds": ["/a"], "pin": "maybe"}"#, "maybe"),
            (r#"{"ssds": ["/a"], "lost": "ignore"}"#, "ignore"),
            ("{", "EOF"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        let error = Config::read(Path::new("absent/spdk_bdevs.json")).unwrap_err().to_string();
        assert!(error.contains("absent/spdk_bdevs.json") && error.contains("--spdk-config"));
    }
}
