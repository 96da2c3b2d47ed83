//! Which tokens may open a stream.

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

/// Decides which tokens may open a stream, before anything of the stream is read.
pub trait Tokens: Send + Sync {
    /// Whether any node may attach with `token`, or with none. Takes a time that does not depend on the
    /// token.
    fn admits(&self, token: Option<&str>) -> bool;

    /// Whether a node that is known may still attach with it: one that has reported, and that has its own
    /// secret. Tokens for joining admit these also after their end.
    fn admits_known(&self, token: Option<&str>) -> bool {
        self.admits(token)
    }
}

/// Digests of the tokens that may open a stream.
///
/// # Example
/// ```
/// # use tollgate_fleet_hub::{TokenDigests, Tokens};
/// let tokens = TokenDigests::of(["tgn_one", "tgn_two"]);
/// assert!(tokens.admits(Some("tgn_two")));
/// assert!(!tokens.admits(Some("tgn_tw")));
/// assert!(!tokens.admits(None));
/// ```
#[derive(Clone, Default)]
pub struct TokenDigests(Vec<[u8; 32]>);

impl TokenDigests {
    /// Takes the SHA-256 of each token.
    #[must_use]
    pub const fn new(digests: Vec<[u8; 32]>) -> Self {
        Self(digests)
    }

    /// Hashes these tokens.
    pub fn of<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Self {
        Self(tokens.into_iter().map(|token| Sha256::digest(token).into()).collect())
    }
}

impl Tokens for TokenDigests {
    fn admits(&self, token: Option<&str>) -> bool {
        let digest = Sha256::digest(token.unwrap_or_default());
        let found = self.0.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&digest));
        bool::from(found) && token.is_some()
    }
}

impl std::fmt::Debug for TokenDigests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenDigests({})", self.0.len())
    }
}

/// Admits every stream: for nodes in the same process, and tests.
#[derive(Clone, Copy, Debug)]
pub struct AnyToken;

impl Tokens for AnyToken {
    fn admits(&self, _: Option<&str>) -> bool {
        true
    }
}
