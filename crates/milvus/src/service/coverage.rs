//! `docs/milvus-coverage.md`, made of the list of calls and of what is said here about features.

use std::fmt::Write as _;

use super::calls::CALLS;
use super::routes::ServedCall;

const HEAD: &str = "\
# What of Milvus is served

`pipeann serve` speaks the gRPC protocol of Milvus 2.6. This page is made from the code by
`cargo run -p pipeann-milvus --example coverage > docs/milvus-coverage.md`, and a test compares them.

## Features

| feature | served | how |
|---|---|---|
";

const CLUSTER: &str = "\
*Cluster* says who answers where there are several servers, whichever is asked: that one itself when its
data is as new as the call asks for (*local*), the one that leads, to which the call is sent on as it came
(*forwarded*), or that one itself since the call is about its process (*process*). A page of an iterator is
answered by the server that began it. What is not served is refused by each (see
[decision 47](decisions/0047-any-server-takes-any-call.md)).

";

/// Name of a feature, whether it is served, and how or how not.
const FEATURES: [(&str, &str, &str); 31] = [
    ("float, float16, bfloat16 and int8 vectors", "yes", "by L2 (squared), IP and COSINE"),
    (
        "binary vectors",
        "partly",
        "by HAMMING and JACCARD; not by SUBSTRUCTURE, SUPERSTRUCTURE, MHJACCARD",
    ),
    ("sparse vectors", "partly", "stored and read, not indexed or searched"),
    (
        "int64 and varchar keys, assigned keys",
        "yes",
        "with `allow_insert_auto_id` keys that rows bring are kept; a row that has one of them is replaced",
    ),
    (
        "bool, int8 to int64, float, double, varchar, JSON, arrays, timestamptz",
        "yes",
        "instants in UTC: a `timezone` of a collection or a request is refused",
    ),
    ("nullable fields, defaults, dynamic fields", "yes", "vectors are never null"),
    ("geometry, text and structure fields, arrays of vectors", "no", ""),
    (
        "functions: BM25, text embedding, reranking, MinHash",
        "partly",
        "`rrf` and `weighted` in a hybrid search alone; text to be matched (`enable_match`) is refused too",
    ),
    ("partitions, partition keys", "yes", ""),
    (
        "clustering keys",
        "partly",
        "kept and told; nothing is sorted by them, and clustering compaction is refused",
    ),
    ("databases, aliases", "yes", "by the request, or by `dbname` in the metadata"),
    (
        "index types",
        "partly",
        "HNSW, HNSW_SQ, HNSW_PQ, HNSW_PRQ, DISKANN, IVF_FLAT, IVF_SQ8, IVF_PQ, IVF_RABITQ, SCANN and AUTOINDEX \
         are one graph on disk; FLAT, which Milvus Lite calls BRUTE_FORCE, is an exact scan",
    ),
    (
        "building",
        "yes",
        "at `CreateIndex`, behind the answer; later rows join the graph as they come",
    ),
    (
        "scalar indexes",
        "yes",
        "INVERTED, BITMAP, STL_SORT, Trie, HYBRID, NGRAM and AUTOINDEX are accepted; every scalar field has an index anyway",
    ),
    ("filters", "yes", "see [the filter language](filter-language.md); templates too"),
    (
        "search parameters",
        "yes",
        "`ef`, `search_list` and `L` are the length of the candidate list, `nprobe` counts eight of it; `order_by_fields` and `group_by_fields` are refused, others ignored",
    ),
    ("range search", "yes", "`radius` and `range_filter`"),
    (
        "grouping search",
        "yes",
        "by integers, bools, texts and instants; at most 65,536 rows are looked at for a query",
    ),
    (
        "hybrid search",
        "yes",
        "`rrf` and `weighted`, as rankers and as functions of the type `RERANK`",
    ),
    (
        "search and query iterators",
        "yes",
        "both kinds; every page is as of the first one, for the 256 iterators that were read last, within ten minutes of \
         the page before; pages behind that are as of now, and may leave out rows that are equally far. Of rows that \
         are equally far at most 16,384 are given. Of several servers the one that began it answers its pages",
    ),
    (
        "consistency levels, guarantee timestamps",
        "yes",
        "every read of a server that is alone is strong; of several, each level means what it says, and a bounded read has the client's last write too",
    ),
    (
        "changes that are sent again",
        "yes",
        "under the same `client-request-id`, by the same user and with the same content, within ten minutes: made once and \
         answered as before; not those of several steps (`AlterCollection`, loads, releases, `CreateIndex`)",
    ),
    ("rows by key order, limit, offset, `count(*)`", "yes", "no other aggregates, no other order"),
    (
        "partial update (upsert of some fields)",
        "yes",
        "rows stay in their partition unless one is named; dynamic keys are taken one by one; arrays \
         are replaced whole",
    ),
    (
        "time to live",
        "yes",
        "`collection.ttl.seconds`; a row that was there before it was set lives that long from then on",
    ),
    (
        "users, roles, privileges",
        "yes",
        "with `--authorization`, off unless given; or one token for all (`--token`); what tells what there is can be \
         revoked from `public`, and names that may not be seen are then answered as ones that are not there",
    ),
    (
        "TLS",
        "yes",
        "with `--tls_cert` and `--tls_key`; clients show certificates too with `--tls_client_ca`",
    ),
    (
        "health and metrics",
        "yes",
        "`grpc.health.v1.Health`; `/healthz` and `/metrics` on port 9091, in names of our own",
    ),
    ("REST", "no", ""),
    (
        "bulk import, snapshots, replication, resource groups",
        "no",
        "see `pipeann db` for loading and backups",
    ),
    (
        "limits",
        "",
        "64 databases, 65,536 collections, 1,024 partitions of one; 64 fields, 10 of them vectors of 2 to 32,768 \
         dimensions; names of 255 bytes, texts of 65,535, texts that are primary keys of 32,760 (a zero byte counts \
         twice), JSON of 65,536; arrays of 4,096. A request has at most 64 MiB and 16,384 query vectors, finds at \
         most 16,384 rows with its offset for each and 4,194,304 for all, and an answer has at most 256 MiB",
    ),
];

/// The page.
pub fn coverage() -> String {
    let mut page = String::from(HEAD);
    let mut row = |cells: [&str; 3]| {
        let [name, served, how] = cells;
        writeln!(page, "| {name} | {served} | {how} |").expect("a text takes all");
    };
    FEATURES.iter().for_each(|(name, served, how)| row([name, served, how]));
    page.push_str("\n## Calls\n\nAll others are answered as unimplemented.\n\n");
    page.push_str(CLUSTER);
    page.push_str("| call | served | cluster | but |\n|---|---|---|---|\n");
    for ServedCall { name, route, but } in CALLS {
        let (served, cluster) = (if but.is_empty() { "yes" } else { "partly" }, route.name());
        writeln!(page, "| {name} | {served} | {cluster} | {but} |").expect("a text takes all");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_code_says() {
        let page = include_str!("../../../../docs/milvus-coverage.md");
        let made = coverage();
        assert!(page == made, "make it anew: see the page's second paragraph");
    }

    #[test]
    fn every_call_of_the_definition_is_listed() {
        let definition = include_str!("../../proto/milvus.proto");
        let calls = definition.lines().filter_map(|line| line.trim().strip_prefix("rpc "));
        let calls: Vec<&str> = calls.filter_map(|call| call.split('(').next()).collect();
        let listed: Vec<&str> = CALLS.iter().map(|call| call.name).collect();
        assert_eq!(calls, listed);
    }
}
