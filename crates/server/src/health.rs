//! `/healthz` and `/readyz` while a server has not all data: who watches it takes it neither for dead nor
//! for ready.
//!
//! A thread that answers one at a time, over plain HTTP, until the door tells figures at the same place.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use pipeann_milvus::{DEFAULT_METRICS_PORT, bind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How soon it is noticed that it is to end.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long who asks may say nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// In how many pieces a question may come, and bytes of each: who asks holds up others.
const PIECES: usize = 8;
const PIECE_BYTES: usize = 1024;

/// See the module's description. Dropped, it listens no more.
pub(crate) struct Health {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Health {
    /// Answers where metrics are told later. `None` where they are told nowhere, or nobody has asked for
    /// the port and it is in use.
    pub(crate) fn begin(host: &str, port: Option<u16>) -> Result<Option<Self>> {
        let listener = match port {
            Some(0) => return Ok(None),
            Some(port) => bind(host, port)?,
            None => match bind(host, DEFAULT_METRICS_PORT) {
                Ok(listener) => listener,
                Err(_) => return Ok(None),
            },
        };
        Self::on(listener).map(Some)
    }

    fn on(listener: Arc<TcpListener>) -> Result<Self> {
        let ending = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&ending);
        let serve = move || {
            while !ends.load(Ordering::Acquire) {
                // Where it fails, the next look comes at once, and finds somebody or nobody.
                let _ = poll(&mut [PollFd::new(&*listener, PollFlags::IN)], Some(&LOOK_AGAIN));
                if let Ok((stream, _)) = listener.accept() {
                    // Who has gone needs no answer.
                    let _ = answer(stream);
                }
            }
        };
        let thread = thread::Builder::new().name("health".into()).spawn(serve);
        Ok(Self { ending, thread: Some(thread.context("no thread")?) })
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic was printed already.
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut question, mut some) = (Vec::new(), [0; PIECE_BYTES]);
    for _ in 0..PIECES {
        let read = stream.read(&mut some)?;
        question.extend_from_slice(&some[..read]);
        if read == 0 || question.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    let (status, says) = match question.split(|&byte| byte == b' ').nth(1) {
        Some(b"/healthz") => ("200 OK", "OK"),
        _ => ("503 Service Unavailable", "not all data is here yet"),
    };
    let length = says.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}");
    stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n{says}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(listener: &TcpListener, question: &str) -> String {
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    #[test]
    fn it_lives_and_is_not_ready_and_gives_its_place_to_whoever_comes_next() {
        let listener = bind("127.0.0.1", 0).unwrap();
        let health = Health::on(Arc::clone(&listener)).unwrap();
        let ask = |path: &str| asked(&listener, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        let lives = ask("/healthz");
        assert!(
            lives.starts_with("HTTP/1.1 200 OK\r\n") && lives.ends_with("\r\n\r\nOK"),
            "{lives}"
        );
        for path in ["/readyz", "/metrics", "/"] {
            let said = ask(path);
            // As `deploy/compose.yaml` looks for it.
            assert!(said.starts_with("HTTP/1.1 503 ") && !said.contains("200"), "{said}");
        }
        assert!(asked(&listener, "x\r\n\r\n").starts_with("HTTP/1.1 503 "));
        drop(health);
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        bind("127.0.0.1", port).unwrap();
    }

    #[test]
    fn who_wants_no_metrics_has_none_of_it_and_a_port_that_is_asked_for_is_to_be_free() {
        assert!(Health::begin("127.0.0.1", Some(0)).unwrap().is_none());
        let taken = bind("127.0.0.1", 0).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(Health::begin("127.0.0.1", Some(port)).is_err());
    }
}
