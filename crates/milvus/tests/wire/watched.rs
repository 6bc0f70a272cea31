//! Metrics, health, and searches that are done while others wait.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use pipeann_milvus::proto::milvus as wire;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::rows::search;
use crate::served::{Served, assert_ok};

fn get(served: &Served, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(served.listening.metrics_address().unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The value of a series, if it is told.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map(|value| value.trim().parse().unwrap())
}

#[test]
fn what_a_collection_is_asked_is_counted_until_it_is_dropped() {
    let served = Served::new();
    served.filled("a", 3);
    served.filled("b", 1);
    let top = [("topk", "2")];
    assert_ok(&served.call(served.client().search(search(&[1.0, 2.0], &top))).status.unwrap());
    let filtered = wire::SearchRequest { dsl: "id < 2".into(), ..search(&[1.0], &top) };
    assert_ok(&served.call(served.client().search(filtered)).status.unwrap());
    let bad = wire::SearchRequest { dsl: "nothing <".into(), ..search(&[1.0], &top) };
    assert_eq!(served.call(served.client().search(bad)).status.unwrap().code, 1100);
    let unknown = wire::SearchRequest { collection_name: "made_up".into(), ..search(&[1.0], &top) };
    assert_eq!(served.call(served.client().search(unknown)).status.unwrap().code, 100);

    let (head, text) = get(&served, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    let of_a = |name: &str, more: &str| {
        value(&text, &format!("{name}{{database=\"default\",collection=\"a\"{more}}}"))
    };
    assert_eq!(of_a("pipeann_rows", ""), Some(3.0));
    assert_eq!(of_a("pipeann_requests_total", ",call=\"Search\""), Some(3.0));
    assert_eq!(of_a("pipeann_requests_total", ",call=\"Insert\""), Some(1.0));
    assert_eq!(of_a("pipeann_failures_total", ",call=\"Search\",code=\"1100\""), Some(1.0));
    assert_eq!(of_a("pipeann_search_queries_total", ""), Some(3.0));
    assert_eq!(of_a("pipeann_search_hits_total", ""), Some(6.0));
    assert_eq!(of_a("pipeann_filtered_searches_total", ""), Some(1.0));
    assert_eq!(of_a("pipeann_search_joined_sum", ""), Some(2.0));
    for stage in ["queue", "search", "rows", "encoding"] {
        let stage = format!(",stage=\"{stage}\"");
        assert_eq!(of_a("pipeann_search_stage_seconds_count", &stage), Some(2.0), "{stage}");
    }
    assert_eq!(value(&text, "pipeann_searches_waiting"), Some(0.0));
    assert!(value(&text, "process_resident_memory_bytes").unwrap() > 1e6);
    assert!(value(&text, "pipeann_memory_bytes{pool=\"query_scratch\"}").is_some());
    let none = "pipeann_failures_total{database=\"\",collection=\"\",call=\"Search\",code=\"100\"}";
    assert_eq!(value(&text, none), Some(1.0));
    assert!(!text.contains("made_up"), "nobody makes up series");
    assert!(text.ends_with("# EOF\n"));

    let drop = wire::DropCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(served.client().drop_collection(drop)));
    let (_, text) = get(&served, "/metrics");
    assert!(!text.contains("collection=\"a\""), "{text}");
    assert!(text.contains("collection=\"b\""));
}

#[test]
fn health_is_told_by_http_and_by_grpc_without_a_token() {
    let served = Served::guarded(Some("root:Milvus"));
    assert_eq!(get(&served, "/healthz").1, "OK");
    assert_eq!(get(&served, "/readyz").1, "OK");
    assert!(get(&served, "/else").0.starts_with("HTTP/1.1 404"));
    let channel = served.runtime.block_on(served.endpoint().connect()).unwrap();
    let mut client = HealthClient::new(channel);
    for service in ["", "milvus.proto.milvus.MilvusService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let health = served.call(client.check(request));
        assert_eq!(health.status(), ServingStatus::Serving, "{service}");
    }
}

#[test]
fn a_search_whose_time_has_passed_or_whose_client_goes_harms_nobody() {
    let served = Served::new();
    served.filled("a", 20);
    let mut request = Request::new(search(&[1.0; 64], &[("topk", "5")]));
    request.set_timeout(Duration::from_nanos(1));
    // Whoever notices first tells: gRPC, or the scheduler by a status.
    match served.runtime.block_on(served.client().search(request)) {
        Err(late) => {
            assert!(matches!(late.code(), Code::Cancelled | Code::DeadlineExceeded), "{late}");
        }
        Ok(late) => {
            let status = late.into_inner().status.unwrap();
            assert!(status.code != 0 && status.reason.contains("deadline"), "{status:?}");
        }
    }
    for _ in 0..20 {
        let mut client = served.client();
        let asked = search(&[1.0; 256], &[("topk", "5")]);
        let asking = served.runtime.spawn(async move { client.search(asked).await });
        asking.abort();
    }
    let found = served.call(served.client().search(search(&[7.0], &[("topk", "1")])));
    assert_ok(&found.status.unwrap());
    assert_eq!(found.results.unwrap().topks, [1]);
}

/// Many at once, so that some wait and are done together: each gets its own answer.
#[test]
fn searches_that_wait_get_their_own_answers() {
    let served = Served::new();
    served.filled("a", 50);
    let client = served.client();
    let each = (0..200i64).map(|asked| {
        let mut client = client.clone();
        let k = (asked % 7 + 1).to_string();
        let request = search(&[(asked % 50) as f32], &[("topk", &k)]);
        served.runtime.spawn(async move { (asked, client.search(request).await.unwrap()) })
    });
    for answer in each.collect::<Vec<_>>() {
        let (asked, found) = served.runtime.block_on(answer).unwrap();
        let results = found.into_inner().results.unwrap();
        assert_eq!(results.topks, [asked % 7 + 1]);
        assert_eq!(crate::rows::numbers(results.ids)[0], asked % 50);
    }
}
