//! Ranges of a device and the files that they lie in.

use super::*;

fn file(direct: bool) -> File {
    File::from_memory(Path::new("f"), MemoryFile::new(vec![0; 65536]), direct)
}

#[test]
fn ranges_map_to_one_extent_or_to_an_error() {
    let (a, b) = (file(false), file(false));
    let device = Device::new(vec![
        Extent { file: a.clone(), offset: 100, bytes: 10 },
        Extent { file: b, offset: 0, bytes: 20 },
        Extent { file: a, offset: 0, bytes: 5 },
    ]);
    assert_eq!((device.bytes(), device.files().len()), (35, 2));
    assert_eq!(device.locate(3, 7, 1), Ok(Place { extent: 0, offset: 103 }));
    assert_eq!(device.locate(10, 20, 1), Ok(Place { extent: 1, offset: 0 }));
    assert_eq!(device.locate(34, 1, 1), Ok(Place { extent: 2, offset: 4 }));
    assert!(matches!(device.locate(9, 2, 1), Err(IoError::CrossesExtents { .. })));
    assert!(matches!(device.locate(34, 2, 1), Err(IoError::OutOfRange { .. })));
    assert!(matches!(device.locate(u64::MAX, 2, 1), Err(IoError::OutOfRange { .. })));
    assert!(matches!(Device::new(vec![]).locate(0, 0, 1), Err(IoError::OutOfRange { .. })));
}

#[test]
fn direct_files_want_aligned_ranges() {
    let device = Device::whole(&file(true)).expect("a length");
    assert!(device.locate(4096, 8192, 4096).is_ok());
    assert!(matches!(device.locate(512, 4096, 4096), Err(IoError::Misaligned { .. })));
    assert!(matches!(device.locate(0, 100, 4096), Err(IoError::Misaligned { .. })));
}
