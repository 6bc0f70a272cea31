//! What comes in on a connection: introductions, frames that keep it, messages for the handler.

use std::sync::Arc;

use mio::Token;

use super::super::{Event, Hold, Why};
use super::connection::{Broken, Connection, Turn};
use super::lane::{Peer, lock};
use super::thread::{Entry, Thread};
use super::tls;
use crate::wire::{self, FRAME_MAX, Goodbye, HELLO_MAX, Hello, Leave, Message, Mismatch, PeerId};

/// How often a connection is read before others have their turn.
const TURNS: usize = 8;

impl From<Broken> for Why {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Io(error) => Self::Io(error.kind()),
            Broken::Tls(rustls::Error::InvalidMessage(_)) => Self::NoTls,
            Broken::Tls(error) => Self::Tls(tls::words(&error)),
        }
    }
}

impl Thread {
    /// Reads a connection, where there may be something, and writes what waits for it.
    pub(super) fn drive(&mut self, now: u64, token: Token, readable: bool) {
        // Taken out while it is worked on, as the handler may not end it below our feet. A token
        // that outlived its connection finds none, or one that has nothing to do.
        let Some(mut entry) = self.entries.get_mut(token.0).and_then(Option::take) else { return };
        let connection = Arc::clone(&entry.connection);
        let mut held = lock(&connection);
        let worked = self.work(now, token, &mut entry, &mut held, readable);
        drop(held);
        match worked {
            Ok(()) => self.entries[token.0] = Some(entry),
            Err(why) => self.end(now, entry, &why),
        }
    }

    fn work(
        &mut self,
        now: u64,
        token: Token,
        entry: &mut Entry,
        connection: &mut Connection,
        readable: bool,
    ) -> Result<(), Why> {
        if entry.connecting {
            let socket = &connection.socket;
            if let Ok(Some(error)) | Err(error) = socket.take_error() {
                return Err(Why::Io(error.kind()));
            }
            if socket.peer_addr().is_err() {
                return Ok(());
            }
            entry.connecting = false;
        }
        if readable {
            let mut turns = 0;
            loop {
                let turn = connection.fill(&mut self.scratch)?;
                self.take_in(now, token, entry, connection)?;
                match turn {
                    Turn::Drained => break,
                    Turn::Ended => return Err(Why::Closed),
                    Turn::More => {}
                }
                turns += 1;
                if turns == TURNS {
                    self.again.push(token);
                    break;
                }
            }
        }
        let flushed = self.flush(now, entry, connection);
        if matches!(flushed, Err(Why::Io(_))) {
            // Whoever closes has said why before, and that may still lie here unread.
            connection.fill(&mut self.scratch)?;
            self.take_in(now, token, entry, connection)?;
        }
        flushed
    }

    /// Reads frames, and tells TLS from what is no frame at all.
    fn take_in(
        &mut self,
        now: u64,
        token: Token,
        entry: &mut Entry,
        connection: &mut Connection,
    ) -> Result<(), Why> {
        match self.frames(now, token, entry, connection) {
            Err(Why::Frame(_)) if entry.peer.is_none() && connection.begins_with_tls() => {
                Err(Why::SpeaksTls)
            }
            read => read,
        }
    }

