//! The size of the table, and the secret that its places depend on.

/// Settings of a [`MemoryStore`](crate::MemoryStore).
///
/// # Example
/// ```
/// # use tollgate_store_memory::{MemoryConfig, MemoryStore};
/// let store = MemoryStore::new(MemoryConfig { max_bytes: 64 << 20, ..MemoryConfig::default() });
/// assert_eq!(store.stats().tracked_keys, 0);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// Bytes that all states together may fill. Three quarters are for states of one word, the rest for wide
    /// ones. The default is 1 GiB: about 27 million keys of one word of rules, and 9 million of requests.
    pub max_bytes: u64,
    /// The part of `max_bytes` for counters whose quotas came with the request
    /// ([`Origin::Request`](tollgate_store::Origin)), from 0 to 1; the rest is for those of rules. Each part
    /// is a cap of its own: at its cap, a new key takes the place of another of the same part. (64 KiB is the
    /// least for each.) The default is a quarter.
    pub request_share: f32,
    /// The key of the hash that names counters.
    pub hash_key: HashKey,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { max_bytes: 1 << 30, request_share: 0.25, hash_key: HashKey::Random }
    }
}

impl MemoryConfig {
    /// Bytes for counters whose quotas came with the request.
    pub(crate) fn request_bytes(&self) -> u64 {
        (self.max_bytes as f64 * f64::from(self.request_share.clamp(0.0, 1.0))) as u64
    }
}

/// The key under which key names are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashKey {
    /// A new one per store, from the operating system: nobody can craft keys that collide.
    #[default]
    Random,
    /// A given one, for tests that must run the same twice. A client that knows it can craft collisions.
    Fixed(u64),
}
