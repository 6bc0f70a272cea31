//! Records to bytes and back, and decoders on random, truncated and tampered bytes.

use proptest::prelude::*;

use super::super::frame::FrameHeader;
use super::super::*;
use super::{DIR, ID, crash_disk, create, examples, small};
use crate::disk::Disk;
use crate::ids::{NodeId, RowId, Seq};

const KINDS: [RecordKind; 4] =
    [RecordKind::Put, RecordKind::Delete, RecordKind::Upsert, RecordKind::Link];

type OwnedRow = (u64, u32, Vec<u8>, Vec<u8>);

fn owned_rows() -> impl Strategy<Value = Vec<OwnedRow>> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    prop::collection::vec((any::<u64>(), any::<u32>(), bytes(20), bytes(200)), 0..20)
}

fn put_rows(rows: &[OwnedRow]) -> Vec<PutRow<'_>> {
    let rows = rows.iter().map(|(row, partition, key, blob)| PutRow {
        row: RowId(*row),
        partition: *partition,
        key,
        blob,
    });
    rows.collect()
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let nodes = || prop::collection::vec(any::<u32>().prop_map(NodeId), 0..70);
    let link = (any::<u32>(), any::<u32>(), any::<u64>(), nodes(), nodes());
    prop::collection::vec(
        link.prop_map(|(field, node, row, neighbours, back_edges)| Link {
            field,
            node: NodeId(node),
            row: RowId(row),
            neighbours,
            back_edges,
        }),
        0..10,
    )
}

fn comes_back(record: &Record<'_>) -> Result<(), TestCaseError> {
    let bytes = record.encode().unwrap();
    prop_assert_eq!(&Record::decode(record.kind(), &bytes).unwrap(), record);
    for cut in 0..bytes.len() {
        prop_assert!(Record::decode(record.kind(), &bytes[..cut]).is_err(), "cut at {}", cut);
    }
    let longer = [&bytes[..], &[0]].concat();
    let trailing = Record::decode(record.kind(), &longer).unwrap_err();
    prop_assert_eq!(trailing, RecordError::Trailing { bytes: 1 });
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn records_come_back(rows in owned_rows(), ids in prop::collection::vec(any::<u64>(), 0..50), links in links()) {
        let ids: Vec<RowId> = ids.into_iter().map(RowId).collect();
        comes_back(&Record::Put(put_rows(&rows)))?;
        comes_back(&Record::Delete(ids.clone()))?;
        comes_back(&Record::Upsert { deleted: ids, rows: put_rows(&rows) })?;
        comes_back(&Record::Link(links))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_bytes_are_a_record_or_an_error(
        example in prop::option::of(0usize..4),
        random in prop::collection::vec(any::<u8>(), 0..300),
        edits in prop::collection::vec((any::<usize>(), any::<u8>()), 0..6),
    ) {
        let mut bytes = example.map_or(random, |i| examples()[i].encode().unwrap());
        for (at, value) in edits {
            if let Some(len) = bytes.len().checked_sub(1) {
                bytes[at % (len + 1)] = value;
            }
        }
        for kind in KINDS {
            if let Ok(record) = Record::decode(kind, &bytes) {
                prop_assert_eq!(record.encode().unwrap(), bytes.clone());
            }
        }
        if let Some(header) = bytes.first_chunk() {
            prop_assert!(FrameHeader::decode(header, ID).is_err());
        }
    }

    #[test]
    fn any_segment_is_read_or_refused(
        rest in prop::collection::vec(any::<u8>(), 0..300),
        edits in prop::collection::vec((any::<usize>(), any::<u8>()), 0..3),
        cut in any::<usize>(),
    ) {
        let (files, disk) = crash_disk();
        let log = create(&disk, small());
        for record in examples() {
            log.append(&record).unwrap();
        }
        drop(log);
        let name = files.files().into_keys().next().unwrap();
        let whole = files.files()[&name].len();
        files.damage(&name, |bytes| {
            edits.iter().for_each(|(at, value)| bytes[at % whole] = *value);
            bytes.extend(rest);
            bytes.truncate(whole / 2 + cut % whole);
        });
        let disk: std::sync::Arc<dyn Disk> = disk;
        if let Ok((log, recovery)) = Log::open(disk, DIR, ID, small()) {
            let records: Vec<_> = log.replay(Seq(1)).unwrap().map(|r| r.unwrap()).collect();
            prop_assert_eq!(records.len() as u64, recovery.last.0);
            for (record, example) in records.iter().zip(examples()) {
                prop_assert_eq!(record.decode().unwrap(), example);
            }
        }
    }
}

#[test]
fn a_count_beyond_the_bytes_makes_no_room() {
    let many = u32::MAX.to_le_bytes();
    for kind in KINDS {
        let refused = Record::decode(kind, &many).unwrap_err();
        assert!(matches!(refused, RecordError::CutOff { missing, .. } if missing > 1 << 30));
    }
    let mut link = Record::Link(vec![Link {
        field: 0,
        node: NodeId(0),
        row: RowId(0),
        neighbours: vec![],
        back_edges: vec![],
    }])
    .encode()
    .unwrap();
    link[4 + constants::link::NEIGHBOURS.offset..][..4].copy_from_slice(&many);
    assert!(matches!(
        Record::decode(RecordKind::Link, &link),
        Err(RecordError::CutOff { part: "neighbours", .. })
    ));
}

#[test]
fn kinds_keep_their_numbers() {
    for kind in KINDS {
        assert_eq!(RecordKind::from_number(kind.number()), Some(kind));
    }
    assert_eq!(KINDS.map(RecordKind::number), [2, 3, 4, 5]);
    assert_eq!(RecordKind::from_number(constants::KIND_MARK), None);
}
