//! TLS by rustls: certificates from files, which can be replaced while the server runs.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error as PemError, PemObject as _},
    },
    server::WebPkiClientVerifier,
};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;

/// Where a listener's certificate is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that lead from it to a root, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// Whoever wants to connect must have a certificate of one of these authorities, in PEM.
    pub client_ca: Option<PathBuf>,
}

/// Why TLS cannot be spoken with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {what} {}: {error}", path.display())]
    Read {
        /// What it should hold.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file holds something else.
    #[error("{} holds no {what} in PEM form (a block that begins -----BEGIN): {error}", path.display())]
    Pem {
        /// What it should hold.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What was found.
        error: PemError,
    },
    /// The key does not belong to the certificate.
    #[error("the key {} does not belong to the certificate {}", key.display(), certificate.display())]
    Mismatch {
        /// Which certificate.
        certificate: PathBuf,
        /// Which key.
        key: PathBuf,
    },
    /// The certificate or the key is of a kind that cannot be used.
    #[error("the certificate {} cannot be used: {error}", certificate.display())]
    Unusable {
        /// Which certificate.
        certificate: PathBuf,
        /// Why.
        error: rustls::Error,
    },
    /// The authorities cannot be used.
    #[error("the client authorities {} cannot be used: {message}", path.display())]
    Authorities {
        /// Which file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

/// What came of looking at the files again.
#[derive(Debug)]
pub enum Reload {
    /// They are as they were.
    Same,
    /// New connections get the new certificate.
    Changed,
    /// The new ones cannot be used; the old certificate stays. Told once for each content.
    Kept(TlsError),
}

/// A certificate that is in use.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<ServerConfig>,
    /// What the files held when they were last looked at.
    seen: Mutex<[u8; 32]>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// When they are not there or do not fit together; says which and how.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = Contents::read(&files)?;
        let config = contents.config(&files)?;
        let seen = Mutex::new(contents.digest());
        Ok(Self { files, current: ArcSwap::from_pointee(config), seen })
    }

    /// Reads the files again. Those who are connected stay so; those who come get what is new.
    pub fn reload(&self) -> Reload {
        let contents = match Contents::read(&self.files) {
            Ok(contents) => contents,
            Err(error) => {
                let digest = Sha256::digest(error.to_string()).into();
                return self.keep(digest, error);
            }
        };
        let digest = contents.digest();
        if *self.seen.lock() == digest {
            return Reload::Same;
        }
        match contents.config(&self.files) {
            Ok(config) => {
                self.current.store(Arc::new(config));
                *self.seen.lock() = digest;
                Reload::Changed
            }
            Err(error) => self.keep(digest, error),
        }
    }

    fn keep(&self, digest: [u8; 32], error: TlsError) -> Reload {
        let before = std::mem::replace(&mut *self.seen.lock(), digest);
        if before == digest { Reload::Same } else { Reload::Kept(error) }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The files, as bytes.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read = |what, path: &Path| {
            fs::read(path).map_err(|error| TlsError::Read { what, path: path.to_owned(), error })
        };
        Ok(Self {
            certificate: read(CERTIFICATE, &files.certificate)?,
            key: read(KEY, &files.key)?,
            client_ca: files
                .client_ca
                .as_deref()
                .map(|path| read(AUTHORITIES, path))
                .transpose()?,
        })
    }

    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()] {
            // Each part apart, so that what moves from one file to another changes the whole.
            digest.update(Sha256::digest(part.map_or(&[][..], Vec::as_slice)));
        }
        digest.finalize().into()
    }

    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let unusable = |error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch {
                certificate: files.certificate.clone(),
                key: files.key.clone(),
            },
            error => TlsError::Unusable { certificate: files.certificate.clone(), error },
        };
        let chain = certificates(&self.certificate, CERTIFICATE, &files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| TlsError::Pem {
            what: KEY,
            path: files.key.clone(),
            error,
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match self.client_ca.as_deref().zip(files.client_ca.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((bytes, path)) => {
                builder.with_client_cert_verifier(verifier(bytes, path, provider)?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

const CERTIFICATE: &str = "certificate";
const KEY: &str = "private key";
const AUTHORITIES: &str = "client authorities' certificates";

fn certificates(
    bytes: &[u8],
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error| TlsError::Pem { what, path: path.to_owned(), error };
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(bytes).collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() { Err(wrong(PemError::NoItemsFound)) } else { Ok(found) }
}

fn verifier(
    bytes: &[u8],
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let wrong = |message| TlsError::Authorities { path: path.to_owned(), message };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(bytes, AUTHORITIES, path)? {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn files(&self) -> TlsFiles {
            let path = |name| self.0.path().join(name);
            TlsFiles { certificate: path("cert.pem"), key: path("key.pem"), client_ca: None }
        }

        fn write(&self, certificate: &str, key: &str) {
            fs::write(self.files().certificate, certificate).unwrap();
            fs::write(self.files().key, key).unwrap();
        }
    }

    fn pair() -> (String, String) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn what_is_wrong_with_the_files_is_said() {
        let folder = Folder::new();
        let refused = |files: TlsFiles| Tls::load(files).unwrap_err().to_string();
        assert!(refused(folder.files()).starts_with("cannot read the certificate "));

        let ((certificate, key), (_, other)) = (pair(), pair());
        folder.write(&certificate, &other);
        assert!(refused(folder.files()).contains("does not belong to the certificate"));
        folder.write("hello", &key);
        assert!(refused(folder.files()).contains("cert.pem holds no certificate in PEM form"));
        folder.write(&certificate, &certificate);
        assert!(refused(folder.files()).contains("key.pem holds no private key in PEM form"));

        folder.write(&certificate, &key);
        let client_ca = Some(folder.files().key);
        let wrong = refused(TlsFiles { client_ca, ..folder.files() });
        assert!(wrong.contains("holds no client authorities' certificates"), "{wrong}");
        assert!(Tls::load(folder.files()).is_ok());
    }

    #[test]
    fn a_new_certificate_is_taken_and_a_broken_one_is_told_once() {
        let folder = Folder::new();
        let (certificate, key) = pair();
        folder.write(&certificate, &key);
        let tls = Tls::load(folder.files()).unwrap();
        let first = tls.current.load_full();
        assert!(matches!(tls.reload(), Reload::Same));

        folder.write("half wri", &key);
        assert!(matches!(tls.reload(), Reload::Kept(_)));
        assert!(matches!(tls.reload(), Reload::Same), "it was told");
        fs::remove_file(folder.files().key).unwrap();
        assert!(matches!(tls.reload(), Reload::Kept(TlsError::Read { .. })));
        assert!(matches!(tls.reload(), Reload::Same));
        assert!(Arc::ptr_eq(&first, &tls.current.load_full()), "the old one stays");

        let (certificate, key) = pair();
        folder.write(&certificate, &key);
        assert!(matches!(tls.reload(), Reload::Changed));
        assert!(!Arc::ptr_eq(&first, &tls.current.load_full()));
    }
}
