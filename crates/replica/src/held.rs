//! A generation that is held while it is fetched and the log behind it is read: meanwhile neither are its
//! files collected, nor is the log cut above it.

use std::path::Path;
use std::time::{Duration, Instant};

use pipeann_store::{
    Fetched, GenerationId, LeasedPin, ObjectsError, ShardGeneration, ShardGenerations,
};

/// How often it is looked whether a lease is to be renewed.
const LOOK: Duration = Duration::from_secs(60);

/// See the module's description. It is given up when this is dropped.
#[derive(Debug)]
pub struct PinnedGeneration {
    generations: ShardGenerations,
    /// There until this is dropped.
    pin: Option<LeasedPin>,
    looked: Instant,
}

impl PinnedGeneration {
    /// Holds one; `None` where it is gone or going. `owner` is for people.
    pub(crate) fn hold(
        generations: &ShardGenerations,
        id: GenerationId,
        owner: &str,
        lease: Duration,
    ) -> Result<Option<Self>, ObjectsError> {
        let pin = generations.pin(id, owner, lease)?;
        let (generations, looked) = (generations.clone(), Instant::now());
        Ok(pin.map(|pin| Self { generations, pin: Some(pin), looked }))
    }

    /// What is held.
    pub fn generation(&self) -> &ShardGeneration {
        &self.pin.as_ref().expect("there until this is dropped").generation
    }

    /// Fetches its files, and holds it meanwhile.
    pub(crate) fn fetch(&mut self, into: &Path) -> Result<Fetched, ObjectsError> {
        let pin = self.pin.as_mut().expect("there until this is dropped");
        self.generations.fetch_held(pin, into)
    }

    /// Holds it on, where it is time for that; to be called often. `false` where it is gone or going.
    pub(crate) fn renew(&mut self) -> Result<bool, ObjectsError> {
        if self.looked.elapsed() < LOOK {
            return Ok(true);
        }
        self.looked = Instant::now();
        let pin = self.pin.as_mut().expect("there until this is dropped");
        self.generations.renew_when_due(pin)
    }
}

impl Drop for PinnedGeneration {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take()
            && let Err(error) = self.generations.release(pin)
        {
            tracing::debug!("a pin is left to its lease: {error}");
        }
    }
}

/// A generation that others may be in the place of: `None` where it is not there or cannot be read.
pub(crate) fn readable(
    generations: &ShardGenerations,
    id: GenerationId,
) -> Result<Option<ShardGeneration>, ObjectsError> {
    match generations.get(id) {
        Err(error) if error.is_of_contents() => {
            tracing::warn!(?id, "a generation is passed over: {error}");
            Ok(None)
        }
        found => found,
    }
}
