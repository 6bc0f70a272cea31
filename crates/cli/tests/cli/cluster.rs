//! A cluster of processes on this machine: served, searched, killed, and refused.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Value, json};

use crate::data::{Place, SMALL, text};

pub(crate) const SEARCH: &str = "cluster search --topology cluster.toml --insecure --queries query.u8bin \
    --truth truth.bin --list 40 --width 1 --ahead 1";

/// A loopback address of its own, whose ports go to no other test.
fn own_address() -> Ipv4Addr {
    static TAKEN: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id().to_le_bytes();
    let own = TAKEN.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::new(127, 128 | process[1], process[0], own)
}

/// An index of four partitions, and a topology of two servers on free ports.
pub(crate) fn place() -> (Place, Vec<u16>) {
    let place = Place::new(3000);
    let build = "build --base base.u8bin --index index --metric l2 --partitions 4";
    place.json(&format!("{build} {SMALL}"));
    place.truth();
    let address = own_address();
    let free: Vec<_> = (0..2).map(|_| TcpListener::bind((address, 0)).unwrap()).collect();
    let ports: Vec<u16> = free.iter().map(|free| free.local_addr().unwrap().port()).collect();
    let server = |number: usize| {
        format!("[[server]]\nnumber = {number}\naddress = \"{address}:{}\"\n", ports[number])
    };
    let topology = format!("cluster = \"blue\"\npartitions = 4\n{}{}", server(0), server(1));
    place.write("cluster.toml", topology.as_bytes());
    (place, ports)
}

/// A server that has said that it listens; killed when this goes.
struct Serving(Child);

impl Serving {
    fn start(place: &Place, number: u32) -> Self {
        Self::start_as(place, number, "--insecure")
    }

    fn start_as(place: &Place, number: u32, tls: &str) -> Self {
        Self::start_of(place, number, "index", tls)
    }

