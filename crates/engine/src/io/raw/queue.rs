//! A queue over the stripe, and over the file system for what is not on it.
//!
//! The queue has buffers in memory that devices reach, and a port to the pollers. The first operation
//! that goes to the file system makes a queue of the other backend beside it, with as many buffers:
//! what is read into one of these is borrowed from there, so that nothing is copied.
//!
//! What a lost device has not read, or is not asked for any more, goes there too, by policy.
//!
//! Invariant: a buffer has a counterpart in the other queue from an operation there until it is
//! returned, or used for the stripe.

#![expect(unsafe_code, reason = "buffers are lent to devices by pointer")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pipeann_raw::device::DeviceAction;
use pipeann_raw::{Answer, Bell, DeviceError, OnLoss, Port, PortTarget, Store, bell};

use crate::io::backend::{Backend, Completion, Queue, QueueOptions, Transfer, Wait};
use crate::io::buffer::{BufferId, BufferPool};
use crate::io::device::{Device, File};
use crate::io::error::{Errno, IoError};
use crate::io::fork::ForkGuard;
use crate::io::waker::{Flag, Waker};

/// Commands for one device on their way at most; what is more waits in the port.
const MOST_COMMANDS: usize = 1024;

/// An operation of either side, by the token that it has there.
struct Operation {
    tag: u64,
    buffer: BufferId,
    bytes: usize,
    /// In the file, or in the device of several files that the other queue was given.
    offset: u64,
    /// Of a transfer on the stripe: its file, and where it is there.
    stripe: Option<(File, u64)>,
}

/// Rings for the pollers and, where that is what is slept on, for the other queue.
struct BothBells {
    own: Arc<dyn Bell>,
    rest: OnceLock<Waker>,
}

impl Bell for BothBells {
    fn ring(&self) {
        self.own.ring();
        if let Some(rest) = self.rest.get() {
            rest.wake();
        }
    }

    fn rest(&self, at_most: Option<Duration>) {
        self.own.rest(at_most);
    }
}

/// See the module's description.
pub(super) struct RawQueue {
    store: Arc<Store>,
    rest_of: Arc<dyn Backend>,
    options: QueueOptions,
    /// `None` only while it is dropped.
    port: Option<Port>,
    pool: BufferPool,
    rest: Option<Box<dyn Queue>>,
    /// By buffer: its counterpart in the other queue.
    counterparts: Vec<Option<BufferId>>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    /// What failed before it came to a device, noted and started.
    failed: Vec<Completion>,
    failed_started: usize,
    answers: Vec<Answer>,
    others: Vec<Completion>,
    bells: Arc<BothBells>,
    woken: Flag,
    /// Operations that were pushed and not handed out.
    in_flight: usize,
    guard: ForkGuard,
}

impl RawQueue {
    pub(super) fn new(
        store: &Arc<Store>,
        rest: &Arc<dyn Backend>,
        options: &QueueOptions,
    ) -> Result<Self, IoError> {
        options.check()?;
        let setup = |what| move |e: std::io::Error| IoError::Setup { what, errno: Errno::of(&e) };
        let own = bell().map_err(setup("a bell"))?;
        let bells = Arc::new(BothBells { own, rest: OnceLock::new() });
        let room = options.depth.min(MOST_COMMANDS);
        let port = store.port(room, Arc::clone(&bells) as Arc<dyn Bell>).map_err(IoError::raw)?;
        let bytes = BufferPool::region_bytes(options.buffers, options.buffer_bytes);
        let region = store.devices().memory().allocate(bytes);
        let region = region.map_err(setup("memory that devices reach"))?;
        Ok(Self {
            store: Arc::clone(store),
            rest_of: Arc::clone(rest),
            options: *options,
            port: Some(port),
            pool: BufferPool::within(region, options.buffers, options.buffer_bytes),
            rest: None,
            counterparts: vec![None; options.buffers],
            operations: Vec::with_capacity(options.depth),
            free: Vec::with_capacity(options.depth),
            failed: Vec::new(),
            failed_started: 0,
            answers: Vec::with_capacity(options.depth),
            others: Vec::with_capacity(options.depth),
            bells,
            woken: Flag::default(),
            in_flight: 0,
            guard: ForkGuard::new()?,
        })
    }

