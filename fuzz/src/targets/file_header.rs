//! File headers and what they lead to, with the checksum as found and as it should be.
//!
//! An input is the kind of file in a byte, identity, generation and length of the body, then a
//! file's bytes and, behind a header that is made of the former, a body's.

use pipeann_engine::format::{
    BlockChecksums, FileHeader, FileKind, Identity, open_body, seal_body,
};

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &[
    "codebook",
    "head index",
    "page map",
    "codes",
    "row map",
    "tombstones",
    "row map of some rows",
    "blocks",
    "body",
];

/// Kinds of files, by the first byte of an input.
pub(crate) const KINDS: [FileKind; 7] = [
    FileKind::Codebook,
    FileKind::Head,
    FileKind::PageMap,
    FileKind::Codes,
    FileKind::RowMap,
    FileKind::Tombstones,
    FileKind::RowPairs,
];

/// Bytes of a block with a checksum of its own.
const BLOCK_BYTES: usize = 4096;

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Some((choice, rest)) = data.split_first_chunk::<33>() else { return };
    let place = usize::from(choice[0]) % KINDS.len();
    let kind = KINDS[place];
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&choice[1..17]);
    let identity = Identity { uuid };
    let number = |at: usize| {
        u64::from_le_bytes(choice[at..at + 8].first_chunk().copied().expect("8 bytes are there"))
    };
    bounded(data.len(), || {
        if FileHeader::decode(rest, kind, &identity).is_ok() {
            let whole = kind.is_blocked() || open_body(rest, kind, &identity).is_ok();
            reached.mark(SECTIONS[place], whole);
        }
    });

    let header = FileHeader {
        kind,
        identity,
        generation: number(17),
        body_bytes: number(25),
        body_checksum: 0,
    };
    let bytes = [&header.encode(), rest].concat();
    let Ok(read) = FileHeader::decode(&bytes, kind, &identity) else { return };
    assert_eq!(read, header);
    if kind.is_blocked() {
        let _ = bounded(data.len(), || BlockChecksums::decode(&read, rest).map(|sums| sums.len()));
        // The checksums of a body, and each of its blocks against them.
        let sums = BlockChecksums::of_body(read, rest);
        let (header, tail) = (sums.header(), sums.encode_tail());
        let gap = rest.len().next_multiple_of(BLOCK_BYTES) - rest.len();
        let again = bounded(data.len(), || BlockChecksums::decode(&header, &tail[gap..]));
        let again = again.expect("they were just written");
        for (number, block) in (0..).zip(rest.chunks(BLOCK_BYTES)) {
            again.verify(number, block).expect("its checksum was just computed");
        }
        reached.mark("blocks", !again.is_empty());
    } else {
        // A body that fails its checksum, and the same body sealed.
        let _ =
            bounded(data.len(), || open_body(&bytes, kind, &identity).map(|(_, body)| body.len()));
        let sealed = seal_body(kind, &identity, number(17), rest);
        let opened =
            bounded(data.len(), || open_body(&sealed, kind, &identity).map(|(_, body)| body.len()));
        assert_eq!(opened.expect("it was just sealed"), rest.len());
        reached.mark("body", !rest.is_empty() && header.body_bytes == rest.len() as u64);
    }
}
