//! The file `REQUESTS`: the requests of the last minutes that are applied, so that a server that starts
//! knows them, and need not read the log of minutes again.
//!
//! Batches stand one behind the other, each with a checksum; a new one is appended, and the file is
//! written anew when half of it is of no use. It is saved before the position up to which the log is
//! applied, so it has all requests up to there; what it has beyond does no harm. A batch that a crash
//! has torn is passed over, since the log is read again from before it. `docs/store-format.md` has the bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pipeann_db::replication::requests::MOST_REMEMBERED;
use pipeann_db::replication::{AppliedRequest, KnownRequests};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

/// Its name.
pub(crate) const REQUESTS_FILE: &str = "REQUESTS";
const MAGIC: &[u8; 8] = b"parequst";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 28;
/// Requests that are written anew only together with others.
const SLACK: usize = 4096;
/// More than a file of this kind can have.
const MOST_BYTES: u64 = (4 * (MOST_REMEMBERED + SLACK) * (AppliedRequest::BYTES + 12)) as u64;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct RequestsFile {
    path: PathBuf,
    cluster: Uuid,
    /// How many of those that were ever remembered are in it, or were.
    saved: u64,
    /// How many are in it; none where it is to be written anew.
    written: Option<usize>,
}

impl RequestsFile {
    /// Reads the file of a directory, if there is one, and has its requests remembered.
    pub(crate) fn open(dir: &Path, cluster: Uuid, requests: &KnownRequests) -> io::Result<Self> {
        let path = dir.join(REQUESTS_FILE);
        let bytes = match fs::metadata(&path) {
            Ok(found) if found.len() <= MOST_BYTES => fs::read(&path)?,
            Ok(_) => Vec::new(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let Some(batches) = bytes.strip_prefix(header(cluster).as_slice()) else {
            if !bytes.is_empty() {
                tracing::warn!("{} is of no use, and is written anew", path.display());
            }
            return Ok(Self { path, cluster, saved: 0, written: None });
        };
        let (read, whole) = read_batches(batches);
        let written = whole.then_some(read.len());
        read.into_iter().for_each(|request| requests.remember(request));
        let (_, saved) = requests.after(u64::MAX);
        Ok(Self { path, cluster, saved, written })
    }

    /// Puts on stable storage what was remembered since the last time.
    pub(crate) fn save(&mut self, requests: &KnownRequests) -> io::Result<()> {
        let (new, count) = requests.after(self.saved);
        if new.is_empty() {
            return Ok(());
        }
        // Where it fails, nobody knows what is in it.
        match self.written.take().filter(|written| *written < 2 * MOST_REMEMBERED) {
            Some(written) if written < SLACK || self.is_mostly_live(written, requests) => {
                let mut file = OpenOptions::new().append(true).open(&self.path)?;
                file.write_all(&batch(&new))?;
                file.sync_data()?;
                self.written = Some(written + new.len());
            }
            _ => {
                let beside = self.path.with_extension("new");
                let written = write_all(&beside, self.cluster, requests)?;
                fs::rename(&beside, &self.path)?;
                if let Some(dir) = self.path.parent() {
                    File::open(dir)?.sync_all()?;
                }
                self.written = Some(written);
            }
        }
        self.saved = count;
        Ok(())
    }

    fn is_mostly_live(&self, written: usize, requests: &KnownRequests) -> bool {
        2 * requests.len() >= written
    }
}

/// Writes a file of all that are remembered, and says how many those are.
pub(crate) fn write_all(path: &Path, cluster: Uuid, requests: &KnownRequests) -> io::Result<usize> {
    let (all, _) = requests.after(0);
    let mut file = File::create(path)?;
    file.write_all(&header(cluster))?;
    file.write_all(&batch(&all))?;
    file.sync_all()?;
    Ok(all.len())
}

fn header(cluster: Uuid) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..].copy_from_slice(cluster.as_bytes());
    header
}

