//! Head index bodies and the two maps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipeann_engine::format::{HeadParts, decode_page_map, decode_row_map};

fuzz_target!(|data: &[u8]| {
    if let Ok(head) = HeadParts::decode(data, 1 << 24) {
        assert_eq!(head.encode().expect("what was read can be written"), data);
    }
    let _ = decode_page_map(data, data.len() as u32 / 4, 1 << 16);
    let _ = decode_row_map(data, 1 << 24);
});
