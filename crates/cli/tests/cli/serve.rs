//! The server's flags.

use crate::data::{Place, text};

#[test]
fn help_shows_both_spellings_of_the_directory() {
    let help = Place::new(1).run("serve --help");
    let help = text(&help.stdout);
    for flag in ["--data-dir", "--data_dir", "--auto-load"] {
        assert!(help.contains(flag), "{flag}: {help}");
    }
}