    fn port(&mut self) -> &mut Port {
        self.port.as_mut().expect("there until the queue is dropped")
    }

    fn admit(&self) -> Result<(), IoError> {
        self.guard.check()?;
        let depth = self.options.depth;
        if self.in_flight() >= depth { Err(IoError::Full { depth }) } else { Ok(()) }
    }

    /// The other queue, made when it is first needed.
    fn rest(&mut self) -> Result<&mut Box<dyn Queue>, IoError> {
        if self.rest.is_none() {
            let mut rest = self.rest_of.queue(&self.options)?;
            // Nobody else has set it: there is one other queue for the whole life of this one.
            let _ = self.bells.rest.set(rest.waker()?);
            self.rest = Some(rest);
        }
        Ok(self.rest.as_mut().expect("made above"))
    }

    fn token(&mut self, operation: Operation) -> u64 {
        self.in_flight += 1;
        match self.free.pop() {
            Some(token) => {
                self.operations[token as usize] = operation;
                u64::from(token)
            }
            None => {
                self.operations.push(operation);
                (self.operations.len() - 1) as u64
            }
        }
    }

    /// Where a range of the stripe is read if a device that has some of it is lost.
    fn instead<'f>(&self, file: &'f File, start: u64, bytes: usize) -> Option<&'f Device> {
        let devices = self.store.devices();
        let device = self.store.lost_in(start, bytes as u64)?;
        let rest = file.rest().filter(|_| devices.on_loss() == OnLoss::Files)?;
        devices.count_from_file(device);
        Some(rest)
    }

    /// Begins a read anew, from its file, that failed since its device is lost. Whether it did.
    fn read_instead(
        &mut self,
        failed: &DeviceError,
        operation: &Operation,
    ) -> Result<bool, IoError> {
        let Some((file, start)) = &operation.stripe else { return Ok(false) };
        if failed.action != DeviceAction::Read || !failed.status.is_loss() {
            return Ok(false);
        }
        let Some(device) = self.instead(file, *start, operation.bytes) else { return Ok(false) };
        let again = Operation { stripe: None, ..*operation };
        if self.push_rest(Transfer::Read, device, again).is_err() {
            return Ok(false);
        }
        self.rest()?.flush()?;
        Ok(true)
    }

    fn block_bytes(&self) -> usize {
        self.rest_of.block_bytes().max(self.store.devices().lba_bytes() as usize)
    }

    /// Makes a buffer the queue's own again, with what is to be written.
    fn bring_home(&mut self, transfer: Transfer, buffer: BufferId) {
        if let Some(other) = self.counterparts[buffer.index()].take() {
            let rest = self.rest.as_mut().expect("it has the counterpart");
            if transfer == Transfer::Write {
                self.pool.bytes_mut(buffer).copy_from_slice(rest.buffer(other));
            }
            rest.return_buffer(other);
        }
    }

    /// Hands an operation to the other queue.
    fn push_rest(
        &mut self,
        transfer: Transfer,
        device: &Device,
        operation: Operation,
    ) -> Result<(), IoError> {
        let Operation { buffer, bytes, offset, .. } = operation;
        self.rest()?;
        let rest = self.rest.as_mut().expect("made above");
        let other = match self.counterparts[buffer.index()] {
            Some(other) => other,
            None => {
                let other = rest.take_buffer().expect("as many buffers as here");
                if transfer == Transfer::Write {
                    rest.buffer_mut(other).copy_from_slice(self.pool.bytes(buffer));
                }
                self.counterparts[buffer.index()] = Some(other);
                other
            }
        };
        let token = self.token(operation);
        let rest = self.rest.as_mut().expect("made above");
        let pushed = rest.push_transfer(transfer, device, offset, bytes, other, token);
        match pushed {
            Ok(()) => {
                self.pool.start(buffer);
            }
            Err(_) => {
                self.free.push(token as u32);
                self.in_flight -= 1;
            }
        }
        pushed
    }

    /// Hands out what has ended without a look at the clock or the kernel.
    fn collect(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        let mut answers = std::mem::take(&mut self.answers);
        self.port().poll(&mut answers);
        let mut begun = Ok(());
        for Answer { token, result } in answers.drain(..) {
            let operation = self.take(token);
            if let Err(failed) = &result {
                match self.read_instead(failed, &operation) {
                    Ok(false) => {}
                    Ok(true) => continue,
                    Err(error) => {
                        begun = Err(error);
                        continue;
                    }
                }
            }
            let Operation { tag, buffer, bytes, offset, stripe } = operation;
            let result = result.map(|()| bytes).map_err(|error| {
                let reason = error.to_string().into();
                match stripe {
                    Some((file, _)) => {
                        IoError::Device { path: Arc::clone(file.path()), offset, reason }
                    }
                    None => IoError::Raw { reason },
                }
            });
            out.push(Completion { tag, buffer, result });
        }
        self.answers = answers;
        begun?;
        let mut others = std::mem::take(&mut self.others);
        for Completion { tag: token, result, .. } in others.drain(..) {
            let Operation { tag, buffer, .. } = self.take(token);
            out.push(Completion { tag, buffer, result });
        }
        self.others = others;
        for failed in self.failed.drain(..std::mem::take(&mut self.failed_started)) {
            self.pool.finish(failed.buffer);
            self.in_flight -= 1;
            out.push(failed);
        }
        Ok(())
    }

    fn take(&mut self, token: u64) -> Operation {
        self.free.push(token as u32);
        self.in_flight -= 1;
        let operation = &mut self.operations[token as usize];
        let stripe = operation.stripe.take();
        let Operation { tag, buffer, bytes, offset, .. } = *operation;
        self.pool.finish(buffer);
        Operation { tag, buffer, bytes, offset, stripe }
    }

    fn rest_in_flight(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| rest.in_flight())
    }
}

