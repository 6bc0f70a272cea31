//! Both sides authenticated: certificates of the cluster's own authority, TLS 1.3 only.
//!
//! A server's certificate carries the name that the topology gives it, whether it dials or is
//! dialled. A client's has to come from the same authority, whatever its name.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};

/// Certificates and keys, ready for connections.
#[derive(Debug, Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// This side's certificate.
    own: CertificateDer<'static>,
}

/// Why certificates cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file holds none.
    #[error("{0}: no certificate or key in PEM form")]
    Pem(&'static str),
    /// They do not go together.
    #[error("{0}: {1}")]
    Unusable(&'static str, String),
}

impl Tls {
    /// From PEM files: of the cluster's authority, of this side's certificate chain, and its key.
    pub fn from_pem(authority: &[u8], chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let read = |name, pem| -> Result<Vec<CertificateDer<'static>>, TlsError> {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            all.ok().filter(|all| !all.is_empty()).ok_or(TlsError::Pem(name))
        };
        let unusable =
            |name| move |error: &dyn std::error::Error| TlsError::Unusable(name, error.to_string());
        let mut roots = RootCertStore::empty();
        for certificate in read("the authority", authority)? {
            roots.add(certificate).map_err(|error| unusable("the authority")(&error))?;
        }
        let roots = Arc::new(roots);
        let chain = read("the certificate", chain)?;
        let own = chain[0].clone();
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Pem("the private key"))?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| unusable("the authority")(&error))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| unusable("TLS 1.3")(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| unusable("the certificate")(&error))?;
        // Connections last; resuming them would keep secrets for nothing.
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| unusable("TLS 1.3")(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable("the certificate")(&error))?;
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self { client: Arc::new(client), server: Arc::new(server), own })
    }

    /// Whether this side's certificate carries a name: a server's has to carry that of the topology.
    ///
    /// # Errors
    /// [`TlsError::Unusable`], with the names that it carries.
    pub fn check_name(&self, name: &str) -> Result<(), TlsError> {
        named(&self.own, name).map_err(|words| TlsError::Unusable("the certificate", words))
    }

    /// A connection that was dialled, to a server of this name.
    pub(super) fn dial(&self, name: &str) -> Result<Connection, String> {
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        ClientConnection::new(Arc::clone(&self.client), name)
            .map(Connection::from)
            .map_err(|error| error.to_string())
    }

    /// A connection that was accepted.
    pub(super) fn accept(&self) -> Result<Connection, String> {
        ServerConnection::new(Arc::clone(&self.server))
            .map(Connection::from)
            .map_err(|error| error.to_string())
    }
}

/// Whether the peer's certificate carries this name.
pub(super) fn carries(connection: &Connection, name: &str) -> Result<(), String> {
    let certificate = connection
        .peer_certificates()
        .and_then(|chain| chain.first())
        .ok_or_else(|| "no certificate".to_owned())?;
    named(certificate, name)
}

/// Why no secure connection comes about, in words that tell whose certificate it is.
pub(super) fn words(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, CertificateError, Error};
    match error {
        // An authority of the same name and another key is taken for ours until its signature is looked at.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "the peer's certificate is not of this side's authority".to_owned(),
        Error::NoCertificatesPresented => "the peer shows no certificate".to_owned(),
        Error::AlertReceived(
            alert @ (Alert::UnknownCA
            | Alert::DecryptError
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired),
        ) => format!("the peer does not accept this side's certificate ({alert:?})"),
        other => other.to_string(),
    }
}

/// Whether a certificate carries a name.
fn named(certificate: &CertificateDer<'_>, name: &str) -> Result<(), String> {
    let parsed = ParsedCertificate::try_from(certificate).map_err(|error| error.to_string())?;
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    rustls::client::verify_server_name(&parsed, &name).map_err(|error| error.to_string())
}
