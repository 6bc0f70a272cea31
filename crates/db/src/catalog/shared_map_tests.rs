//! The map beside one of the standard library, and what copies share.

use proptest::prelude::*;

use super::*;

fn assert_whole(map: &SharedMap<u16, u8>) {
    assert!(map.blocks.iter().all(|block| (1..=MOST).contains(&block.len())));
    assert!(map.iter().zip(map.iter().skip(1)).all(|((a, _), (b, _))| a < b));
    assert_eq!(map.iter().count(), map.len());
}

proptest! {
    #[test]
    fn it_is_a_map_and_knows_what_changed(
        first in prop::collection::vec((0_u16..2000, any::<Option<u8>>()), 0..1500),
        then in prop::collection::vec((0_u16..2000, any::<Option<u8>>()), 0..200),
    ) {
        let (mut map, mut plain) = (SharedMap::default(), BTreeMap::new());
        let edit = |map: &mut SharedMap<u16, u8>, plain: &mut BTreeMap<u16, u8>, edits| {
            for (key, value) in edits {
                match value {
                    Some(value) => assert_eq!(map.insert(key, value), plain.insert(key, value)),
                    None => assert_eq!(map.remove(&key), plain.remove(&key)),
                }
            }
            assert_whole(map);
            assert!(map.iter().eq(plain.iter()));
        };
        edit(&mut map, &mut plain, first);
        let (before, plain_before) = (map.clone(), plain.clone());
        edit(&mut map, &mut plain, then);
        prop_assert!(before.iter().eq(plain_before.iter()), "a copy does not change");
        let mut followed = plain_before;
        for (key, value) in map.changes(&before, |a, b| a == b) {
            prop_assert_ne!(followed.get(key), value, "only changes");
            match value {
                Some(value) => followed.insert(*key, *value),
                None => followed.remove(key),
            };
        }
        prop_assert_eq!(followed, plain);
        for key in 0..2000 {
            prop_assert_eq!(map.get(&key).copied(), map.get_mut(&key).copied());
        }
    }
}

#[test]
fn a_copy_and_a_change_touch_one_block() {
    let before: SharedMap<u32, u32> = (0..10_000).map(|i| (i, i)).collect();
    let mut after = before.clone();
    after.insert(10_000, 0);
    let shared = after.blocks.iter().filter(|block| Arc::strong_count(block) == 2).count();
    assert!(shared + 1 >= before.blocks.len(), "{shared} of {}", before.blocks.len());
    let looked = std::cell::Cell::new(0);
    let changes = after.changes(&before, |_, _| {
        looked.set(looked.get() + 1);
        true
    });
    assert_eq!(changes, [(&10_000, Some(&0))]);
    assert!(looked.get() <= MOST, "{} values were compared", looked.get());
}
