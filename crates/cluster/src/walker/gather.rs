//! The answers of servers that each searched their own rows, as one.

use std::collections::HashSet;

use super::codec::Spent;
use crate::relay::Found;
use crate::wire::Hits;

/// The `k` nearest of all, at the cost of all. A row that two servers gave counts once. Servers are named
/// in the order of the answers.
pub fn gather(answers: impl IntoIterator<Item = Found>, k: usize) -> Found {
    let mut all = Found { rounds: 1, ..Found::default() };
    let (mut nearest, mut spent) = (Vec::new(), Spent::default());
    for found in answers {
        nearest.extend(Hits::of(&found.hits).unwrap_or_default().iter());
        spent = spent.and(Spent::decode(&found.stats).unwrap_or_default());
        all.trace.extend(found.trace);
        all.attempts = all.attempts.max(found.attempts);
        all.missing.extend(found.missing);
    }
    all.missing.sort_unstable();
    nearest.sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.row.cmp(&b.row)));
    let mut seen = HashSet::with_capacity(nearest.len());
    nearest.retain(|hit| seen.insert(hit.row));
    nearest.truncate(k);
    all.hits = Hits::pack(nearest);
    all.stats = spent.encode();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Hit;

    #[test]
    fn the_nearest_of_all_stay_and_costs_add_up() {
        let answer = |server: u32, hits: &[(f32, u64)], reads: u32| Found {
            hits: Hits::pack(hits.iter().map(|&(distance, row)| Hit { distance, row })),
            trace: vec![server],
            stats: Spent { reads, codes: u32::MAX, ..Spent::default() }.encode(),
            attempts: 1 + server as u16,
            missing: vec![9 - server],
            rounds: 1,
        };
        let answers = [
            answer(0, &[(1.0, 7), (3.0, 8)], 5),
            answer(1, &[], 2),
            answer(2, &[(-1.0, 3), (1.0, 2), (2.0, 7), (9.0, 1)], 1),
        ];
        let found = gather(answers, 4);
        let rows: Vec<_> = Hits::of(&found.hits).unwrap().iter().map(|hit| hit.row).collect();
        assert_eq!((rows, found.trace, found.attempts), (vec![3, 2, 7, 8], vec![0, 1, 2], 3));
        assert_eq!(found.missing, [7, 8, 9]);
        let spent = Spent::decode(&found.stats).unwrap();
        assert_eq!((spent.reads, spent.codes), (8, u32::MAX));
        assert_eq!(gather([], 3).hits, Vec::<u8>::new());
    }
}
