//! Searches wait with the scheduler of the database; nobody's thread waits with them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::scheduler::{Answer, Caller, ScheduleError, SearchRequest};
use tokio::sync::oneshot;
use tonic::{Request, Response as GrpcResponse};

use super::door::{Call, Door};
use super::search::Asking;
use crate::metrics::Searched;
use crate::proto::milvus as wire;
use crate::proto::milvus::search_request::SearchInput;
use crate::status::{Code, Failure};

/// The header that says how long a client waits.
const TIMEOUT: &str = "grpc-timeout";
/// Requests of more bytes are read where nothing else waits.
const LARGE: usize = 1 << 20;

/// A call that is to be answered so.
type Outcome = (Call, Result<wire::SearchResults, Failure>);

/// A client that waits for its answer.
struct Client {
    call: Call,
    asking: Asking,
    answer: oneshot::Sender<Outcome>,
}

impl Caller for Client {
    fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }

    fn answer(self: Box<Self>, outcome: Result<Answer, ScheduleError>) {
        let Self { call, asking, answer } = *self;
        let outcome = outcome.map_err(Failure::from);
        let outcome = outcome.and_then(|found| encoded(&call, asking, found));
        // A client that has gone meanwhile does without it.
        let _ = answer.send((call, outcome));
    }
}

/// Makes the answer, and counts what it took.
fn encoded(call: &Call, asking: Asking, found: Answer) -> Result<wire::SearchResults, Failure> {
    let from = Instant::now();
    let (counts, filtered) = (call.collection_counts(), asking.is_filtered());
    let (queries, hits) = (found.hits.len(), found.hits.iter().map(Vec::len).sum());
    let answer = asking.answer(call, found.hits)?;
    let (stages, encoding) = (found.stages, from.elapsed());
    if let Some(counts) = counts {
        counts.searched(&Searched { queries, hits, filtered, stages, encoding });
    }
    Ok(answer)
}

/// Answers a search when it is its turn.
pub(super) async fn search(
    door: &Arc<Door>,
    name: &'static str,
    request: Request<wire::SearchRequest>,
) -> GrpcResponse<wire::SearchResults> {
    let timeout = request.metadata().get(TIMEOUT).and_then(|value| value.to_str().ok());
    let deadline = timeout.and_then(timeout_of).and_then(|left| Instant::now().checked_add(left));
    let call = Call::new(Arc::clone(door), &request);
    let (call, outcome) = match read(call, request.into_inner()).await {
        Ok((call, Ok((request, asking)))) => {
            let (answer, answered) = oneshot::channel();
            let client = Box::new(Client { call, asking, answer });
            door.scheduler.submit(SearchRequest { deadline, ..request }, client);
            // Where the answer was lost, a defect of this program has ended it.
            answered.await.unwrap_or_else(|_| (within(door), Err(lost("its answer was lost"))))
        }
        Ok((call, Err(refused))) => (call, Err(refused)),
        Err(failure) => (within(door), Err(failure)),
    };
    GrpcResponse::new(call.counted(name, outcome))
}

fn within(door: &Arc<Door>) -> Call {
    Call::within(Arc::clone(door))
}

/// What a request asks for. Vectors of rows are read from the disk for it.
async fn read(
    call: Call,
    request: wire::SearchRequest,
) -> Result<(Call, Result<(SearchRequest, Asking), Failure>), Failure> {
    let is_small = match &request.search_input {
        Some(SearchInput::PlaceholderGroup(group)) => group.len() <= LARGE,
        Some(SearchInput::Ids(_)) => false,
        None => true,
    };
    let read = move || {
        let asking = Asking::new(&call, request);
        (call, asking)
    };
    if is_small {
        return Ok(read());
    }
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|error| lost(&error.to_string()))
}

fn lost(why: &str) -> Failure {
    tracing::error!("a search failed: {why}");
    Failure::new(Code::Internal, format!("the server failed at this call: {why}"))
}

/// How long a client waits, as gRPC writes it: at most eight digits and a unit.
fn timeout_of(text: &str) -> Option<Duration> {
    let (at, unit) = text.char_indices().next_back()?;
    let digits = &text[..at];
    let is_number = (1..=8).contains(&at) && digits.bytes().all(|digit| digit.is_ascii_digit());
    let amount: u64 = is_number.then(|| digits.parse().ok()).flatten()?;
    Some(match unit {
        'H' => Duration::from_secs(3600 * amount),
        'M' => Duration::from_secs(60 * amount),
        'S' => Duration::from_secs(amount),
        'm' => Duration::from_millis(amount),
        'u' => Duration::from_micros(amount),
        'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        assert_eq!(timeout_of("90S"), Some(Duration::from_secs(90)));
        assert_eq!(timeout_of("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(timeout_of("3M"), Some(Duration::from_secs(180)));
        assert_eq!(timeout_of("99999999m"), Some(Duration::from_millis(99_999_999)));
        assert_eq!(timeout_of("5u"), Some(Duration::from_micros(5)));
        assert_eq!(timeout_of("0n"), Some(Duration::ZERO));
        for wrong in ["", "S", "1", "123456789S", "-1S", "1.5S", "1s", "\u{e9}"] {
            assert_eq!(timeout_of(wrong), None, "{wrong}");
        }
    }
}
