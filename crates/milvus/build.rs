//! Compiles the definition of the wire, without protoc, and a table of what its messages are like.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
};
use tonic_prost_build::Config;

/// Bytes that are a message themselves, and which one.
const CARRIED: [(&str, &str, &str); 3] = [
    ("CreateCollectionRequest", "schema", ".milvus.proto.schema.CollectionSchema"),
    ("AddCollectionFieldRequest", "schema", ".milvus.proto.schema.FieldSchema"),
    ("SearchRequest", "placeholder_group", ".milvus.proto.common.PlaceholderGroup"),
];
/// Each value of its lists becomes a constant of a filter.
const LIST_OF_CONSTANTS: &str = "TemplateArrayValue";

/// `String`, `Vec`, and the map of a map field.
const TEXT_BYTES: u64 = 24;
const MAP_BYTES: u64 = 48;
/// The largest number, and what tells which of several values there is.
const NUMBER_BYTES: u64 = 8;

#[expect(clippy::disallowed_methods, reason = "cargo says by the environment where to write")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["milvus.proto", "servers.proto"], ["proto"])?;
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("layouts.rs"), Messages::new(&files).table()?)?;
    // Large messages are decoded apart from the network.
    let codec = "crate::proto::codec::ApartCodec";
    let mut config = Config::new();
    // By which a message finds itself in the table.
    config.enable_type_names();
    tonic_prost_build::configure().codec_path(codec).compile_fds_with_config(files, config)?;
    Ok(())
}

/// All messages by their full names, with the packages that they are of.
struct Messages<'f>(BTreeMap<String, (&'f str, &'f DescriptorProto)>);

impl<'f> Messages<'f> {
    fn new(files: &'f FileDescriptorSet) -> Self {
        let mut all = BTreeMap::new();
        for file in &files.file {
            for message in &file.message_type {
                let name = format!(".{}.{}", file.package(), message.name());
                for nested in &message.nested_type {
                    all.insert(format!("{name}.{}", nested.name()), (file.package(), nested));
                }
                all.insert(name, (file.package(), message));
            }
        }
        Self(all)
    }

    fn message(&self, name: &str) -> &'f DescriptorProto {
        self.0.get(name).expect("a field is of a message that there is").1
    }

    fn position(&self, name: &str) -> usize {
        self.0.keys().position(|known| known == name).expect("a field is of a message there is")
    }

    /// At least what the compiled message takes itself, without what it points to.
    fn bytes(&self, message: &DescriptorProto) -> u64 {
        let mut variants: BTreeMap<i32, u64> = BTreeMap::new();
        let mut bytes = 0;
        for field in &message.field {
            let of_field = self.field_bytes(field);
            match field.oneof_index.filter(|_| !field.proto3_optional()) {
                Some(oneof) => {
                    let largest = variants.entry(oneof).or_default();
                    *largest = of_field.max(*largest);
                }
                None => bytes += of_field,
            }
        }
        bytes + variants.values().map(|largest| largest + NUMBER_BYTES).sum::<u64>()
    }

    fn field_bytes(&self, field: &FieldDescriptorProto) -> u64 {
        match (field.label(), field.r#type()) {
            (Label::Repeated, Type::Message) if self.is_map(field) => MAP_BYTES,
            (Label::Repeated, _) => TEXT_BYTES,
            (_, Type::String | Type::Bytes) => TEXT_BYTES,
            (_, Type::Message) => self.bytes(self.message(field.type_name())) + NUMBER_BYTES,
            _ if field.proto3_optional() => 2 * NUMBER_BYTES,
            _ => NUMBER_BYTES,
        }
    }

    fn is_map(&self, field: &FieldDescriptorProto) -> bool {
        let options = self.message(field.type_name()).options.as_ref();
        options.is_some_and(|options| options.map_entry())
    }

    /// What `proto::decoded` includes.
    fn table(&self) -> Result<String, std::fmt::Error> {
        let mut table = "pub(super) static LAYOUTS: &[MessageLayout] = &[\n".to_owned();
        for (name, (package, message)) in &self.0 {
            let short = name.trim_start_matches('.').trim_start_matches(package);
            let short = short.trim_start_matches('.');
            writeln!(table, "MessageLayout {{ package: {package:?}, name: {short:?},")?;
            writeln!(table, "bytes: {}, parts: &[", self.bytes(message))?;
            for field in &message.field {
                if let Some((each, kind)) = self.part(short, field) {
                    let number = field.number();
                    writeln!(
                        table,
                        "MessagePart {{ number: {number}, each: {each}, kind: {kind} }},"
                    )?;
                }
            }
            table.push_str("] },\n");
        }
        table.push_str("];\n");
        Ok(table)
    }

    /// What a value of a field takes beside its message, and how to count it. None of a single number.
    fn part(&self, message: &str, field: &FieldDescriptorProto) -> Option<(u64, String)> {
        let several = field.label() == Label::Repeated;
        let each = |bytes: u64| if several { bytes } else { 0 };
        Some(match field.r#type() {
            Type::String | Type::Bytes => {
                let is_it =
                    |(of, name, _): &&(&str, &str, &str)| (*of, *name) == (message, field.name());
                match CARRIED.iter().find(is_it) {
                    Some((.., carried)) => {
                        let bytes = self.bytes(self.message(carried));
                        (bytes, format!("PartKind::Carried({})", self.position(carried)))
                    }
                    None => (each(TEXT_BYTES), "PartKind::Text".to_owned()),
                }
            }
            Type::Message => {
                let name = field.type_name();
                // Of the places in a map up to a half are free.
                let places = if several && self.is_map(field) { 2 } else { 1 };
                let at = self.position(name);
                let kind = match (message, field.name()) {
                    (LIST_OF_CONSTANTS, "json_data") => "PartKind::JsonConstants".to_owned(),
                    (LIST_OF_CONSTANTS, _) => format!("PartKind::Constants({at})"),
                    _ => format!("PartKind::Message({at})"),
                };
                (each(places * self.bytes(self.message(name))), kind)
            }
            _ if !several => return None,
            Type::Bool => (1, "PartKind::Varints".to_owned()),
            Type::Int32 | Type::Uint32 | Type::Sint32 | Type::Enum => {
                (4, "PartKind::Varints".to_owned())
            }
            Type::Int64 | Type::Uint64 | Type::Sint64 => (8, "PartKind::Varints".to_owned()),
            Type::Float | Type::Fixed32 | Type::Sfixed32 => (4, "PartKind::Fixed".to_owned()),
            Type::Double | Type::Fixed64 | Type::Sfixed64 => (8, "PartKind::Fixed".to_owned()),
            Type::Group => panic!("proto3 has no groups"),
        })
    }
}
