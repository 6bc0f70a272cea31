//! What each query of a cluster found, and what its servers tell of themselves.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::cluster::{SEARCH, place};
use crate::data::Place;

/// A server that ends with its input, and what it prints.
struct Telling(Child, BufReader<ChildStdout>);

impl Telling {
    fn start(place: &Place, number: u32) -> Self {
        // Nothing is told by the clock.
        let line = format!(
            "cluster serve --topology cluster.toml --insecure --server {number} --index index \
             --buffered --threads 1 --until-eof --figures 3600"
        );
        let mut command = place.command(&line);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut told = String::new();
        out.read_line(&mut told).unwrap();
        assert!(told.contains("listens"), "{told}");
        Self(child, out)
    }

    /// Ends it; the figures that it tells then.
    fn figures(mut self) -> Value {
        drop(self.0.stdin.take());
        let mut told = String::new();
        self.1.read_to_string(&mut told).unwrap();
        assert!(self.0.wait().unwrap().success());
        serde_json::from_str(told.lines().last().unwrap()).unwrap()
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn hits_and_pages_of_each_query_are_those_of_one_server_and_servers_count_states() {
    let (place, _) = place();
    let servers = [0, 1].map(|number| Telling::start(&place, number));
    let one = "cluster count --index index --buffered --queries query.u8bin --truth truth.bin \
        --policy relay --width 1 --ahead 1 --switches dynamic=off --list 40 --servers 1 --hits";
    let one = place.json(one).remove(0);
    let (mut asked, mut moved) = (0, 0.0);
    for begin in ["entry", "round-robin"] {
        let two = place.json(&format!("{SEARCH} --hits --begin {begin}")).remove(0);
        assert_eq!((&two["hits"], &two["pages"]), (&one["hits"], &one["pages"]), "{begin}");
        assert_eq!((&two["failed"], &two["late"]), (&0.into(), &0.into()));
        asked += two["queries"].as_u64().unwrap();
        moved += two["hops"].as_f64().unwrap() * two["queries"].as_f64().unwrap();
    }
    assert!(place.json(SEARCH)[0].get("hits").is_none(), "only where they are asked for");
    let refused = place.refusal(&format!("{SEARCH} --mode scatter --begin round-robin"));
    assert!(refused.contains("--begin goes with --mode relay and baton"), "{refused}");
    let told = servers.map(Telling::figures);
    let sum = |of: &dyn Fn(&Value) -> u64| told.iter().map(of).sum::<u64>();
    let named = |name: &'static str| move |figures: &Value| figures[name].as_u64().unwrap();
    assert_eq!(sum(&named("begun")), asked / 2 * 3, "a third time without hits");
    let left = sum(&named("left"));
    assert_eq!(left, sum(&named("arrived")));
    assert!(left as f64 > moved, "{left} and {moved}");
    let states = |figures: &Value| -> u64 {
        figures["states"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&states), left);
    for (number, figures) in told.iter().enumerate() {
        assert_eq!(figures["server"], number);
        assert_eq!((&figures["slots"], &figures["waiting"]), (&0.into(), &0.into()));
        assert!(figures["most_slots"].as_u64().unwrap() > 0, "{figures}");
    }
}
