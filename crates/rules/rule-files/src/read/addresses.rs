//! Whether descriptors read the values of their key as addresses, and whether its name says that they are
//! some.
//!
//! Only for a warning. Not here: how values are read (`policy`).

use std::net::IpAddr;

use super::reader::Fields;
use crate::yaml_tree::Kind;

/// Kind of values of a descriptor, as it declares them or as the name of its key suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Addresses {
    /// The values are texts.
    No,
    /// Addresses, one each.
    Single,
    /// Lists, of which one address counts.
    OfLists,
}

pub(super) const AS_TEXTS: &str = "values are read as texts, so every port and spelling of an address is counted \
                                   separately, and so is every address of an IPv6 network; write ipv6_prefix: 64, or 128 for single addresses";
pub(super) const LISTS_AS_TEXTS: &str = "values are lists that a client begins as it likes; write forwarded: 1 for the \
                                         last address, or the number of the proxies that you trust";

impl Addresses {
    pub(super) fn of(fields: &Fields<'_>) -> Self {
        let is_address = |name: &str| {
            fields.get(name).is_some_and(
                |node| matches!(&node.kind, Kind::Scalar(scalar) if scalar.text.parse::<IpAddr>().is_ok()),
            )
        };
        let takes = ["ipv6_prefix", "value_cidr", "value_file"];
        if fields.get("forwarded").is_some() {
            Self::OfLists
        } else if takes.iter().any(|name| fields.get(name).is_some()) || is_address("value") {
            Self::Single
        } else {
            Self::No
        }
    }
}

/// Usual kind of values of a key with this name; `None` if the name suggests nothing.
pub(super) fn named(key: &str) -> Option<Addresses> {
    const LISTS: [&str; 4] = ["x_forwarded_for", "forwarded_for", "forwarded", "xff"];
    const SINGLE: [&str; 20] = [
        "remote_address",
        "remote_addr",
        "remote_ip",
        "client_address",
        "client_addr",
        "client_ip",
        "source_address",
        "source_ip",
        "src_ip",
        "peer_address",
        "peer_ip",
        "ip_address",
        "ip_addr",
        "ip",
        "real_ip",
        "x_real_ip",
        "x_client_ip",
        "true_client_ip",
        "cf_connecting_ip",
        "x_envoy_external_address",
    ];
    if key.len() > 32 {
        return None;
    }
    let name = key.to_ascii_lowercase().replace('-', "_");
    match name.as_str() {
        name if LISTS.contains(&name) => Some(Addresses::OfLists),
        name if SINGLE.contains(&name) => Some(Addresses::Single),
        _ => None,
    }
}
