//! Jobs of searches on an index: measured by curves of recall, drawn, and widths chosen from them.
//!
//! | file | holds |
//! |---|---|
//! | `command` | a job file in; a table, JSON and plots out |
//! | `job` | the job file |
//! | `plots` | curves as SVG |
//! | `width_profile` | rate and latency by the width of the pipeline and searches in flight |
//! | `width_choice` | which width is best for each number of searches |

pub(crate) mod command;
mod job;
mod plots;
mod width_choice;
mod width_profile;