    fn start_of(place: &Place, number: u32, index: &str, tls: &str) -> Self {
        let line = format!(
            "cluster serve --topology cluster.toml {tls} --server {number} --index {index} \
             --buffered --threads 1"
        );
        let mut child = place.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        assert!(told.contains("has 2 of 4 partitions"), "{told}");
        Self(child)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_servers_answer_as_one_and_say_what_is_missing_when_one_is_killed() {
    let (place, _) = place();
    let first = Serving::start(&place, 0);
    let second = Serving::start(&place, 1);
    let whole = place.json(
        "search --index index --queries query.u8bin --truth truth.bin --list 40 --policy relay \
         --width 1 --ahead 1 --switches dynamic=off --buffered",
    );
    let over_two = place.json(SEARCH).remove(0);
    assert_eq!(over_two["failed"], 0);
    for same in ["recall", "reads"] {
        let one = whole[0][same].as_f64().unwrap();
        let two = over_two[same].as_f64().unwrap();
        assert!((one - two).abs() < 1e-3, "{same}: {one} and {two}");
    }
    assert!(over_two["hops"].as_f64().unwrap() > 0.5, "{over_two}");
    // A third of that name is told that somebody listens there.
    let twice = "cluster serve --topology cluster.toml --insecure --server 0 --index index";
    assert!(place.refusal(twice).contains("is already in use"));
    assert_eq!((&over_two["coverage"], &over_two["missing"]), (&1.0.into(), &json!([])));
    drop(second);
    let alone = place.refusal(SEARCH);
    assert!(alone.contains("these did not answer within 10 s: server 1 at 127."), "{alone}");
    assert!(alone.ends_with("(the connection failed: connection refused)"), "{alone}");
    let partial = place.json(&format!("{SEARCH} --partial")).remove(0);
    assert_eq!((&partial["failed"], &partial["coverage"]), (&0.into(), &0.5.into()));
    assert_eq!(partial["missing"], json!([2, 3]));
    assert!(partial["recall"].as_f64() < over_two["recall"].as_f64(), "{partial}");
    drop(first);
}

#[test]
fn the_demo_shows_a_querys_way_and_leaves_nothing() {
    let (place, _) = place();
    let demo = "cluster demo --servers 3 --index index --buffered --queries query.u8bin --list 30";
    let out = place.run(demo);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let told = text(&out.stdout);
    assert!(told.contains("3 servers on this machine, 4 partitions, one graph"), "{told}");
    assert!(told.contains("went farthest: server "), "{told}");
    assert!(told.contains(" -> server "), "{told}");
    let too_many = place.refusal(&demo.replace("--servers 3", "--servers 5"));
    assert!(too_many.contains("5 servers cannot share 4 partitions"), "{too_many}");
}

#[test]
fn counts_need_no_network() {
    let (place, _) = place();
    let line = "cluster count --index index --buffered --queries query.u8bin --truth truth.bin \
        --policy relay --width 1 --ahead 1 --switches dynamic=off --list 40 --servers 1,2,4";
    let rows = place.json(line);
    assert_eq!(rows.len(), 3);
    for row in &rows[1..] {
        assert_eq!((&row["recall"], &row["reads"]), (&rows[0]["recall"], &rows[0]["reads"]));
        assert_eq!(row["differ"], 0);
        assert!(row["hops"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["bytes_a_hop"].as_f64().unwrap() < 2000.0, "{row}");
    }
    assert_eq!((&rows[0]["hops"], &rows[0]["differ"]), (&Value::from(0.0), &Value::Null));
    let states = |row: &Value| -> u64 {
        row["states"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum()
    };
    let moves = |row: &Value| {
        let each = row["hops"].as_f64().unwrap() + row["hops_to_entry"].as_f64().unwrap();
        (each * row["queries"].as_f64().unwrap()).round() as u64
    };
    assert!(rows.iter().all(|row| states(row) == moves(row)), "{rows:?}");
    // A search that looks ahead begins where it came, unless it is handed to its entry's owner.
    let ahead = line.replace("--width 1 --ahead 1", "--width 2 --ahead 8");
    let begun = ["entry", "round-robin"].map(|begin| {
        let row = place.json(&format!("{ahead} --begin {begin}")).remove(2);
        row["hops_to_entry"].as_f64().unwrap()
    });
    assert!(begun[0] > begun[1] && begun[0] <= 1.0, "{begun:?}");
    // Whoever looks ahead reads otherwise where less is at hand, and that shows.
    let ahead = place.json(&line.replace("--ahead 1", "--ahead 8"));
    assert!(ahead[2]["differ"].as_u64().unwrap() > 0, "{ahead:?}");
}

#[test]
fn what_is_no_cluster_is_refused_by_name() {
    let (place, _) = place();
    let serve = "cluster serve --index index --buffered --topology";
    let refused = |name: &str, topology: &str, more: &str| {
        place.write(name, topology.as_bytes());
        place.refusal(&format!("{serve} {name} {more}"))
    };
    let server = |number: u32, more: &str| {
        format!("[[server]]\nnumber = {number}\naddress = \"127.0.0.1:{}\"\n{more}\n", 1 + number)
    };
    let head = "cluster = \"blue\"\npartitions = 4\n";
    let twice = format!(
        "{head}{}{}",
        server(0, "partitions = [0, 1, 2]"),
        server(1, "partitions = [2, 3]")
    );
    let told = refused("twice.toml", &twice, "--server 0 --insecure");
    assert!(told.contains("partition 2 is named twice"), "{told}");
    let missing = format!("{head}{}", server(0, "partitions = [0, 1, 2]"));
    let told = refused("missing.toml", &missing, "--server 0 --insecure");
    assert!(told.contains("partition 3 is owned by no server"), "{told}");
    let told = place.refusal(&format!("{serve} cluster.toml --server 9 --insecure"));
    assert!(told.contains("the topology has no server 9"), "{told}");
    let five = std::fs::read_to_string(place.path("cluster.toml")).unwrap();
    let told = refused("five.toml", &five.replace("= 4", "= 5"), "--server 0 --insecure");
    assert!(told.contains("the index has 4 partitions, the topology 5"), "{told}");
    let told = place.refusal(&format!("{serve} cluster.toml --server 0"));
    assert!(told.contains("or say --insecure"), "{told}");
}

#[test]
fn certificates_let_in_whoever_has_them_and_nobody_else() {
    let (place, _) = place();
    let make = "cluster certificates --topology cluster.toml --out";
    let made = |out: &str| {
        let made = place.run(&format!("{make} {out}"));
        assert!(made.status.success(), "{}", text(&made.stderr));
        text(&made.stdout)
    };
    assert!(made("certificates").contains("certificates of 2 servers"));
    assert!(place.refusal(&format!("{make} certificates")).contains("exists already"));
    let mode =
        |name: &str| std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("certificates"), mode("certificates/ca.key")), (0o700, 0o600));
    made("others");
    let tls = |dir: &str, name: &str| {
        format!("--tls-ca {dir}/ca.pem --tls-cert {dir}/{name}.pem --tls-key {dir}/{name}.key")
    };
    let serving = [0, 1].map(|number| {
        Serving::start_as(&place, number, &tls("certificates", &format!("server-{number}")))
    });
    let search = |tls: &str| SEARCH.replace("--insecure", tls);
    let rows = place.json(&search(&tls("certificates", "client")));
    assert_eq!(rows[0]["failed"], 0);
    for (stranger, why) in [
        (tls("others", "client"), "the peer's certificate is not of this side's authority"),
        (
            "--insecure".to_owned(),
            "the peer asks for certificates (TLS), and this side does without",
        ),
    ] {
        let told = place.refusal(&search(&stranger));
        let begin = "of the 2 servers of the topology these cannot be asked: server 0 at 127.";
        assert!(told.contains(begin) && told.matches(why).count() == 2, "{told}");
    }
    // Another topology of servers that are there.
    let topology = std::fs::read_to_string(place.path("cluster.toml")).unwrap();
    place.write("red.toml", topology.replacen("cluster = \"", "cluster = \"red-", 1).as_bytes());
    let red = search(&tls("certificates", "client")).replace("cluster.toml", "red.toml");
    let told = place.refusal(&red);
    assert!(told.contains("cannot be asked: ") && told.contains("`red-"), "{told}");
    drop(serving);
    // A server that shows the certificate of another one.
    let serve = "cluster serve --topology cluster.toml --index index --buffered --server 0";
    let told = place.refusal(&format!("{serve} {}", tls("certificates", "server-1")));
    assert!(told.contains("--tls-cert is not of `server-0`"), "{told}");
}

#[test]
fn a_server_tells_once_why_somebody_is_no_peer() {
    let (place, _) = place();
    let log = std::fs::File::create(place.path("log")).unwrap();
    let line =
        "cluster serve --topology cluster.toml --insecure --server 0 --index index --buffered";
    let mut first = place.command(line).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let serving = [Serving(first), Serving::start(&place, 1)];
    let made = place.run("cluster certificates --topology cluster.toml --out certificates");
    assert!(made.status.success());
    let tls = "--tls-ca certificates/ca.pem --tls-cert certificates/client.pem \
               --tls-key certificates/client.key";
    for _ in 0..2 {
        place.refusal(&SEARCH.replace("--insecure", tls));
    }
    drop(serving);
    let said = std::fs::read_to_string(place.path("log")).unwrap();
    let told = said.lines().filter(|line| line.contains(": the peer asks for certificates"));
    assert_eq!(told.count(), 1, "{said}");
}

/// A one-dimensional `.npy` of 64-bit integers.
fn npy(values: impl Iterator<Item = i64>) -> Vec<u8> {
    let values: Vec<_> = values.flat_map(i64::to_le_bytes).collect();
    let shape = values.len() / 8;
    let mut text = format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({shape},), }}");
    text.push_str(&" ".repeat(117 - text.len()));
    [b"\x93NUMPY\x01\x00\x76\x00", text.as_bytes(), b"\n", &values].concat()
}

