//! Benchmark jobs: table, JSON and plots out of one file, and what is used again.

use serde_json::Value;

use crate::data::{Place, text};

const JOB: &str = "
name = 'small'
targets = [0.9, 0.999999]
rounds = 2

[data]
base = 'base.u8bin'
queries = 'query.u8bin'
metric = 'l2'

[build]
degree = 24
list = 40
code_bytes = 12

[[run]]
policy = 'pipe'
lists = [10, 20, 60]
buffered = true

[[run]]
name = 'beam-8'
policy = 'beam'
width = 8
lists = [10, 60]
buffered = true
";

#[test]
fn a_job_gives_a_table_json_and_plots_and_keeps_its_index() {
    let place = Place::new(3000);
    place.write("job.toml", JOB.as_bytes());
    let out = place.run("bench --job job.toml --out results");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    assert!(table.contains("beam-8") && table.contains("interpolated"), "{table}");
    let read =
        |name: &str| std::fs::read_to_string(place.path(&format!("results/{name}"))).unwrap();
    let all: Value = serde_json::from_str(&read("small.json")).unwrap();
    assert_eq!(all["points"].as_array().unwrap().len(), 5);
    assert_eq!(all["targets"].as_array().unwrap().len(), 4);
    for plot in ["qps", "mean_us", "reads", "cpu_us"] {
        assert!(read(&format!("small-{plot}.svg")).contains("beam-8"));
    }
    let built = read("build.json");
    let again = place.json("bench --job job.toml --out results");
    assert_eq!(again.len(), 5);
    assert_eq!(read("build.json"), built, "the index was used again");
    place.write("job.toml", JOB.replace("degree = 24", "degree = 20").as_bytes());
    place.json("bench --job job.toml --out results");
    assert_ne!(read("build.json"), built, "another degree makes another index");
}

#[test]
fn mistakes_in_a_job_are_told() {
    let place = Place::new(100);
    place.write("job.toml", JOB.replace("rounds", "round").as_bytes());
    assert!(place.refusal("bench --job job.toml").contains("round"));
    place.write("job.toml", JOB.replace("base.u8bin", "bass.u8bin").as_bytes());
    let refused = place.refusal("bench --job job.toml");
    assert!(refused.contains("bass.u8bin") && refused.contains("PIPEANN_DATA"), "{refused}");
}
