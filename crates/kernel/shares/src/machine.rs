//! Whose share an address takes.

use std::net::{IpAddr, SocketAddr};

/// The machine at an address with or without a port: the address without the port, and of IPv6 without the
/// half that its owner chooses. Other texts name themselves.
///
/// # Example
/// ```
/// # use tollgate_shares::machine;
/// assert_eq!(machine("10.0.0.1:5"), machine("[::ffff:10.0.0.1]:6"));
/// assert_eq!(machine("[2001:db8:1:2:3::4]:7"), "2001:db8:1:2::/64");
/// ```
#[must_use]
pub fn machine(address: &str) -> String {
    let ip = address.parse::<SocketAddr>().map(|it| it.ip()).or_else(|_| address.parse::<IpAddr>());
    match ip.map(|it| it.to_canonical()) {
        Ok(IpAddr::V4(ip)) => ip.to_string(),
        Ok(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::machine;

    #[test]
    fn a_machine_is_an_address_without_what_its_owner_chooses() {
        for (address, is) in [
            ("10.0.0.1:5", "10.0.0.1"),
            ("10.0.0.1", "10.0.0.1"),
            ("[::ffff:10.0.0.1]:6", "10.0.0.1"),
            ("[2001:db8:1:2:3:4:5:6]:7", "2001:db8:1:2::/64"),
            ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
            ("", ""),
            ("simulated", "simulated"),
        ] {
            assert_eq!(machine(address), is, "{address}");
        }
    }
}
