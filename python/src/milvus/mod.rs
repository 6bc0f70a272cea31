//! The service of Milvus, called from Python: what stands behind `pipeann.MilvusClient`.
//!
//! Requests are messages of the wire that are filled here and never encoded, so that each answer
//! and each refusal is that of the server. `answers` turns columns into Python's values.

mod answers;
mod requests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::{PyReadonlyArray2, PyUntypedArrayMethods as _};
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::{FrontendSettings, InProcess, RefusedCall, Served};
use pipeann_server::opening::now;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::database::{Gate, PyDatabase, PyFailure};
use answers::{AnswerRows, hits};
use requests::{pairs, vectors};

/// One of several searches: queries, filter and parameters.
type OneSearch<'py> = (PyReadonlyArray2<'py, f32>, String, Vec<(String, String)>);

/// The service of an open database. Threads may share it; a forked child may not.
#[pyclass(frozen, module = "pipeann")]
pub(crate) struct MilvusDoor {
    gate: Arc<Gate>,
    open: Mutex<Option<Open>>,
}

struct Open {
    service: Arc<InProcess>,
    served: Option<Served>,
}

#[pymethods]
impl MilvusDoor {
    /// The service of this database.
    #[new]
    fn new(py: Python<'_>, database: &PyDatabase) -> PyResult<Self> {
        let gate = database.gate();
        let database = gate.shared(py)?;
        let settings = FrontendSettings { database, now: Arc::new(now) };
        let open = Open { service: Arc::new(InProcess::new(settings)), served: None };
        Ok(Self { gate, open: Mutex::new(Some(open)) })
    }

    /// Serves gRPC on a socket too.
    fn listen(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.run(py, |service| {
            let served = service.listen(&path);
            let served = served.map_err(|error| PyFailure::input(error.to_string()))?;
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = open.as_mut() {
                open.served = Some(served);
            }
            Ok(())
        })
    }

    /// Takes no more calls. The database can be closed then.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.gate.check_process()?;
        py.detach(|| {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(served) = open.and_then(|open| open.served) {
                served.stop();
            }
        });
        Ok(())
    }

    /// Name of the primary key of a collection, and whether it is a text.
    fn primary_key(
        &self,
        py: Python<'_>,
        database: &str,
        collection: &str,
    ) -> PyResult<(String, bool)> {
        self.gate.run(py, |db| {
            let snapshot = db.catalog();
            let schema = &snapshot.collection(database, collection)?.schema;
            let is_text = schema.key_type() == pipeann_db::schema::KeyType::VarChar;
            Ok((schema.primary_key().spec.name.clone(), is_text))
        })
    }

    /// Searches. The answer has for each query a tuple of keys, distances and entities; or it is
    /// one tuple of code, earlier code and reason.
    #[pyo3(signature = (database, collection, queries, expression, output, partitions, parameters))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a request")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        database: String,
        collection: String,
        queries: PyReadonlyArray2<'py, f32>,
        expression: String,
        output: Vec<String>,
        partitions: Vec<String>,
        parameters: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let request = wire::SearchRequest {
            db_name: database,
            collection_name: collection,
            partition_names: partitions,
            dsl: expression,
            nq: i64::try_from(queries.shape()[0]).unwrap_or(i64::MAX),
            search_input: Some(vectors(&queries)),
            output_fields: output,
            search_params: pairs(parameters),
            ..Default::default()
        };
        match self.run(py, |service| Ok(service.search(request)))? {
            Ok(answer) => hits(py, answer),
            Err(refused) => refusal(py, refused),
        }
    }

    /// Several searches, each of queries, filter and parameters, ranked as one. Answers as `search`.
    #[pyo3(signature = (database, collection, searches, output, partitions, ranking))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a request")]
    fn hybrid_search<'py>(
        &self,
        py: Python<'py>,
        database: String,
        collection: String,
        searches: Vec<OneSearch<'py>>,
        output: Vec<String>,
        partitions: Vec<String>,
        ranking: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let one = |(queries, expression, parameters): OneSearch<'py>| wire::SearchRequest {
            dsl: expression,
            search_input: Some(vectors(&queries)),
            search_params: pairs(parameters),
            ..Default::default()
        };
        let request = wire::HybridSearchRequest {
            db_name: database,
            collection_name: collection,
            partition_names: partitions,
            requests: searches.into_iter().map(one).collect(),
            rank_params: pairs(ranking),
            output_fields: output,
            ..Default::default()
        };
        match self.run(py, |service| Ok(service.hybrid_search(request)))? {
            Ok(answer) => hits(py, answer),
            Err(refused) => refusal(py, refused),
        }
    }

    /// Rows by filter. The answer is a tuple of rows as dicts, names of dynamic keys, and a
    /// timestamp; or one of code, earlier code and reason.
    #[pyo3(signature = (database, collection, expression, output, partitions, parameters))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a request")]
    fn query<'py>(
        &self,
        py: Python<'py>,
        database: String,
        collection: String,
        expression: String,
        output: Vec<String>,
        partitions: Vec<String>,
        parameters: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let request = wire::QueryRequest {
            db_name: database,
            collection_name: collection,
            expr: expression,
            output_fields: output,
            partition_names: partitions,
            query_params: pairs(parameters),
            ..Default::default()
        };
        match self.run(py, |service| Ok(service.query(request)))? {
            Ok(answer) => {
                let session = answer.session_ts;
                let rows = AnswerRows::new(py, answer.fields_data, &answer.output_fields, true)?;
                let rows: Vec<Bound<'py, PyDict>> = rows.all()?;
                (0, rows, session).into_pyobject(py)
            }
            Err(refused) => refusal(py, refused),
        }
    }
}

impl MilvusDoor {
    /// Calls the service with the GIL released.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&InProcess) -> Result<T, PyFailure> + Send,
    ) -> PyResult<T> {
        self.gate.run(py, |_| {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let service = open.as_ref().map(|open| Arc::clone(&open.service));
            drop(open);
            call(&*service.ok_or_else(|| PyFailure::closed("the client is closed"))?)
        })
    }
}

impl Drop for MilvusDoor {
    fn drop(&mut self) {
        if self.gate.check_process().is_err() {
            // The threads are the parent's.
            let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(open.take());
        }
    }
}

fn refusal(py: Python<'_>, refused: RefusedCall) -> PyResult<Bound<'_, PyTuple>> {
    // Some earlier code is always set, so that nothing is taken for an answer.
    let legacy = if refused.legacy == 0 { 1 } else { refused.legacy };
    (legacy, refused.code, refused.reason).into_pyobject(py)
}
