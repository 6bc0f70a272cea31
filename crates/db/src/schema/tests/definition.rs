//! Which schemas there are.

use super::{BOOL, FLOAT, INT8, INT64, TEXT, VECTOR, id, schema, vector};
use crate::schema::limits::{MAX_FIELDS, MAX_VECTOR_FIELDS};
use crate::schema::{
    FieldAlteration, FieldId, FieldRule, FieldSpec, Schema, SchemaError, ValueFault,
    VectorPlacement,
};
use crate::value::{DataType, ScalarType, Value, VectorKind};

fn rule_of(spec: FieldSpec) -> FieldRule {
    let name = spec.name.clone();
    match Schema::builder().field(id()).field(vector()).field(spec).build() {
        Err(SchemaError::Field { field, rule }) if field == name => rule,
        other => panic!("`{name}` breaks no rule of its own: {other:?}"),
    }
}

fn field(data_type: DataType) -> FieldSpec {
    FieldSpec::new("f", data_type)
}

#[test]
fn ids_follow_the_order_of_fields_and_the_dynamic_field_comes_last() {
    let schema = Schema::builder().dynamic(true).field(vector()).field(id()).build().unwrap();
    let ids: Vec<_> = schema.fields().iter().map(|f| (f.id.0, f.spec.name.as_str())).collect();
    assert_eq!(ids, [(100, "vector"), (101, "id"), (102, "$meta")]);
    assert_eq!(schema.primary_key().spec.name, "id");
    assert_eq!(schema.dynamic_position(), Some(2));
    assert_eq!(schema.version(), 1);
}

#[test]
fn every_parameter_has_a_range_and_a_type_that_it_belongs_to() {
    let array = DataType::Array(ScalarType::Int8);
    let binary = DataType::Vector(VectorKind::Binary);
    let sparse = DataType::Vector(VectorKind::Sparse);
    for (spec, expected) in [
        (field(TEXT), "varchar needs the parameter max_bytes"),
        (field(TEXT).max_bytes(0), "max_bytes is 0, 1 to 65535 are possible"),
        (field(TEXT).max_bytes(65_536), "max_bytes is 65536, 1 to 65535 are possible"),
        (field(INT8).max_bytes(1), "int8 has no parameter max_bytes"),
        (field(array), "array<int8> needs the parameter max_capacity"),
        (field(array).max_capacity(4097), "max_capacity is 4097, 1 to 4096 are possible"),
        (field(array).max_capacity(1).max_bytes(1), "array<int8> has no parameter max_bytes"),
        (
            field(DataType::Array(ScalarType::VarChar)).max_capacity(1),
            "array<varchar> needs the parameter max_bytes",
        ),
        (field(VECTOR), "float_vector needs the parameter dim"),
        (field(VECTOR).dim(1), "dim is 1, 2 to 32768 are possible"),
        (field(VECTOR).dim(32_769), "dim is 32769, 2 to 32768 are possible"),
        (field(binary).dim(12), "dim is 12, a binary vector needs a multiple of 8"),
        (field(sparse).dim(8), "sparse_float_vector has no parameter dim"),
        (field(BOOL).dim(8), "bool has no parameter dim"),
    ] {
        assert_eq!(rule_of(spec).to_string(), expected);
    }
    for spec in [
        field(TEXT).max_bytes(65_535),
        field(array).max_capacity(4096),
        field(VECTOR).dim(32_768),
        field(binary).dim(16),
        field(sparse),
    ] {
        schema([spec]);
    }
}

#[test]
fn keys_have_a_type_and_a_value() {
    for (spec, expected) in [
        (field(FLOAT).partition_key(), "a partition key is int64 or varchar, not float"),
        (field(INT64).partition_key().nullable(), "a partition key cannot be nullable"),
        (
            FieldSpec { auto_id: true, ..field(INT64) },
            "only the primary key can be assigned automatically",
        ),
        (field(VECTOR).dim(2).nullable(), "a vector field cannot be nullable"),
    ] {
        assert_eq!(rule_of(spec).to_string(), expected);
    }
    for (key, rule) in [
        (FieldSpec::new("k", INT8).primary_key(), "a primary key is int64 or varchar, not int8"),
        (FieldSpec::new("k", INT64).primary_key().nullable(), "a primary key cannot be nullable"),
        (
            FieldSpec::new("k", INT64).primary_key().default_value(Value::Int64(1)),
            "a primary key cannot have a default",
        ),
        (
            FieldSpec::new("k", INT64).primary_key().partition_key(),
            "the primary key cannot be the partition key",
        ),
        (
            FieldSpec::new("k", TEXT).auto_id().max_bytes(19),
            "an automatic varchar key needs a max_bytes of 20 at least",
        ),
    ] {
        let error = Schema::builder().field(vector()).field(key).build().unwrap_err();
        assert_eq!(error.to_string(), format!("field `k`: {rule}"));
    }
}

