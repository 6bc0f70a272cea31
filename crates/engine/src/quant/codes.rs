//! A view of all codes of an index or partition, row by row.
//!
//! It is a raw pointer rather than a slice because codes may still stream into the memory
//! behind it while finished rows are being scored.

#![expect(unsafe_code, reason = "a view of memory that others may still fill")]

use std::marker::PhantomData;

/// `rows` codes of `code_bytes` each, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct CodesView<'a> {
    start: *const u8,
    rows: usize,
    code_bytes: usize,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: the view only reads, and whoever made it vouched that the rows which are read are
// not written at the same time, from whatever thread.
unsafe impl Send for CodesView<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for CodesView<'_> {}

impl<'a> CodesView<'a> {
    /// Views a finished table.
    ///
    /// # Panics
    /// Where `codes` is no whole number of rows, or `code_bytes` is 0.
    pub fn from_slice(codes: &'a [u8], code_bytes: usize) -> Self {
        assert!(code_bytes > 0 && codes.len().is_multiple_of(code_bytes), "ragged codes");
        let rows = codes.len() / code_bytes;
        Self { start: codes.as_ptr(), rows, code_bytes, memory: PhantomData }
    }

    /// Views a table that may still be filling.
    ///
    /// # Safety
    /// For as long as `'a`, `rows x code_bytes` bytes at `start` are allocated and mapped for
    /// reading; a row is initialised before its id is scored, and not written while it is.
    pub unsafe fn from_raw(start: *const u8, rows: usize, code_bytes: usize) -> Self {
        Self { start, rows, code_bytes, memory: PhantomData }
    }

    /// Number of codes.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of a code.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    /// The code of `id`.
    ///
    /// # Panics
    /// Where `id` is not below [`rows`](Self::rows).
    pub fn row(&self, id: u32) -> &'a [u8] {
        assert!((id as usize) < self.rows, "id {id} of {} codes", self.rows);
        // SAFETY: `id` was found to be a row.
        unsafe { self.row_unchecked(id) }
    }

    /// Where the code of `id` begins; `id` must be below [`rows`](Self::rows) for it to be
    /// read.
    #[inline(always)]
    pub(super) fn pointer(&self, id: u32) -> *const u8 {
        self.start.wrapping_add(id as usize * self.code_bytes)
    }

    /// The code of `id`.
    ///
    /// # Safety
    /// `id` is below [`rows`](Self::rows).
    #[inline(always)]
    pub(super) unsafe fn row_unchecked(&self, id: u32) -> &'a [u8] {
        // SAFETY: the row lies in the table (the caller's promise), whose maker vouched that
        // it is readable and, being scored, not written.
        unsafe { std::slice::from_raw_parts(self.pointer(id), self.code_bytes) }
    }
}
