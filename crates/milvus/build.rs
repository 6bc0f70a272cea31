//! Compiles the definition of the wire, without protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["milvus.proto", "servers.proto"], ["proto"])?;
    // Large messages are decoded apart from the network.
    let codec = "crate::proto::codec::ApartCodec";
    tonic_prost_build::configure().codec_path(codec).compile_fds(files)?;
    Ok(())
}