    /// Writes what waits, as one run as long as the socket takes it.
    fn flush(&mut self, now: u64, entry: &Entry, connection: &mut Connection) -> Result<(), Why> {
        while connection.flush()? && connection.is_idle() {
            let Some(peer) = &entry.peer else { return Ok(()) };
            if peer.take(&mut connection.output) {
                self.handler.event(now, &*self.shared, Event::Room { peer: peer.id });
            }
            if connection.output.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn frames(
        &mut self,
        now: u64,
        token: Token,
        entry: &mut Entry,
        connection: &mut Connection,
    ) -> Result<(), Why> {
        loop {
            let most = if entry.peer.is_some() { FRAME_MAX } else { HELLO_MAX };
            let Some(at) = connection.next(most)? else { return Ok(()) };
            entry.heard = now;
            if entry.pinged.take().is_some() {
                self.listens_from(now);
            }
            let (message, len) = wire::read(connection.bytes(at))?;
            let Some(peer) = &entry.peer else {
                let Message::Hello(hello) = message else {
                    return Err(match message {
                        Message::Goodbye(goodbye) => said(goodbye),
                        other => Why::OutOfTurn(other.kind()),
                    });
                };
                entry.claims = entry.claims.or(Some(hello.who));
                let peer = self.introduce(now, token, entry, connection, hello)?;
                self.handler.event(now, &*self.shared, Event::Up { peer: peer.id, hello });
                entry.peer = Some(peer);
                if entry.dialled.is_none() {
                    self.say_hello(connection);
                }
                continue;
            };
            match message {
                Message::Hello(_) => return Err(Why::OutOfTurn(message.kind())),
                Message::Goodbye(goodbye) => return Err(said(goodbye)),
                Message::Pong(_) => {
                    self.handler.event(now, &*self.shared, Event::Alive { peer: peer.id });
                }
                Message::Ping(number) => {
                    if !peer.control(&Message::Pong(number)) {
                        return Err(Why::NotReading);
                    }
                }
                Message::Credit(total) => {
                    if peer.grant(total) {
                        self.handler.event(now, &*self.shared, Event::Room { peer: peer.id });
                    }
                }
                message => {
                    if !peer.receive(len as u64) {
                        return Err(Why::Overrun);
                    }
                    let hold = Hold::new(len as u64, Arc::clone(peer) as _);
                    let event = Event::Message { peer: peer.id, message, hold };
                    self.handler.event(now, &*self.shared, event);
                }
            }
        }
    }

    /// Whether who speaks may be a peer, and if so makes it one.
    fn introduce(
        &mut self,
        now: u64,
        token: Token,
        entry: &Entry,
        connection: &Connection,
        hello: Hello<'_>,
    ) -> Result<Arc<Peer>, Why> {
        self.settings.hello(|ours| ours.admits(&hello))?;
        if let Some(server) = entry.dialled
            && hello.who != PeerId::Server(server)
        {
            let dialled = PeerId::Server(server);
            return Err(Mismatch::NotWhoWasDialled { theirs: hello.who, dialled }.into());
        }
        if let PeerId::Server(number) = hello.who {
            // Of two servers the higher dials; a lower one that dials has another topology.
            let expected = entry.dialled.is_some() || self.settings.me < hello.who;
            let server = self.settings.placement.server(number);
            let server = server.ok().filter(|_| expected).ok_or(Mismatch::UnknownServer(number))?;
            if !hello.partitions.iter().eq(server.partitions.iter().copied()) {
                return Err(Mismatch::Partitions(hello.who).into());
            }
            if let Some(session) = &connection.tls {
                tls::carries(session, &server.tls_name)
                    .map_err(|words| Why::NotNamed { peer: hello.who, words })?;
            }
        }
        if let Some(other) = self.connected(hello.who) {
            let theirs = lock(&self.entries[other].as_ref().expect("just found").connection);
            let certificate = |tls: &Option<rustls::Connection>| {
                tls.as_ref().and_then(|tls| tls.peer_certificates()).map(|chain| chain[0].clone())
            };
            // A server has proved its name. A client has not, and may not end another's connection.
            if hello.who.server().is_none()
                && certificate(&theirs.tls) != certificate(&connection.tls)
            {
                return Err(Why::Taken(hello.who));
            }
            drop(theirs);
            let old = self.entries[other].take().expect("just found");
            self.end(now, old, &Why::Replaced);
        } else if hello.who.server().is_none() && self.clients() >= self.settings.clients() {
            return Err(Why::TooMany);
        }
        let window = self.settings.limits.window_bytes;
        let credit = (hello.credit, window);
        let peer = Peer::new(hello.who, token, &self.shared, &entry.connection, credit);
        let peer = Arc::new(peer);
        let mut peers = self.shared.peers.write().unwrap_or_else(|held| held.into_inner());
        peers.insert(hello.who, Arc::clone(&peer));
        drop(peers);
        if let Some(server) = entry.dialled {
            self.redial(now, server, true);
        }
        self.listens_from(now);
        Ok(peer)
    }

    /// Clients that are connected.
    fn clients(&self) -> usize {
        let peers = self.entries.iter().flatten().filter_map(|entry| entry.peer.as_ref());
        peers.filter(|peer| peer.id.server().is_none()).count()
    }

    fn connected(&self, peer: PeerId) -> Option<usize> {
        self.entries.iter().position(|entry| {
            entry.as_ref().and_then(|entry| entry.peer.as_ref()).is_some_and(|of| of.id == peer)
        })
    }

    /// Ends a connection, tells the peer as far as that is of use, and whoever watches.
    pub(super) fn end(&mut self, now: u64, entry: Entry, why: &Why) {
        let mut connection = lock(&entry.connection);
        let leave = match why {
            Why::Frame(_) | Why::SpeaksTls | Why::OutOfTurn(_) | Why::Overrun | Why::NotReading => {
                Some(Leave::Garbage)
            }
            Why::Mismatch(_) | Why::NotNamed { .. } | Why::Taken(_) => Some(Leave::Refused),
            Why::TooMany => Some(Leave::Full),
            _ => None,
        };
        if let Some(leave) = leave {
            let words = why.to_string();
            let words = &words[..words.floor_char_boundary(1024)];
            let goodbye = Message::Goodbye(Goodbye { why: leave, words });
            goodbye.append(&mut connection.output).expect("a kilobyte of words");
        }
        connection.part();
        self.deregister(&mut connection.socket);
        let address = connection.address;
        drop(connection);
        if let Some(server) = entry.dialled {
            self.redial(now, server, false);
        }
        let event = match &entry.peer {
            None => Event::Refused { address, who: entry.claims, why },
            Some(peer) => {
                peer.close();
                let mut peers = self.shared.peers.write().unwrap_or_else(|held| held.into_inner());
                if peers.get(&peer.id).is_some_and(|current| Arc::ptr_eq(current, peer)) {
                    peers.remove(&peer.id);
                }
                drop(peers);
                Event::Down { peer: peer.id, why }
            }
        };
        self.handler.event(now, &*self.shared, event);
        self.told = true;
    }
}

fn said(goodbye: Goodbye<'_>) -> Why {
    Why::Goodbye { why: goodbye.why, words: goodbye.words.to_owned() }
}
