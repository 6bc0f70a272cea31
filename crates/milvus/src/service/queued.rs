//! Searches wait with the scheduler of the database; nobody's thread waits with them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeann_db::scheduler::{Answer, Caller, ScheduleError, SearchRequest};
use tokio::sync::oneshot;
use tonic::{Request, Response as GrpcResponse};

use super::door::{Call, Door};
use super::search::Asking;
use crate::proto::milvus as wire;
use crate::proto::milvus::search_request::SearchInput;
use crate::status::{Code, Failure, Response};

/// The header that says how long a client waits.
const TIMEOUT: &str = "grpc-timeout";
/// Requests of more bytes are read where nothing else waits.
const LARGE: usize = 1 << 20;

type Outcome = Result<wire::SearchResults, Failure>;

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
        // A client that has gone meanwhile does without it.
        let _ = answer.send(outcome.and_then(|answer| asking.answer(&call, answer.hits)));
    }
}

/// Answers a search when it is its turn.
pub(super) async fn search(
    door: &Arc<Door>,
    request: Request<wire::SearchRequest>,
) -> GrpcResponse<wire::SearchResults> {
    let timeout = request.metadata().get(TIMEOUT).and_then(|value| value.to_str().ok());
    let deadline = timeout.and_then(timeout_of).and_then(|left| Instant::now().checked_add(left));
    let call = Call::new(Arc::clone(door), request.metadata());
    let outcome = match read(call, request.into_inner()).await {
        Ok((call, request, asking)) => {
            let (answer, answered) = oneshot::channel();
            let client = Box::new(Client { call, asking, answer });
            door.scheduler.submit(SearchRequest { deadline, ..request }, client);
            // Where the answer was lost, a defect of this program has ended it.
            answered.await.unwrap_or_else(|_| Err(lost("its answer was lost")))
        }
        Err(failure) => Err(failure),
    };
    GrpcResponse::new(Response::of(outcome))
}

/// What a request asks for. Vectors of rows are read from the disk for it.
async fn read(
    call: Call,
    request: wire::SearchRequest,
) -> Result<(Call, SearchRequest, Asking), Failure> {
    let is_small = match &request.search_input {
        Some(SearchInput::PlaceholderGroup(group)) => group.len() <= LARGE,
        Some(SearchInput::Ids(_)) => false,
        None => true,
    };
    let read = move || {
        let (request, asking) = Asking::new(&call, request)?;
        Ok((call, request, asking))
    };
    if is_small {
        return read();
    }
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(lost(&error.to_string())))
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
