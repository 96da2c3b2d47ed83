//! Keys of keyed limiters: text, bytes, numbers and addresses, as bytes.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;

/// A key as bytes: borrowed, or a few owned bytes. Equal keys have equal bytes, and different keys of one
/// type have different bytes.
#[derive(Clone, Debug)]
pub struct KeyBytes<'a>(Bytes<'a>);

#[derive(Clone, Debug)]
enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Small([u8; 16], u8),
    Owned(Vec<u8>),
}

impl<'a> KeyBytes<'a> {
    /// Bytes of the key itself.
    #[must_use]
    #[inline]
    pub const fn borrowed(bytes: &'a [u8]) -> Self {
        Self(Bytes::Borrowed(bytes))
    }

    /// Bytes made for the key, such as several parts joined.
    #[must_use]
    pub const fn owned(bytes: Vec<u8>) -> Self {
        Self(Bytes::Owned(bytes))
    }

    /// Up to 16 bytes, without an allocation.
    #[inline]
    fn small<const N: usize>(bytes: [u8; N]) -> Self {
        const { assert!(N <= 16, "they have their place inside") };
        let mut all = [0; 16];
        all[..N].copy_from_slice(&bytes);
        Self(Bytes::Small(all, N as u8))
    }
}

impl Deref for KeyBytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Small(bytes, length) => &bytes[..usize::from(*length)],
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// A key of a [`KeyedRateLimiter`](crate::KeyedRateLimiter).
///
/// # Example
/// ```
/// use tollgate::{KeyBytes, LimitKey, Quota, RateLimiter};
///
/// struct User {
///     tenant: u32,
///     name: String,
/// }
///
/// impl LimitKey for User {
///     fn key_bytes(&self) -> KeyBytes<'_> {
///         KeyBytes::owned([&self.tenant.to_be_bytes(), self.name.as_bytes()].concat())
///     }
/// }
///
/// let limiter = RateLimiter::keyed(Quota::per_minute(1))?;
/// let ann = |tenant| User { tenant, name: "ann".to_owned() };
/// assert!(limiter.check(&ann(1)).is_ok());
/// assert!(limiter.check(&ann(1)).is_err());
/// assert!(limiter.check(&ann(2)).is_ok());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait LimitKey {
    /// The key as bytes: equal keys have equal bytes, different ones have different bytes.
    fn key_bytes(&self) -> KeyBytes<'_>;
}

macro_rules! borrowed {
    ($($key:ty => $bytes:expr),* $(,)?) => {$(
        impl LimitKey for $key {
            #[inline]
            fn key_bytes(&self) -> KeyBytes<'_> {
                let bytes: fn(&Self) -> &[u8] = $bytes;
                KeyBytes::borrowed(bytes(self))
            }
        }
    )*};
}

borrowed! {
    str => |key| key.as_bytes(),
    String => |key| key.as_bytes(),
    Cow<'_, str> => |key| key.as_bytes(),
    [u8] => |key| key,
    Vec<u8> => |key| key,
}

impl<const N: usize> LimitKey for [u8; N] {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        KeyBytes::borrowed(self)
    }
}

macro_rules! numbers {
    ($($key:ty),*) => {$(
        impl LimitKey for $key {
            #[inline]
            fn key_bytes(&self) -> KeyBytes<'_> {
                KeyBytes::small(self.to_be_bytes())
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl LimitKey for Ipv4Addr {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        KeyBytes::small(self.octets())
    }
}

impl LimitKey for Ipv6Addr {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        KeyBytes::small(self.octets())
    }
}

impl LimitKey for IpAddr {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        match self {
            Self::V4(address) => KeyBytes::small(address.octets()),
            Self::V6(address) => KeyBytes::small(address.octets()),
        }
    }
}

impl<K: LimitKey + ?Sized> LimitKey for &K {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        (**self).key_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_keys_of_a_type_have_different_bytes() {
        let addresses: [IpAddr; 3] = [
            Ipv4Addr::new(0, 0, 0, 1).into(),
            Ipv6Addr::from(1_u128).into(),
            Ipv4Addr::new(0, 0, 0, 2).into(),
        ];
        for (at, a) in addresses.iter().enumerate() {
            for (other, b) in addresses.iter().enumerate() {
                assert_eq!(*a.key_bytes() == *b.key_bytes(), at == other, "{a} and {b}");
            }
        }
        assert_eq!(*7_u64.key_bytes(), [0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(*(-1_i8).key_bytes(), [255]);
        assert_eq!(u128::MAX.key_bytes().len(), 16);
        assert_eq!(*"ann".key_bytes(), *"ann".to_owned().key_bytes());
    }

    #[test]
    fn a_reference_is_the_key_that_it_points_to() {
        let text = &"ann";
        let number = &&7_u16;
        assert_eq!(*text.key_bytes(), *b"ann");
        assert_eq!(*number.key_bytes(), [0, 7]);
    }
}
