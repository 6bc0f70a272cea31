//! One read, and at most one other server beside this one: the first answer counts, and the other side is
//! let go of.
//!
//! A second server is asked where this one is late, and the budget lasts; or where this one failed, once. A
//! server that is slow asks another one first, and itself where that one is late, lost, or fails.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::{Code as GrpcCode, Status};

use super::access_log::AnswerCode;
use super::channels::SendError;
use super::edge_counts::{EdgeCounts, SentOn};
use super::hedging::{First, Hedging, ReadKind};
use super::marks::FAILED;
use crate::status::Code;

/// What a server says to a read.
enum ReadOutcome {
    Answer(Response<Body>),
    /// It is told where nobody has an answer.
    Failed(Response<Body>),
}

/// What a read is decided by, and where it is counted.
#[derive(Clone, Copy)]
pub(super) struct HedgedRead<'a> {
    pub(super) kind: ReadKind,
    pub(super) hedging: &'a Hedging,
    pub(super) counts: &'a EdgeCounts,
}

impl HedgedRead<'_> {
    /// Answers it by `here`, or by what `there` asks of another server; nothing where there is none.
    pub(super) async fn answer<There>(
        self,
        here: impl Future<Output = Response<Body>>,
        there: impl Fn() -> Option<There>,
    ) -> Response<Body>
    where
        There: Future<Output = Result<Response<Body>, SendError>>,
    {
        let here = pin!(async { of_here(here.await) });
        let judged = |told: There| async { of_another(told.await) };
        let judged = match self.hedging.begin(self.kind) {
            First::There(late, lost) => match there() {
                Some(first) => self.there_first(here, judged(first), (late, lost)).await,
                None => here.await,
            },
            First::Here(late) => self.here_first(here, || there().map(judged), late).await,
        };
        match judged {
            ReadOutcome::Answer(told) | ReadOutcome::Failed(told) => told,
        }
    }

    async fn here_first<There: Future<Output = ReadOutcome>>(
        self,
        mut here: Pin<&mut impl Future<Output = ReadOutcome>>,
        there: impl Fn() -> Option<There>,
        late: Option<Duration>,
    ) -> ReadOutcome {
        let began = Instant::now();
        let in_time = match late {
            Some(late) => timeout(late, &mut here).await.ok(),
            None => Some((&mut here).await),
        };
        let ended = match in_time {
            Some(ended) => ended,
            None => match self.hedging.spend().then(&there).flatten() {
                Some(second) => return self.hedge(began, here, pin!(second)).await,
                None => here.await,
            },
        };
        let ReadOutcome::Failed(failed) = ended else {
            self.hedging.answered_here(self.kind, began.elapsed());
            return ended;
        };
        let Some(again) = there() else { return ReadOutcome::Failed(failed) };
        self.counts.sent(SentOn::FailedHere);
        match again.await {
            ReadOutcome::Answer(answer) => ReadOutcome::Answer(answer),
            ReadOutcome::Failed(_) => ReadOutcome::Failed(failed),
        }
    }

    /// A read that began here and is late.
    async fn hedge(
        self,
        began: Instant,
        here: Pin<&mut impl Future<Output = ReadOutcome>>,
        there: Pin<&mut impl Future<Output = ReadOutcome>>,
    ) -> ReadOutcome {
        self.counts.sent(SentOn::Hedge);
        self.counts.hedged();
        let sent = Instant::now();
        let (by, judged) = race(here, there).await;
        match by {
            Some(AnsweredBy::First) => self.hedging.answered_here(self.kind, began.elapsed()),
            Some(AnsweredBy::Second) => {
                self.counts.won();
                let waited = began.elapsed();
                self.hedging.answered_there(self.kind, waited, sent.elapsed(), Some(waited));
            }
            None => {}
        }
        judged
    }

    /// A read of a server that is slow.
    async fn there_first(
        self,
        here: Pin<&mut impl Future<Output = ReadOutcome>>,
        there: impl Future<Output = ReadOutcome>,
        (late, lost): (Duration, Duration),
    ) -> ReadOutcome {
        self.counts.sent(SentOn::SlowHere);
        let began = Instant::now();
        let mut there = pin!(there);
        let told = match timeout(late, &mut there).await {
            Err(_) if !self.hedging.spend() => {
                timeout(lost.saturating_sub(late), &mut there).await.inspect_err(|_| {
                    // Whoever says nothing for so long is asked first no more.
                    self.hedging.lost_there(self.kind);
                })
            }
            told => told,
        };
        let answered = || {
            let waited = began.elapsed();
            self.hedging.answered_there(self.kind, waited, waited, None);
        };
        match told {
            Ok(ReadOutcome::Answer(answer)) => {
                answered();
                ReadOutcome::Answer(answer)
            }
            Ok(ReadOutcome::Failed(_)) => {
                self.hedging.lost_there(self.kind);
                here.await
            }
            Err(_) => {
                self.counts.hedged();
                let tried = Instant::now();
                let (by, judged) = race(there, here).await;
                match by {
                    Some(AnsweredBy::First) => answered(),
                    Some(AnsweredBy::Second) => {
                        self.counts.won();
                        self.hedging.answered_here(self.kind, tried.elapsed());
                    }
                    None => {}
                }
                judged
            }
        }
    }
}

