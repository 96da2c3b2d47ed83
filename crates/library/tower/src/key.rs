//! Keys by which requests are counted: one property of a request, or several together.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Uri};
use smallvec::SmallVec;
use tollgate::LimitKey;
use tollgate_headers::forwarded_client;

/// The head of a request, as keys see it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'a> {
    /// Method of the request.
    pub method: &'a Method,
    /// Target of the request, as it was sent.
    pub uri: &'a Uri,
    /// Header fields of the request.
    pub headers: &'a HeaderMap,
    /// Data that layers and the framework have attached to the request.
    pub extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    pub(crate) fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

/// A property of requests to count by. A limit may have several: each combination of their values then has
/// permits of its own.
///
/// # Example
/// ```
/// use tollgate_tower::Key;
///
/// # #[derive(Clone)] struct Socket { from: std::net::SocketAddr }
/// // With axum, `Key::peer_ip()` reads `ConnectInfo<SocketAddr>`. Elsewhere, what the server attaches:
/// let peer = Key::address(|head| Some(head.extensions.get::<Socket>()?.from.ip()));
/// // Behind two proxies, with all of an IPv6 customer's /56 as one:
/// let client = Key::forwarded_ip(2).ipv6_prefix(56);
/// // By a part of the path:
/// let tenant = Key::from_fn(|head| head.uri.path().split('/').nth(1).map(str::to_owned));
/// ```
#[derive(Clone)]
pub struct Key(Kind);