fn batch(requests: &[AppliedRequest]) -> Vec<u8> {
    let count = u32::try_from(requests.len()).expect("fewer are remembered");
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.extend(requests.iter().flat_map(AppliedRequest::to_bytes));
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// The requests of all batches that are whole, and whether nothing stands behind them.
fn read_batches(mut bytes: &[u8]) -> (Vec<AppliedRequest>, bool) {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let read = || {
            let (count, behind) = bytes.split_first_chunk()?;
            let length = AppliedRequest::BYTES.checked_mul(u32::from_le_bytes(*count) as usize)?;
            let (requests, behind) = behind.split_at_checked(length)?;
            let (checksum, behind) = behind.split_first_chunk()?;
            let summed = xxh3_64(&bytes[..size_of::<u32>() + length]);
            (summed == u64::from_le_bytes(*checksum)).then_some((requests, behind))
        };
        let Some((requests, behind)) = read() else { return (found, false) };
        let requests = requests.as_chunks::<{ AppliedRequest::BYTES }>().0;
        found.extend(requests.iter().map(AppliedRequest::from_bytes));
        bytes = behind;
    }
    (found, true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use pipeann_db::replication::requests::{BegunRequest, RequestAnswer, RequestId};

    use super::*;

    fn request(n: u64) -> AppliedRequest {
        let id = RequestId(u128::from(n).to_le_bytes());
        AppliedRequest { id, at_ms: n, answer: RequestAnswer { first_row: n, rows: 1, removed: 0 } }
    }

    fn known(requests: &Arc<KnownRequests>, n: u64) -> bool {
        matches!(requests.begin(request(n).id), BegunRequest::Applied(a) if a.first_row == n)
    }

    #[test]
    fn requests_come_back_but_for_a_batch_that_is_torn() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uuid::from_u128(7);
        let open = |requests: &KnownRequests| RequestsFile::open(dir.path(), cluster, requests);
        let first = Arc::new(KnownRequests::default());
        let mut file = open(&first).unwrap();
        file.save(&first).unwrap();
        assert!(!dir.path().join(REQUESTS_FILE).exists(), "nothing was asked");
        for n in 1..=3 {
            first.remember(request(n));
            file.save(&first).unwrap();
        }
        let second = Arc::new(KnownRequests::default());
        let mut file = open(&second).unwrap();
        assert!((1..=3).all(|n| known(&second, n)) && !known(&second, 4));
        second.remember(request(5));
        file.save(&second).unwrap();
        let path = dir.path().join(REQUESTS_FILE);
        let whole = fs::read(&path).unwrap();
        for cut in [1, 20, 59] {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let third = Arc::new(KnownRequests::default());
            let mut file = open(&third).unwrap();
            assert!(known(&third, 3) && !known(&third, 5));
            // What is appended to a torn one could not be read.
            third.remember(request(6));
            file.save(&third).unwrap();
            let fourth = Arc::new(KnownRequests::default());
            open(&fourth).unwrap();
            assert!(known(&fourth, 3) && known(&fourth, 6));
        }
        let other = Arc::new(KnownRequests::default());
        RequestsFile::open(dir.path(), Uuid::from_u128(8), &other).unwrap();
        assert!(!known(&other, 3), "of another cluster");
    }

    #[test]
    fn a_file_of_which_most_is_of_no_use_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let requests = Arc::new(KnownRequests::default());
        let clock = Arc::new(AtomicU64::new(0));
        let now = Arc::clone(&clock);
        requests.forget_by(move || now.load(Ordering::Relaxed));
        let mut file = RequestsFile::open(dir.path(), Uuid::nil(), &requests).unwrap();
        let length = || fs::metadata(dir.path().join(REQUESTS_FILE)).unwrap().len();
        for n in 0..SLACK as u64 + 1 {
            requests.remember(request(n));
        }
        file.save(&requests).unwrap();
        let full = length();
        // All before are forgotten.
        clock.store(1 << 40, Ordering::Relaxed);
        requests.remember(request(1 << 40));
        file.save(&requests).unwrap();
        assert!(length() < full / 100, "{} of {full} bytes", length());
    }
}
