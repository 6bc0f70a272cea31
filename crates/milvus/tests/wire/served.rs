//! A server with an empty database, and requests that most tests send.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeann_db::catalog::UnixMs;
use pipeann_db::database::{Database, DatabaseOptions};
use pipeann_engine::memory::Accountant;
use pipeann_milvus::proto::common::{KeyValuePair, Status};
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::milvus_service_client::MilvusServiceClient;
use pipeann_milvus::proto::schema::field_data::Field;
use pipeann_milvus::proto::schema::{
    CollectionSchema, DataType, FieldData, FieldSchema, JsonArray, LongArray, PackedFloats,
    ScalarField, VectorField, scalar_field, vector_field,
};
use pipeann_milvus::{FrontendSettings, Listening, ServeError, ServeOptions, listen};
use prost::Message as _;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

pub(crate) const DIM: usize = 4;

/// A running server, and a runtime for its clients.
pub(crate) struct Served {
    pub(crate) runtime: Runtime,
    pub(crate) listening: Listening,
    pub(crate) database: Arc<Database>,
    pub(crate) clock: Clock,
    _dir: Option<TempDir>,
}

/// A clock that moves with each look at it, and when it is told to.
#[derive(Clone)]
pub(crate) struct Clock {
    now: Arc<AtomicU64>,
    step: u64,
}

impl Clock {
    fn new(step: u64) -> Self {
        Self { now: Arc::new(AtomicU64::new(1_700_000_000_000)), step }
    }

