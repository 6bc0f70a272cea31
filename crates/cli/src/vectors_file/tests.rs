//! Every format there and back, and everything that must be refused.

use super::*;
use pipeann_engine::build::BuildOptions;
use pipeann_engine::types::Metric;

fn bytes_f32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn write_all(path: &Path, dim: usize, ty: VectorType, data: &[u8]) {
    let set = VectorSet::new(data, dim, ty).unwrap();
    let mut out = VectorsWriter::create(path, set.rows(), dim, ty).unwrap();
    for i in 0..set.rows() {
        out.write_row(set.row(i)).unwrap();
    }
    out.finish().unwrap();
}

fn refusal(path: &Path, bytes: &[u8]) -> String {
    std::fs::write(path, bytes).unwrap();
    format!("{:#}", VectorsFile::open(path).unwrap_err())
}

#[test]
fn every_format_gives_back_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let floats = bytes_f32(&[1.0, -2.5, 3.0, 4.0, 0.0, 6.5]);
    for (name, ty, data) in [
        ("a.fbin", VectorType::F32, &floats[..]),
        ("a.fvecs", VectorType::F32, &floats),
        ("a.npy", VectorType::F32, &floats),
        ("b.u8bin", VectorType::U8, &[1, 2, 3, 4, 255, 0][..]),
        ("b.bvecs", VectorType::U8, &[1, 2, 3, 4, 255, 0]),
        ("b.npy", VectorType::U8, &[1, 2, 3, 4, 255, 0]),
        ("c.i8bin", VectorType::I8, &[1, 2, 3, 4, 255, 0]),
        ("c.npy", VectorType::I8, &[1, 2, 3, 4, 255, 0]),
        ("d.f16bin", VectorType::F16, &[1; 12]),
        ("d.npy", VectorType::F16, &[1; 12]),
        ("e.bf16bin", VectorType::BF16, &[1; 12]),
        ("f.bbin", VectorType::Binary, &[1, 2]),
    ] {
        let path = dir.path().join(name);
        let dim = if ty == VectorType::Binary { 8 } else { 3 };
        write_all(&path, dim, ty, data);
        let file = VectorsFile::open(&path).unwrap();
        let set = file.set();
        assert_eq!((set.rows(), set.dim(), set.vector_type()), (2, dim, ty), "{name}");
        assert_eq!(set.bytes(), data, "{name}");
        assert_eq!(file.first(1).bytes(), &data[..data.len() / 2], "{name}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 12, "no partial files are left");
}

#[test]
fn types_convert_where_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.fvecs");
    write_all(&path, 2, VectorType::U8, &[7, 255]);
    assert_eq!(VectorsFile::open(&path).unwrap().set().bytes(), bytes_f32(&[7.0, 255.0]));
    let path = dir.path().join("a.u8bin");
    write_all(&path, 2, VectorType::F32, &bytes_f32(&[7.0, 255.0]));
    assert_eq!(VectorsFile::open(&path).unwrap().set().bytes(), [7, 255]);
    for bad in [0.5, 256.0, -1.0, f32::NAN] {
        let mut out = VectorsWriter::create(&path, 1, 1, VectorType::F32).unwrap();
        let error = out.write_row(&bad.to_le_bytes()).unwrap_err().to_string();
        assert!(error.contains("row 0") && error.contains("no u8"), "{error}");
    }
}

#[test]
fn floats_are_written_as_narrower_types_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let written = |name: &str, values: &[f32]| {
        let path = dir.path().join(name);
        let mut out = VectorsWriter::create(&path, 1, values.len(), VectorType::F32).unwrap();
        out.write_row(&bytes_f32(values)).map_err(|e| e.to_string())?;
        out.finish().unwrap();
        Ok::<_, String>(VectorsFile::open(&path).unwrap().set().bytes().to_vec())
    };
    assert_eq!(written("a.f16bin", &[1.0, -2.0]).unwrap(), [0, 0x3c, 0, 0xc0]);
    assert_eq!(written("a.bf16bin", &[1.0, 1.001]).unwrap(), [0x80, 0x3f, 0x80, 0x3f]);
    assert_eq!(written("a.i8bin", &[-128.0, 127.0]).unwrap(), [0x80, 127]);
    let bits = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0];
    assert_eq!(written("a.bbin", &bits).unwrap(), [0b1000_0011]);
    assert!(written("a.f16bin", &[1e6]).unwrap_err().contains("no f16"));
    assert!(written("a.i8bin", &[128.0]).unwrap_err().contains("from -128 to 127"));
    assert!(written("a.bbin", &[2.0; 8]).unwrap_err().contains("zeros and ones"));
    let dim = VectorsFile::open(&dir.path().join("a.bbin")).unwrap().set().dim();
    assert_eq!(dim, 8);
    let path = dir.path().join("ragged.bbin");
    assert!(refusal(&path, &[1, 0, 0, 0, 7, 0, 0, 0, 1]).contains("multiple of 8"));
}

