//! How much memory the machine has.

/// Bytes of memory of the machine, whoever uses them; `u64::MAX` where the system does not tell.
/// What a container allows of it is not known here.
pub fn physical_bytes() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let system = rustix::system::sysinfo();
        let unit = u64::from(system.mem_unit).max(1);
        #[expect(clippy::useless_conversion, reason = "narrower on 32-bit machines")]
        let total = u64::from(system.totalram);
        total.saturating_mul(unit)
    }
    #[cfg(not(target_os = "linux"))]
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_some_memory() {
        assert!(physical_bytes() > 64 << 20);
    }
}
