//! TLS from PEM files: certificates, keys and authorities for servers and clients, or the name of the file
//! that is wrong.
//!
//! [`PemFile`] reads one file; [`TlsClient`] has all that a client of another server needs. Not here: a
//! server's own certificates, and the time when it reads its files again (`net`).
#![deny(missing_docs)] // it is published

mod client;
mod pem;

pub use client::{TlsClient, TlsClientFiles};
pub use pem::{Digest, PemFile, TlsError};
