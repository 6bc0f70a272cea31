//! How many bytes a message takes when it is decoded, told before it is.
//!
//! A number takes one byte when it is sent and up to eight afterwards, an empty field of a schema two and
//! some two hundred. So a message is walked through by what its parts are, which a table says that is made
//! of the definition of the wire; vectors and texts are passed over in one step, whatever they hold.
//! What the conversions make of a part at once is counted with it.

use prost::encoding::WireType;

include!(concat!(env!("OUT_DIR"), "/layouts.rs"));

/// Messages that stand deeper in each other are refused by prost, which decodes nothing of them.
const DEPTH: u32 = 100;
/// What the allocator adds, and the least that it gives.
const ADDED_BYTES: u64 = 16;
const LEAST_BYTES: u64 = 32;
/// What a value of a list in a filter becomes.
pub(crate) const CONSTANT_BYTES: u64 = 32;
/// A value of JSON, which depends on what else is built with it.
const PARSED_BYTES: u64 = size_of::<serde_json::Value>() as u64;

/// What a message is like.
#[derive(Debug)]
pub(super) struct MessageLayout {
    package: &'static str,
    name: &'static str,
    /// What it takes itself.
    bytes: u64,
    parts: &'static [MessagePart],
}

/// A field that takes more than its place in the message.
#[derive(Debug)]
struct MessagePart {
    number: u32,
    /// Of each value of it, beside what the value points to.
    each: u64,
    kind: PartKind,
}

/// What its values are, messages by their places in the table.
#[derive(Clone, Copy, Debug)]
enum PartKind {
    Varints,
    Fixed,
    Text,
    Message(usize),
    /// Bytes that are decoded as one later.
    Carried(usize),
    /// Its values become constants of a filter.
    Constants(usize),
    /// So do its texts, which are JSON.
    JsonConstants,
}

/// What stands in a message.
pub(super) enum Met<'m> {
    Number,
    /// Of some length: a text, bytes, a message, packed numbers.
    Part(&'m [u8]),
}

impl MessageLayout {
    /// That of a message.
    pub(super) fn of<M: prost::Name>() -> Option<&'static Self> {
        LAYOUTS.iter().find(|known| (known.name, known.package) == (M::NAME, M::PACKAGE))
    }

    /// What a message like this takes, as far as it is one. A message that is cut is prost's to refuse.
    pub(super) fn decoded_bytes(&self, message: &[u8]) -> u64 {
        self.bytes + self.inner_bytes(message, 0, DEPTH)
    }

    /// What it takes beside itself. Each value of its parts takes some bytes more.
    fn inner_bytes(&self, message: &[u8], more: u64, depth: u32) -> u64 {
        let Some(below) = depth.checked_sub(1) else { return 0 };
        let mut bytes = 0;
        walk(message, &mut |number, met| {
            let Some(part) = self.parts.iter().find(|part| part.number == number) else { return };
            let each = part.each + more;
            bytes += match (part.kind, met) {
                (PartKind::Varints, Met::Part(packed)) => {
                    each * packed.iter().filter(|byte| **byte < 0x80).count() as u64
                }
                (PartKind::Fixed, Met::Part(packed)) => each * (packed.len() as u64 / part.each),
                (PartKind::Varints | PartKind::Fixed, Met::Number) => each,
                (_, Met::Number) => 0,
                (PartKind::Text, Met::Part(text)) => each + allocated(text),
                (PartKind::Message(at), Met::Part(inner)) => {
                    each + LAYOUTS[at].inner_bytes(inner, 0, below)
                }
                (PartKind::Carried(at), Met::Part(carried)) => {
                    each + allocated(carried) + LAYOUTS[at].inner_bytes(carried, 0, DEPTH)
                }
                (PartKind::Constants(at), Met::Part(list)) => {
                    each + LAYOUTS[at].inner_bytes(list, CONSTANT_BYTES, below)
                }
                (PartKind::JsonConstants, Met::Part(list)) => json_constants(list),
            };
        });
        bytes
    }
}

fn allocated(part: &[u8]) -> u64 {
    match part.len() as u64 {
        0 => 0,
        bytes => (bytes + ADDED_BYTES).max(LEAST_BYTES),
    }
}

