//! What SPDK needs of a machine, and what of it is missing, as /proc and /sys tell it.
//!
//! Looked at before SPDK is started, which ends a process, or says little, where something is missing.

use std::fmt;
use std::path::Path;

/// Huge pages without which SSDs are not tried, MiB.
const LEAST_HUGE_MIB: u64 = 64;
/// Kernel drivers through which a process may have a device to itself.
const USER_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// What was found of a PCI device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PciDevice {
    /// There is none at the address.
    Absent,
    /// No driver has it.
    Unbound,
    /// The driver of this name has it.
    Bound(String),
}

/// What was found of a machine.
#[derive(Clone, Debug)]
pub struct HostState {
    /// Whether the process is root's.
    pub is_root: bool,
    /// `/proc/meminfo`.
    pub meminfo: String,
    /// `/proc/mounts`.
    pub mounts: String,
    /// Where huge pages are said to be mounted; wherever the system has them if it is `None`.
    pub hugedir: Option<String>,
    /// The SSDs that are wanted, by PCI address.
    pub devices: Vec<(String, PciDevice)>,
}

/// Something that SPDK needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostNeed {
    /// SSDs past the kernel are for root alone.
    Root,
    /// Huge pages are set aside.
    HugePages {
        /// MiB that are free.
        free: u64,
        /// Pages that are set aside, free or not.
        pages: u64,
        /// KiB of each.
        page_kib: u64,
    },
    /// They are mounted.
    Mount(Option<String>),
    /// There is an SSD at this address.
    Device(String),
    /// The SSD at this address is with a driver that gives it to a process.
    Driver {
        /// Its address.
        device: String,
        /// The driver that has it, if one does.
        found: Option<String>,
    },
}

impl fmt::Display for HostNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("SSDs past the kernel are for root alone: use `sudo -E`"),
            Self::HugePages { free, pages, page_kib } => write!(
                f,
                "huge pages: {free} of {LEAST_HUGE_MIB} MiB are free ({pages} pages of {page_kib} KiB \
                 are set aside): run SPDK's `scripts/setup.sh`, or write a number of pages to \
                 /proc/sys/vm/nr_hugepages"
            ),
            Self::Mount(None) => f.write_str(
                "huge pages are mounted nowhere: `mount -t hugetlbfs none /dev/hugepages`",
            ),
            Self::Mount(Some(dir)) => write!(
                f,
                "no huge pages are mounted at `hugedir`, {dir}: `mount -t hugetlbfs none {dir}`"
            ),
            Self::Device(device) => {
                write!(
                    f,
                    "{device}: there is no such PCI device; `nvme list -v` shows those there are"
                )
            }
            Self::Driver { device, found } => {
                let found = found.as_deref().map_or("no driver".into(), |d| format!("driver {d}"));
                write!(
                    f,
                    "{device} is with {found}, not with vfio-pci or uio_pci_generic: \
                     `PCI_ALLOWED=\"{device}\" scripts/setup.sh` in SPDK's folder"
                )
            }
        }
    }
}

/// All that is missing, in one text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SPDK needs more of this machine: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct MissingNeeds(pub Vec<HostNeed>);

/// What is missing for SSDs of this machine.
///
/// # Errors
/// All of it.
pub fn check(found: &HostState) -> Result<(), MissingNeeds> {
    let mut missing = Vec::new();
    if !found.is_root {
        missing.push(HostNeed::Root);
    }
    let field = |name: &str| {
        let line = found.meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let page_kib = field("Hugepagesize:").unwrap_or(0);
    let free = field("HugePages_Free:").unwrap_or(0).saturating_mul(page_kib) / 1024;
    if free < LEAST_HUGE_MIB {
        let pages = field("HugePages_Total:").unwrap_or(0);
        missing.push(HostNeed::HugePages { free, pages, page_kib });
    }
    if !is_mounted(&found.mounts, found.hugedir.as_deref()) {
        missing.push(HostNeed::Mount(found.hugedir.clone()));
    }
    for (device, state) in &found.devices {
        let device = device.clone();
        match state {
            PciDevice::Absent => missing.push(HostNeed::Device(device)),
            PciDevice::Unbound => missing.push(HostNeed::Driver { device, found: None }),
            PciDevice::Bound(driver) if USER_DRIVERS.contains(&driver.as_str()) => {}
            PciDevice::Bound(driver) => {
                missing.push(HostNeed::Driver { device, found: Some(driver.clone()) });
            }
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(MissingNeeds(missing)) }
}

/// Whether huge pages are mounted there, or anywhere.
fn is_mounted(mounts: &str, hugedir: Option<&str>) -> bool {
    let mut places = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (place, kind) = (words.nth(1)?, words.next()?);
        (kind == "hugetlbfs").then_some(place)
    });
    match hugedir {
        None => places.next().is_some(),
        Some(dir) => places.any(|place| Path::new(dir).starts_with(place)),
    }
}

