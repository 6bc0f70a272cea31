//! The open database behind all objects that Python holds of it.
//!
//! Everything goes through [`Gate::enter`], so that closing waits for what is under way and leaves
//! nothing open, and a forked child, which shares files and locks with its parent, touches
//! neither.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use pipeann_db::database::Database;
use pyo3::prelude::*;

use super::failure::PyFailure;

thread_local! {
    /// Operations that this thread is in the middle of.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// See the module's description.
pub(crate) struct Gate {
    state: Mutex<GateState>,
    idle: Condvar,
    /// The process that opened it.
    process: u32,
}

struct GateState {
    database: Option<Arc<Database>>,
    /// Operations under way.
    active: usize,
}

/// An operation under way.
pub(super) struct Entered<'g> {
    gate: &'g Gate,
    database: Option<Arc<Database>>,
}

impl Gate {
    pub(super) fn new(database: Database) -> Self {
        let state = GateState { database: Some(Arc::new(database)), active: 0 };
        Self { state: Mutex::new(state), idle: Condvar::new(), process: std::process::id() }
    }

    /// Refuses a forked child.
    pub(crate) fn check_process(&self) -> Result<(), PyFailure> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(PyFailure::forked()),
        }
    }

    /// The database, for whoever gives it back before it is closed.
    pub(crate) fn shared(&self, py: Python<'_>) -> PyResult<Arc<Database>> {
        py.detach(|| {
            let entered = self.enter()?;
            Ok(Arc::clone(entered.database.as_ref().expect("it is there until it is dropped")))
        })
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().expect("nothing that can panic runs under this lock")
    }

    fn enter(&self) -> Result<Entered<'_>, PyFailure> {
        self.check_process()?;
        let mut state = self.state();
        let database = state.database.clone();
        let database = database.ok_or_else(|| PyFailure::closed("the database is closed"))?;
        state.active += 1;
        DEPTH.set(DEPTH.get() + 1);
        Ok(Entered { gate: self, database: Some(database) })
    }

    /// Does something with the database while the GIL is released.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Database) -> Result<T, PyFailure> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let entered = self.enter()?;
            work(entered.database.as_ref().expect("it is there until it is dropped"))
        });
        Ok(done?)
    }

    /// Waits until nothing is under way, and closes. Nothing happens where it is closed already.
    pub(super) fn close(&self) -> Result<(), PyFailure> {
        self.check_process()?;
        if DEPTH.get() > 0 {
            return Err(PyFailure::input("a database cannot be closed by what it is calling"));
        }
        let mut state = self.state();
        let database = state.database.take();
        while state.active > 0 {
            state = self.idle.wait(state).expect("see `state`");
        }
        drop(state);
        drop(database);
        Ok(())
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.database = None;
        DEPTH.set(DEPTH.get() - 1);
        let mut state = self.gate.state();
        state.active -= 1;
        if state.active == 0 {
            self.gate.idle.notify_all();
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Closing would give back the lock that the parent holds.
            std::mem::forget(self.state().database.take());
        }
    }
}
