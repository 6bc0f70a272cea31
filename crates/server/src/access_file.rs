//! The file that says who called what.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use pipeann_milvus::{AccessLog, CallEnded};
use serde_json::json;

use crate::opening::now;
use crate::process::say;

/// A file of lines of JSON, one for each call.
pub(crate) struct AccessFile {
    file: Mutex<File>,
    /// Whether a line could not be written; said once.
    failed: AtomicBool,
}

impl AccessFile {
    /// Appends to the file, and makes it where there is none.
    pub(crate) fn open(path: &Path) -> Result<Arc<dyn AccessLog>> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("opening {}", path.display()))?;
        Ok(Arc::new(Self { file: Mutex::new(file), failed: AtomicBool::new(false) }))
    }
}

impl AccessLog for AccessFile {
    fn ended(&self, call: &CallEnded<'_>) {
        let line = json!({
            "time_ms": now().0,
            "user": call.user,
            "from": call.from.map(|from| from.to_string()),
            "call": call.call,
            "database": call.database,
            "code": call.code,
            "grpc_status": call.grpc_status,
            "took_us": u64::try_from(call.took.as_micros()).unwrap_or(u64::MAX),
        });
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One write for a line, so that what else appends to the file does not fall into it.
        let written = file.write_all(format!("{line}\n").as_bytes());
        if let Err(error) = written
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            say(format_args!("calls are not noted: {error}"));
        }
    }
}
