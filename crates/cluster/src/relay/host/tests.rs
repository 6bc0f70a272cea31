//! A client between callers and a machine that does as a test says.

use std::net::Ipv4Addr;

use super::*;
use crate::placement::Server as Place;
use crate::transport::tcp::{Identity, Limits};
use crate::wire::FailureCode;

const HOUR_US: u64 = 3_600_000_000;

/// Refuses whatever it is asked.
#[derive(Default)]
struct Refuses {
    asked: u64,
    ended: Vec<(u64, Ended)>,
}

impl Handler for Refuses {
    fn event(&mut self, _now: u64, _net: &dyn Network, _event: Event<'_>) {}

    fn due(&mut self, _now: u64, _net: &dyn Network) -> Option<u64> {
        None
    }
}

impl Asks for Refuses {
    type Query = ();

    fn ask(&mut self, _now: u64, _net: &dyn Network, (): ()) -> Result<u64, NoAnswer> {
        let (code, words) = (FailureCode::Refused, "not this one".to_owned());
        self.ended.push((self.asked, Err(NoAnswer::Failed { code, partition: None, words })));
        self.asked += 1;
        Ok(self.asked - 1)
    }

    fn take_ended(&mut self) -> Vec<(u64, Ended)> {
        std::mem::take(&mut self.ended)
    }

    fn up(&self) -> usize {
        0
    }

    fn is_up(&self, _server: u32) -> bool {
        false
    }

    fn open(&self) -> usize {
        0
    }

    fn due_us(&self, (): &()) -> u64 {
        HOUR_US
    }

    fn left_us((): &()) -> u64 {
        HOUR_US
    }

    fn takes_partial((): &()) -> bool {
        false
    }
}

#[test]
fn what_ends_while_it_is_asked_is_told_before_anything_else_happens() {
    // Whoever is dialled says nothing, so nothing does happen.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = Place { number: 0, address, tls_name: String::new(), partitions: vec![0] };
    let network = Settings {
        me: PeerId::Client(1),
        placement: Placement::new("blue".to_owned(), 1, vec![server]).unwrap(),
        identity: Identity::default(),
        slots: 0,
        tls: None,
        limits: Limits { handshake_us: HOUR_US, ..Limits::default() },
        seed: 1,
    };
    let client = Client::over(network, Refuses::default()).unwrap();
    for _ in 0..20 {
        let answer = client.ask(()).unwrap();
        assert!(matches!(answer.try_recv(), Ok(Err(NoAnswer::Failed { .. }))));
    }
}
