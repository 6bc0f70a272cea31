//! From a URL to a bucket. Settings of S3 come from the usual variables `AWS_*`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use object_store::RetryConfig;
use object_store::aws::AmazonS3Builder;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::connector::PlainConnector;
use super::directory::SyncedDirectory;
use super::{ObjectBucket, ObjectsError, StoreUrl};

/// Stores of this process, by their names.
static IN_MEMORY: LazyLock<Mutex<HashMap<String, Arc<InMemory>>>> = LazyLock::new(Mutex::default);

/// The bucket at a URL. Only a directory is looked at: it is made where there is none.
///
/// Credentials, region and endpoint of S3 are read from the environment (`AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`, those of web
/// identities and containers, else the instance's). HTTP without TLS is spoken only where the endpoint
/// says `http://`. Works only within a tokio runtime.
pub fn open(url: &str) -> Result<ObjectBucket, ObjectsError> {
    let wrong = |why: String| ObjectsError::Url { url: url.to_owned(), why };
    match StoreUrl::parse(url)? {
        StoreUrl::Directory(root) => {
            std::fs::create_dir_all(&root)
                .map_err(|cause| ObjectsError::Local { path: root.display().to_string(), cause })?;
            let files = SyncedDirectory::new(&root).map_err(|e| wrong(e.to_string()))?;
            Ok(ObjectBucket::new(Arc::new(files), Path::default()).with_root(root))
        }
        StoreUrl::S3 { bucket, prefix } => {
            let builder = AmazonS3Builder::from_env();
            let key = object_store::aws::AmazonS3ConfigKey::Endpoint;
            let endpoint = builder.get_config_value(&key).unwrap_or_default();
            // Each try is told of; whoever asked decides what follows it.
            let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
            let s3 = builder
                .with_bucket_name(bucket)
                .with_allow_http(endpoint.starts_with("http://"))
                .with_http_connector(PlainConnector)
                .with_retry(once)
                .build()
                .map_err(|e| wrong(e.to_string()))?;
            let prefix = Path::parse(prefix).map_err(|e| wrong(e.to_string()))?;
            Ok(ObjectBucket::new(Arc::new(s3.clone()), prefix).with_parts(Box::new(s3)))
        }
        StoreUrl::Memory(name) if name.is_empty() => {
            Ok(ObjectBucket::new(Arc::new(InMemory::new()), Path::default()))
        }
        StoreUrl::Memory(name) => {
            let mut known = IN_MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
            let store = Arc::clone(known.entry(name).or_default());
            Ok(ObjectBucket::new(store, Path::default()))
        }
    }
}