/// Texts of a list: themselves, what they are parsed to, and the constants that those become.
fn json_constants(list: &[u8]) -> u64 {
    let mut bytes = 0;
    walk(list, &mut |_, met| {
        if let Met::Part(text) = met {
            bytes += size_of::<Vec<u8>>() as u64 + PARSED_BYTES;
            bytes += allocated(text);
            bytes += text.iter().map(|byte| parsed_bytes(*byte)).sum::<u64>();
        }
    });
    bytes
}

/// At most what comes with such a byte in JSON: a value in a list that has grown, a list that has begun
/// with places for four, an object with places for eleven.
fn parsed_bytes(byte: u8) -> u64 {
    match byte {
        b',' => 2 * PARSED_BYTES,
        b'[' => 5 * PARSED_BYTES,
        b'{' => 11 * (PARSED_BYTES + size_of::<String>() as u64) + 152,
        _ => 0,
    }
}

/// Calls `each` with what stands in a message, as far as it is one.
pub(super) fn walk(mut bytes: &[u8], each: &mut dyn FnMut(u32, Met<'_>)) {
    while !bytes.is_empty() {
        let Ok((number, wire_type)) = prost::encoding::decode_key(&mut bytes) else { return };
        let skipped = match wire_type {
            WireType::Varint => prost::encoding::decode_varint(&mut bytes).ok().map(|_| 0),
            WireType::SixtyFourBit => Some(8),
            WireType::ThirtyTwoBit => Some(4),
            WireType::LengthDelimited => {
                let length = prost::encoding::decode_varint(&mut bytes).ok();
                length.and_then(|length| usize::try_from(length).ok())
            }
            // Of fields that are not known; what stands in them is counted as if it stood here.
            WireType::StartGroup | WireType::EndGroup => Some(0),
        };
        let Some((value, rest)) = skipped.and_then(|skipped| bytes.split_at_checked(skipped))
        else {
            return;
        };
        match wire_type {
            WireType::LengthDelimited => each(number, Met::Part(value)),
            WireType::StartGroup | WireType::EndGroup => {}
            _ => each(number, Met::Number),
        }
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use prost::Message as _;

    use super::*;
    use crate::proto::schema::i_ds::IdField;
    use crate::proto::schema::template_array_value::Data as ListData;
    use crate::proto::schema::template_value::Val;
    use crate::proto::schema::vector_field::Data as Vectors;
    use crate::proto::schema::{
        CollectionSchema, FieldData, FieldSchema, FunctionSchema, IDs, JsonArray, LongArray,
        PackedFloats, ScalarField, StringArray, TemplateArrayValue, TemplateValue, VectorField,
    };
    use crate::proto::{common, milvus};

    fn bytes_of<M: prost::Name>(message: &M) -> u64 {
        let layout = MessageLayout::of::<M>().expect("every message has one");
        layout.decoded_bytes(&message.encode_to_vec())
    }

    #[track_caller]
    fn is_no_less<M: prost::Name>() {
        let layout = MessageLayout::of::<M>().expect("every message has one");
        let size = size_of::<M>() as u64;
        assert!((size..=2 * size + 64).contains(&layout.bytes), "{layout:?} for {size}");
    }

    #[test]
    fn the_table_has_every_message_with_what_it_takes() {
        is_no_less::<FieldSchema>();
        is_no_less::<FunctionSchema>();
        is_no_less::<CollectionSchema>();
        is_no_less::<FieldData>();
        is_no_less::<ScalarField>();
        is_no_less::<TemplateArrayValue>();
        is_no_less::<TemplateValue>();
        is_no_less::<common::KeyValuePair>();
        is_no_less::<common::PlaceholderValue>();
        is_no_less::<milvus::SearchRequest>();
        is_no_less::<milvus::HybridSearchRequest>();
        is_no_less::<milvus::InsertRequest>();
        is_no_less::<milvus::UpsertRequest>();
        is_no_less::<milvus::QueryRequest>();
        is_no_less::<milvus::DeleteRequest>();
        is_no_less::<milvus::CreateCollectionRequest>();
        is_no_less::<milvus::OperatePrivilegeV2Request>();
    }

    #[test]
    fn packed_numbers_count_as_what_they_become() {
        let numbers = IDs { id_field: Some(IdField::IntId(LongArray { data: vec![0; 1000] })) };
        assert!((8_000..8_100).contains(&bytes_of(&numbers)));
        // Each of ten bytes when it is sent.
        let long = IDs { id_field: Some(IdField::IntId(LongArray { data: vec![-1; 1000] })) };
        assert_eq!(bytes_of(&long), bytes_of(&numbers));
        // Not packed, as some clients send them.
        let ids = [0x08, 0].repeat(1000);
        let mut unpacked = vec![0x0a];
        prost::encoding::encode_varint(ids.len() as u64, &mut unpacked);
        unpacked.extend(ids);
        assert_eq!(IDs::decode(unpacked.as_slice()), Ok(numbers.clone()));
        let layout = MessageLayout::of::<IDs>().unwrap();
        assert_eq!(layout.decoded_bytes(&unpacked), bytes_of(&numbers));
    }

    #[test]
    fn vectors_and_texts_count_once() {
        let data = Some(Vectors::FloatVector(PackedFloats { data: vec![0; 1 << 20] }));
        let vectors = bytes_of(&VectorField { dim: 4, data });
        assert!((1 << 20..(1 << 20) + 200).contains(&vectors), "{vectors}");
        let texts = |text: &str| bytes_of(&StringArray { data: vec![text.into(); 100] });
        assert_eq!(texts("x") - texts(""), 100 * LEAST_BYTES);
        let long = texts(&"x".repeat(1000));
        assert!((100_000..105_000).contains(&long), "{long}");
    }

    #[test]
    fn a_schema_counts_within_the_bytes_that_it_comes_as() {
        let fields = vec![FieldSchema::default(); 1000];
        let schema = CollectionSchema { fields, ..Default::default() }.encode_to_vec();
        assert_eq!(schema.len(), 2000);
        let create = milvus::CreateCollectionRequest { schema, ..Default::default() };
        assert!(bytes_of(&create) > (1000 * size_of::<FieldSchema>()) as u64);
    }

    #[test]
    fn lists_of_a_filter_count_with_the_constants_that_they_become() {
        let with = |data| {
            let list = Val::ArrayVal(TemplateArrayValue { data: Some(data) });
            let expr_template_values =
                HashMap::from([("x".to_owned(), TemplateValue { val: Some(list) })]);
            bytes_of(&milvus::QueryRequest { expr_template_values, ..Default::default() })
        };
        let of = |count| with(ListData::LongData(LongArray { data: vec![0; count] }));
        assert_eq!(of(1001) - of(1), 1000 * (8 + CONSTANT_BYTES));
        let json = |text: String| with(ListData::JsonData(JsonArray { data: vec![text.into()] }));
        let zeros = json(format!("[0{}]", ",0".repeat(1000))) - json("[0]".into());
        let of_values = 2000 * PARSED_BYTES;
        assert!((of_values..of_values + 4000).contains(&zeros), "{zeros}");
    }

    #[test]
    fn what_is_no_message_counts_as_far_as_it_is_one() {
        let layout = MessageLayout::of::<IDs>().unwrap();
        let texts =
            IDs { id_field: Some(IdField::StrId(StringArray { data: vec![String::new(); 1000] })) };
        let mut bytes = texts.encode_to_vec();
        bytes.push(0xff);
        assert_eq!(layout.decoded_bytes(&bytes), bytes_of(&texts));
        assert_eq!(layout.decoded_bytes(&[0x12, 200, 1, 1]), layout.bytes);
        assert_eq!(layout.decoded_bytes(&[0xff; 4]), layout.bytes);
        // Deeper than prost goes.
        let mut deep = Vec::new();
        for tag in [0x0a, 0x2a].repeat(1000) {
            let mut outer = vec![tag];
            prost::encoding::encode_varint(deep.len() as u64, &mut outer);
            outer.extend(deep);
            deep = outer;
        }
        let layout = MessageLayout::of::<TemplateArrayValue>().unwrap();
        assert!((1000..10_000).contains(&layout.decoded_bytes(&deep)));
    }
}
