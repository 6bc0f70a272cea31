//! One socket, with TLS or without: bytes in and out, and where its frames begin.
//!
//! Nothing here knows peers or time. A read takes what is there, a write gives what the socket
//! takes; neither waits. The buffer of what came in grows as bytes come and not as a header claims.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use rustls::Connection as Session;

use crate::wire::{FrameError, frame_len};

/// What a buffer holds before anything came.
const BUFFER_FIRST: usize = 16 << 10;

/// A socket.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Session>,
    input: Vec<u8>,
    /// What of `input` came in, and what of that was read.
    filled: usize,
    read: usize,
    /// What goes out, and how much of it went.
    pub(super) output: Vec<u8>,
    written: usize,
}

/// What a turn of reading came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// All that was there.
    Drained,
    /// There may be more.
    More,
    /// The peer sends nothing any more.
    Ended,
}

/// What ended a connection while it was read or written.
#[derive(Debug)]
pub(super) enum Broken {
    Io(io::Error),
    Tls(rustls::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustls::Error> for Broken {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}

impl Connection {
    pub(super) fn new(socket: TcpStream, address: SocketAddr, mut tls: Option<Session>) -> Self {
        if let Some(session) = &mut tls {
            // What it takes is bounded by what is handed to it: one buffer of a peer's queue.
            session.set_buffer_limit(None);
        }
        Self {
            socket,
            address,
            tls,
            input: vec![0; BUFFER_FIRST],
            filled: 0,
            read: 0,
            output: Vec::new(),
            written: 0,
        }
    }

    /// Takes in what is there, but no more than a buffer full of it.
    pub(super) fn fill(&mut self, scratch: &mut [u8]) -> Result<Turn, Broken> {
        self.compact();
        if self.tls.is_none() {
            let room = self.input.len() - self.filled;
            return match receive(&mut self.socket, &mut self.input[self.filled..])? {
                Received::Bytes(count) => {
                    self.filled += count;
                    // A socket that gave less than it could has no more: the system says anew when
                    // it has.
                    Ok(if count < room { Turn::Drained } else { Turn::More })
                }
                Received::Nothing => Ok(Turn::Drained),
                Received::End => Ok(Turn::Ended),
            };
        }
        let count = match receive(&mut self.socket, scratch)? {
            Received::Bytes(count) => count,
            Received::Nothing => return Ok(Turn::Drained),
            Received::End => return Ok(Turn::Ended),
        };
        let mut cipher = &scratch[..count];
        let tls = self.tls.as_mut().expect("looked at above");
        while !cipher.is_empty() {
            tls.read_tls(&mut cipher)?;
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The alert says why; whether it arrives is the network's affair.
                    let _ = tls.write_tls(&mut self.socket);
                    return Err(error.into());
                }
            };
            let plain = state.plaintext_bytes_to_read();
            if self.input.len() - self.filled < plain {
                let len = (self.filled + plain).max(self.input.len() * 2);
                self.input.resize(len, 0);
            }
            let mut left = plain;
            while left > 0 {
                let end = self.filled + left;
                let got = tls.reader().read(&mut self.input[self.filled..end])?;
                self.filled += got;
                left -= got;
            }
            if state.peer_has_closed() {
                return Ok(Turn::Ended);
            }
        }
        Ok(if count < scratch.len() { Turn::Drained } else { Turn::More })
    }

    /// Makes room for more: what was read goes, and a buffer that is full doubles.
    fn compact(&mut self) {
        if self.read == self.filled {
            (self.read, self.filled) = (0, 0);
            if self.input.len() > 16 * BUFFER_FIRST {
                self.input = vec![0; BUFFER_FIRST];
            }
        } else if self.read > 0 {
            self.input.copy_within(self.read..self.filled, 0);
            (self.filled, self.read) = (self.filled - self.read, 0);
        }
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
    }

    /// Where the next whole frame lies, in [`bytes`](Self::bytes).
    pub(super) fn next(&mut self, most: usize) -> Result<Option<(usize, usize)>, FrameError> {
        let rest = &self.input[self.read..self.filled];
        let Some(len) = frame_len(rest, most)? else { return Ok(None) };
        if rest.len() < len {
            return Ok(None);
        }
        let start = self.read;
        self.read += len;
        Ok(Some((start, self.read)))
    }

    /// Whether the first that came in is a record of TLS, where none is spoken here.
    pub(super) fn begins_with_tls(&self) -> bool {
        let begin = &self.input[..self.filled];
        self.tls.is_none() && self.read == 0 && matches!(begin, [0x14..=0x17, 3, 0..=4, ..])
    }

    /// What came in.
    pub(super) fn bytes(&self, (start, end): (usize, usize)) -> &[u8] {
        &self.input[start..end]
    }

    /// Whether nothing waits to be written, so that `output` may be filled anew.
    pub(super) fn is_idle(&self) -> bool {
        self.output.is_empty() && !self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Writes what the socket takes. Says whether all went.
    pub(super) fn flush(&mut self) -> Result<bool, Broken> {
        let Some(tls) = &mut self.tls else {
            while self.written < self.output.len() {
                match self.socket.write(&self.output[self.written..]) {
                    Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                    Ok(count) => self.written += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.output.clear();
            self.written = 0;
            return Ok(true);
        };
        if !self.output.is_empty() && !tls.is_handshaking() {
            tls.writer().write_all(&self.output)?;
            self.output.clear();
        }
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.output.is_empty())
    }

    /// Ends the connection in an orderly way, as far as that goes without waiting.
    pub(super) fn part(&mut self) {
        // What waits has to be encrypted before the end is: nothing behind that is read.
        let _ = self.flush();
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.flush();
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}

enum Received {
    Bytes(usize),
    Nothing,
    End,
}

fn receive(socket: &mut TcpStream, into: &mut [u8]) -> io::Result<Received> {
    loop {
        return match socket.read(into) {
            Ok(0) => Ok(Received::End),
            Ok(count) => Ok(Received::Bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}
