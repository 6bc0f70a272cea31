//! How much memory this process may use.

use std::fs;
use std::path::Path;

/// Bytes of memory of the machine, whoever uses them, or what the control groups of this process
/// (a container's, a service's) allow of it; `u64::MAX` where the system does not tell.
pub fn physical_bytes() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let system = rustix::system::sysinfo();
        let unit = u64::from(system.mem_unit).max(1);
        #[expect(clippy::useless_conversion, reason = "narrower on 32-bit machines")]
        let total = u64::from(system.totalram);
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        total.saturating_mul(unit).min(allowed_bytes(Path::new("/sys/fs/cgroup"), &groups))
    }
    #[cfg(not(target_os = "linux"))]
    u64::MAX
}

/// The least limit of the groups that are listed as in `/proc/self/cgroup`, and of those around
/// them; `u64::MAX` without any. Version 2 has one tree in `root`, version 1 one for memory in
/// `root/memory`. A container may see its own group as the root of a tree, whatever the list says.
#[cfg(any(target_os = "linux", test))]
fn allowed_bytes(root: &Path, groups: &str) -> u64 {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(kinds), Some(group)) = (parts.next(), parts.next()) else { return Vec::new() };
        let (tree, file) = match kinds {
            "" => (root.to_owned(), "memory.max"),
            _ if kinds.split(',').any(|kind| kind == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let inner = Path::new(group.trim_start_matches('/'));
        inner.ancestors().filter_map(|group| limit(&tree.join(group).join(file))).collect()
    });
    limits.min().unwrap_or(u64::MAX)
}

/// What such a file says; `max` is no limit.
#[cfg(any(target_os = "linux", test))]
fn limit(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_some_memory() {
        assert!(physical_bytes() > 64 << 20);
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_around_it_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let allowed = |groups| allowed_bytes(root.path(), groups);
        assert_eq!(allowed(""), u64::MAX);
        assert_eq!(allowed("0::/a/b\n"), u64::MAX, "no such files");
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "5000\n");
        assert_eq!(allowed("0::/a/b\n"), 5000, "the group around it");
        write("a/b/memory.max", "300\n");
        assert_eq!(allowed("0::/a/b\n"), 300);
        assert_eq!(allowed("0::/a\n"), 5000);
        write("memory/c/memory.limit_in_bytes", "70\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(allowed("3:cpu,cpuacct:/c\n4:memory:/c\n0::/\n"), 70, "version 1");
        assert_eq!(allowed("4:memory:/elsewhere\n"), 9_223_372_036_854_771_712, "a container's");
        assert_eq!(allowed("no group\n4:memory\n::\n"), u64::MAX);
    }
}
