//! The shares of many callers in a common stock: places, and the bytes that they hold.
//!
//! A holder may have as many places as are free, so half of them at most; and the fewer are free, the fewer
//! it may have. n holders that want all they can get have one of n + 1 parts each, and one part stays free. A
//! wider holder (a domain, an address behind which many are, a token that many have) may have several times
//! as many as are free. The same holds for bytes.
//!
//! [`Shares`] is that rule, for owners who count the free places themselves. [`Places`] counts it too, and
//! keeps a reserve. Names are kept as hashes with a random seed: two holders with equal hashes would share a
//! share.
#![deny(missing_docs)] // it is published

mod machine;
mod places;
mod shares;

pub use machine::machine;
pub use places::{Full, Named, Place, Places};
pub use shares::{Part, Room, Shares};
