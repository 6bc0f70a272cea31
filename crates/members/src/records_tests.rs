//! What is kept in etcd reads back, and bytes of others do not.

use super::*;

fn seat() -> ServerSeat {
    let info = ServerInfo {
        id: Uuid::from_u128(1),
        name: "one".into(),
        address: "a:1".into(),
        peer_address: "a:2".into(),
        version: "0.1.0".into(),
        formats: SharedFormats { writes: 2, oldest_read: 1, newest_read: 3 },
        regions: vec!["eu".into()],
        key: ServerKey::of("secret".into()),
        guards: Some(["--token"].into_iter().collect()),
        started_ms: u64::MAX,
    };
    ServerSeat { info, instance: Uuid::from_u128(2) }
}

#[test]
fn records_are_read_as_they_are_written() {
    assert_eq!(ServerSeat::decode(&seat().encode()).unwrap(), seat());
    let charter = Charter { cluster: Uuid::from_u128(3), ttl_s: 5 };
    assert_eq!(Charter::decode(&charter.encode()).unwrap(), charter);
    let throne = Throne { server: Uuid::from_u128(3), address: "a:1".into(), term: TERM_MAX };
    assert_eq!(Throne::decode(&throne.encode()).unwrap(), throne);
    assert_eq!(NewestTerm::decode(br#"{"format":1,"term":7}"#).unwrap(), NewestTerm(7));
    assert_eq!(
        AddressHolder::decode(&AddressHolder(Uuid::max()).encode()).unwrap(),
        AddressHolder(Uuid::max())
    );
}

#[test]
fn a_later_version_may_add_fields_and_change_the_format() {
    let text = String::from_utf8(seat().encode()).unwrap();
    let more = text.replacen('{', r#"{"zone":{"deep":[1]},"#, 1);
    assert_eq!(ServerSeat::decode(more.as_bytes()).unwrap(), seat());
    let fewer = text.replace(r#""regions":["eu"],"#, "");
    assert!(ServerSeat::decode(fewer.as_bytes()).unwrap().info.regions.is_empty());
    let keyless = ServerSeat::decode(text.replace(r#""key":"secret","#, "").as_bytes()).unwrap();
    assert_eq!(keyless.info.key, ServerKey::default());
    assert!(!format!("{:?}", seat()).contains("secret"), "it is not told by accident");
    let told = r#""formats":{"writes":2,"oldest_read":1,"newest_read":3},"#;
    let untold = ServerSeat::decode(text.replace(told, "").as_bytes()).unwrap();
    assert_eq!(untold.info.formats, SharedFormats::FIRST);
    let silent = text.replace(r#""guards":["--token"],"#, "");
    assert_eq!(ServerSeat::decode(silent.as_bytes()).unwrap().info.guards, None);
    assert_eq!(ServerSeat::decode(br#"{"format":2}"#), Err(Unreadable::Newer(2)));
}

#[test]
fn garbage_is_told_from_records() {
    let garbage = |bytes: &[u8]| {
        assert!(matches!(NewestTerm::decode(bytes), Err(Unreadable::Garbage(_))), "{bytes:?}");
    };
    garbage(b"");
    garbage(b"\xff\xfe");
    garbage(b"7");
    garbage(br#"{"term":7}"#);
    garbage(br#"{"format":0,"term":7}"#);
    garbage(br#"{"format":1,"term":-7}"#);
    garbage(br#"{"format":1,"term":0}"#);
    garbage(br#"{"format":1,"term":18446744073709551615}"#);
    garbage(&vec![b' '; RECORD_MAX + 1]);
    garbage("[".repeat(RECORD_MAX).as_bytes());
    let wrong = String::from_utf8(seat().encode()).unwrap().replace("a:1", "nowhere");
    assert!(matches!(ServerSeat::decode(wrong.as_bytes()), Err(Unreadable::Garbage(_))));
}
