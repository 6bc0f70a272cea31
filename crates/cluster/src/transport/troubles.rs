//! What keeps peers apart, for people: the last trouble with each server, for whoever waits for it, and the
//! troubles that a log was told of. What the other side says of it is shortened and has no line of its own.

use std::collections::{BTreeMap, HashMap};
use std::mem::{Discriminant, discriminant};

use super::{Event, Why};
use crate::wire::{Leave, PeerId};

/// After so long the log is told of a trouble anew.
const AGAIN_US: u64 = 3_600_000_000;
/// Troubles that are remembered. Beyond, the log is told of none until one of them is old.
const TOLD_MAX: usize = 256;
/// Characters of a reason.
const WORDS_MAX: usize = 300;

/// How it stands with each server that was heard of: connected, or the last trouble with it.
#[derive(Debug, Default)]
pub(crate) struct LastTroubles(BTreeMap<u32, Option<Why>>);

impl LastTroubles {
    /// Notes what an event says of a server.
    pub(crate) fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Up { peer: PeerId::Server(server), .. } => {
                self.0.insert(*server, None);
            }
            Event::Down { peer: PeerId::Server(server), why }
            | Event::Refused { who: Some(PeerId::Server(server)), why, .. } => {
                let known = self.0.entry(*server).or_default();
                // The other side may end the next connection without a word.
                if known.is_none() || why.says_something() {
                    *known = Some((*why).clone());
                }
            }
            _ => {}
        }
    }

    /// How it stands with a server that cannot be asked.
    pub(crate) fn words(&self, server: u32) -> String {
        match self.0.get(&server) {
            Some(Some(why)) => one_line(&why.to_string()),
            Some(None) => {
                "it serves another index, or generation of it, than the others".to_owned()
            }
            None => "nothing was heard of it".to_owned(),
        }
    }

    /// Whether waiting does not bring a server back.
    pub(crate) fn is_lasting(&self, server: u32) -> bool {
        matches!(self.0.get(&server), Some(Some(why)) if why.is_lasting())
    }
}

/// Troubles that a log was told of, each once for a peer and a kind of it.
#[derive(Debug, Default)]
pub(crate) struct ToldTroubles(HashMap<(String, Discriminant<Why>), u64>);

impl ToldTroubles {
    /// What a log is to be told of an event, if anything.
    pub(crate) fn note(&mut self, now_us: u64, event: &Event<'_>) -> Option<String> {
        let (whom, why) = match event {
            // A stranger has another port each time, and a client another number.
            Event::Refused { address, who: Some(PeerId::Server(server)), why } => {
                (format!("server {server} at {}", address.ip()), *why)
            }
            Event::Refused { address, why, .. } => (format!("somebody at {}", address.ip()), *why),
            Event::Down { peer: PeerId::Server(server), why } => (format!("server {server}"), *why),
            Event::Down { peer: PeerId::Client(_), why } => ("a client".to_owned(), *why),
            _ => return None,
        };
        if !why.is_news() {
            return None;
        }
        let told = format!("{whom}: {}", one_line(&why.to_string()));
        let key = (whom, discriminant(why));
        if self.0.get(&key).is_some_and(|until| now_us < *until) {
            return None;
        }
        if self.0.len() >= TOLD_MAX {
            self.0.retain(|_, until| now_us < *until);
        }
        if self.0.len() >= TOLD_MAX {
            return None;
        }
        self.0.insert(key, now_us.saturating_add(AGAIN_US));
        Some(told)
    }
}

impl Why {
    /// Whether it tells more than that there is no connection.
    fn says_something(&self) -> bool {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        !matches!(
            self,
            Self::Closed
                | Self::Replaced
                | Self::Io(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
        )
    }

    /// Whether it stays so until somebody gives one side another certificate, topology or index.
    fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::Tls(_)
                | Self::NoTls
                | Self::SpeaksTls
                | Self::NotNamed { .. }
                | Self::Mismatch(_)
                | Self::Goodbye { why: Leave::Refused, .. }
        )
    }

    /// Whether it is more than that somebody came, went, or is not there yet.
    fn is_news(&self) -> bool {
        !matches!(
            self,
            Self::Closed
                | Self::Replaced
                | Self::Stopping
                | Self::Io(_)
                | Self::Goodbye { why: Leave::Stopping, .. }
        )
    }
}

