//! File headers and what they lead to, with the checksum as found and as it should be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipeann_engine::format::{BlockChecksums, FileHeader, FileKind, Identity, open_body};

const KINDS: [FileKind; 6] = [
    FileKind::Codebook,
    FileKind::Head,
    FileKind::PageMap,
    FileKind::Codes,
    FileKind::RowMap,
    FileKind::Tombstones,
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first_chunk::<33>() else { return };
    let kind = KINDS[usize::from(choice[0]) % KINDS.len()];
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&choice[1..17]);
    let identity = Identity { uuid };
    let number = |at: usize| {
        u64::from_le_bytes(choice[at..at + 8].try_into().expect("the slice has 8 bytes"))
    };
    let _ = FileHeader::decode(rest, kind, &identity);

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
        let _ = BlockChecksums::decode(&read, rest);
        BlockChecksums::of_body(read, rest);
    } else {
        let _ = open_body(&bytes, kind, &identity);
    }
});
