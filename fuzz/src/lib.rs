//! Hostile bytes for every decoder: what each target does with an input, and its seeds.
//!
//! The targets stand apart from the fuzzer: tests run them over the committed seeds with any
//! compiler, and the program `fuzz` runs the same functions under libFuzzer. A target decodes an
//! input within the bound of [`counting`], then holds what it read against what must be true, and
//! marks which sections of the format the input has reached.

pub mod counting;
pub mod seeds;
mod targets;

use std::path::{Path, PathBuf};

/// Sections of a format that inputs have reached, by name.
#[derive(Debug, Default)]
pub struct ReachedSections(Vec<&'static str>);

impl ReachedSections {
    /// Notes a section where it was reached.
    pub fn mark(&mut self, section: &'static str, reached: bool) {
        if reached && !self.0.contains(&section) {
            self.0.push(section);
        }
    }

    /// Whether a section was reached.
    pub fn has(&self, section: &str) -> bool {
        self.0.contains(&section)
    }
}

/// Something that takes bytes from a file.
#[derive(Debug)]
pub struct FuzzTarget {
    /// Its name, and of the directory of its seeds.
    pub name: &'static str,
    /// What its seeds have to reach: every optional section, kind and version of the format.
    pub sections: &'static [&'static str],
    /// Whether it is broken on purpose, to prove that fuzzing finds it.
    pub planted: bool,
    run: fn(&[u8], &mut ReachedSections),
}

impl FuzzTarget {
    /// Decodes an input.
    ///
    /// # Panics
    /// Where the target marks what is none of its sections, which no seed would have to reach.
    pub fn run(&self, data: &[u8]) -> ReachedSections {
        let mut reached = ReachedSections(Vec::with_capacity(self.sections.len()));
        (self.run)(data, &mut reached);
        let unlisted = reached.0.iter().find(|section| !self.sections.contains(section));
        assert_eq!(unlisted, None, "{} marks a section that it does not list", self.name);
        reached
    }

    /// The directory of its committed seeds.
    pub fn seeds(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(self.name)
    }
}

/// All targets.
pub fn targets() -> &'static [FuzzTarget] {
    targets::ALL
}

/// The target of this name.
pub fn target(name: &str) -> Option<&'static FuzzTarget> {
    targets().iter().find(|target| target.name == name)
}
