//! Importing an index of DiskANN, and choosing by what it is read.

use crate::data::{DIM, Place, clustered};
use crate::names::names;

const ROWS: usize = 400;
const DEGREE: usize = 12;
const SECTOR: usize = 4096;

/// A ring with chords over the rows of `base.u8bin`, laid out as DiskANN does.
fn disk_index() -> Vec<u8> {
    let data = clustered(ROWS, 1);
    let node = DIM + 4 * (DEGREE + 1);
    let in_sector = SECTOR / node;
    let length = SECTOR * (1 + ROWS.div_ceil(in_sector));
    let mut bytes = vec![0; length];
    bytes[..8].copy_from_slice(&[9, 0, 0, 0, 1, 0, 0, 0]);
    for (i, number) in [ROWS, DIM, 3, node, in_sector, 0, 0, 0, length].iter().enumerate() {
        bytes[8 + 8 * i..16 + 8 * i].copy_from_slice(&(*number as u64).to_le_bytes());
    }
    for row in 0..ROWS {
        let at = SECTOR * (1 + row / in_sector) + row % in_sector * node;
        let edges = (0..DEGREE).map(|i| ((row + 1 + i * i * i) % ROWS) as u32);
        let list = std::iter::once(DEGREE as u32).chain(edges).flat_map(u32::to_le_bytes);
        let record = data[row * DIM..][..DIM].iter().copied().chain(list);
        bytes[at..at + node].iter_mut().zip(record).for_each(|(to, from)| *to = from);
    }
    bytes
}

#[test]
fn an_imported_index_is_whole_and_answers_by_every_backend() {
    let place = Place::new(ROWS);
    place.write("old_disk.index", &disk_index());
    let import = "import-diskann --from old --index index --metric l2 --type u8 --code-bytes 12";
    let imported = place.json(import).remove(0);
    assert_eq!((&imported["rows"], &imported["dim"]), (&ROWS.into(), &DIM.into()));
    assert_eq!(imported["mean_degree"], DEGREE as f64);
    place.json("inspect --index index --verify --buffered");
    place.truth();
    for backend in ["auto", "io_uring", "libaio", "threads"] {
        let found = place.json(&format!(
            "search --index index --queries query.u8bin --truth truth.bin --list {ROWS} \
             --buffered --backend {backend}"
        ));
        assert_eq!(found[0]["recall"], 1.0, "{backend}");
    }
    let exists = place.refusal(import);
    assert!(exists.contains("--overwrite"), "{exists}");
}

/// As PipeANN writes it: what stands where DiskANN tells of other vectors is the file's length.
fn of_pipeann(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    bytes[8 + 8 * 7..16 + 8 * 7].copy_from_slice(&length);
    bytes
}

#[test]
fn an_index_of_pipeann_is_imported_too() {
    let place = Place::new(ROWS);
    place.write("theirs_disk.index", &of_pipeann(disk_index()));
    place.json("import-diskann --from theirs --index index --metric l2 --type u8 --code-bytes 12");
    place.truth();
    let found = place.json(&format!(
        "search --index index --queries query.u8bin --truth truth.bin --list {ROWS} --buffered"
    ));
    assert_eq!(found[0]["recall"], 1.0);
    for (name, change) in [("longer", 1), ("flag", 1 - disk_index().len() as i64)] {
        let mut bytes = of_pipeann(disk_index());
        let length = (bytes.len() as i64 + change) as u64;
        bytes[64..72].copy_from_slice(&length.to_le_bytes());
        place.write(&format!("{name}_disk.index"), &bytes);
        let line = format!("import-diskann --from {name} --index i --metric l2 --type u8");
        let refused = place.refusal(&line);
        assert!(refused.contains("other vectors follow the nodes"), "{refused}");
    }
}

#[test]
fn what_cannot_be_imported_is_named_and_leaves_nothing() {
    let place = Place::new(ROWS);
    let bytes = disk_index();
    place.write("old_disk.index", &bytes);
    place.write("cut_disk.index", &bytes[..bytes.len() - SECTOR]);
    place.write("other_disk.index", &[7; 2 * SECTOR]);
    let before = names(place.dir.path());
    for (line, message) in [
        ("--from old --metric l2", "--type is needed"),
        ("--from old --metric l2", "no _metadata.bin beside it tells its vector type"),
        ("--from old --type u8", "--metric is needed"),
        ("--from old --metric l2 --type f32", "old_disk.index"),
        ("--from cut --metric l2 --type u8", "cut off"),
        ("--from other --metric l2 --type u8", "only the layout of DiskANN 0.7"),
        ("--from none --metric l2 --type u8", "cannot open none_disk.index"),
        ("--from none", "cannot open none_disk.index"),
        ("--from nowhere/ann", "cannot open nowhere/ann_disk.index"),
    ] {
        let refused = place.refusal(&format!("import-diskann {line} --index index"));
        assert!(refused.contains(message), "{line}: {refused}");
    }
    assert_eq!(names(place.dir.path()), before);
}
