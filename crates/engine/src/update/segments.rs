//! Which segments a new generation keeps, and where each of its pages stands.
//!
//! A checkpoint appends one segment. An old segment none of whose pages is in use is dropped; one
//! with few pages in use is rewritten into the new segment, so that the pages on disk stay below
//! [`MOST_DEAD`] times those in use, and the number of segments stays small.

use crate::format::SegmentEntry;
use crate::format::constants::ABSENT;

/// A segment with a smaller share of its pages in use is rewritten.
const LEAST_LIVE: f64 = 0.5;
/// Physical pages may be so many times the logical ones.
const MOST_DEAD: f64 = 1.3;
/// With more segments than this the smallest ones are joined.
const MOST_SEGMENTS: usize = 64;

/// What becomes of the segments.
#[derive(Debug, Default)]
pub(super) struct SegmentPlan {
    /// Old segments that stay, in order, with their new first physical page.
    pub(super) kept: Vec<SegmentEntry>,
    /// Logical pages that are copied into the new segment as they are, ascending.
    pub(super) copied: Vec<u32>,
    /// Physical page of each logical page; [`ABSENT`] where the new segment holds it.
    pub(super) page_map: Vec<u32>,
}

/// Plans the next generation: `page_map` and `segments` are the old ones, and `changed` tells
/// which of the old logical pages are written anew. `new_pages` of them are in the new segment
/// already, changed and fresh.
pub(super) fn plan(
    page_map: &[u32],
    segments: &[SegmentEntry],
    changed: impl Fn(u32) -> bool,
    new_pages: usize,
) -> SegmentPlan {
    let of = |physical: u32| segments.partition_point(|s| s.first_physical_page <= physical) - 1;
    let mut live = vec![0u32; segments.len()];
    for (logical, &physical) in page_map.iter().enumerate() {
        if physical != ABSENT && !changed(logical as u32) {
            live[of(physical)] += 1;
        }
    }
    let total_live = live.iter().map(|&n| n as usize).sum::<usize>() + new_pages;
    let share = |i: usize| f64::from(live[i]) / f64::from(segments[i].pages.max(1));
    let mut keep: Vec<bool> =
        (0..segments.len()).map(|i| live[i] > 0 && share(i) >= LEAST_LIVE).collect();
    // The emptiest first, until the waste is within bounds.
    let mut by_share: Vec<usize> = (0..segments.len()).filter(|&i| keep[i]).collect();
    by_share.sort_by(|&a, &b| share(a).total_cmp(&share(b)));
    let physical = |keep: &[bool]| {
        let kept = (0..segments.len()).filter(|&i| keep[i]);
        let dead: usize = kept.map(|i| (segments[i].pages - live[i]) as usize).sum();
        total_live + dead
    };
    for i in by_share {
        if physical(&keep) as f64 <= MOST_DEAD * total_live as f64 {
            break;
        }
        keep[i] = false;
    }
    let mut by_size: Vec<usize> = (0..segments.len()).filter(|&i| keep[i]).collect();
    if by_size.len() >= MOST_SEGMENTS {
        by_size.sort_by_key(|&i| segments[i].pages);
        by_size[..MOST_SEGMENTS / 2].iter().for_each(|&i| keep[i] = false);
    }
    let mut plan = SegmentPlan::default();
    let mut moved = vec![0u32; segments.len()];
    let mut next = 0;
    for (i, segment) in segments.iter().enumerate().filter(|(i, _)| keep[*i]) {
        moved[i] = next;
        plan.kept.push(SegmentEntry { first_physical_page: next, ..segment.clone() });
        next += segment.pages;
    }
    for (logical, &physical) in page_map.iter().enumerate() {
        let mut place = ABSENT;
        if physical != ABSENT && !changed(logical as u32) {
            let i = of(physical);
            if keep[i] {
                place = moved[i] + (physical - segments[i].first_physical_page);
            } else {
                plan.copied.push(logical as u32);
            }
        }
        plan.page_map.push(place);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FileEntry, RelativePath};

    fn segments(pages: &[u32]) -> Vec<SegmentEntry> {
        let mut first = 0;
        let entry = |(i, &pages): (usize, &u32)| {
            let path = RelativePath::new(&format!("s{i}")).unwrap();
            let file = FileEntry { path, bytes: u64::from(pages) * 4096 };
            first += pages;
            SegmentEntry { file, first_physical_page: first - pages, pages }
        };
        pages.iter().enumerate().map(entry).collect()
    }

    fn names(plan: &SegmentPlan) -> Vec<(&str, u32)> {
        let name = |s: &SegmentEntry| s.first_physical_page;
        plan.kept.iter().map(|s| (s.file.path.as_str(), name(s))).collect()
    }

    #[test]
    fn a_segment_in_use_stays_and_an_unused_one_goes() {
        // Pages 0 and 1 in the first segment, 2 to 9 in the second; 0 and 1 are changed.
        let map: Vec<u32> = (0..10).collect();
        let plan = plan(&map, &segments(&[2, 8]), |page| page < 2, 2);
        assert_eq!(names(&plan), [("s1", 0)]);
        assert!(plan.copied.is_empty());
        assert_eq!(plan.page_map, [ABSENT, ABSENT, 0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_segment_that_is_mostly_dead_is_rewritten() {
        let map: Vec<u32> = (0..10).collect();
        let plan = plan(&map, &segments(&[5, 5]), |page| (1..5).contains(&page), 4);
        assert_eq!(names(&plan), [("s1", 0)]);
        assert_eq!(plan.copied, [0]);
        assert_eq!(plan.page_map[0], ABSENT);
        assert_eq!(plan.page_map[5..], [0, 1, 2, 3, 4]);
    }

    #[test]
    fn dead_pages_stay_below_a_share_of_the_live_ones() {
        // Ten segments, each with four of ten pages dead: kept one by one, but not all.
        let map: Vec<u32> = (0..100).filter(|p| p % 10 >= 4).collect();
        let segments = segments(&[10; 10]);
        let plan = plan(&map, &segments, |_| false, 0);
        let kept: u32 = plan.kept.iter().map(|s| s.pages).sum();
        let physical = kept as usize + plan.copied.len();
        assert!(physical as f64 <= MOST_DEAD * map.len() as f64, "{physical}");
        assert!(!plan.kept.is_empty());
        let placed = plan.page_map.iter().filter(|p| **p != ABSENT).count();
        assert_eq!(placed + plan.copied.len(), map.len());
    }

    #[test]
    fn many_small_segments_are_joined() {
        let map: Vec<u32> = (0..100).collect();
        let plan = plan(&map, &segments(&[1; 100]), |_| false, 0);
        assert!(plan.kept.len() < MOST_SEGMENTS + MOST_SEGMENTS / 2, "{}", plan.kept.len());
    }
}
