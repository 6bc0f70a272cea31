//! Files of Milvus Lite 2, made here by their layout: tables of SQLite with messages of protobuf.

use rusqlite::{Connection, params};

use crate::data::{Place, text};

/// One field of a message: a number, or bytes with their length.
fn number(tag: u8, value: u64) -> Vec<u8> {
    [vec![tag << 3], varint(value)].concat()
}

fn nested(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![tag << 3 | 2], varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn pair(tag: u8, key: &str, value: &str) -> Vec<u8> {
    nested(tag, &[nested(1, key.as_bytes()), nested(2, value.as_bytes())].concat())
}

const INT64: u64 = 5;
const VARCHAR: u64 = 21;
const ARRAY: u64 = 22;
const JSON: u64 = 23;
const FLOAT_VECTOR: u64 = 101;
const SPARSE: u64 = 104;

/// A field of a schema: id, name and type, then what else there is of it.
fn field(id: u64, name: &str, ty: u64, more: &[Vec<u8>]) -> Vec<u8> {
    let begin = [number(1, id), nested(2, name.as_bytes()), number(5, ty)].concat();
    nested(4, &[begin, more.concat()].concat())
}

fn system_fields() -> Vec<u8> {
    [field(0, "RowID", INT64, &[]), field(1, "Timestamp", INT64, &[])].concat()
}

/// The value of one field in a row: scalars under 3, vectors under 4, the field's id at the end.
fn value(ty: u64, name: &str, id: u64, of: Vec<u8>) -> Vec<u8> {
    nested(1, &[number(1, ty), nested(2, name.as_bytes()), of, number(5, id)].concat())
}

fn long(n: i64) -> Vec<u8> {
    nested(3, &nested(3, &nested(1, &varint(n as u64))))
}

fn string(text: &str) -> Vec<u8> {
    nested(3, &nested(6, &nested(1, text.as_bytes())))
}

fn json(text: &str) -> Vec<u8> {
    nested(3, &nested(9, &nested(1, text.as_bytes())))
}

fn strings(texts: &[&str]) -> Vec<u8> {
    let row: Vec<u8> = texts.iter().flat_map(|text| nested(1, text.as_bytes())).collect();
    nested(3, &nested(8, &[nested(1, &nested(6, &row)), number(2, VARCHAR)].concat()))
}

fn floats(vector: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    nested(4, &[number(1, vector.len() as u64), nested(2, &nested(1, &bytes))].concat())
}

fn record(fields: &[Vec<u8>]) -> Vec<u8> {
    let own = [value(INT64, "RowID", 0, long(4)), value(INT64, "Timestamp", 1, long(5))];
    [fields.concat(), own.concat(), number(2, 1)].concat()
}

fn schema() -> Vec<u8> {
    let fields = [
        field(100, "id", INT64, &[number(3, 1)]),
        field(101, "v", FLOAT_VECTOR, &[pair(6, "dim", "4")]),
        field(102, "title", VARCHAR, &[pair(6, "max_length", "40")]),
        field(
            103,
            "tags",
            ARRAY,
            &[pair(6, "max_capacity", "8"), pair(6, "max_length", "9"), number(10, VARCHAR)],
        ),
        field(104, "$meta", JSON, &[number(12, 1)]),
    ];
    [nested(1, b"books"), fields.concat(), system_fields(), number(5, 1)].concat()
}

fn book(id: i64, title: &str) -> Vec<u8> {
    let meta = format!("{{\"colour\":\"red{id}\"}}");
    record(&[
        value(INT64, "id", 100, long(id)),
        value(FLOAT_VECTOR, "v", 101, floats(&[id as f32, 1.0, 0.0, -1.0])),
        value(VARCHAR, "title", 102, string(title)),
        value(ARRAY, "tags", 103, strings(&["a", "b"])),
        value(JSON, "$meta", 104, json(&meta)),
    ])
}

fn index(field: u64, name: &str, pairs: &[(&str, &str)], automatic: bool) -> Vec<u8> {
    let pairs: Vec<u8> = pairs.iter().flat_map(|(key, value)| pair(5, key, value)).collect();
    let begin = [number(1, field), number(2, 77), nested(3, name.as_bytes()), pairs].concat();
    [begin, number(6, u64::from(automatic))].concat()
}

/// A file with the table of declarations, and what is put into it.
struct Lite(Connection);

impl Lite {
    fn new(place: &Place, name: &str) -> Self {
        let file = Connection::open(place.path(name)).unwrap();
        let columns = "id INTEGER PRIMARY KEY, collection_name VARCHAR(1024), \
                       meta_type VARCHAR(1024), blob_field BLOB, string_field VARCHAR(1024)";
        file.execute(&format!("CREATE TABLE collection_meta ({columns})"), []).unwrap();
        Self(file)
    }

    /// Messages are stored as texts, as Milvus Lite does.
    fn declare(&self, collection: &str, kind: &str, message: &[u8], of: &str) {
        let sql = "INSERT INTO collection_meta VALUES (NULL, ?1, ?2, CAST(?3 AS TEXT), ?4)";
        self.0.execute(sql, params![collection, kind, message, of]).unwrap();
        if kind == "schema" {
            let columns = "id INTEGER PRIMARY KEY, milvus_id VARCHAR(1024), data BLOB";
            self.0.execute(&format!("CREATE TABLE \"{collection}\" ({columns})"), []).unwrap();
        }
    }

    fn row(&self, collection: &str, key: &str, message: &[u8]) {
        let sql = format!("INSERT INTO \"{collection}\" VALUES (NULL, ?1, CAST(?2 AS TEXT))");
        self.0.execute(&sql, params![key, message]).unwrap();
    }
}

/// A collection of books with two indexes, ten thousand rows, and one of them twice.
fn books(place: &Place) -> Lite {
    let lite = Lite::new(place, "books.db");
    lite.declare("books", "schema", &schema(), "id");
    let of_vector = [("M", "18"), ("index_type", "AUTOINDEX"), ("metric_type", "COSINE")];
    lite.declare("books", "index", &index(101, "v", &of_vector, true), "v");
    let of_title = [("index_type", "INVERTED"), ("dim", "4")];
    lite.declare("books", "index", &index(102, "by_title", &of_title, false), "by_title");
    lite.0.execute("BEGIN", []).unwrap();
    for id in 0..10_000 {
        lite.row("books", &id.to_string(), &book(id, &format!("title {id}")));
    }
    lite.row("books", "7", &book(7, "seven, later"));
    lite.0.execute("COMMIT", []).unwrap();
    lite
}

#[test]
fn schema_rows_and_indexes_are_taken_over() {
    let place = Place::new(0);
    drop(books(&place));
    let taken = place.json("db import-milvus-lite books.db --data-dir d").remove(0);
    assert_eq!((&taken["collection"], &taken["rows"]), (&"books".into(), &10_000.into()));
    assert_eq!(taken["indexes"], serde_json::json!(["v", "by_title"]));
    assert_eq!(taken["left_out"], serde_json::json!([]));
    let told = text(&place.run("db info d").stdout);
    assert!(told.contains("books"), "{told}");
    assert!(place.run("db verify d").status.success());

    use pipeann_db::catalog::{UnixMs, WantedLoad};
    use pipeann_db::collection::Filter;
    use pipeann_db::database::{Database, DatabaseOptions};
    use pipeann_db::value::Value;
    let database = Database::open(&place.path("d"), DatabaseOptions::new(|| UnixMs(1))).unwrap();
    let c = database.collection("default", "books").unwrap();
    assert_eq!(c.entry().unwrap().load, WantedLoad::Whole);
    let output = ["title", "colour"];
    let found = |expression| c.count_matching(Filter::new(expression), None).unwrap();
    assert_eq!(found("title == 'seven, later'"), 1);
    assert_eq!(found("title == 'title 7'"), 0, "the later row of a key counts");
    assert_eq!(found("colour == 'red9999' and array_contains(tags, 'b')"), 1);
    let rows = c.get(&[pipeann_db::schema::PrimaryKey::Int64(7)], &output[..1]).unwrap();
    assert_eq!(rows[0].values, [Value::VarChar("seven, later".into())]);
    let metrics: Vec<_> = c.entry().unwrap().indexes.iter().map(|index| index.metric).collect();
    assert_eq!(metrics, [Some(pipeann_engine::types::Metric::Cosine), None]);
}

#[test]
fn keys_that_were_assigned_are_kept() {
    let place = Place::new(0);
    let lite = Lite::new(&place, "auto.db");
    let key = field(100, "pk", INT64, &[number(3, 1), number(8, 1)]);
    let vector = field(101, "v", FLOAT_VECTOR, &[pair(6, "dim", "4")]);
    let schema = [nested(1, b"auto"), number(3, 1), key, vector, system_fields()].concat();
    lite.declare("auto", "schema", &schema, "pk");
    let assigned = 470_665_331_025_903_630;
    let row = |key: i64| {
        let vector = value(FLOAT_VECTOR, "v", 101, floats(&[0.0; 4]));
        record(&[value(INT64, "pk", 100, long(key)), vector])
    };
    for key in assigned..assigned + 3 {
        lite.row("auto", &key.to_string(), &row(key));
    }
    drop(lite);
    let taken = place.json("db import-milvus-lite auto.db --data-dir d").remove(0);
    assert_eq!(taken["rows"], 3);
    use pipeann_db::catalog::UnixMs;
    use pipeann_db::database::{Database, DatabaseOptions};
    use pipeann_db::schema::PrimaryKey::Int64;
    let database = Database::open(&place.path("d"), DatabaseOptions::new(|| UnixMs(1))).unwrap();
    let c = database.collection("default", "auto").unwrap();
    assert_eq!(c.get(&[Int64(assigned + 2)], &["v"]).unwrap().len(), 1);
}

#[test]
fn what_cannot_be_taken_over_is_named_and_leaves_nothing() {
    let place = Place::new(0);
    let lite = books(&place);
    // A function, which BM25 is.
    let function = nested(7, &nested(1, b"bm25"));
    lite.declare("texts", "schema", &[schema(), function].concat(), "id");
    let refused = place.refusal("db import-milvus-lite books.db --data-dir d");
    assert!(refused.contains("texts") && refused.contains("--collection"), "{refused}");
    assert!(refused.contains("the function `bm25`"), "{refused}");
    assert!(!text(&place.run("db info d").stdout).contains("books"));
    place.json("db import-milvus-lite books.db --data-dir d --collection books");
    let again = place.refusal("db import-milvus-lite books.db --data-dir d --collection books");
    assert!(again.contains("there is a collection books"), "{again}");
    let none = place.refusal("db import-milvus-lite books.db --data-dir d --collection x");
    assert!(none.contains("it has no collection x"), "{none}");

    // Sparse vectors are stored, and not indexed.
    let vector = field(101, "v", SPARSE, &[]);
    let key = field(100, "id", INT64, &[number(3, 1)]);
    let sparse = [nested(1, b"sparse"), key, vector, system_fields()].concat();
    lite.declare("sparse", "schema", &sparse, "id");
    let of_sparse = [("index_type", "SPARSE_INVERTED_INDEX"), ("metric_type", "IP")];
    lite.declare("sparse", "index", &index(101, "v", &of_sparse, false), "v");
    let pairs: Vec<u8> = [9u32.to_le_bytes(), 0.5f32.to_le_bytes()].concat();
    let contents = nested(4, &nested(6, &[nested(1, &pairs), number(2, 10)].concat()));
    let row = record(&[value(INT64, "id", 100, long(1)), value(SPARSE, "v", 101, contents)]);
    lite.row("sparse", "1", &row);
    let line = "db import-milvus-lite books.db --data-dir d --collection sparse";
    let taken = place.json(line).remove(0);
    assert_eq!((&taken["rows"], &taken["left_out"][0]["index"]), (&1.into(), &"v".into()));

    // A record that is cut off: the rows before it are not left either.
    lite.declare("cut", "schema", &schema(), "id");
    lite.row("cut", "1", &book(1, "whole"));
    let whole = book(2, "cut");
    lite.row("cut", "2", &whole[..whole.len() - 9]);
    let refused = place.refusal("db import-milvus-lite books.db --data-dir d --collection cut");
    assert!(refused.contains("near row 2 of cut"), "{refused}");
    assert!(!text(&place.run("db info d").stdout).contains("cut"));

    place.write("text.db", b"this is a file of something else");
    std::fs::create_dir(place.path("three.db")).unwrap();
    Connection::open(place.path("other.db")).unwrap().execute("CREATE TABLE t (a)", []).unwrap();
    for (file, why) in [
        ("text.db", "no file of Milvus Lite"),
        ("three.db", "Milvus Lite 3"),
        ("other.db", "no table collection_meta"),
        ("none.db", "none.db"),
    ] {
        let refused = place.refusal(&format!("db import-milvus-lite {file} --data-dir e"));
        assert!(refused.contains(why), "{refused}");
        assert!(!place.path("e").exists(), "{file}");
    }
}