#[test]
fn filters_are_read_where_the_rows_are() {
    let (place, _) = place();
    place.write("down.npy", &npy((0..3000).rev()));
    place.write("few.npy", &npy(0..2999));
    let columns = "--insecure --column down=down.npy";
    let serving = [0, 1].map(|number| Serving::start_as(&place, number, columns));
    // The truth of the first rows alone.
    let mut base = std::fs::read(place.path("base.u8bin")).unwrap();
    let dim = u32::from_le_bytes(base[4..8].try_into().unwrap()) as usize;
    for rows in [1500_u32, 40] {
        base.truncate(8 + rows as usize * dim);
        base[..4].copy_from_slice(&rows.to_le_bytes());
        place.write("first.u8bin", &base);
        place.json(
            "gt --base first.u8bin --queries query.u8bin --k 10 --metric l2 --out first.truth.bin",
        );
        let line = SEARCH.replace("truth.bin", "first.truth.bin");
        let filter = format!("row<{rows}&&down>={}", 3000 - rows);
        place.write("filters.txt", format!("{filter}\n").repeat(60).as_bytes());
        for asked in ["--filters filters.txt".to_owned(), format!("--filter {filter}")] {
            let found = place.json(&format!("{line} {asked}")).remove(0);
            assert_eq!(found["failed"], 0, "{found}");
            assert!(found["recall"].as_f64().unwrap() >= 0.99, "{found}");
        }
        // The same counted in one process, however many servers there are.
        let count = format!(
            "cluster count --index index --buffered --queries query.u8bin --truth first.truth.bin \
             --list 40 --servers 1,2,4 --column down=down.npy --policy relay --filter {filter}"
        );
        let counted = place.json(&count);
        assert!(counted.iter().all(|row| row["recall"] == counted[0]["recall"]), "{counted:?}");
    }
    let refused = |more: &str| place.refusal(&format!("{SEARCH} {more}"));
    assert!(refused("--filter size<3").contains("size"));
    assert!(refused("--filter down<").contains("down<"));
    // The one that lacks a column says so, whoever was asked.
    drop(serving);
    let serving = [("--insecure", 0), (columns, 1)]
        .map(|(columns, number)| Serving::start_as(&place, number, columns));
    let told = refused("--filter row<40&&down>=2960");
    assert!(told.contains("server 0: ") && told.contains("down"), "{told}");
    let few =
        "cluster serve --topology cluster.toml --insecure --server 0 --index index --buffered";
    drop(serving);
    let told = place.refusal(&format!("{few} --column few=few.npy"));
    assert!(told.contains("few.npy has 2999 values, the index 3000 rows"), "{told}");
    let told = place.refusal(&format!("{few} --column few=base.u8bin"));
    assert!(told.contains("NumPy's magic"), "{told}");
}

