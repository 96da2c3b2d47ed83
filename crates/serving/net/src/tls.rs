//! Certificates: read from files, checked, used for new connections, and read again when the files change.
//!
//! TLS 1.2 and 1.3 by rustls with the aws-lc-rs provider. Not here: whose certificate may do what beyond
//! "signed by the client CA, with this name", and when to look at the files again (the server says).

mod expiry;
mod files;
mod named_clients;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::crypto::aws_lc_rs;
use tokio_rustls::TlsAcceptor;
use tollgate_tls::Digest;

pub use tollgate_tls::TlsError;

pub use files::TlsFiles;
use files::{Active, Contents};

/// A certificate in use, and the files that it came from. One for each protocol, shared by all its listeners.
pub struct Tls {
    files: TlsFiles,
    alpn: Vec<Vec<u8>>,
    active: ArcSwap<Active>,
    seen: Mutex<FileDigests>,
}

/// Digests of the files.
struct FileDigests {
    /// The files when the certificate in use was read.
    active: [Option<Digest>; 3],
    /// The files when they were last read.
    last: [Option<Digest>; 3],
}

impl Tls {
    /// Reads `files`; connections agree on one of `alpn` (`h2`, `http/1.1`), or on nothing where either side
    /// names none.
    ///
    /// # Errors
    /// [`TlsError`] names the file that cannot be used, and why.
    pub fn load(files: TlsFiles, alpn: &[&str]) -> Result<Self, TlsError> {
        let alpn: Vec<_> = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let contents = Contents::read(&files);
        let found = contents.digests();
        let active = ArcSwap::from_pointee(contents.active(&files, &alpn)?);
        // The first random number of a process takes tens of milliseconds to draw: better now than during a
        // handshake. If it fails, handshakes fail too and report it.
        let _ = aws_lc_rs::default_provider().secure_random.fill(&mut [0; 32]);
        let seen = Mutex::new(FileDigests { active: found, last: found });
        Ok(Self { files, alpn, active, seen })
    }

    /// Reads the files again; true when new connections get another certificate (or are held to another
    /// client CA) from now on. Existing connections are not affected.
    ///
    /// Reads a few small files and blocks meanwhile; call it every few seconds and when asked to reload.
    ///
    /// # Errors
    /// [`TlsError`] when the current files cannot be used: the certificate in use stays. Returned once for
    /// the same contents, then `false`, so that a caller may log each error.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock();
        let contents = Contents::read(&self.files);
        let found = contents.digests();
        if found == std::mem::replace(&mut seen.last, found) || found == seen.active {
            return Ok(false);
        }
        self.active.store(Arc::new(contents.active(&self.files, &self.alpn)?));
        seen.active = found;
        Ok(true)
    }

    /// End of the validity of the certificate in use, in seconds since 1970 began (UTC); `None` if it cannot
    /// be read.
    #[must_use]
    pub fn not_after(&self) -> Option<i64> {
        self.active.load().not_after
    }

    /// Does the handshakes of new connections.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.active.load().config))
    }
}

impl std::fmt::Debug for Tls {
    /// Names the files and shows nothing of their contents.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}