#[test]
fn damaged_bin_files_are_refused_with_what_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.u8bin");
    let header = |rows: u32, dim: u32| [rows.to_le_bytes(), dim.to_le_bytes()].concat();
    assert!(refusal(&path, &[1, 2, 3]).contains("header alone takes 8"));
    let truncated = refusal(&path, &[header(2, 3), vec![0; 5]].concat());
    assert!(truncated.contains("truncated") && truncated.contains("14 bytes"), "{truncated}");
    assert!(truncated.contains("a.u8bin"), "{truncated}");
    let long = refusal(&path, &[header(2, 3), vec![0; 7]].concat());
    assert!(long.contains("2 x 3 u8"), "{long}");
    assert!(refusal(&path, &header(0, 3)).contains("holds no vectors"));
    assert!(refusal(&path, &header(3, 0)).contains("no dimensions"));
    assert!(refusal(&path, &header(u32::MAX, u32::MAX)).contains("truncated"));
}

#[test]
fn damaged_texmex_files_are_refused_with_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bvecs");
    let row = |dim: u32, n: usize| [dim.to_le_bytes().to_vec(), vec![9; n]].concat();
    let ragged = refusal(&path, &[row(2, 2), row(3, 3)].concat());
    assert!(ragged.contains("ragged: row 1 says 3"), "{ragged}");
    let cut = refusal(&path, &[row(2, 2), row(2, 1)].concat());
    assert!(cut.contains("truncated: row 1"), "{cut}");
    let cut = refusal(&path, &[row(2, 2), vec![2, 0]].concat());
    assert!(cut.contains("dimension of row 1"), "{cut}");
    assert!(refusal(&path, &row(u32::MAX, 0)).contains("expected 1 to"));
    assert!(refusal(&path, &[]).contains("no vectors"));
}

/// Rows of `n` bytes behind their dimensions.
fn bvecs(rows: usize, n: usize) -> Vec<u8> {
    let row = |at: usize| {
        let components = (0..n).map(move |k| (at * 7 + k * at) as u8);
        (n as u32).to_le_bytes().into_iter().chain(components)
    };
    (0..rows).flat_map(row).collect()
}

fn copied(file: &VectorsFile) -> usize {
    match &file.bytes {
        Bytes::Prefixed(copies) => copies.copied(),
        Bytes::Mapped(..) => 0,
    }
}

#[test]
fn texmex_files_are_read_where_they_lie_and_copied_as_far_as_they_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bvecs");
    // More than a piece.
    let (rows, dim) = (9000, 128);
    let bytes = bvecs(rows, dim);
    std::fs::write(&path, &bytes).unwrap();
    let file = VectorsFile::open(&path).unwrap();
    assert_eq!((file.rows(), file.dim(), file.vector_type()), (rows, dim, VectorType::U8));
    let source = file.source().unwrap();
    assert_eq!((source.rows(), source.dim()), (rows, dim));
    let mut read = vec![0; rows * dim];
    source.read(0, &mut read).unwrap();
    let plain: Vec<u8> = bytes.chunks(4 + dim).flat_map(|row| row[4..].to_vec()).collect();
    assert_eq!(read, plain);
    source.read(77, &mut read[..2 * dim]).unwrap();
    assert_eq!(read[..2 * dim], plain[77 * dim..79 * dim]);
    assert_eq!(copied(&file), 0, "a source needs no copy");
    assert_eq!(file.first(10).bytes(), &plain[..10 * dim]);
    assert_eq!(file.first(3).bytes(), &plain[..3 * dim]);
    assert_eq!(copied(&file), 10 * dim, "only what is wanted");
    assert_eq!(file.first(20).bytes(), &plain[..20 * dim]);
    assert_eq!(file.set().bytes(), plain);

    let mut changed = bytes;
    changed[5000 * (4 + dim)] += 1;
    std::fs::write(&path, &changed).unwrap();
    assert!(VectorsFile::open(&path).is_err());
    let error = source.read(0, &mut read).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
}

#[test]
fn a_build_within_a_limit_does_not_copy_its_input() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bvecs");
    std::fs::write(&path, bvecs(300, 16)).unwrap();
    let file = VectorsFile::open(&path).unwrap();
    let go = std::sync::atomic::AtomicBool::new(false);
    let options = BuildOptions::new(Metric::L2);
    let to = |name: &str| dir.path().join(name);
    crate::building::build_index(&file, &to("limited"), &options, Some(1 << 30), &go).unwrap();
    assert_eq!(copied(&file), 0);
    let tight = crate::building::build_index(&file, &to("tight"), &options, Some(1 << 20), &go);
    assert!(format!("{:#}", tight.err().unwrap()).contains("too small"));
    assert_eq!(copied(&file), 0, "a limit is looked at first");
}