    fn now(&self) -> UnixMs {
        UnixMs(self.now.fetch_add(self.step, Ordering::Relaxed))
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Served {
    pub(crate) fn new() -> Self {
        Self::guarded(None)
    }

    /// For those who know the token.
    pub(crate) fn guarded(token: Option<&str>) -> Self {
        Self::with(ServeOptions { token: token.map(str::to_owned), ..ServeOptions::default() })
    }

    /// Whether a server would begin.
    pub(crate) fn try_listen(options: ServeOptions) -> Result<(), ServeError> {
        let dir = tempfile::tempdir().unwrap();
        let settings = DatabaseOptions::new(|| UnixMs(1));
        let database = Arc::new(Database::open(dir.path(), settings).unwrap());
        let settings = FrontendSettings { database, now: Arc::new(|| UnixMs(1)) };
        listen(settings, &options).map(drop)
    }

    pub(crate) fn with(options: ServeOptions) -> Self {
        Self::at(Clock::new(1), options)
    }

    /// With a clock that stands still.
    pub(crate) fn standing(options: ServeOptions) -> Self {
        Self::at(Clock::new(0), options)
    }

    fn at(clock: Clock, options: ServeOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let of_database = clock.clone();
        let mut settings = DatabaseOptions::new(move || of_database.now());
        // Of this test alone.
        settings.collection.accountant = Accountant::new(None);
        let database = Arc::new(Database::open(dir.path(), settings).unwrap());
        Self { _dir: Some(dir), ..Self::of(database, clock, options) }
    }

    /// Another server of the same database, as if it had all data of it at once.
    pub(crate) fn beside(&self, options: ServeOptions) -> Self {
        Self::of(Arc::clone(&self.database), self.clock.clone(), options)
    }

    fn of(database: Arc<Database>, clock: Clock, options: ServeOptions) -> Self {
        let of_door = clock.clone();
        let settings = FrontendSettings {
            database: Arc::clone(&database),
            now: Arc::new(move || of_door.now()),
        };
        let options = ServeOptions {
            host: "127.0.0.1".into(),
            port: 0,
            threads: 4,
            metrics_port: Some(0),
            ..options
        };
        let listening = listen(settings, &options).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self { runtime, listening, database, clock, _dir: None }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::from_shared(format!("http://{}", self.listening.address())).unwrap()
    }

    pub(crate) fn client(&self) -> MilvusServiceClient<Channel> {
        let endpoint = self.endpoint();
        MilvusServiceClient::new(self.runtime.block_on(endpoint.connect()).unwrap())
            .max_encoding_message_size(usize::MAX)
    }

    /// The answer of one call, which has to arrive.
    pub(crate) fn call<T>(
        &self,
        answer: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> T {
        self.runtime.block_on(answer).unwrap().into_inner()
    }

    /// A collection of keys and vectors with a dynamic field.
    pub(crate) fn create(&self, name: &str) -> Status {
        let request = create(name, &declared());
        self.call(self.client().create_collection(request))
    }

    /// The same with an index and some rows, loaded.
    pub(crate) fn filled(&self, name: &str, rows: i64) {
        assert_ok(&self.create(name));
        self.load(name);
        let inserted = self.call(self.client().insert(insert(name, 0..rows)));
        assert_ok(&inserted.status.unwrap());
    }

    /// Gives a collection an index, and loads it.
    pub(crate) fn load(&self, name: &str) {
        let request = wire::CreateIndexRequest {
            collection_name: name.into(),
            field_name: "v".into(),
            extra_params: vec![pair("metric_type", "L2")],
            ..Default::default()
        };
        assert_ok(&self.call(self.client().create_index(request)));
        let load =
            wire::LoadCollectionRequest { collection_name: name.into(), ..Default::default() };
        assert_ok(&self.call(self.client().load_collection(load)));
    }
}

pub(crate) fn pair(key: &str, value: &str) -> KeyValuePair {
    KeyValuePair { key: key.into(), value: value.into() }
}

#[track_caller]
pub(crate) fn assert_ok(status: &Status) {
    assert_eq!((status.code, status.error_code), (0, 0), "{}", status.reason);
}

pub(crate) fn declared() -> CollectionSchema {
    let key = FieldSchema {
        name: "id".into(),
        is_primary_key: true,
        data_type: DataType::Int64.into(),
        ..Default::default()
    };
    let vector = FieldSchema {
        name: "v".into(),
        data_type: DataType::FloatVector.into(),
        type_params: vec![pair("dim", &DIM.to_string())],
        ..Default::default()
    };
    CollectionSchema { fields: vec![key, vector], enable_dynamic_field: true, ..Default::default() }
}

pub(crate) fn create(name: &str, schema: &CollectionSchema) -> wire::CreateCollectionRequest {
    wire::CreateCollectionRequest {
        collection_name: name.into(),
        schema: schema.encode_to_vec(),
        ..Default::default()
    }
}

pub(crate) fn longs(name: &str, data: Vec<i64>) -> FieldData {
    let data = scalar_field::Data::LongData(LongArray { data });
    FieldData {
        field_name: name.into(),
        field: Some(Field::Scalars(ScalarField { data: Some(data) })),
        ..Default::default()
    }
}

/// The vectors of rows: all components of a row are its key.
pub(crate) fn vectors(keys: impl Iterator<Item = i64>) -> FieldData {
    let data = keys.flat_map(|key| [(key as f32).to_le_bytes(); DIM]).flatten().collect();
    let data = Some(vector_field::Data::FloatVector(PackedFloats { data }));
    FieldData {
        field_name: "v".into(),
        field: Some(Field::Vectors(VectorField { dim: DIM as i64, data })),
        ..Default::default()
    }
}

/// The dynamic field under a name.
pub(crate) fn dynamic(name: &str, rows: &[&str]) -> FieldData {
    let data = rows.iter().map(|row| row.as_bytes().to_vec()).collect();
    let data = scalar_field::Data::JsonData(JsonArray { data });
    FieldData {
        field_name: name.into(),
        is_dynamic: true,
        field: Some(Field::Scalars(ScalarField { data: Some(data) })),
        ..Default::default()
    }
}

pub(crate) fn insert(name: &str, keys: std::ops::Range<i64>) -> wire::InsertRequest {
    wire::InsertRequest {
        collection_name: name.into(),
        num_rows: u32::try_from(keys.end - keys.start).unwrap(),
        fields_data: vec![longs("id", keys.clone().collect()), vectors(keys)],
        ..Default::default()
    }
}

pub(crate) fn describe(name: &str) -> wire::DescribeCollectionRequest {
    wire::DescribeCollectionRequest { collection_name: name.into(), ..Default::default() }
}

pub(crate) fn query(name: &str, expr: &str, output: &[&str]) -> wire::QueryRequest {
    wire::QueryRequest {
        collection_name: name.into(),
        expr: expr.into(),
        output_fields: output.iter().map(|field| (*field).to_owned()).collect(),
        ..Default::default()
    }
}