#[test]
fn a_schema_has_one_primary_key_and_a_vector() {
    let build = |fields: Vec<FieldSpec>| {
        fields.into_iter().fold(Schema::builder(), crate::schema::SchemaBuilder::field).build()
    };
    assert_eq!(build(vec![vector()]), Err(SchemaError::NoPrimaryKey));
    assert_eq!(build(vec![id()]), Err(SchemaError::NoVector));
    let second = FieldSpec::new("second", INT64).primary_key();
    let error = build(vec![id(), vector(), second]).unwrap_err();
    assert_eq!(error.to_string(), "`id` and `second` are both the primary key; there can be one");
    let keys = ["a", "b"].map(|name| FieldSpec::new(name, INT64).partition_key());
    let error = build([id(), vector()].into_iter().chain(keys).collect()).unwrap_err();
    assert_eq!(error.to_string(), "`a` and `b` are both the partition key; there can be one");
}

#[test]
fn the_number_of_fields_is_bounded() {
    let fields = |n: usize, ty: &FieldSpec| -> Vec<FieldSpec> {
        (0..n).map(|i| FieldSpec { name: format!("f{i}"), ..ty.clone() }).collect()
    };
    let build = |fields: Vec<FieldSpec>| {
        let start = Schema::builder().field(id()).field(vector()).dynamic(true);
        fields.into_iter().fold(start, crate::schema::SchemaBuilder::field).build()
    };
    assert!(
        build(fields(MAX_FIELDS - 2, &field(BOOL))).is_ok(),
        "the dynamic field is not counted"
    );
    let found = MAX_FIELDS + 1;
    assert_eq!(
        build(fields(MAX_FIELDS - 1, &field(BOOL))),
        Err(SchemaError::TooManyFields { found })
    );
    assert!(build(fields(MAX_VECTOR_FIELDS - 1, &vector())).is_ok());
    let found = MAX_VECTOR_FIELDS + 1;
    assert_eq!(
        build(fields(MAX_VECTOR_FIELDS, &vector())),
        Err(SchemaError::TooManyVectors { found })
    );
}

#[test]
fn names_are_unique_and_not_the_databases_own() {
    assert_eq!(rule_of(FieldSpec::new("RowID", BOOL)), FieldRule::ReservedName);
    assert_eq!(rule_of(FieldSpec::new("vector", BOOL)), FieldRule::Duplicate);
    let meta = Schema::builder().field(id()).field(vector()).field(FieldSpec::new("$meta", BOOL));
    assert!(matches!(meta.build(), Err(SchemaError::Name(error)) if error.name == "$meta"));
}

#[test]
fn a_default_fits_its_field() {
    let too_long = ValueFault::TooLong { bytes: 3, most: 2 };
    for (spec, expected) in [
        (field(INT8).default_value(Value::Int64(1)), FieldRule::DefaultType { data_type: INT8 }),
        (field(INT8).default_value(Value::Null), FieldRule::DefaultType { data_type: INT8 }),
        (
            field(FLOAT).default_value(Value::Float(f32::NAN)),
            FieldRule::Default(ValueFault::NotFinite),
        ),
        (
            field(TEXT).max_bytes(2).default_value(Value::VarChar("äb".into())),
            FieldRule::Default(too_long),
        ),
        (
            field(DataType::Json).default_value(Value::Json("1".into())),
            FieldRule::NoDefault { data_type: DataType::Json },
        ),
    ] {
        assert_eq!(rule_of(spec), expected);
    }
    schema([field(TEXT).max_bytes(3).default_value(Value::VarChar("äb".into()))]);
}

#[test]
fn arrays_have_no_timestamps() {
    let element = ScalarType::Timestamptz;
    let found = rule_of(field(DataType::Array(element)).max_capacity(1));
    assert_eq!(found, FieldRule::ElementType { element });
}

