//! TLS to the far side, by rustls: only the question whom to trust is answered here.

use std::{path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};

/// Whom to trust, and what to speak.
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// Trusts whom the file names; without one, whom this machine trusts.
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let roots = match ca_file {
            Some(file) => from_file(file)?,
            None => from_system()?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Encrypts a connection once the other side has proved to be `host`.
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("\"{host}\" is no name that a certificate could have"))?;
        self.0.connect(name, stream).await.map_err(|error| explain(&error))
    }
}

fn from_file(file: &Path) -> Result<RootCertStore, String> {
    let shown = file.display();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| format!("{shown}: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| format!("{shown}: {error}"))?;
        roots.add(certificate).map_err(|error| format!("{shown}: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("{shown} holds no certificate; it must be a PEM file with BEGIN CERTIFICATE"));
    }
    Ok(roots)
}

fn from_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err("this machine names no certificate authorities; install ca-certificates, or set ca_file"
            .to_owned());
    }
    Ok(roots)
}

fn explain(error: &std::io::Error) -> String {
    use rustls::{CertificateError, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let next = match inner {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "; if its certificate is your own, name that of its issuer with ca_file"
        }
        Some(Error::InvalidCertificate(CertificateError::Other(other))) if is_authority(other) => {
            "; a server's own certificate must not be an authority's: make it with basicConstraints=CA:FALSE"
        }
        Some(Error::InvalidMessage(_)) => "; is it plain HTTP? Then the URL begins with http://",
        _ => "",
    };
    format!("no TLS: {error}{next}")
}

/// What `openssl req -x509` makes unless told otherwise.
fn is_authority(error: &rustls::OtherError) -> bool {
    error.to_string().contains("CaUsedAsEndEntity")
}