#[derive(Clone)]
enum Kind {
    Address { of: Arc<AddressOf>, ipv6_prefix: u8, from: AddressSource },
    Header(HeaderName),
    Path,
    Method,
    Extension { write: Arc<Custom>, name: &'static str },
    Custom(Arc<Custom>),
}

/// Source of an address.
#[derive(Clone, Debug)]
enum AddressSource {
    Peer,
    Forwarded { field: HeaderName, hops: usize },
    Function,
}

type AddressOf = dyn Fn(&Head<'_>) -> Option<IpAddr> + Send + Sync;
type Custom = dyn Fn(&Head<'_>, &mut KeyBytes) -> Option<()> + Send + Sync;

/// Longer keys are on the heap.
pub(crate) type KeyBytes = SmallVec<[u8; 48]>;

/// Bits of an IPv6 address that count: the smallest network that one customer of a provider has.
const IPV6_PREFIX: u8 = 64;

impl Key {
    /// The address that the connection came from, as one of the request's extensions says it: a
    /// [`SocketAddr`], an [`IpAddr`], or axum's `ConnectInfo<SocketAddr>` (feature `axum`, on by default).
    ///
    /// Nothing puts it there by itself. With axum, serve
    /// `app.into_make_service_with_connect_info::<SocketAddr>()`; with hyper, insert the address that the
    /// listener accepted; with tonic, use [`Key::address`] and its `TcpConnectInfo`. A request without it
    /// gets 500: see [`Limit::on_missing_key`](crate::Limit::on_missing_key).
    #[must_use]
    pub fn peer_ip() -> Self {
        Self::address_from(AddressSource::Peer, peer)
    }

    /// The address of the client behind `hops` proxies that you trust, from `X-Forwarded-For`: the
    /// `hops`-th address from the end, since each proxy appends the address that it was called from.
    /// Whatever a client puts in front of that counts for nothing.
    ///
    /// A field with fewer addresses, or with something else in that place, is a missing key: the request
    /// did not come through that many proxies, and gets 500 if nothing else is
    /// [set](crate::Limit::on_missing_key). With 0 hops this is [`Key::peer_ip`].
    #[must_use]
    pub fn forwarded_ip(hops: usize) -> Self {
        Self::forwarded_ip_in(HeaderName::from_static("x-forwarded-for"), hops)
    }

    /// The same from another field, such as `Forwarded` (RFC 7239), whose `for` parameters are read.
    #[must_use]
    pub fn forwarded_ip_in(field: HeaderName, hops: usize) -> Self {
        match hops {
            0 => Self::peer_ip(),
            _ => {
                let from = AddressSource::Forwarded { field: field.clone(), hops };
                Self::address_from(from, move |head| forwarded_client(head.headers, &field, hops))
            }
        }
    }

    /// The address that `of` finds. IPv4 addresses that are written as IPv6 are IPv4 addresses, and IPv6
    /// addresses are counted by their first 64 bits unless [`Key::ipv6_prefix`] says otherwise.
    #[must_use]
    pub fn address(of: impl Fn(&Head<'_>) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self::address_from(AddressSource::Function, of)
    }

    fn address_from(
        from: AddressSource,
        of: impl Fn(&Head<'_>) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        Self(Kind::Address { of: Arc::new(of), ipv6_prefix: IPV6_PREFIX, from })
    }

    /// Sets the number of bits of an IPv6 address that count, 1 to 128; more reads as 128 and 0 as 1. Without
    /// effect on other keys.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        if let Kind::Address { ipv6_prefix, .. } = &mut self.0 {
            *ipv6_prefix = bits.clamp(1, 128);
        }
        self
    }

    /// The value of a header field: its first line. An empty value is a missing key.
    #[must_use]
    pub const fn header(name: HeaderName) -> Self {
        Self(Kind::Header(name))
    }

    /// The path of the target, without its query.
    #[must_use]
    pub const fn path() -> Self {
        Self(Kind::Path)
    }

    /// The method, such as `GET`.
    #[must_use]
    pub const fn method() -> Self {
        Self(Kind::Method)
    }

    /// An extension of the request that an earlier layer has set, such as the logged-in user.
    #[must_use]
    pub fn extension<K: LimitKey + Send + Sync + 'static>() -> Self {
        let write = Arc::new(|head: &Head<'_>, out: &mut KeyBytes| {
            out.extend_from_slice(&head.extensions.get::<K>()?.key_bytes());
            Some(())
        });
        Self(Kind::Extension { write, name: std::any::type_name::<K>() })
    }

    /// The value that `key` returns for a request; `None` is a missing key, and so is an empty value.
    #[must_use]
    pub fn from_fn<K: LimitKey>(key: impl Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static) -> Self {
        Self(Kind::Custom(Arc::new(move |head, out| {
            out.extend_from_slice(&key(head)?.key_bytes());
            Some(())
        })))
    }

    /// Appends the value of a request; `None` if it has none.
    #[inline]
    fn write(&self, head: &Head<'_>, out: &mut KeyBytes) -> Option<()> {
        let before = out.len();
        match &self.0 {
            Kind::Address { of, ipv6_prefix, .. } => match of(head)?.to_canonical() {
                IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => out.extend_from_slice(&first_bits(address, *ipv6_prefix)),
            },
            Kind::Header(name) => out.extend_from_slice(head.headers.get(name)?.as_bytes()),
            Kind::Path => out.extend_from_slice(head.uri.path().as_bytes()),
            Kind::Method => out.extend_from_slice(head.method.as_str().as_bytes()),
            Kind::Extension { write, .. } | Kind::Custom(write) => write(head, out)?,
        }
        (out.len() > before).then_some(())
    }

    /// Whether each request has a value if the service is set up well, so that no client can leave it out.
    pub(crate) const fn is_of_server(&self) -> bool {
        matches!(self.0, Kind::Address { .. } | Kind::Extension { .. })
    }

    pub(crate) fn is_missing(&self, head: &Head<'_>) -> bool {
        self.write(head, &mut KeyBytes::new()).is_none()
    }

    /// Possible reason why a request lacks it, and the remedy.
    pub(crate) fn why_missing(&self) -> String {
        match &self.0 {
            Kind::Address { from: AddressSource::Peer, .. } => {
                "no address of the peer is among the extensions of requests; with axum, serve \
                 `app.into_make_service_with_connect_info::<SocketAddr>()` and keep the feature `axum` of \
                 tollgate-tower; elsewhere insert the SocketAddr of the connection, or use Key::address"
                    .to_owned()
            }
            Kind::Address { from: AddressSource::Forwarded { field, hops }, .. } => format!(
                "requests have no address in place {hops} from the end of the field {field}; check how many \
                 proxies are in front, and that all of them append to the field"
            ),
            Kind::Address { from: AddressSource::Function, .. } => {
                "the function of Key::address finds no address; check that it looks for the type that the \
                 server attaches to requests"
                    .to_owned()
            }
            Kind::Extension { name, .. } => format!(
                "no {name} is among the extensions of requests; the layer that inserts it must be outside of \
                 the limit"
            ),
            Kind::Header(name) => format!("requests lack the field {name}"),
            Kind::Path | Kind::Method => "requests have no target".to_owned(),
            Kind::Custom(_) => "the function of Key::from_fn finds no key".to_owned(),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Address { ipv6_prefix, from, .. } => match from {
                AddressSource::Peer => write!(f, "Key::peer_ip/{ipv6_prefix}"),
                AddressSource::Forwarded { field, hops } => {
                    write!(f, "Key::forwarded_ip({field}, {hops})/{ipv6_prefix}")
                }
                AddressSource::Function => write!(f, "Key::address/{ipv6_prefix}"),
            },
            Kind::Header(name) => write!(f, "Key::header({name})"),
            Kind::Path => f.write_str("Key::path"),
            Kind::Method => f.write_str("Key::method"),
            Kind::Extension { name, .. } => write!(f, "Key::extension::<{name}>"),
            Kind::Custom(_) => f.write_str("Key::from_fn"),
        }
    }
}

/// The values of a request as one key, and whether all of them are there. Without any `keys`, all requests
/// have the same key.
#[inline]
pub(crate) fn key_of(keys: &[Key], head: &Head<'_>) -> (KeyBytes, bool) {
    let mut bytes = KeyBytes::new();
    let mut is_whole = true;
    match keys {
        [] => {}
        [only] => {
            if only.write(head, &mut bytes).is_none() {
                bytes.clear();
                is_whole = false;
            }
        }
        several => {
            for key in several {
                let at = bytes.len();
                bytes.extend_from_slice(&MISSING.to_be_bytes());
                match key.write(head, &mut bytes) {
                    // Its length in front, so that no value can run into the next one.
                    Some(()) => {
                        let length = (bytes.len() - at - MISSING.to_be_bytes().len()) as u32;
                        bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
                    }
                    None => {
                        bytes.truncate(at + 4);
                        is_whole = false;
                    }
                }
            }
        }
    }
    (bytes, is_whole)
}

/// Stands in place of a length.
const MISSING: u32 = u32::MAX;

fn first_bits(address: Ipv6Addr, bits: u8) -> [u8; 16] {
    let mask = u128::MAX << (128 - u32::from(bits));
    (u128::from(address) & mask).to_be_bytes()
}

fn peer(head: &Head<'_>) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(info) = head.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(info.0.ip());
    }
    let socket = || head.extensions.get::<SocketAddr>().map(SocketAddr::ip);
    socket().or_else(|| head.extensions.get::<IpAddr>().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: &[Key], request: &Request<()>) -> (Vec<u8>, bool) {
        let (bytes, is_whole) = key_of(keys, &Head::of(request));
        (bytes.to_vec(), is_whole)
    }