#[test]
fn npy_headers_are_understood_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npy");
    let file = |header: &str, data: &[u8]| {
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out
    };
    let swapped = "{\"shape\": (1,2), 'fortran_order':False, \"descr\": '|u1'}\n";
    std::fs::write(&path, file(swapped, &[5, 6])).unwrap();
    assert_eq!(VectorsFile::open(&path).unwrap().set().bytes(), [5, 6]);
    let say = |descr: &str, order: &str, shape: &str| {
        format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n")
    };
    let refused = |header: String| refusal(&path, &file(&header, &[0; 8]));
    assert!(refused(say("'<f8'", "False", "(1, 1)")).contains("<f8; expected f32"));
    assert!(refused(say("'>f4'", "False", "(1, 2)")).contains(">f4; expected f32"));
    assert!(refused(say("'<f4'", "True", "(1, 2)")).contains("Fortran"));
    assert!(refused(say("'<f4'", "False", "(2,)")).contains("1 dimensions; expected 2"));
    assert!(refused(say("'<f4'", "False", "(1, 2, 1)")).contains("3 dimensions"));
    assert!(refused(say("'<f4'", "False", "(2, 2)")).contains("truncated"));
    assert!(refused(say("[('a', '<f4')]", "False", "(2, 1)")).contains("records"));
    assert!(refused("{}".into()).contains("no `descr`"));
    // As many bytes as no number counts: a row of them would seem to have none, or few.
    for (dim, data) in [(1_u64 << 62, 0), ((1 << 62) + 1, 4)] {
        let header = say("'<f4'", "False", &format!("(1, {dim})"));
        let refused = refusal(&path, &file(&header, &vec![0; data]));
        assert!(refused.contains("truncated"), "{refused}");
    }
    let long = say("'|u1'", "False", "(1, 1048577)");
    let refused = refusal(&path, &file(&long, &vec![0; 1_048_577]));
    assert!(refused.contains("1048577 dimensions; expected 1048576 at most"), "{refused}");
    assert!(refusal(&path, b"hello").contains("magic"));
    assert!(refusal(&path, b"\x93NUMPY\x09\x00").contains("version 9"));
}

#[test]
fn columns_of_numbers_are_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npy");
    let write = |descr: &str, shape: &str, data: &[u8]| {
        let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        std::fs::write(&path, out).unwrap();
    };
    let kinds: [(&str, Vec<u8>, ColumnNumber); 5] = [
        ("'<i4'", (-7_i32).to_le_bytes().to_vec(), ColumnNumber::Integer(-7)),
        ("'<i8'", i64::MIN.to_le_bytes().to_vec(), ColumnNumber::Integer(i64::MIN)),
        ("'<f4'", 0.5_f32.to_le_bytes().to_vec(), ColumnNumber::Float(0.5)),
        ("'<f8'", (-1.5_f64).to_le_bytes().to_vec(), ColumnNumber::Float(-1.5)),
        ("'|b1'", vec![1], ColumnNumber::Bool(true)),
    ];
    for (descr, one, expected) in kinds {
        write(descr, "(2,)", &[vec![0; one.len()], one].concat());
        let file = NumbersFile::open(&path).unwrap();
        assert_eq!((file.len(), file.get(1)), (2, expected));
    }
    for (descr, shape, data, told) in [
        ("'<i8'", "(2,)", 15, "truncated"),
        ("'<i8'", "(1, 2)", 16, "2 dimensions; expected 1: a value for each row"),
        ("'<u8'", "(2,)", 16, "numbers of type <u8"),
        ("[('a', '<i4')]", "(4,)", 16, "records"),
        ("'<i8'", "(0,)", 0, "has no numbers"),
    ] {
        write(descr, shape, &vec![0; data]);
        let error = format!("{:#}", NumbersFile::open(&path).err().unwrap());
        assert!(error.contains(told) && error.contains("a.npy"), "{error}");
    }
}

#[test]
fn extensions_decide_and_unknown_ones_are_refused() {
    for (name, part) in [("a.ivecs", "ids"), ("a.csv", "known are"), ("a", "known")] {
        let error = Format::of(Path::new(name)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let missing = VectorsFile::open(Path::new("nowhere.fbin")).unwrap_err();
    assert!(format!("{missing:#}").contains("nowhere.fbin: cannot be opened"), "{missing:#}");
}

#[test]
fn ivecs_go_there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ivecs");
    write_ivecs(&path, 2, &[1, 2, 3, u32::MAX]).unwrap();
    let numbers = vec![1, 2, 3, u32::MAX];
    assert_eq!(read_ivecs(&path).unwrap(), IntegerRows { rows: 2, columns: 2, numbers });
}