#[test]
fn every_server_can_be_asked_for_rows_of_its_own() {
    let (place, _) = place();
    let split = "cluster split --topology cluster.toml --from index --buffered --out separate";
    let told = place.run(split);
    assert!(told.status.success(), "{}", text(&told.stderr));
    let rows: u64 = [0, 1]
        .map(|number| {
            let line = format!("inspect --index separate/server-{number} --buffered");
            place.json(&line)[0]["rows"].as_u64().unwrap()
        })
        .iter()
        .sum();
    assert_eq!(rows, 3000);
    assert!(place.refusal(split).contains("exists already"));
    // With another server's, answers would have rows twice and lack others. Without slots none would come.
    for more in ["", "--replica"] {
        let line = "cluster serve --topology cluster.toml --insecure --index index --buffered";
        let told = place.refusal(&format!("{line} --server 1 {more} --separate separate/server-0"));
        assert!(told.contains("separate/server-0") && told.contains("server 1 has"), "{told}");
        let none = place.run(&format!("{line} --server 1 {more} --slots 0 --until-eof"));
        assert!(!none.status.success() && text(&none.stderr).contains("--slots"), "no queries");
    }
    let serve = |number: u32, more: &str| Serving::start_as(&place, number, more);
    let alone = |number: u32| format!("--insecure --separate separate/server-{number}");
    let first = serve(0, &alone(0));
    let second = serve(1, &alone(1));
    let relay = place.json(SEARCH).remove(0);
    let scattered = place.json(&format!("{SEARCH} --mode scatter")).remove(0);
    assert_eq!((&scattered["failed"], &scattered["hops"]), (&0.into(), &0.0.into()));
    let of = |row: &Value, name: &str| row[name].as_f64().unwrap();
    assert!(of(&scattered, "recall") > of(&relay, "recall") - 0.01, "{scattered} {relay}");
    assert!(of(&scattered, "reads") > 1.3 * of(&relay, "reads"), "{scattered} {relay}");
    // Filters are read where each server's own rows are.
    let filter = "--filter row<1500";
    let among = place.json(&format!("{SEARCH} --mode scatter {filter}")).remove(0);
    let relayed = place.json(&format!("{SEARCH} {filter}")).remove(0);
    assert_eq!(among["failed"], 0, "{among}");
    assert!((of(&among, "recall") - of(&relayed, "recall")).abs() < 0.02, "{among} {relayed}");
    // Of two servers six results each are enough for most of ten, and cost less.
    let few = SEARCH.replace("--list 40", "--list 12");
    let fewer = place.json(&format!("{few} --mode scatter --each 6")).remove(0);
    assert!(of(&fewer, "reads") < of(&scattered, "reads"), "{fewer} {scattered}");
    assert!(of(&fewer, "recall") > 0.3, "{fewer}");
    assert!(place.refusal(&format!("{SEARCH} --each 6")).contains("--mode scatter"));
    drop(second);
    let partial = place.json(&format!("{SEARCH} --mode scatter --partial")).remove(0);
    assert_eq!((&partial["failed"], &partial["missing"]), (&0.into(), &json!([2, 3])));
    // Whoever has none of its own says so, and the query fails by name.
    let without = serve(1, "--insecure");
    let told = place.refusal(&format!("{SEARCH} --mode scatter"));
    assert!(told.contains("no index of its own rows"), "{told}");
    drop((first, without));
}

