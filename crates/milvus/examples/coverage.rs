//! Prints the page that says what of Milvus is served.

fn main() {
    print!("{}", pipeann_milvus::coverage());
}
