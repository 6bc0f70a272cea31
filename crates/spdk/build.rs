//! Finds an installed SPDK and compiles the shim against it, where the feature asks for that.

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    if !cfg!(feature = "spdk") {
        return;
    }
    let mut config = pkg_config::Config::new();
    // Its libraries register drivers when they are loaded, so that none may be left out, and are
    // static unless SPDK was built otherwise.
    config.statik(true).cargo_metadata(false);
    // Each library's own version says nothing of SPDK's, which the shim asks for.
    let find = |name: &str| match config.probe(name) {
        Ok(library) => library,
        Err(error) => panic!(
            "the feature `spdk` needs SPDK 24.01 or newer, and pkg-config does not find its \
             `{name}`.\nInstall SPDK as its guide says (https://spdk.io/doc/getting_started.html), \
             with `make install`, and name its pkg-config folder in PKG_CONFIG_PATH.\n{error}"
        ),
    };
    // Sockets for SSDs of other machines: what does them registers itself when it is linked.
    let libraries = ["spdk_nvme", "spdk_sock_modules", "spdk_env_dpdk", "spdk_syslibs"].map(find);
    let mut shim = cc::Build::new();
    shim.file("src/shim.c").warnings(true).extra_warnings(true);
    for library in &libraries {
        shim.includes(&library.include_paths);
    }
    shim.compile("pipeann_spdk_shim");
    link(&libraries);
    println!("cargo:warning=Using SPDK for vector I/O & io_uring for attribute I/O.");
}

/// Links everything that pkg-config names, whole.
fn link(libraries: &[pkg_config::Library]) {
    let mut seen = std::collections::HashSet::new();
    for library in libraries {
        for path in &library.link_paths {
            println!("cargo:rustc-link-search=native={}", path.display());
        }
        for name in &library.libs {
            if !seen.insert(name.clone()) {
                continue;
            }
            let is_there = |path: &std::path::PathBuf| path.join(format!("lib{name}.a")).exists();
            let whole = name.starts_with("spdk") || name.starts_with("rte");
            if whole && library.link_paths.iter().any(is_there) {
                println!("cargo:rustc-link-lib=static:+whole-archive,-bundle={name}");
            } else {
                println!("cargo:rustc-link-lib={name}");
            }
        }
    }
}
