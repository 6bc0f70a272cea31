//! What `shim.c` has, as Rust sees it. Each declaration is that of the function there.

use std::ffi::{c_char, c_int, c_void};

/// `struct pipeann_device`.
#[repr(C)]
pub(crate) struct ShimDevice {
    controller: *mut c_void,
    space: *mut c_void,
    pair: *mut c_void,
    lba_bytes: u32,
    depth: u32,
}

impl ShimDevice {
    /// What `pipeann_spdk_open` fills.
    pub(crate) const fn zeroed() -> Self {
        let none = std::ptr::null_mut();
        Self { controller: none, space: none, pair: none, lba_bytes: 0, depth: 0 }
    }
}

/// `struct pipeann_command`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) ended: unsafe extern "C" fn(*mut c_void, u64, u8, u8),
    pub(crate) context: *mut c_void,
    pub(crate) tag: u64,
}

unsafe extern "C" {
    pub(crate) fn pipeann_spdk_start(
        hugedir: *const c_char,
        huge_pages: c_int,
        memory_mib: c_int,
    ) -> c_int;
    pub(crate) fn pipeann_spdk_allocate(bytes: u64) -> *mut c_void;
    pub(crate) fn pipeann_spdk_free(memory: *mut c_void);
    pub(crate) fn pipeann_spdk_open(device: *mut ShimDevice, transport: *const c_char) -> c_int;
    pub(crate) fn pipeann_spdk_close(device: *mut ShimDevice);
    pub(crate) fn pipeann_spdk_geometry(
        device: *mut ShimDevice,
        lba_bytes: *mut u32,
        bytes: *mut u64,
        max_transfer_bytes: *mut u32,
        depth: *mut u32,
    );
    pub(crate) fn pipeann_spdk_submit(
        device: *mut ShimDevice,
        action: c_int,
        offset: u64,
        bytes: u32,
        memory: *mut c_void,
        command: *mut Command,
    ) -> c_int;
    pub(crate) fn pipeann_spdk_poll(device: *mut ShimDevice) -> c_int;
    pub(crate) fn pipeann_spdk_keep_alive(device: *mut ShimDevice) -> c_int;
}
