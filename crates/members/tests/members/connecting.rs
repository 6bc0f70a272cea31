//! What is refused when connecting, and how: names, credentials, certificates, what cannot be reached.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pipeann_members::etcd::{Etcd, Options, TlsFiles};
use pipeann_members::{Coordinator, Error};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use uuid::Uuid;

use crate::etcd_process::EtcdProcess;
use crate::tools::{LONG, await_lead, await_that, connect, info, options};

fn refused(urls: &[&str], options: Options) -> Error {
    Etcd::connect(urls, options).map(|_| ()).unwrap_err()
}

#[test]
fn two_clusters_of_one_name_are_told_apart() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let first = connect(&etcd.url());
    let mut other = options();
    other.cluster = Uuid::from_u128(5);
    let error = refused(&[&etcd.url()], other.clone());
    assert!(matches!(&error, Error::OtherCluster { name, .. } if name == "blue"), "{error}");
    assert!(error.to_string().contains("`etcdctl del --prefix /pipeann/blue/` frees"), "{error}");
    other.cluster_name = "green".into();
    let second = Etcd::connect(&[&etcd.url()], other).unwrap();
    let _member = second.join(info(1)).unwrap();
    let _member = first.join(info(1)).unwrap();
    assert_eq!((first.servers().len(), second.servers().len()), (1, 1));
}

#[test]
fn the_first_decides_how_long_leases_are() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let first = connect(&etcd.url());
    let longer = Options { ttl: Duration::from_secs(30), ..options() };
    let second = Etcd::connect(&[&etcd.url()], longer).unwrap();
    assert_eq!(second.ttl(), first.ttl());
}

#[test]
fn what_cannot_be_reached_is_told_in_time() {
    let brief = || Options { connect_timeout: Duration::from_millis(300), ..options() };
    let begun = Instant::now();
    let error = refused(&["http://127.0.0.1:1", "http://127.0.0.1:2"], brief());
    assert!(matches!(&error, Error::Unreachable { .. }) && error.is_passing(), "{error}");
    assert!(error.to_string().contains("http://127.0.0.1:2"), "{error}");
    // One that takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    assert!(matches!(refused(&[&url], brief()), Error::Unreachable { .. }));
    assert!(begun.elapsed() < LONG);
    for url in ["127.0.0.1:1", "ftp://a:1", "http://", "https://127.0.0.1:1"] {
        let error = refused(&[url], brief());
        assert!(matches!(error, Error::Invalid { what: "URL of etcd", .. }), "{url}: {error}");
    }
    assert!(matches!(refused(&[], brief()), Error::Invalid { .. }));
}

#[test]
fn the_next_url_is_taken_where_one_does_not_answer() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let coordinator = Etcd::connect(&["http://127.0.0.1:1", &etcd.url()], options()).unwrap();
    coordinator.join(info(1)).unwrap();
}

#[test]
fn users_prove_who_they_are() {
    let Some(etcd) = EtcdProcess::start() else { return };
    let post = |path: &str, body: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", etcd.port())).unwrap();
        let head = format!("POST /v3/auth/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    };
    post("user/add", r#"{"name":"root","password":"secret"}"#);
    post("role/add", r#"{"name":"root"}"#);
    post("user/grant", r#"{"user":"root","role":"root"}"#);
    post("enable", "{}");
    let with = |user: Option<(&str, &str)>| {
        let user = user.map(|(name, password)| (name.to_owned(), password.to_owned()));
        Options { user, ..options() }
    };
    for wrong in [None, Some(("root", "guess")), Some(("nobody", "secret"))] {
        let error = refused(&[&etcd.url()], with(wrong));
        assert!(matches!(error, Error::Credentials(_)), "{wrong:?}: {error}");
    }
    let coordinator = Etcd::connect(&[&etcd.url()], with(Some(("root", "secret")))).unwrap();
    let member = coordinator.join(info(1)).unwrap();
    member.campaign(1, 0).unwrap();
    await_lead(&*member, 1);
}

#[test]
fn certificates_are_asked_for_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let authority = || {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ours = authority();
    let signed = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ours).unwrap();
        (write(name, certificate.pem()), write(&format!("{name}.key"), key.serialize_pem()))
    };
    let (certificate, key) = signed("etcd");
    let identity = signed("client");
    let trusted = write("ca", ours.pem());
    let flags = [
        format!("--cert-file={}", certificate.display()),
        format!("--key-file={}", key.display()),
        format!("--trusted-ca-file={}", trusted.display()),
        "--client-cert-auth".to_owned(),
    ];
    let Some(etcd) = EtcdProcess::start_with(&flags) else { return };
    let with = |authority, identity, connect_timeout| {
        let tls = Some(TlsFiles { authority, identity, server_name: None });
        Options { tls, connect_timeout: Duration::from_secs(connect_timeout), ..options() }
    };
    let stranger = write("other", authority().pem());
    for bad in [with(trusted.clone(), None, 2), with(stranger, Some(identity.clone()), 2)] {
        let error = refused(&[&etcd.url()], bad);
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    }
    let good = with(trusted, Some(identity), 20);
    let coordinator = Etcd::connect(&[&etcd.url()], good).unwrap();
    let _member = coordinator.join(info(1)).unwrap();
    await_that("a server", || coordinator.servers().len() == 1);
}