fn action_of(transfer: Transfer) -> DeviceAction {
    match transfer {
        Transfer::Read => DeviceAction::Read,
        Transfer::Write => DeviceAction::Write,
    }
}

impl Queue for RawQueue {
    fn push_transfer(
        &mut self,
        transfer: Transfer,
        device: &Device,
        offset: u64,
        bytes: usize,
        buffer: BufferId,
        tag: u64,
    ) -> Result<(), IoError> {
        self.admit()?;
        let place = device.locate(offset, bytes, self.block_bytes())?;
        self.pool.check(buffer, bytes)?;
        let file = &device.extents()[place.extent as usize].file;
        let mut operation = Operation { tag, buffer, bytes, offset, stripe: None };
        let Some(raw) = file.raw() else {
            return self.push_rest(transfer, device, operation);
        };
        operation.offset = place.offset;
        let Some(start) = raw.start() else {
            let device = file.rest().ok_or(IoError::NoExtent)?;
            return self.push_rest(transfer, device, operation);
        };
        let start = start + place.offset;
        if transfer == Transfer::Read
            && let Some(device) = self.instead(file, start, bytes)
        {
            return self.push_rest(transfer, device, operation);
        }
        let got = raw.bytes().saturating_sub(place.offset);
        self.bring_home(transfer, buffer);
        let memory = self.pool.start(buffer);
        if got < bytes as u64 {
            let (path, wanted, got) = (Arc::clone(file.path()), bytes as u32, got as u32);
            let result = Err(IoError::Short { path, offset: place.offset, wanted, got });
            self.failed.push(Completion { tag, buffer, result });
            self.in_flight += 1;
            return Ok(());
        }
        operation.stripe = Some((file.clone(), start));
        let token = self.token(operation);
        // SAFETY: the buffer is in flight until the answer was taken, its memory comes from the
        // devices' own, and it is kept for ever where the port is lost.
        unsafe {
            self.port().push(action_of(transfer), PortTarget::Stripe, start, bytes, memory, token);
        }
        Ok(())
    }

