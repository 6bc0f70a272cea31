//! Writes the committed seeds anew.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    println!("{} seeds in {}", pipeann_fuzz::seeds::write(&dir)?, dir.display());
    Ok(())
}
