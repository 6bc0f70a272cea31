//! Servers that are several: any of them takes any call.

mod forwarded;
mod hedged;
mod iterating;
mod known;
mod links;
mod lost;
mod once;
mod peers;
mod raw;
mod reading;
mod relayed;
mod requests;
mod shown;
mod walked;
