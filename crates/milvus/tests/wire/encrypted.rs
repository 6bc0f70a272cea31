//! Encrypted connections. The certificates in `tests/tls` are of no authority, and for tests only.

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::milvus_service_client::MilvusServiceClient;
use pipeann_milvus::{ServeOptions, ServerTls};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::served::{Served, assert_ok};

const CA: &[u8] = include_bytes!("../tls/ca.pem");

fn tls() -> ServerTls {
    ServerTls {
        certificate: include_bytes!("../tls/server.pem").to_vec(),
        key: include_bytes!("../tls/server.key").to_vec(),
        client_ca: None,
    }
}

fn serving(tls: ServerTls) -> Served {
    Served::with(ServeOptions { tls: Some(tls), ..ServeOptions::default() })
}

/// Whether a client is answered.
fn is_answered(served: &Served, config: ClientTlsConfig) -> bool {
    let address = format!("https://{}", served.listening.address());
    let endpoint = Endpoint::from_shared(address).unwrap().tls_config(config).unwrap();
    let answer = async {
        let channel = endpoint.connect().await.ok()?;
        let mut client = MilvusServiceClient::new(channel);
        let answer = client.get_version(wire::GetVersionRequest {}).await.ok()?.into_inner();
        assert_ok(&answer.status.unwrap());
        Some(())
    };
    served.runtime.block_on(answer).is_some()
}

fn client() -> ClientTlsConfig {
    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(CA)).domain_name("localhost")
}

#[test]
fn clients_that_trust_the_certificate_are_answered() {
    let served = serving(tls());
    assert!(is_answered(&served, client()));
    assert!(!is_answered(&served, client().domain_name("example.org")));
    let plain = served.runtime.block_on(async {
        let mut client = MilvusServiceClient::new(served.endpoint().connect().await.ok()?);
        client.get_version(wire::GetVersionRequest {}).await.ok()
    });
    assert!(plain.is_none(), "nothing is answered that is not encrypted");
}

#[test]
fn clients_show_a_certificate_where_one_is_asked_for() {
    let served = serving(ServerTls { client_ca: Some(CA.to_vec()), ..tls() });
    assert!(!is_answered(&served, client()));
    let (pem, key) = (include_bytes!("../tls/client.pem"), include_bytes!("../tls/client.key"));
    assert!(is_answered(&served, client().identity(Identity::from_pem(pem, key))));
}

#[test]
fn a_certificate_that_is_none_is_refused() {
    for broken in [
        ServerTls { key: b"no key".to_vec(), ..tls() },
        ServerTls { certificate: Vec::new(), ..tls() },
    ] {
        let options = ServeOptions {
            host: "127.0.0.1".into(),
            port: 0,
            tls: Some(broken),
            ..ServeOptions::default()
        };
        let error = Served::try_listen(options).unwrap_err().to_string();
        assert!(error.starts_with("connections cannot be encrypted: "), "{error}");
    }
}
