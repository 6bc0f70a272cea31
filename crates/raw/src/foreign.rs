//! What a device holds that has no marker, for the message that says so.

/// A guess from the first MiB of a device: `None` where that is blank.
pub(crate) fn holds(head: &[u8]) -> Option<&'static str> {
    let is = |at: usize, what: &[u8]| head.get(at..at + what.len()) == Some(what);
    let known = [
        (is(512, b"EFI PART") || is(4096, b"EFI PART"), "a partition table (GPT)"),
        (is(0, b"XFSB"), "an XFS file system"),
        (is(65600, b"_BHRfS_M"), "a btrfs file system"),
        (is(1080, &[0x53, 0xef]), "an ext file system"),
        (is(0, b"LUKS\xba\xbe"), "an encrypted volume (LUKS)"),
        (is(512, b"LABELONE"), "an LVM volume"),
        (is(4096, &[0xfc, 0x4e, 0x2b, 0xa9]), "a member of a RAID (md)"),
        (is(510, &[0x55, 0xaa]), "a boot sector"),
    ];
    let found = known.into_iter().find(|(there, _)| *there).map(|(_, what)| what);
    found.or_else(|| head.iter().any(|&byte| byte != 0).then_some("bytes of something unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_owners_are_known() {
        let mut head = vec![0; 1 << 20];
        assert_eq!(holds(&head), None);
        head[1 << 19] = 1;
        assert_eq!(holds(&head), Some("bytes of something unknown"));
        head[1080..1082].copy_from_slice(&[0x53, 0xef]);
        assert_eq!(holds(&head), Some("an ext file system"));
        head[4096..4104].copy_from_slice(b"EFI PART");
        assert_eq!(holds(&head), Some("a partition table (GPT)"));
    }
}
