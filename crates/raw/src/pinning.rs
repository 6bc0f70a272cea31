//! Threads on processors: poller `i` on the `i`-th that the process may use, behind them what searches
//! and what links rows.

/// When threads are pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// Where each poller and as many search threads have a processor to themselves.
    #[default]
    Auto,
    /// Always, as far as there are processors.
    On,
    /// Never.
    Off,
}

/// Where threads are pinned.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuPlaces {
    /// By poller.
    pub(crate) pollers: Vec<Option<usize>>,
    /// Behind the pollers, for what searches or links; empty where that is not pinned.
    pub(crate) behind: Vec<usize>,
}

impl CpuPlaces {
    /// For so many pollers on these processors. Fewer processors than pollers are no error.
    pub(crate) fn of(pinning: Pinning, pollers: usize, processors: &[usize]) -> Self {
        let wanted = match pinning {
            Pinning::Off => false,
            Pinning::On => true,
            Pinning::Auto => processors.len() >= 4 && processors.len() >= 2 * pollers,
        };
        if !wanted {
            return Self { pollers: vec![None; pollers], behind: Vec::new() };
        }
        if processors.len() <= pollers {
            let shared = if processors.len() < pollers { "they share them, and " } else { "" };
            tracing::warn!(
                "{pollers} pollers on {} processors: {shared}none is left for searches, which are not \
                 pinned",
                processors.len()
            );
        }
        let pinned = (0..pollers).map(|i| processors.get(i % processors.len().max(1)).copied());
        let behind = processors.get(pollers..).unwrap_or_default().to_vec();
        Self { pollers: pinned.collect(), behind }
    }
}

/// Processors that this process may use, ascending.
pub(crate) fn processors() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Pins this thread to some processors; a system that refuses is told of, and obeyed.
pub(crate) fn pin(processors: &[usize]) {
    #[cfg(target_os = "linux")]
    {
        let mut set = rustix::thread::CpuSet::new();
        processors.iter().for_each(|&cpu| set.set(cpu));
        if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
            tracing::warn!(%error, "a thread cannot be pinned to processors {processors:?}");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = processors;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pollers_come_first_and_searches_behind_them() {
        let eight: Vec<usize> = (0..8).collect();
        let places = CpuPlaces::of(Pinning::Auto, 4, &eight);
        assert_eq!(places.pollers, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(places.behind, [4, 5, 6, 7]);
    }

    #[test]
    fn few_processors_are_left_to_the_system() {
        let places = CpuPlaces::of(Pinning::Auto, 1, &[0, 1]);
        assert_eq!((places.pollers, places.behind), (vec![None], vec![]));
        let forced = CpuPlaces::of(Pinning::On, 4, &[2, 5]);
        assert_eq!(forced.pollers, [Some(2), Some(5), Some(2), Some(5)]);
        assert!(forced.behind.is_empty(), "nothing is left for them");
        assert_eq!(CpuPlaces::of(Pinning::Off, 2, &[0, 1, 2, 3, 4]).pollers, [None, None]);
    }

    #[test]
    fn a_pinned_thread_stays_where_it_is() {
        let first = processors()[0];
        let pinned = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                pin(&[first]);
                processors()
            });
            thread.join().unwrap()
        });
        assert_eq!(pinned, [first]);
    }
}