#[test]
fn queries_are_asked_at_a_rate() {
    let (place, _) = place();
    let serving = [0, 1].map(|number| Serving::start(&place, number));
    let row = place.json(&format!("{SEARCH} --rate 200 --warm 10")).remove(0);
    assert_eq!((&row["queries"], &row["failed"]), (&40.into(), &0.into()));
    // The last of forty is due after 39 parts of 200 of a second.
    assert!(row["qps"].as_f64().unwrap() < 40.0 / (39.0 / 200.0), "{row}");
    assert!(place.refusal(&format!("{SEARCH} --rate 0")).contains("--rate"));
    assert!(place.refusal(&format!("{SEARCH} --warm 50")).contains("--warm"));
    drop(serving);
}

#[test]
fn a_range_of_distances_travels() {
    let (place, _) = place();
    let serving = [0, 1].map(|number| Serving::start(&place, number));
    let reads = |more: &str| {
        let row = place.json(&format!("{SEARCH} {more}")).remove(0);
        assert_eq!(row["failed"], 0, "{row}");
        row["reads"].as_f64().unwrap()
    };
    assert!(reads("--within ,0.5") < reads(""), "a range that holds nothing takes less");
    assert!(reads("--within 100,") > 0.0);
    for (range, words) in [("7", "NEAR,FAR"), ("1,x", "x: "), ("nan,3", "is NaN")] {
        let out = place.run(&format!("{SEARCH} --within {range}"));
        assert!(!out.status.success() && text(&out.stderr).contains(words), "{range}");
    }
    drop(serving);
}

