//! Where a stream comes from, and with which token: whose share it takes.

/// The other end of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Address and port.
    pub address: String,
    /// Names its token; the token itself is not kept here.
    pub token: u64,
}

impl<T: Into<String>> From<T> for Peer {
    fn from(address: T) -> Self {
        Self { address: address.into(), token: 0 }
    }
}