#[test]
fn a_field_can_be_added_if_older_rows_can_do_without() {
    let first = Schema::builder().field(id()).field(vector()).dynamic(true).build().unwrap();
    let second = first.with_field(field(INT8).nullable()).unwrap();
    let added = second.field("f").unwrap();
    assert_eq!((second.version(), added.id), (2, FieldId(103)));
    assert_eq!(second.dynamic_position(), Some(2), "fields keep their places");
    assert_eq!(second.fields()[..3], first.fields()[..]);
    for (spec, expected) in [
        (
            field(INT8),
            "field `f`: a field added to a collection has to be nullable or have a default",
        ),
        (field(VECTOR).dim(2), "field `f`: a vector field cannot be added to a collection"),
        (field(INT64).primary_key(), "field `f`: a primary key cannot be added to a collection"),
        (
            field(INT64).partition_key(),
            "field `f`: a partition key cannot be added to a collection",
        ),
        (FieldSpec::new("id", INT8).nullable(), "field `id`: another field has this name"),
    ] {
        assert_eq!(first.with_field(spec).unwrap_err().to_string(), expected);
    }
}

#[test]
fn limits_of_a_field_can_be_altered_and_its_type_cannot() {
    let text = field(TEXT).max_bytes(5).default_value(Value::VarChar("abc".into()));
    let first = schema([text]).with_dynamic_field().unwrap();
    let altered = |alteration| first.with_altered_field("f", &alteration);
    let longer = FieldAlteration {
        max_bytes: Some(9),
        description: Some("d".into()),
        set: [("k".to_owned(), "v".to_owned())].into(),
        ..FieldAlteration::default()
    };
    let second = altered(longer).unwrap();
    let spec = &second.field("f").unwrap().spec;
    assert_eq!((second.version(), spec.max_bytes, spec.description.as_str()), (3, Some(9), "d"));
    assert_eq!(spec.properties["k"], "v");
    assert_eq!(altered(FieldAlteration::default()), Ok(first.clone()), "nothing is altered");
    let refused = |alteration| altered(alteration).unwrap_err().to_string();
    let bytes = |bytes| FieldAlteration { max_bytes: Some(bytes), ..FieldAlteration::default() };
    assert_eq!(
        refused(bytes(2)),
        "field `f`: the default does not fit: the text has 3 bytes, the field takes 2"
    );
    let elements = FieldAlteration { max_capacity: Some(3), ..FieldAlteration::default() };
    assert_eq!(refused(elements), "field `f`: varchar has no parameter max_capacity");
    for unknown in ["gone", "$meta"] {
        let found = first.with_altered_field(unknown, &bytes(2));
        assert_eq!(found, Err(SchemaError::UnknownField { field: unknown.into() }));
    }
}

#[test]
fn a_dynamic_field_can_be_added_once() {
    let dynamic = schema([]).with_dynamic_field().unwrap();
    assert_eq!((dynamic.version(), dynamic.dynamic_position()), (2, Some(2)));
    assert_eq!(dynamic.with_dynamic_field(), Err(SchemaError::AlreadyDynamic));
}

#[test]
fn indexable_vectors_can_stand_apart_from_rows() {
    let words = FieldSpec::new("words", DataType::Vector(VectorKind::Sparse));
    let schema = schema([words, field(BOOL)]);
    let apart = schema.row_format(VectorPlacement::Apart);
    assert_eq!(apart.fields(), [0, 2, 3]);
    assert_eq!((apart.column_of(1), apart.column_of(3)), (None, Some(2)));
    assert_eq!(schema.row_format(VectorPlacement::InRow).fields(), [0, 1, 2, 3]);
}

#[test]
fn a_saved_schema_comes_back_and_is_checked_again() {
    let schema = Schema::builder()
        .description("things")
        .field(FieldSpec::new("key", TEXT).auto_id().max_bytes(20))
        .field(vector())
        .field(field(FLOAT).nullable().default_value(Value::Float(0.1)))
        .dynamic(true)
        .build()
        .unwrap();
    let saved = serde_json::to_string(&schema).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&saved).unwrap(), schema);
    for (from, to, expected) in [
        (r#""id":101"#, r#""id":100"#, "field `vector` has the id 100"),
        (r#""next_field_id":104"#, r#""next_field_id":103"#, "field `$meta` has the id 103"),
        (r#""dim":2"#, r#""dim":1"#, "dim is 1"),
        ("float_vector", "float_wector", "unknown field type `float_wector`"),
        (r#""nullable":true"#, r#""nullish":true"#, "unknown field `nullish`"),
    ] {
        let tampered = saved.replace(from, to);
        assert_ne!(tampered, saved, "{from} stands in {saved}");
        let error = serde_json::from_str::<Schema>(&tampered).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
