//! Progress bars on standard error, shown only where a person looks at it.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `total` steps with rate and time left; hidden where standard error is no terminal.
pub(crate) fn bar(name: &str, total: u64, unit: &str) -> ProgressBar {
    // indicatif hides the bar by itself where the target is no terminal.
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(4));
    let template = format!(
        "{{prefix:>9}} [{{bar:30}}] {{percent:>3}} %  {{human_pos}} of {{human_len}} {unit}, \
         {{per_sec}}, {{eta}} left"
    );
    let style = ProgressStyle::with_template(&template).expect("a valid template");
    bar.set_style(style.progress_chars("=> "));
    bar.set_prefix(name.to_owned());
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
