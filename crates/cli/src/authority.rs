//! An authority of a cluster, and what it signs.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, in PEM.
    pub certificate: String,
    /// Its key, in PEM: whoever has it can let others in.
    pub key: String,
}

impl Authority {
    /// An authority for the cluster of this name.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(cluster: &str) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new()).context("an authority")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, format!("pipeann cluster {cluster}"));
        let key = KeyPair::generate().context("drawing a key")?;
        let certificate = params.self_signed(&key).context("signing the authority")?.pem();
        let pem = key.serialize_pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate, key: pem })
    }

    /// A certificate for either side of a connection, and its key.
    ///
    /// # Errors
    /// No certificate can have this name.
    pub fn sign(&self, name: &str) -> Result<(String, String)> {
        let signing = || format!("signing the certificate of {name}");
        let mut params = CertificateParams::new(vec![name.to_owned()]).with_context(signing)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().context("drawing a key")?;
        let signed = params.signed_by(&key, &self.issuer).with_context(signing)?;
        Ok((signed.pem(), key.serialize_pem()))
    }
}