#[test]
fn a_client_that_keeps_the_list_finds_what_a_beam_finds_at_the_same_reads() {
    let (place, _) = place();
    let serving = [0, 1].map(|number| Serving::start(&place, number));
    let beam = "search --index index --queries query.u8bin --truth truth.bin --list 40 --policy beam \
        --width 1 --buffered";
    let whole = place.json(beam).remove(0);
    let kept = place.json(&format!("{SEARCH} --mode distributed-ann")).remove(0);
    let count = "cluster count --index index --buffered --queries query.u8bin --truth truth.bin \
        --list 40 --servers 2 --mode";
    let counted = place.json(&format!("{count} distributed-ann --width 1")).remove(0);
    let of = |row: &Value, name: &str| row[name].as_f64().unwrap();
    for name in ["recall", "reads"] {
        assert!((of(&whole, name) - of(&kept, name)).abs() < 1e-3, "{whole} {kept}");
        assert_eq!(of(&kept, name), of(&counted, name), "{kept} {counted}");
    }
    // Whoever passes a query on sends far fewer messages.
    assert_eq!(of(&kept, "messages"), of(&counted, "messages"), "{kept} {counted}");
    let relay = place.json(&format!("{count} relay")).remove(0);
    let two = SEARCH.replace("--width 1 --ahead 1", "--width 2 --ahead 8");
    let asked = place.json(&two).remove(0);
    // Which of two reads comes first is a matter of the device.
    assert!((of(&relay, "recall") - of(&asked, "recall")).abs() < 0.02, "{relay} {asked}");
    assert!(of(&kept, "messages") > 4.0 * of(&relay, "messages"), "{kept} {relay}");
    // With every record of a page it takes fewer of them, counted as asked.
    let packed = place.json(&format!("{SEARCH} --mode distributed-ann --packed")).remove(0);
    let counted = place.json(&format!("{count} distributed-ann --width 1 --packed")).remove(0);
    for name in ["recall", "reads", "messages"] {
        assert_eq!(of(&packed, name), of(&counted, name), "{packed} {counted}");
    }
    assert!(of(&packed, "recall") > of(&kept, "recall") - 0.01, "{packed} {kept}");
    assert!(of(&packed, "reads") < of(&kept, "reads"), "{packed} {kept}");
    let told = place.refusal(&format!("{SEARCH} --packed"));
    assert!(told.contains("--packed goes with --mode distributed-ann"), "{told}");
    let told = place.refusal(&format!("{SEARCH} --mode distributed-ann --filter row<9"));
    assert!(told.contains("takes no filter"), "{told}");
    drop(serving);
}

#[test]
fn one_index_is_searched_while_servers_of_another_are_named_with_the_reason() {
    let (place, _) = place();
    let build = "build --base base.u8bin --index other --metric l2 --partitions 4";
    place.json(&format!("{build} {SMALL}"));
    let first = Serving::start(&place, 0);
    let second = Serving::start_of(&place, 1, "other", "--insecure");
    let told = place.json(&format!("{SEARCH} --deadline-ms 3000 --partial")).remove(0);
    assert_eq!((&told["failed"], &told["coverage"]), (&0.into(), &0.5.into()), "{told}");
    let lacks = &told["missing"];
    assert!([json!([0, 1]), json!([2, 3])].contains(lacks), "answers of two indexes: {told}");
    // Where no partial answer will do, whoever needs the other is told why it is not there.
    let alone = SEARCH.replace("--list 40", "--list 1000").replace("--ahead 1", "--k 1000");
    let told = place.refusal(&alone.replace(" --truth truth.bin", ""));
    assert!(told.contains("is gone: ") && told.contains("serves index "), "{told}");
    drop((first, second));
}