fn one_line(words: &str) -> String {
    let printable = |it: char| if it.is_control() { ' ' } else { it };
    words.chars().take(WORDS_MAX).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    const MINUTE_US: u64 = 60_000_000;

    fn refused<'w>(address: &str, who: Option<PeerId>, why: &'w Why) -> Event<'w> {
        Event::Refused { address: address.parse().unwrap(), who, why }
    }

    #[test]
    fn the_last_trouble_that_says_something_is_kept_until_the_server_is_there() {
        let mut troubles = LastTroubles::default();
        let server = Some(PeerId::Server(3));
        assert_eq!(troubles.words(3), "nothing was heard of it");
        let mut note = |why: Why| {
            troubles.note(&refused("10.0.0.3:1", server, &why));
            (troubles.words(3), troubles.is_lasting(3))
        };
        let absent = Why::Io(ErrorKind::ConnectionRefused);
        assert_eq!(note(absent), ("the connection failed: connection refused".to_owned(), false));
        let (words, lasting) = note(Why::Tls("of another\nauthority".to_owned()));
        assert_eq!((words.as_str(), lasting), ("TLS: of another authority", true));
        for silent in [Why::Closed, Why::Io(ErrorKind::ConnectionReset)] {
            assert_eq!(note(silent), (words.clone(), true));
        }
        assert!(!note(Why::SlowHandshake).1);
        let why = Why::Silent;
        troubles.note(&Event::Down { peer: PeerId::Server(4), why: &why });
        assert_eq!(troubles.words(4), why.to_string());
        troubles.note(&Event::Down { peer: PeerId::Client(4), why: &why });
    }

    #[test]
    fn a_log_is_told_once_of_a_peer_and_a_cause_and_of_so_many_alone() {
        let mut troubles = ToldTroubles::default();
        let tls = Why::Tls("no certificate".to_owned());
        let mut note = |now: u64, event: Event<'_>| troubles.note(now, &event);
        let told = note(0, refused("10.0.0.9:1000", None, &tls));
        assert_eq!(told.unwrap(), "somebody at 10.0.0.9: TLS: no certificate");
        assert_eq!(note(1, refused("10.0.0.9:1001", None, &tls)), None);
        assert!(note(2, refused("10.0.0.9:1002", None, &Why::SpeaksTls)).is_some());
        let server = Some(PeerId::Server(1));
        let told = note(3, refused("10.0.0.1:7000", server, &tls)).unwrap();
        assert_eq!(told, "server 1 at 10.0.0.1: TLS: no certificate");
        assert!(note(61 * MINUTE_US, refused("10.0.0.9:1003", None, &tls)).is_some(), "anew");
        // Coming and going is no trouble.
        let stops = Why::Goodbye { why: Leave::Stopping, words: "it stops".to_owned() };
        for why in [stops, Why::Closed, Why::Io(ErrorKind::ConnectionRefused)] {
            assert_eq!(note(4, Event::Down { peer: PeerId::Server(1), why: &why }), None);
        }
        let all = |minutes: u64| {
            let addresses = (0..2_000).map(|n| format!("10.1.{}.{}:1", n / 250, n % 250));
            addresses.map(move |address| (minutes * MINUTE_US, address))
        };
        let mut strangers = |minutes| {
            all(minutes).filter(|(now, at)| note(*now, refused(at, None, &tls)).is_some()).count()
        };
        assert!((250..=TOLD_MAX).contains(&strangers(62)));
        assert_eq!(strangers(63), 0);
        assert_eq!(strangers(200), TOLD_MAX);
    }
}
