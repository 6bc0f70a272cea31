//! Servers in processes of their own, which are killed and stopped, and etcd asked by hand.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pipeann_members::Coordinator;
use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

use crate::etcd_process::EtcdProcess;
use crate::tools::{
    LONG, TTL, await_lead, await_leader_but, await_some, await_that, connect, info, join, pause,
};

/// etcd's calls as JSON over HTTP.
pub(crate) struct EtcdByHand {
    port: u16,
}

impl EtcdByHand {
    pub(crate) fn new(port: u16) -> Self {
        Self { port }
    }

    fn post(&self, path: &str, body: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!("POST /v3/kv/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    pub(crate) fn put(&self, key: &str, value: &str) {
        let body = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key), base64(value));
        self.post("put", &body);
    }

    pub(crate) fn remove(&self, from: &str, to: &str) {
        let body = format!(r#"{{"key":"{}","range_end":"{}"}}"#, base64(from), base64(to));
        self.post("deleterange", &body);
    }

    pub(crate) fn compact(&self, revision: u64) {
        self.post("compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#));
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0u32, |bits, i| bits << 8 | u32::from(*three.get(i).unwrap_or(&0)));
        for digit in 0..4 {
            let at = (bits >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit <= three.len() { char::from(DIGITS[at]) } else { '=' });
        }
    }
    out
}

/// What the other process runs: joins, stands for shard 1, and says what becomes of it.
#[test]
#[ignore = "is run by other tests, in a process of its own"]
fn another_process() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let Some((url, id)) = line.trim().split_once(' ') else { return };
    let etcd = connect(url);
    let member = match etcd.join(info(id.parse().unwrap())) {
        Ok(member) => member,
        Err(e) => return println!("\nREFUSED {e}"),
    };
    println!("\nJOINED");
    member.campaign(1, 0).unwrap();
    let mut last = None;
    loop {
        let term = member.leads(1).map(|it| it.term);
        if term != last {
            println!("\nLEADS {}", term.unwrap_or(0));
            last = term;
        }
        pause(Duration::from_millis(10));
    }
}

struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _input: ChildStdin,
}

impl Other {
    fn start(url: &str, id: u128) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::another_process", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{url} {id}").unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, _input: input }
    }

    /// The rest of the next line that begins so.
    fn says(&mut self, what: &str) -> String {
        let begun = Instant::now();
        loop {
            let line = self.lines.next().expect("it says more").unwrap();
            if let Some(rest) = line.strip_prefix(what) {
                return rest.trim().to_owned();
            }
            assert!(begun.elapsed() < LONG, "never said: {what}");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn another_leads_after_the_leader_was_killed() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let mut holder = Other::start(&etcd.url(), 1);
    let term: u64 = holder.says("LEADS").parse().unwrap();
    let (coordinator, member) = join(&etcd.url(), 2);
    member.campaign(1, 0).unwrap();
    let (leader, _) = await_leader_but(&*coordinator, 1, None);
    assert_eq!(leader, Uuid::from_u128(1));
    holder.child.kill().unwrap();
    let begun = Instant::now();
    assert_eq!(await_lead(&*member, 1), term + 1);
    let took = begun.elapsed();
    eprintln!("another led after {took:?} with leases of {TTL:?}");
    // It comes again as the same server, whose old lease has ended.
    let mut again = Other::start(&etcd.url(), 1);
    again.says("JOINED");
    await_that("both are there", || coordinator.servers().len() == 2);
}

#[test]
fn one_that_slept_knows_that_it_does_not_lead() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let mut holder = Other::start(&etcd.url(), 1);
    holder.says("LEADS");
    let (coordinator, member) = join(&etcd.url(), 2);
    member.campaign(1, 0).unwrap();
    holder.signal(Signal::STOP);
    let term = await_lead(&*member, 1);
    holder.signal(Signal::CONT);
    // The first thing that it says after it wakes up.
    assert_eq!(holder.says("LEADS"), "0");
    await_that("it joins again", || coordinator.servers().len() == 2);
    member.transfer(1, Uuid::from_u128(1)).unwrap();
    assert_eq!(holder.says("LEADS"), (term + 1).to_string());
}

#[test]
fn two_processes_with_one_id_are_told() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let mut first = Other::start(&etcd.url(), 1);
    first.says("JOINED");
    let mut second = Other::start(&etcd.url(), 1);
    let said = second.says("REFUSED");
    assert!(said.contains("id 00000000-0000-0000-0000-000000000001 is taken"), "{said}");
}

#[test]
fn a_busy_process_keeps_its_lease() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let (coordinator, member) = join(&etcd.url(), 1);
    member.campaign(1, 0).unwrap();
    let term = await_lead(&*member, 1);
    let until = Instant::now() + TTL * 3;
    std::thread::scope(|scope| {
        for _ in 0..4 * std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| while std::hint::black_box(Instant::now()) < until {});
        }
    });
    let lead = await_some("it leads", || member.leads(1));
    assert_eq!((lead.term, coordinator.traffic().lease_losses), (term, 0));
}
