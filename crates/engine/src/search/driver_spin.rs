//! How a search waits that is the only one: it looks for a finished read again and again for a
//! while before it sleeps.
//!
//! Falling asleep and being woken costs time, and a search waits a dozen times
//! (`docs/decisions/0030-first-answers.md`). While other searches are under way the processor has
//! better things to do, and so has a single one with what would wake the search up. Where others were
//! until just now they soon are again ([`ConcurrentLoad`](super::ConcurrentLoad)).

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::io::{Completion, IoError, Queue};

/// Longer than most reads take.
const PATIENCE: Duration = Duration::from_micros(200);

/// Whether looking out keeps nobody from work.
static SPARE: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1));

/// Starts what is noted and looks for completions until there are some, or something else is wanted,
/// or until sleeping is as well.
pub(super) fn look_out(
    queue: &mut dyn Queue,
    found: &mut Vec<Completion>,
    mut wanted: impl FnMut() -> bool,
) -> Result<(), IoError> {
    queue.flush()?;
    let since = Instant::now();
    let spare = || *SPARE && since.elapsed() < PATIENCE;
    // Once in any case: the time may have passed while another thread had the processor.
    loop {
        queue.poll(found)?;
        if !found.is_empty() || queue.in_flight() == 0 || !spare() || wanted() {
            return Ok(());
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::io::memory::Memory;
    use crate::io::{Backend, Device, Extent, OpenMode, QueueOptions};

    #[test]
    fn what_was_noted_is_started_and_found_and_nothing_is_not_waited_for() {
        let memory = Memory::new();
        let file = memory.open_file(Path::new("pages"), OpenMode::create()).unwrap();
        let mut queue = memory.queue(&QueueOptions::default()).unwrap();
        let device = Device::new(vec![Extent { file, offset: 0, bytes: 0 }]);
        let device = queue.extend(&device, 8192).unwrap();
        let mut found = Vec::new();
        look_out(queue.as_mut(), &mut found, || false).unwrap();
        assert!(found.is_empty(), "nothing was in flight");
        let buffer = queue.take_buffer().unwrap();
        queue.push_read(&device, 4096, 4096, buffer, 7).unwrap();
        look_out(queue.as_mut(), &mut found, || false).unwrap();
        assert_eq!(found.iter().map(|c| c.tag).collect::<Vec<_>>(), [7]);
        assert_eq!(queue.in_flight(), 0);
    }
}
