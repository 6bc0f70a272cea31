//! Simulated devices with a place for the files that are copied to them.

use std::path::PathBuf;
use std::sync::Arc;

use pipeann_raw::device::RawDevice;
use pipeann_raw::memory::Plain;
use pipeann_raw::sim::{Platter, Power, SimDevOptions};
use pipeann_raw::{
    Answer, ClaimError, CopiedSegment, Devices, DevicesError, DevicesOptions, Idle, Pinning, Port,
    PortTarget, Store, claim,
};
use uuid::Uuid;

pub(crate) const STRIPE: u64 = 64 << 10;

/// Some platters, whose devices come and go.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) platters: Vec<Platter>,
}

pub(crate) fn quiet(idle: Idle) -> DevicesOptions {
    DevicesOptions { idle: Some(idle), pinning: Pinning::Off, ..DevicesOptions::default() }
}

impl Rig {
    pub(crate) fn new(count: usize, options: &SimDevOptions) -> Self {
        let platter =
            |i| Platter::new(SimDevOptions { seed: options.seed + i as u64, ..options.clone() });
        Self { platters: (0..count).map(platter).collect() }
    }

    pub(crate) fn claimed(count: usize, options: &SimDevOptions) -> Self {
        let rig = Self::new(count, options);
        claim(&rig.devices(&Power::default()).unwrap(), STRIPE, false).expect("blank devices");
        rig
    }

    pub(crate) fn devices(&self, power: &Power) -> Result<Devices, DevicesError> {
        self.devices_by(power, quiet(Idle::Sleep))
    }

    pub(crate) fn devices_by(
        &self,
        power: &Power,
        serve: DevicesOptions,
    ) -> Result<Devices, DevicesError> {
        let device = |(i, platter): (usize, &Platter)| {
            Box::new(platter.device(&format!("sim{i}"), power)) as Box<dyn RawDevice>
        };
        let devices = self.platters.iter().enumerate().map(device).collect();
        Devices::serve(devices, Arc::new(Plain), serve)
    }

    pub(crate) fn store(&self) -> Result<Store, ClaimError> {
        Store::open(self.devices(&Power::default()).expect("devices of one kind"))
    }

    pub(crate) fn writes(&self) -> u64 {
        self.platters.iter().map(|p| p.writes().0).sum()
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.platters.iter().map(|p| p.writes().1).sum()
    }

    /// What is left after the power failed.
    pub(crate) fn after_cut(&self, seed: u64) -> Self {
        let after = |(i, p): (usize, &Platter)| p.after_cut(seed * 31 + i as u64);
        Self { platters: self.platters.iter().enumerate().map(after).collect() }
    }
}

/// Segments of an index in a directory.
pub(crate) struct Index {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) uuid: Uuid,
}

impl Index {
    pub(crate) fn new(number: u128) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), uuid: Uuid::from_u128(number) }
    }

    /// Writes a segment whose bytes depend on `salt`.
    pub(crate) fn segment(
        &self,
        name: &str,
        bytes: u64,
        salt: u64,
        generation: u64,
    ) -> CopiedSegment {
        let path: PathBuf = self.dir.path().join(name);
        std::fs::write(&path, content(bytes, salt)).unwrap();
        let (index, name) = (self.uuid, name.to_owned());
        CopiedSegment { index, generation, partition: 0, name, path, bytes }
    }
}

pub(crate) fn content(bytes: u64, salt: u64) -> Vec<u8> {
    let word = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt).to_le_bytes();
    (0..bytes.div_ceil(8)).flat_map(word).take(bytes as usize).collect()
}

/// Reads a range of the stripe in one operation.
pub(crate) fn read(store: &Store, offset: u64, bytes: usize) -> Result<Vec<u8>, String> {
    let port = store.port(8, pipeann_raw::bell().unwrap()).unwrap();
    read_by(store.devices(), port, PortTarget::Stripe, offset, bytes)
}

#[expect(unsafe_code, reason = "memory is lent to the port")]
pub(crate) fn read_by(
    devices: &Devices,
    mut port: Port,
    target: PortTarget,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>, String> {
    let memory = devices.memory().allocate(bytes).unwrap();
    let mut out: Vec<Answer> = Vec::new();
    // SAFETY: the memory is kept until the answer is there.
    unsafe {
        port.push(
            pipeann_raw::device::DeviceAction::Read,
            target,
            offset,
            bytes,
            memory.start(),
            7,
        );
    }
    while out.is_empty() {
        port.wait(1, &mut || false, &mut out);
    }
    assert_eq!((out.len(), port.under_way(), out[0].token), (1, 0, 7));
    out.remove(0).result.map_err(|e| e.to_string())?;
    // SAFETY: nothing is under way any more.
    Ok(unsafe { memory.slice() }.to_vec())
}
