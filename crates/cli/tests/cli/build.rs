//! Building: what is reported, what is refused, and what an interruption leaves.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::data::{DIM, Place, SMALL, clustered, text, u8bin};
use crate::names::names;

#[test]
fn a_build_reports_its_cost_and_shape() {
    let place = Place::new(3000);
    let built = place.build();
    assert_eq!(built["rows"], 3000);
    assert_eq!(built["dim"], DIM);
    assert_eq!((&built["type"], &built["metric"]), (&"u8".into(), &"l2".into()));
    for figure in ["cpu_s", "wall_s", "peak_rss_bytes", "disk_bytes", "mean_degree"] {
        assert!(built[figure].as_f64().unwrap() > 0.0, "{figure}");
    }
    assert!(built["stages"]["graph"].is_f64());
    let disk = built["disk_bytes"].as_u64().unwrap();
    let inspected = place.json("inspect --index index --buffered").remove(0);
    assert_eq!(inspected["disk_bytes"], disk);
}

#[test]
fn the_estimate_comes_before_the_build_on_standard_error() {
    let place = Place::new(500);
    let out = place.run(&format!("build --base base.u8bin --index index --metric l2 {SMALL}"));
    let (told, result) = (text(&out.stderr), text(&out.stdout));
    assert!(told.contains("500 x 24 u8") && told.contains("of memory"), "{told}");
    assert!(result.contains("on disk") && result.contains("pipeann search"), "{result}");
}

#[test]
fn memory_that_no_search_can_do_with_is_refused_before_the_build() {
    let place = Place::new(500);
    let line = "build --base base.u8bin --index index --metric l2 --search-memory";
    let refused = place.refusal(&format!("{line} 1KiB"));
    assert!(refused.contains("--search-memory 1.0 KiB is too little"), "{refused}");
    let least = refused.split(" need ").nth(1).unwrap().split(" even").next().unwrap();
    let least = least.replace(' ', "");
    assert!(!place.path("index").exists());
    place.json(&format!("{line} {least}"));
    place.json(&format!(
        "search --index index --queries query.u8bin --list 20 --memory-limit {least} --buffered"
    ));
}

#[test]
fn an_index_is_replaced_only_when_asked() {
    let place = Place::new(500);
    place.build();
    let line = format!("build --base base.u8bin --index index --metric l2 {SMALL}");
    let refused = place.refusal(&line);
    assert!(
        refused.contains("already holds an index") && refused.contains("--overwrite"),
        "{refused}"
    );
    place.json(&format!("{line} --overwrite"));
    place.json("inspect --index index --verify --buffered");
}

#[test]
fn partitions_are_directories_and_search_as_one() {
    let place = Place::new(2000);
    place.truth();
    place
        .json(&format!("build --base base.u8bin --index index --metric l2 --partitions 3 {SMALL}"));
    let inspected = place.json("inspect --index index --verify --buffered").remove(0);
    assert_eq!(inspected["partitions"].as_array().unwrap().len(), 3);
    let line = "search --index index --queries query.u8bin --truth truth.bin --list 60 --buffered";
    assert!(place.json(line)[0]["recall"].as_f64().unwrap() > 0.9);
}

#[test]
fn other_input_formats_and_metrics_build() {
    let place = Place::new(600);
    place.json("convert --in base.u8bin --out base.npy");
    place.json("convert --in base.u8bin --out base.fvecs");
    place.json("convert --in query.u8bin --out query.fbin");
    place.json(&format!("build --base base.npy --index a --metric cosine {SMALL}"));
    place.json(&format!("build --base base.fvecs --index b --metric ip {SMALL}"));
    for (index, queries, base, metric) in
        [("a", "query.u8bin", "base.u8bin", "cosine"), ("b", "query.fbin", "base.fvecs", "ip")]
    {
        place.json(&format!(
            "gt --base {base} --queries {queries} --k 10 --metric {metric} --out t.bin"
        ));
        let line = format!(
            "search --index {index} --queries {queries} --truth t.bin --list 80 --buffered"
        );
        let recall = place.json(&line)[0]["recall"].as_f64().unwrap();
        assert!(recall > 0.9, "{metric}: {recall}");
    }
}

#[test]
fn an_interrupted_build_leaves_nothing_that_opens() {
    let place = Place::new(10);
    let rows = 60_000;
    place.write("base.u8bin", &u8bin(rows, DIM, &clustered(rows, 1)));
    // The parameters make the graph take far longer than the test waits.
    let line =
        "build --base base.u8bin --index index --metric l2 --degree 64 --list 400 --threads 1";
    let mut child = place.command(line).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = child.stderr.take().unwrap();
    // The estimate is printed after the handler is installed.
    let mut first = [0; 8];
    told.read_exact(&mut first).unwrap();
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let sent = Instant::now();
    let status = child.wait().unwrap();
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted"), "{rest}");
    assert!(sent.elapsed() < Duration::from_secs(20));
    let refused = place.refusal("inspect --index index --buffered");
    assert!(refused.contains("no index"), "{refused}");
    assert!(names(place.dir.path()).iter().all(|n| n.ends_with("u8bin") || n == "index"));
    if place.path("index").exists() {
        assert!(!names(&place.path("index")).iter().any(|n| n == "MANIFEST"));
    }
}

#[test]
fn zero_vectors_are_built_and_found_by_cosine() {
    let place = Place::new(10);
    place.write("zero.u8bin", &u8bin(3, 4, &[1, 2, 3, 4, 0, 0, 0, 0, 4, 3, 2, 1]));
    place.json("build --base zero.u8bin --index index --metric cosine");
    place.json("gt --base zero.u8bin --queries zero.u8bin --k 3 --metric cosine --out truth.bin");
    let found = place.json(
        "search --index index --queries zero.u8bin --truth truth.bin --k 3 --list 10 --buffered",
    );
    assert_eq!(found[0]["recall"], 1.0);
}

#[test]
fn an_index_comes_into_other_partitions_without_being_built_again() {
    let place = Place::new(3000);
    place.build();
    place.truth();
    let make = "partition --from index --index parts --partitions 4 --threads 2";
    let made = place.json(make).remove(0);
    assert_eq!((&made["rows"], &made["metric"]), (&3000.into(), &"l2".into()));
    assert!(made["stages"]["graph"].is_null(), "{made}");
    let told = text(&place.run("inspect --index parts --buffered --verify").stdout);
    assert!(told.contains("no damage") && told.contains("partition"), "{told}");
    let recall = |index: &str| {
        let search = "--queries query.u8bin --truth truth.bin --list 40 --buffered";
        let row = place.json(&format!("search --index {index} {search}")).remove(0);
        row["recall"].as_f64().unwrap()
    };
    assert!((recall("index") - recall("parts")).abs() < 0.02);
    let limited = make.replace("parts", "limited");
    place.json(&format!("{limited} --memory 160MiB"));
    let told = text(&place.run("inspect --index limited --buffered --verify").stdout);
    assert!(told.contains("no damage") && told.contains("partition"), "{told}");
    assert!((recall("index") - recall("limited")).abs() < 0.02);
    let small = place.refusal(&format!("{} --memory 1MiB", make.replace("parts", "other")));
    assert!(small.contains("--memory") && small.contains("too small"), "{small}");
    let again = place.refusal(make);
    assert!(again.contains("--overwrite"), "{again}");
    let itself = place.refusal("partition --from index --index index --partitions 4 --overwrite");
    assert!(itself.contains("the same directory"), "{itself}");
    let too_many = place.refusal("partition --from index --index other --partitions 20000");
    assert!(too_many.contains("1 to 10000"), "{too_many}");
}
