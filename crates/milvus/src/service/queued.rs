//! Searches wait with the scheduler of the database; nobody's thread waits with them.

use std::sync::Arc;
use std::time::Instant;

use pipeann_db::asker::{self, Asker};
use pipeann_db::collection::{SearchAnswer, SearchRequest};
use pipeann_db::scheduler::{Caller, ScheduleError};
use prost::Message as _;
use tokio::sync::oneshot;
use tonic::{Request, Response as GrpcResponse};

use super::asking::{Stays, WaitingClient};
use super::frontend::{Call, FrontendContext};
use super::messages::CallMemory;
use super::search::{ReadSearch, SearchUnderWay};
use crate::metrics::Searched;
use crate::proto::milvus as wire;
use crate::proto::milvus::search_request::SearchInput;
use crate::status::{CallFailure, Code};

/// Requests of more bytes are read where nothing else waits.
const LARGE: usize = 1 << 20;
/// So are those with longer filters: these are parsed, where vectors are only copied.
const LONG_FILTER: usize = 16 << 10;

/// A call that is to be answered so.
type QueuedAnswer = (Call, Result<wire::SearchResults, CallFailure>);

/// A client that waits for its answer.
struct WaitingReply {
    call: Call,
    under_way: SearchUnderWay,
    client: Arc<WaitingClient>,
    answer: oneshot::Sender<QueuedAnswer>,
}

impl Caller for WaitingReply {
    fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }

    fn answer(self: Box<Self>, outcome: Result<SearchAnswer, ScheduleError>) {
        let Self { call, under_way, answer, client } = *self;
        let outcome = outcome.map_err(CallFailure::from);
        let outcome = outcome.and_then(|found| encoded(&call, under_way, found));
        drop(client);
        // A client that has gone meanwhile does without it.
        let _ = answer.send((call, outcome));
    }
}

/// Makes the answer, and counts what it took.
fn encoded(
    call: &Call,
    under_way: SearchUnderWay,
    found: SearchAnswer,
) -> Result<wire::SearchResults, CallFailure> {
    let from = Instant::now();
    let (counts, filtered) = (call.collection_counts(), under_way.is_filtered());
    let (queries, hits) = (found.hits.len(), found.hits.iter().map(Vec::len).sum());
    let answer = under_way.answer(call, found.hits)?;
    let (stages, encoding) = (found.stages, from.elapsed());
    if let Some(counts) = counts {
        counts.searched(&Searched { queries, hits, filtered, stages, encoding });
    }
    Ok(answer)
}

/// Answers a search when it is its turn.
pub(super) async fn search(
    door: &Arc<FrontendContext>,
    name: &'static str,
    request: Request<wire::SearchRequest>,
) -> GrpcResponse<wire::SearchResults> {
    let held = request.extensions().get::<CallMemory>().cloned();
    let client = WaitingClient::new(request.metadata(), held, None);
    let (deadline, _stays) = (client.deadline(), Stays(Arc::clone(&client)));
    let call = Call::new(Arc::clone(door), name, &request);
    let (call, outcome) = match read(call, &client, request.into_inner()).await {
        Ok((call, Ok(read))) => {
            let ReadSearch { collection, request, under_way } = read;
            let (answer, answered) = oneshot::channel();
            let asker = Some(Arc::clone(&client) as Arc<dyn Asker>);
            let request = SearchRequest { deadline, asker, ..request };
            let waiting = Box::new(WaitingReply { call, under_way, client, answer });
            door.scheduler.submit(collection, request, waiting);
            // Where the answer was lost, a defect of this program has ended it.
            answered.await.unwrap_or_else(|_| (within(door), Err(lost("its answer was lost"))))
        }
        Ok((call, Err(refused))) => (call, Err(refused)),
        Err(failure) => (within(door), Err(failure)),
    };
    call.counted(name, outcome)
}

fn within(door: &Arc<FrontendContext>) -> Call {
    Call::within(Arc::clone(door))
}

/// What a request asks for. Vectors of rows are read from the disk for it.
async fn read(
    call: Call,
    client: &Arc<WaitingClient>,
    request: wire::SearchRequest,
) -> Result<(Call, Result<ReadSearch, CallFailure>), CallFailure> {
    let reads = matches!(request.search_input, Some(SearchInput::Ids(_)));
    let is_small = !reads && request.dsl.len() <= LONG_FILTER && request.encoded_len() <= LARGE;
    let read = move || {
        let read = ReadSearch::new(&call, request);
        (call, read)
    };
    if is_small {
        return Ok(read());
    }
    let asker = Some(Arc::clone(client) as Arc<dyn Asker>);
    let read = tokio::task::spawn_blocking(|| asker::within(asker, read)).await;
    read.map_err(|error| lost(&error.to_string()))
}

fn lost(why: &str) -> CallFailure {
    tracing::error!("a search failed: {why}");
    CallFailure::new(Code::Internal, format!("the server failed at this call: {why}"))
}