    fn from(address: &str) -> Request<()> {
        let mut request = Request::new(());
        request.extensions_mut().insert(address.parse::<IpAddr>().expect("an address"));
        request
    }

    #[test]
    fn ipv6_addresses_of_one_prefix_are_one_key_and_ipv4_ones_are_themselves() {
        let of = |key_of: Key, address: &str| key(&[key_of], &from(address));
        let half = |address: &str| of(Key::peer_ip(), address);
        assert_eq!(half("2001:db8::1"), half("2001:db8::ffff:0:1"));
        assert_ne!(half("2001:db8::1"), half("2001:db8:0:1::1"));
        assert_eq!(half("::ffff:192.0.2.1"), half("192.0.2.1"));
        assert_ne!(half("192.0.2.2"), half("192.0.2.1"));
        let whole = |address: &str| of(Key::peer_ip().ipv6_prefix(128), address);
        assert_ne!(whole("2001:db8::1"), whole("2001:db8::2"));
        assert_eq!(of(Key::peer_ip().ipv6_prefix(0), "8000::1"), of(Key::peer_ip().ipv6_prefix(1), "ffff::"));
    }

    #[test]
    fn no_value_of_several_runs_into_the_next() {
        let name = |text| HeaderName::from_static(text);
        let keys = [Key::header(name("a")), Key::header(name("b"))];
        let with = |a: &str, b: &str| {
            let mut request = Request::builder();
            for (name, value) in [("a", a), ("b", b)] {
                if value != "-" {
                    request = request.header(name, value);
                }
            }
            request.body(()).expect("a request")
        };
        let all = [("x", "yz"), ("xy", "z"), ("xyz", "-"), ("-", "xyz"), ("-", "-")];
        for (at, (a, b)) in all.iter().enumerate() {
            for (other, (c, d)) in all.iter().enumerate() {
                let same = key(&keys, &with(a, b)).0 == key(&keys, &with(c, d)).0;
                assert_eq!(same, at == other, "{a},{b} and {c},{d}");
            }
        }
        assert!(key(&keys, &with("x", "y")).1);
        assert!(!key(&keys, &with("x", "-")).1 && !key(&keys, &with("x", "")).1);
    }
}
