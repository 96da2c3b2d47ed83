//! Digests that both ends compute alike.

use sha2::{Digest as _, Sha256};

pub type Sha256Bytes = [u8; 32];

/// Digest of a document's text.
///
/// # Example
/// ```
/// let digest = tollgate_fleet_proto::text_digest("domain: shop");
/// assert_ne!(digest, tollgate_fleet_proto::text_digest("domain: shop "));
/// ```
#[must_use]
pub fn text_digest(text: &str) -> Sha256Bytes {
    Sha256::digest(text.as_bytes()).into()
}

/// Digest of an app: of the domains and digests of its documents, which are in the order of their domains.
///
/// # Example
/// ```
/// # use tollgate_fleet_proto::*;
/// let one = app_digest([("shop", text_digest("domain: shop"))]);
/// assert_ne!(one, app_digest([("shop2", text_digest("domain: shop"))]));
/// ```
#[must_use]
pub fn app_digest<'a>(documents: impl IntoIterator<Item = (&'a str, Sha256Bytes)>) -> Sha256Bytes {
    let mut hash = Sha256::new();
    for (domain, digest) in documents {
        hash.update((domain.len() as u64).to_be_bytes());
        hash.update(domain.as_bytes());
        hash.update(digest);
    }
    hash.finalize().into()
}
