//! The body of a codebook, and codes decoded by it.

use pipeann_engine::quant::{CodeKind, Codebook};

use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["product", "product without error", "rabitq"];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let Ok(book) = bounded(data.len(), || Codebook::from_bytes(data)) else { return };
    let rabitq = book.kind() == CodeKind::Rabitq;
    reached.mark("rabitq", rabitq);
    reached.mark("product", !rabitq && book.training_error().is_some());
    reached.mark("product without error", !rabitq && book.training_error().is_none());
    if book.dim() <= 4096 {
        let mut vector = vec![0.0; book.dim()];
        book.decode(&vec![data[data.len() - 1]; book.code_bytes()], &mut vector);
    }
    let again = Codebook::from_bytes(&book.to_bytes()).expect("what was read can be written");
    assert_eq!(again.to_bytes(), book.to_bytes());
}
