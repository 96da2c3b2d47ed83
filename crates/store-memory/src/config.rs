//! How large the table may become, and the secret that its places depend on.

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
    /// ones. The default is 1 GiB: about 36 million keys of one word.
    pub max_bytes: u64,
    /// The key of the hash that names counters.
    pub hash_key: HashKey,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { max_bytes: 1 << 30, hash_key: HashKey::Random }
    }
}

/// Under what key names are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashKey {
    /// A new one per store, from the operating system: nobody can craft keys that collide.
    #[default]
    Random,
    /// A given one, for tests that must run the same twice. Whoever knows it can craft collisions.
    Fixed(u64),
}