/// Who answered.
#[derive(Clone, Copy)]
enum AnsweredBy {
    First,
    Second,
}

/// The first answer of two; where neither has one, what the first one said.
async fn race(
    mut first: Pin<&mut impl Future<Output = ReadOutcome>>,
    mut second: Pin<&mut impl Future<Output = ReadOutcome>>,
) -> (Option<AnsweredBy>, ReadOutcome) {
    let ended = poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Ready(judged) => Poll::Ready((AnsweredBy::First, judged)),
        Poll::Pending => second.as_mut().poll(context).map(|judged| (AnsweredBy::Second, judged)),
    });
    let (first_failed, by, other) = match ended.await {
        (by, ReadOutcome::Answer(answer)) => return (Some(by), ReadOutcome::Answer(answer)),
        (AnsweredBy::First, ReadOutcome::Failed(failed)) => {
            (Some(failed), AnsweredBy::Second, second.await)
        }
        (AnsweredBy::Second, ReadOutcome::Failed(_)) => (None, AnsweredBy::First, first.await),
    };
    match other {
        ReadOutcome::Answer(answer) => (Some(by), ReadOutcome::Answer(answer)),
        ReadOutcome::Failed(failed) => (None, ReadOutcome::Failed(first_failed.unwrap_or(failed))),
    }
}

/// Whether another server may answer better than this one did. What is wrong with the request is wrong
/// everywhere.
fn of_here(answer: Response<Body>) -> ReadOutcome {
    const FAILURES: [Code; 2] = [Code::Internal, Code::ServiceUnavailable];
    let code = AnswerCode::of(&answer);
    let failed = FAILURES.iter().any(|failure| failure.number() == code)
        || Status::from_header_map(answer.headers())
            .is_some_and(|status| status.code() == GrpcCode::Unavailable);
    if failed { ReadOutcome::Failed(answer) } else { ReadOutcome::Answer(answer) }
}

/// Of another server only an answer counts: what it refuses, this one says in its own words.
fn of_another(told: Result<Response<Body>, SendError>) -> ReadOutcome {
    match told {
        Ok(answer) => {
            let refused = Status::from_header_map(answer.headers())
                .is_some_and(|status| status.code() != GrpcCode::Ok);
            if refused || answer.headers().contains_key(FAILED) {
                ReadOutcome::Failed(answer)
            } else {
                ReadOutcome::Answer(answer)
            }
        }
        // Told to nobody: this server was asked too.
        Err(SendError::Late) => {
            ReadOutcome::Failed(Status::cancelled("another server was too late").into_http())
        }
        Err(SendError::Unsent(why) | SendError::Lost(why)) => {
            ReadOutcome::Failed(Status::unavailable(why).into_http())
        }
    }
}