#[test]
fn a_partition_whose_file_is_missing_is_named_and_asks_nothing_of_other_servers() {
    let (place, _) = place();
    let files = |part: &str| {
        let dir = place.path("index").join(part);
        let names = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
        names.filter(|path| !path.to_string_lossy().contains("codes")).collect::<Vec<_>>()
    };
    let gone = files("part-0002");
    assert!(!gone.is_empty());
    for file in &gone {
        std::fs::remove_file(file).unwrap();
    }
    let first = Serving::start(&place, 0);
    let serve = "cluster serve --topology cluster.toml --insecure --index index --buffered";
    let told = place.refusal(&format!("{serve} --server 1"));
    assert!(told.contains("part-0002"), "{told}");
    let partial = place.json(&format!("{SEARCH} --partial")).remove(0);
    assert_eq!((&partial["failed"], &partial["missing"]), (&0.into(), &json!([2, 3])));
    drop(first);
}

#[test]
fn the_nearest_servers_alone_are_asked_by_their_centroids() {
    let (place, _) = place();
    let split = "cluster split --topology cluster.toml --from index --buffered --out separate";
    assert!(place.run(split).status.success());
    let serving = [0, 1].map(|number| {
        let more = format!("--insecure --separate separate/server-{number}");
        Serving::start_as(&place, number, &more)
    });
    let search = |more: &str| place.json(&format!("{SEARCH} --mode scatter {more}")).remove(0);
    let of = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let (all, one) = (search(""), search("--nearest 1 --centroids separate/centroids"));
    let both = search("--nearest 2 --centroids separate/centroids");
    assert_eq!((of(&all, "messages"), of(&one, "messages")), (4.0, 2.0));
    assert!(of(&one, "reads") < 0.7 * of(&all, "reads"), "{one} {all}");
    assert!(of(&one, "recall") > 0.5 && of(&one, "recall") < of(&all, "recall"), "{one} {all}");
    assert_eq!((&both["recall"], &both["reads"]), (&all["recall"], &all["reads"]));
    // The same in one process.
    let count = "cluster count --index index --buffered --queries query.u8bin --truth truth.bin \
        --list 40 --servers 2 --mode scatter --width 1 --separate separate";
    for (nearest, row) in [("--nearest 1", &one), ("", &all)] {
        let counted = place.json(&format!("{count} {nearest}")).remove(0);
        for name in ["recall", "reads", "messages"] {
            assert_eq!(of(&counted, name), of(row, name), "{counted} {row}");
        }
    }
    let refused = |more: &str| place.refusal(&format!("{SEARCH} {more}"));
    assert!(refused("--nearest 1").contains("--mode scatter"));
    assert!(refused("--mode scatter --nearest 1").contains("go together"));
    let other = "--mode scatter --nearest 1 --centroids cluster.toml";
    assert!(refused(other).contains("these are no centroids"), "{}", refused(other));
    drop(serving);
}

#[test]
fn replicas_are_asked_in_turn_or_by_region() {
    let (place, _) = place();
    let serving = [0, 1].map(|number| {
        let line = format!(
            "cluster serve --topology cluster.toml --insecure --server {number} --index index \
             --buffered --threads 1 --replica"
        );
        let mut child = place.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        assert!(told.contains("has 4 of 4 partitions"), "{told}");
        Serving(child)
    });
    let search = |more: &str| place.json(&format!("{SEARCH} --mode replicas {more}")).remove(0);
    let (in_turn, by_region) = (search("--by round-robin"), search("--by region"));
    assert_eq!(
        (&in_turn["recall"], &in_turn["reads"]),
        (&by_region["recall"], &by_region["reads"])
    );
    let hops = |row: &Value| row["hops"].as_f64().unwrap();
    assert_eq!(hops(&in_turn), 0.0);
    assert!(hops(&by_region) > 0.2 && hops(&by_region) < 0.8, "{by_region}");
    assert!(place.refusal(&format!("{SEARCH} --by region")).contains("--mode replicas"));
    drop(serving);
}
