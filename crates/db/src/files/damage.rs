//! Damage to a file, tried everywhere.

/// Asserts that a file is refused where it was cut at any place, or where any one bit of it flipped.
pub(crate) fn assert_damage_is_refused(file: &[u8], is_refused: impl Fn(&[u8]) -> bool) {
    assert!(!is_refused(file), "the file is refused as it was");
    for length in 0..file.len() {
        assert!(is_refused(&file[..length]), "cut to {length} bytes");
    }
    let mut flipped = file.to_vec();
    for bit in 0..file.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(is_refused(&flipped), "bit {bit} flipped");
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}
