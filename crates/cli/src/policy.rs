//! A search policy as it is named on the command line and in job files.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use clap::Args;
use pipeann_engine::search::{ByLoad, Issue, Policy, Width};

use crate::width_table;

/// One technique of a policy, turned on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// `issue=one|fill|informed`
    Issue(Issue),
    /// `head=on|off`
    Head(bool),
    /// `dynamic=on|off`
    Dynamic(bool),
    /// `packed=on|off`
    Packed(bool),
    /// `stop=on|off`
    EarlyStop(bool),
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        const KNOWN: &str = "known are issue=one|fill|informed, head=on|off, dynamic=on|off, packed=on|off, stop=on|off";
        let unknown = || format!("`{s}` is no switch; {KNOWN}");
        let (name, value) = s.split_once('=').ok_or_else(unknown)?;
        let on = match value {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        match (name, value, on) {
            ("issue", "one", _) => Ok(Self::Issue(Issue::OneByOne)),
            ("issue", "fill", _) => Ok(Self::Issue(Issue::Fill)),
            ("issue", "informed", _) => Ok(Self::Issue(Issue::Informed)),
            ("head", _, Some(on)) => Ok(Self::Head(on)),
            ("dynamic", _, Some(on)) => Ok(Self::Dynamic(on)),
            ("packed", _, Some(on)) => Ok(Self::Packed(on)),
            ("stop", _, Some(on)) => Ok(Self::EarlyStop(on)),
            _ => Err(unknown()),
        }
    }
}

/// A policy by name, with what departs from its defaults.
#[derive(Clone, Debug, Args)]
pub struct PolicyArgs {
    /// Order of reading and computing: auto (pipe, of a width learnt from device and load), pipe, beam,
    /// page; relay and baton, those of a cluster
    #[arg(long, default_value = "auto")]
    pub policy: String,
    /// Reads in flight per query; where the width is dynamic, those it starts with
    /// [default: auto and pipe 4 (8 with dynamic=off), beam 8, page 4]
    #[arg(long, value_name = "READS")]
    pub width: Option<u16>,
    /// Widest that a dynamic width becomes
    #[arg(long, value_name = "READS", default_value_t = DEFAULT_MAX_WIDTH)]
    pub max_width: u16,
    /// With auto: widths by searches under way from a profile (`pipeann-lab bench --profile-width`)
    /// instead of what is learnt
    #[arg(long, value_name = "FILE.toml")]
    pub widths: Option<PathBuf>,
    /// With relay and baton: nearest candidates that are looked through for one on this server before
    /// a search goes on at another [default: relay 8, baton its width]
    #[arg(long, value_name = "CANDIDATES")]
    pub ahead: Option<u16>,
    /// Techniques to turn on or off: issue=one|fill|informed, head=on|off, dynamic=on|off, packed=on|off,
    /// stop=on|off
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    pub switches: Vec<Switch>,
}

/// The bound of a dynamic width unless told otherwise.
pub const DEFAULT_MAX_WIDTH: u16 = 32;
/// Width of a pipeline whose width was fixed without saying at what; that of `beam`.
const FIXED_WIDTH: u16 = 8;

impl PolicyArgs {
    /// A policy by its name alone.
    pub fn named(policy: &str) -> Self {
        let (policy, switches) = (policy.to_owned(), Vec::new());
        let (width, widths, ahead) = (None, None, None);
        Self { policy, width, max_width: DEFAULT_MAX_WIDTH, widths, ahead, switches }
    }

    /// The policy meant.
    ///
    /// # Errors
    /// An unknown name, a width that contradicts the bound, or a file that is no table of widths.
    pub fn policy(&self) -> Result<Policy> {
        let mut policy: Policy = self.policy.parse()?;
        if let Some(path) = &self.widths {
            ensure!(policy.by_load == ByLoad::Share, "--widths is for the policy auto");
            policy.by_load = ByLoad::Table(width_table::read(path)?);
        }
        let mut dynamic = matches!(policy.width, Width::Dynamic { .. });
        for switch in &self.switches {
            match *switch {
                Switch::Issue(issue) => policy.issue = issue,
                Switch::Head(on) => policy.head = on,
                Switch::Dynamic(on) => dynamic = on,
                Switch::Packed(on) => policy.packed = on,
                Switch::EarlyStop(on) => policy.early_stop = on,
            }
        }
        let Width::Dynamic { start, converge_at, keep_ratio, .. } = Width::dynamic() else {
            unreachable!("the dynamic width is dynamic")
        };
        policy.width = if dynamic {
            let start = self.width.unwrap_or(start.min(self.max_width));
            if start > self.max_width {
                bail!("--width {start} is above --max-width {}", self.max_width);
            }
            Width::Dynamic { start, max: self.max_width, converge_at, keep_ratio }
        } else {
            match (self.width, policy.width) {
                (Some(width), _) => Width::Fixed(width),
                (None, Width::Dynamic { .. }) => Width::Fixed(FIXED_WIDTH),
                (None, named) => named,
            }
        };
        // BatANN has one number for both.
        let by_width = self.width.filter(|_| self.policy == "baton");
        policy.ahead = self.ahead.or(by_width).unwrap_or(policy.ahead);
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, width: Option<u16>, switches: &str) -> Result<Policy> {
        let switches = switches.split(',').filter(|s| !s.is_empty());
        let switches = switches.map(|s| s.parse().unwrap()).collect();
        let max_width = DEFAULT_MAX_WIDTH;
        PolicyArgs { width, max_width, switches, ..PolicyArgs::named(name) }.policy()
    }

    #[test]
    fn names_alone_are_the_engines_policies() {
        for name in ["auto", "pipe", "beam", "page", "relay", "baton"] {
            assert_eq!(policy(name, None, "").unwrap(), name.parse().unwrap());
        }
        let error = policy("best", None, "").unwrap_err().to_string();
        assert!(error.contains("`best`"), "{error}");
    }

    #[test]
    fn switches_and_widths_change_one_thing_each() {
        let pipe = Policy::pipe();
        let fixed = policy("pipe", None, "dynamic=off").unwrap();
        assert_eq!(fixed, Policy { width: Width::Fixed(8), ..pipe.clone() });
        let bare = policy("pipe", Some(16), "dynamic=off,issue=fill,head=off,packed=off,stop=off")
            .unwrap();
        let expected = Policy {
            width: Width::Fixed(16),
            issue: Issue::Fill,
            head: false,
            packed: false,
            early_stop: false,
            ..pipe
        };
        assert_eq!(bare, expected);
        assert_eq!(policy("beam", Some(4), "").unwrap(), Policy::beam(4));
        let started = policy("pipe", Some(7), "").unwrap();
        assert!(matches!(started.width, Width::Dynamic { start: 7, max: 32, .. }));
        assert!(policy("pipe", Some(40), "").unwrap_err().to_string().contains("--max-width 32"));
    }

    #[test]
    fn unknown_switches_name_the_known_ones() {
        for bad in ["issue", "issue=on", "head=maybe", "speed=on"] {
            assert!(bad.parse::<Switch>().unwrap_err().contains("packed=on|off"), "{bad}");
        }
    }
}
