//! Messages between servers. The first byte chooses: 0, and the rest comes as a connection's bytes
//! do; the number of a kind, and the rest is the body of one, as if its checksum were right.

use pipeann_cluster::wire::{FRAME_MAX, Kind, Message, frame_len, read};

use crate::ReachedSections;
use crate::counting::bounded_wholly;

pub(super) const SECTIONS: &[&str] = &[
    "stream", "Hello", "Begin", "State", "Answer", "Failure", "Cancel", "Score", "Scored",
    "Credit", "Ping", "Pong", "Goodbye",
];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Some((&choice, rest)) = data.split_first() else { return };
    if choice == 0 {
        return stream(rest, reached);
    }
    let Some(kind) = Kind::ALL.iter().copied().find(|kind| *kind as u8 == choice) else { return };
    let Ok(message) = bounded_wholly(rest.len(), || Message::decode(kind, rest)) else { return };
    let name = format!("{kind:?}");
    SECTIONS.iter().for_each(|section| reached.mark(section, *section == name));
    let mut frame = Vec::new();
    // What came can be sent, if it is no longer than any frame.
    if message.append(&mut frame).is_ok() {
        let (again, len) = read(&frame).expect("it was just written");
        assert_eq!((&again, len), (&message, frame.len()));
        assert_eq!(frame[frame.len() - rest.len()..], *rest);
    }
}

fn stream(mut rest: &[u8], reached: &mut ReachedSections) {
    while let Ok(Some(len)) = frame_len(rest, FRAME_MAX) {
        let Ok((_, read_len)) = bounded_wholly(rest.len(), || read(rest)) else { return };
        assert_eq!(len, read_len);
        reached.mark("stream", true);
        rest = &rest[len..];
    }
}