impl HostState {
    /// Of this machine. What cannot be read counts as empty.
    pub fn now(is_root: bool, hugedir: Option<String>, devices: &[String]) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let device = |address: &String| (address.clone(), pci(Path::new("/sys"), address));
        Self {
            is_root,
            meminfo: read("/proc/meminfo"),
            mounts: read("/proc/mounts"),
            hugedir,
            devices: devices.iter().map(device).collect(),
        }
    }
}

/// What a `/sys` says of a PCI device.
fn pci(sys: &Path, address: &str) -> PciDevice {
    let device = sys.join("bus/pci/devices").join(address);
    if !device.exists() {
        return PciDevice::Absent;
    }
    let driver = std::fs::read_link(device.join("driver")).ok();
    let name = driver.as_deref().and_then(Path::file_name);
    name.map_or(PciDevice::Unbound, |name| PciDevice::Bound(name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSD: &str = "0000:66:00.0";

    /// A machine that has everything.
    fn ready() -> HostState {
        HostState {
            is_root: true,
            meminfo: "MemTotal: 65 kB\nHugePages_Total:    1024\nHugePages_Free:     1000\n\
                      Hugepagesize:       2048 kB\n"
                .into(),
            mounts:
                "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n"
                    .into(),
            hugedir: Some("/dev/hugepages".into()),
            devices: vec![(SSD.into(), PciDevice::Bound("vfio-pci".into()))],
        }
    }

    fn said(found: &HostState) -> String {
        check(found).expect_err("something is missing").to_string()
    }

    #[test]
    fn a_machine_that_has_all_lacks_nothing() {
        assert_eq!(check(&ready()), Ok(()));
        assert_eq!(check(&HostState { hugedir: None, ..ready() }), Ok(()));
        let uio = vec![(SSD.to_owned(), PciDevice::Bound("uio_pci_generic".into()))];
        assert_eq!(check(&HostState { devices: uio, ..ready() }), Ok(()));
    }

    #[test]
    fn each_thing_is_named_with_what_to_do() {
        assert!(said(&HostState { is_root: false, ..ready() }).contains("sudo -E"));
        let few = ready().meminfo.replace("1000", "3");
        let few = said(&HostState { meminfo: few, ..ready() });
        assert!(few.contains("6 of 64 MiB are free (1024 pages of 2048 KiB"), "{few}");
        let none = said(&HostState { meminfo: String::new(), ..ready() });
        assert!(none.contains("0 of 64 MiB") && none.contains("nr_hugepages"), "{none}");
        let elsewhere = said(&HostState { hugedir: Some("/mnt/huge".into()), ..ready() });
        assert!(elsewhere.contains("`hugedir`, /mnt/huge"), "{elsewhere}");
        let nowhere =
            HostState { hugedir: None, mounts: "proc /proc proc rw 0 0".into(), ..ready() };
        assert!(said(&nowhere).contains("mounted nowhere"));
        for (state, word) in [
            (PciDevice::Absent, "no such PCI device"),
            (PciDevice::Unbound, "with no driver"),
            (PciDevice::Bound("nvme".into()), "driver nvme, not with vfio-pci or uio_pci_generic"),
        ] {
            let said = said(&HostState { devices: vec![(SSD.into(), state)], ..ready() });
            assert!(said.contains(word) && said.contains(SSD), "{said}");
        }
    }

    #[test]
    fn all_that_is_missing_is_told_at_once() {
        let nothing = HostState {
            is_root: false,
            meminfo: "HugePages_Total: 0\nHugePages_Free: x\nHugepagesize:".into(),
            mounts: "a".into(),
            hugedir: None,
            devices: vec![(SSD.into(), PciDevice::Bound("nvme".into()))],
        };
        let MissingNeeds(needs) = check(&nothing).expect_err("all is missing");
        assert_eq!(needs.len(), 4, "{needs:?}");
        let said = said(&nothing);
        for word in ["root", "huge pages: 0", "mounted nowhere", "driver nvme", "PCI_ALLOWED"] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }

    #[test]
    fn devices_are_looked_up_in_sys() {
        let sys = tempfile::tempdir().unwrap();
        let devices = sys.path().join("bus/pci/devices");
        std::fs::create_dir_all(devices.join("0000:67:00.0")).unwrap();
        std::fs::create_dir_all(devices.join(SSD)).unwrap();
        std::os::unix::fs::symlink("../../drivers/nvme", devices.join(SSD).join("driver")).unwrap();
        assert_eq!(pci(sys.path(), SSD), PciDevice::Bound("nvme".into()));
        assert_eq!(pci(sys.path(), "0000:67:00.0"), PciDevice::Unbound);
        assert_eq!(pci(sys.path(), "0000:68:00.0"), PciDevice::Absent);
    }

    /// Whatever this machine is, the answer is a value.
    #[test]
    fn this_machine_can_be_asked() {
        let found = HostState::now(false, None, &["ffff:ff:1f.7".into()]);
        assert!(said(&found).contains("ffff:ff:1f.7: there is no such PCI device"));
    }
}
