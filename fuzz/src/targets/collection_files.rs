//! The files of a collection and of a database that are read as a whole: `LIVE`, `AGES`, `LOADS`,
//! `ACCESS`. The first bytes of an input tell which one it is.

use pipeann_db::{access, collection};

use super::scratch::with_length;
use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["ACCESS", "AGES", "LIVE", "LOADS"];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let decodes = |name: &str| bounded(data.len(), || collection::decodes(name, data));
    match data.first_chunk::<8>() {
        Some(b"PIPEACCS") => {
            let data = with_length(data);
            reached.mark("ACCESS", bounded(data.len(), || access::decodes(&data)));
        }
        Some(b"PIPEAGES") => reached.mark("AGES", decodes("AGES")),
        Some(b"PIPELOAD") => reached.mark("LOADS", decodes("LOADS")),
        _ => reached.mark("LIVE", decodes("LIVE")),
    }
}
