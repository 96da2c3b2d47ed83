//! One PEM file, read once: its certificates or its key, or its fault. No error repeats the contents of a
//! file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The largest file that is read. The bundle of all public authorities has a quarter of it.
const MAX_BYTES: u64 = 1 << 20;

/// A fault of a file: the place, the problem, and the remedy. Holds nothing of a key.
#[derive(Debug, thiserror::Error)]
#[error("{}{what}", place(.file.as_deref()))]
pub struct TlsError {
    file: Option<PathBuf>,
    what: String,
}

fn place(file: Option<&Path>) -> String {
    file.map(|file| format!("{}: ", file.display())).unwrap_or_default()
}

impl TlsError {
    /// An error with the fault `what` of `file`.
    #[must_use]
    pub fn in_file(file: &Path, what: impl ToString) -> Self {
        Self { file: Some(file.to_owned()), what: what.to_string() }
    }

    /// An error with the fault `what` of no file.
    #[must_use]
    pub fn new(what: impl ToString) -> Self {
        Self { file: None, what: what.to_string() }
    }
}

/// The contents of a file when it was read, or the reason why it could not be read.
#[derive(Debug)]
pub struct PemFile {
    path: PathBuf,
    read: io::Result<Vec<u8>>,
}

/// Equal for equal contents and for equal faults; no second copy of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// SHA-256 of the file's contents.
    Contents([u8; 32]),
    /// The reason why it could not be read.
    Unreadable(io::ErrorKind),
}

impl PemFile {
    /// Reads `path`, of at most 1 MiB. A fault is reported when the file is used.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        Self { path: path.to_owned(), read: read(path) }
    }

    /// The digest, by which a change of the file is noticed.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match &self.read {
            Ok(bytes) => {
                let mut sum = [0; 32];
                sum.copy_from_slice(digest(&SHA256, bytes).as_ref());
                Digest::Contents(sum)
            }
            Err(error) => Digest::Unreadable(error.kind()),
        }
    }

    /// An error about this file.
    #[must_use]
    pub fn error(&self, what: impl ToString) -> TlsError {
        TlsError::in_file(&self.path, what)
    }

    /// The certificates in it, at least one.
    ///
    /// # Errors
    /// [`TlsError`] when there is none, or the file cannot be read or is not PEM.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let found = CertificateDer::pem_slice_iter(self.bytes()?).collect::<Result<Vec<_>, _>>();
        match found {
            Ok(found) if found.is_empty() => {
                Err(self.error("holds no certificate; it needs a part BEGIN CERTIFICATE (PEM)"))
            }
            Ok(found) => Ok(found),
            Err(error) => Err(self.not_pem(&error)),
        }
    }

    /// The first private key in it.
    ///
    /// # Errors
    /// [`TlsError`] when there is none, or the file cannot be read or is not PEM.
    pub fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_slice(self.bytes()?).map_err(|error| match error {
            pem::Error::NoItemsFound => {
                self.error("holds no private key; it needs a part BEGIN PRIVATE KEY (PEM), not encrypted")
            }
            error => self.not_pem(&error),
        })
    }

    /// Its certificates as authorities to trust.
    ///
    /// # Errors
    /// [`TlsError`] when there is no certificate, or one that is not an authority's.
    pub fn authorities(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates()? {
            let added = roots.add(certificate);
            added.map_err(|error| self.error(format!("holds an unusable certificate ({error})")))?;
        }
        Ok(roots)
    }

    fn bytes(&self) -> Result<&[u8], TlsError> {
        self.read.as_deref().map_err(|error| self.error(format!("cannot be read: {error}")))
    }

    /// Reports the kind of the fault, and nothing of the text: it may be a key's.
    fn not_pem(&self, error: &pem::Error) -> TlsError {
        self.error(match error {
            pem::Error::MissingSectionEnd { .. } => {
                "ends within a part; write it whole, to another name, and rename it"
            }
            _ => "is not PEM; it needs parts from BEGIN to END with base64 between them",
        })
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    Ok(bytes)
}