    fn push_sync(&mut self, device: &Device, tag: u64) -> Result<(), IoError> {
        self.admit()?;
        let raw = device.files().iter().filter(|file| file.raw().is_some()).count();
        let buffer = BufferId::NONE;
        let operation = Operation { tag, buffer, bytes: 0, offset: 0, stripe: None };
        if raw == 0 {
            self.rest()?;
            let token = self.token(operation);
            let pushed = self.rest()?.push_sync(device, token);
            if pushed.is_err() {
                self.free.push(token as u32);
                self.in_flight -= 1;
            }
            return pushed;
        }
        if raw < device.files().len() {
            return Err(IoError::Options("a sync is for files of the stripe, or for others"));
        }
        let token = self.token(operation);
        self.port().push_sync(token);
        Ok(())
    }

    fn extend(&mut self, device: &Device, bytes: u64) -> Result<Device, IoError> {
        self.guard.check()?;
        let last = device.extents().last().ok_or(IoError::NoExtent)?;
        if last.file.raw().is_none() {
            return self.rest()?.extend(device, bytes);
        }
        device.extended(bytes, |file, offset, more| {
            let grown = file.raw().is_some_and(|raw| raw.grow(offset.saturating_add(more)));
            let path = Arc::clone(file.path());
            if grown { Ok(()) } else { Err(IoError::NoSpace { path, offset, bytes: more }) }
        })
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.guard.check()?;
        self.port().flush();
        self.failed_started = self.failed.len();
        self.rest.as_mut().map_or(Ok(()), |rest| rest.flush())
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.guard.check()?;
        if let Some(rest) = &mut self.rest {
            rest.poll(&mut self.others)?;
        }
        self.collect(out)
    }

    fn wait(&mut self, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.wait_for(1, out)
    }

    fn wait_for(&mut self, least: usize, out: &mut Vec<Completion>) -> Result<(), IoError> {
        self.flush()?;
        let before = out.len();
        loop {
            self.poll(out)?;
            if out.len() > before || self.in_flight == 0 || self.woken.take() {
                return Ok(());
            }
            if self.options.wait == Wait::Spin {
                std::hint::spin_loop();
            } else if self.rest_in_flight() == 0 {
                let bells = Arc::clone(&self.bells);
                self.port().rest(least, || bells.rest(None));
            } else {
                let Self { port, rest, others, .. } = self;
                let (port, rest) = (port.as_ref().expect("there"), rest.as_mut().expect("used"));
                let mut slept = Ok(());
                port.rest(1, || slept = rest.wait_for(least, others));
                slept?;
            }
        }
    }

    fn waker(&mut self) -> Result<Waker, IoError> {
        let (woken, bells) = (self.woken.waker(), Arc::clone(&self.bells));
        Ok(Waker::new(move || {
            woken.wake();
            bells.ring();
        }))
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn take_buffer(&mut self) -> Option<BufferId> {
        self.pool.take()
    }

    fn return_buffer(&mut self, buffer: BufferId) {
        self.bring_home(Transfer::Read, buffer);
        self.pool.give_back(buffer);
    }

    fn buffer(&self, buffer: BufferId) -> &[u8] {
        let own = self.pool.bytes(buffer);
        match (self.counterparts[buffer.index()], &self.rest) {
            (Some(other), Some(rest)) => rest.buffer(other),
            _ => own,
        }
    }

    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        match (self.counterparts[buffer.index()], &mut self.rest) {
            (Some(other), Some(rest)) => rest.buffer_mut(other),
            _ => self.pool.bytes_mut(buffer),
        }
    }
}

impl Drop for RawQueue {
    fn drop(&mut self) {
        let mut port = self.port.take().expect("dropped once");
        if self.guard.forked() {
            // The pollers stayed with the parent, and so do what they write to and the port.
            std::mem::forget(port);
            self.pool.leak();
            std::mem::forget(Arc::clone(&self.store));
            return;
        }
        port.settle();
        if port.lost() {
            self.pool.leak();
        }
    }
}
