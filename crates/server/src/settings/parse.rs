//! Parsers of single values. Each error names the invalid value and the expected form, as in `invalid
//! duration "5 fortnights": expected something like 500ms, 5s or 1h30m`.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_telemetry::LogFormat;

/// Where a surface listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// `off`: the surface is disabled.
    #[default]
    Off,
    /// `host:port`; port 0 lets the system choose. The host is a number or a name that resolves to one. Or
    /// `unix:` and the path of a Unix socket.
    At(String),
}

/// Bytes of a socket's path that every system allows.
const LONGEST_SOCKET: usize = 103;

/// `host:port`, `unix:/path` or `off`. `unix:///path` is the same socket as `unix:/path`.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(Listen::Off);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        let usable = !path.is_empty() && !path.ends_with('/') && path.len() <= LONGEST_SOCKET;
        return usable.then(|| Listen::At(format!("unix:{path}"))).ok_or_else(|| {
            format!(
                "invalid socket {text:?}: expected unix:/path with at most {LONGEST_SOCKET} bytes in its path"
            )
        });
    }
    let usable = text.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (bracketed || !host.contains(':')) && port.parse::<u16>().is_ok()
    });
    match usable {
        true => Ok(Listen::At(text.to_owned())),
        false => Err(format!(
            "invalid address {text:?}: expected host:port, such as 127.0.0.1:8081, unix:/path or off"
        )),
    }
}

/// Permissions of a file in octal digits, as chmod writes them.
pub(crate) fn file_mode(text: &str) -> Result<u32, String> {
    let is_octal = matches!(text.len(), 3 | 4) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| format!("invalid permissions {text:?}: expected octal digits, such as 660"))
}

/// A DNS name or an IP address.
pub(crate) fn host(text: &str) -> Result<String, String> {
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    match text.parse::<std::net::IpAddr>().is_ok() || text.split('.').all(is_label) {
        true => Ok(text.to_owned()),
        false => Err(format!("invalid name {text:?}: expected a DNS name or an IP address")),
    }
}

/// `true` or `false`, also as `1`/`0`, `yes`/`no`, `on`/`off`, in any case.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "on" => Ok(true),
        "false" | "f" | "0" | "no" | "off" => Ok(false),
        _ => Err(format!("invalid switch {text:?}: expected true or false")),
    }
}

/// A duration such as `500ms`, `5s`, `1h30m` or `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let zero = (text == "0").then_some(Duration::ZERO);
    zero.or_else(|| tollgate_human_text::parse_duration(text))
        .ok_or_else(|| format!("invalid duration {text:?}: expected something like 500ms, 5s or 1h30m"))
}

/// A size such as `512MiB`, `1G` or `1048576`; `k`, `M`, `G` and `KiB`, `MiB`, `GiB` are powers of 1024,
/// `kB`, `MB`, `GB` of 1000.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = split_digits(text);
    let scale: Option<u64> = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "k" | "ki" | "kib" => Some(1 << 10),
        "m" | "mi" | "mib" => Some(1 << 20),
        "g" | "gi" | "gib" => Some(1 << 30),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "gb" => Some(1_000_000_000),
        _ => None,
    };
    digits
        .parse::<u64>()
        .ok()
        .zip(scale)
        .and_then(|(number, scale)| number.checked_mul(scale))
        .ok_or_else(|| format!("invalid size {text:?}: expected something like 512MiB or 2GiB"))
}

/// `bytes` as people write them: `1GiB`, `512MiB`, `1000B`.
#[must_use]
pub(crate) fn in_bytes(bytes: u64) -> String {
    let whole = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = whole.into_iter().find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    fits.map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// A whole number from `min` to `max`.
pub(crate) fn number<N: TryFrom<u64>>(text: &str, min: u64, max: u64) -> Result<N, String> {
    let number = text.parse::<u64>().ok().filter(|number| (min..=max).contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| format!("invalid number {text:?}: expected a whole number from {min} to {max}"))
}

/// A percentage from 0 to 100, such as `50` or `50%`.
pub(crate) fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<u8>();
    let number = number.ok().filter(|number| *number <= 100);
    number.ok_or_else(|| format!("invalid percentage {text:?}: expected a whole number from 0 to 100"))
}

/// A share from 0 to 1.
pub(crate) fn ratio(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(format!("invalid share {text:?}: expected a number from 0 to 1, such as 0.8")),
    }
}

/// `each`, `together` or `spare_others`.
pub(crate) fn charge(text: &str) -> Result<tollgate_policy::Charge, String> {
    use tollgate_policy::Charge;
    let named = Charge::ALL.into_iter().find(|charge| charge.name().eq_ignore_ascii_case(text));
    named.ok_or_else(|| format!("unknown charge {text:?}: expected each, together or spare_others"))
}

/// `allow`, `deny` or `local`.
pub(crate) fn on_store_failure(text: &str) -> Result<tollgate_limiter::OnStoreFailure, String> {
    use tollgate_limiter::OnStoreFailure;
    match text.to_ascii_lowercase().as_str() {
        "allow" => Ok(OnStoreFailure::Allow),
        "deny" => Ok(OnStoreFailure::Deny),
        "local" => Ok(OnStoreFailure::Local),
        _ => Err(format!("unknown answer {text:?}: expected allow, deny or local")),
    }
}

/// `admit` or `deny`.
pub(crate) fn unmatched(text: &str) -> Result<tollgate_limiter::Unmatched, String> {
    use tollgate_limiter::Unmatched;
    match text.to_ascii_lowercase().as_str() {
        "admit" => Ok(Unmatched::Admit),
        "deny" => Ok(Unmatched::Deny),
        _ => Err(format!("unknown answer {text:?}: expected admit or deny")),
    }
}

/// `used` or `all`.
pub(crate) fn rule_series(text: &str) -> Result<tollgate_limiter::RuleSeries, String> {
    use tollgate_limiter::RuleSeries;
    match text.to_ascii_lowercase().as_str() {
        "used" => Ok(RuleSeries::Used),
        "all" => Ok(RuleSeries::All),
        _ => Err(format!("unknown choice {text:?}: expected used or all")),
    }
}

/// Where an OpenTelemetry collector accepts OTLP over gRPC.
pub(crate) fn collector(text: &str) -> Result<String, String> {
    let uri = text.parse::<http::Uri>().ok();
    match uri
        .filter(|uri| uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty()))
    {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!(
            "invalid collector {text:?}: expected http://host:4317 (without TLS, so a collector nearby)"
        )),
    }
}

/// The name of a response header.
pub(crate) fn header_name(text: &str) -> Result<String, String> {
    match http::header::HeaderName::from_bytes(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("invalid header name {text:?}: expected letters, digits and dashes")),
    }
}

/// The log levels.
pub(crate) const LOG_LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// A log level; `warning`, `fatal` and `panic` are accepted too, as envoyproxy/ratelimit writes them.
pub(crate) fn log_level(text: &str) -> Result<tracing::level_filters::LevelFilter, String> {
    use tracing::level_filters::LevelFilter;
    match text.to_ascii_lowercase().as_str() {
        "off" => Ok(LevelFilter::OFF),
        "error" | "fatal" | "panic" => Ok(LevelFilter::ERROR),
        "warn" | "warning" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        _ => Err(format!("unknown level {text:?}: expected off, error, warn, info, debug or trace")),
    }
}

/// `text` or `json`.
pub(crate) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text.to_ascii_lowercase().as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("unknown log format {text:?}: expected text or json")),
    }
}

/// Accepts every text.
pub(crate) fn any(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// A path, which need not exist.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

/// Names separated by commas, such as `grpc,http`.
pub(crate) fn names(text: &str) -> Result<Vec<String>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// From 1 KiB to 64 MiB, so that sixteen times that is still a number of bytes.
pub(crate) fn body(text: &str) -> Result<usize, String> {
    match usize::try_from(bytes(text)?) {
        Ok(bytes) if (1 << 10..=64 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(format!("invalid size {text:?}: expected 1KiB to 64MiB")),
    }
}

/// Bytes of a request's line and fields: from the smallest that HTTP libraries send to the largest that is
/// worth reading.
pub(crate) fn header(text: &str) -> Result<usize, String> {
    match usize::try_from(bytes(text)?) {
        Ok(bytes) if (8 << 10..=16 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(format!("invalid size {text:?}: expected 8KiB to 16MiB")),
    }
}

/// `deny`, `allow` or `error`.
pub(crate) fn undecided(text: &str) -> Result<tollgate_limiter::Undecided, String> {
    use tollgate_limiter::Undecided;
    match text.to_ascii_lowercase().as_str() {
        "deny" => Ok(Undecided::Deny),
        "allow" => Ok(Undecided::Allow),
        "error" => Ok(Undecided::Error),
        _ => Err(format!("unknown answer {text:?}: expected deny, allow or error")),
    }
}

/// Bytes held for slow peers: from 64 KiB, one body, to 1 TiB.
pub(crate) fn held(text: &str) -> Result<usize, String> {
    match usize::try_from(bytes(text)?) {
        Ok(bytes) if (64 << 10..=1 << 40).contains(&bytes) => Ok(bytes),
        _ => Err(format!("invalid size {text:?}: expected 64KiB to 1TiB")),
    }
}

/// A duration above zero, since within no time nothing could succeed.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("invalid duration 0: expected a longer one, such as 10s".to_owned()),
        duration => Ok(duration),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_whole_numbers_with_or_without_their_sign() {
        for (text, want) in [
            ("0", Some(0)),
            ("50", Some(50)),
            ("50%", Some(50)),
            ("50 %", Some(50)),
            ("100", Some(100)),
            ("101", None),
            ("-1", None),
            ("0.5", None),
            ("%", None),
            ("", None),
        ] {
            assert_eq!(percent(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn durations_are_parsed_as_people_and_envoyproxy_ratelimit_write_them() {
        for (text, want_ms) in [
            ("0", Some(0)),
            ("500ms", Some(500)),
            ("5s", Some(5_000)),
            ("1h30m", Some(5_400_000)),
            ("24h", Some(86_400_000)),
            ("1d", Some(86_400_000)),
            ("5", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1s2", None),
            ("99999999999999h", None),
        ] {
            assert_eq!(duration(text).ok(), want_ms.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn sizes_are_parsed_in_both_kinds_of_units() {
        for (text, want) in [
            ("0", Some(0)),
            ("1048576", Some(1 << 20)),
            ("512MiB", Some(512 << 20)),
            ("2 GiB", Some(2 << 30)),
            ("1G", Some(1 << 30)),
            ("1GB", Some(1_000_000_000)),
            ("1.5G", None),
            ("lots", None),
            ("99999999999999999999", None),
            ("18446744073709551615k", None),
        ] {
            assert_eq!(bytes(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn permissions_are_octal_digits() {
        for (text, want) in [
            ("660", Some(0o660)),
            ("0600", Some(0o600)),
            ("777", Some(0o777)),
            ("66", None),
            ("0o660", None),
            ("668", None),
            ("1777", None),
            ("+66", None),
            ("", None),
        ] {
            assert_eq!(file_mode(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn a_socket_has_one_name_and_a_path_that_every_system_allows() {
        assert_eq!(listen("unix:///run/a.sock"), Ok(Listen::At("unix:/run/a.sock".to_owned())));
        let of_length = |length: usize| format!("unix:/{}", "x".repeat(length - 1));
        assert!(listen(&of_length(LONGEST_SOCKET)).is_ok());
        assert!(listen(&of_length(LONGEST_SOCKET + 1)).is_err_and(|what| what.contains("at most 103 bytes")));
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        for (text, usable) in [
            ("envoy.internal", true),
            ("10.0.0.7", true),
            ("2001:db8::1", true),
            ("", false),
            ("a..b", false),
            ("no name", false),
            ("*.internal", false),
            ("a:b", false),
        ] {
            assert_eq!(host(text).is_ok(), usable, "{text:?}");
        }
    }

    #[test]
    fn addresses_are_host_and_port_or_off() {
        for (text, usable) in [
            ("127.0.0.1:0", true),
            ("localhost:8081", true),
            ("[::1]:8081", true),
            ("off", true),
            ("unix:/run/tollgate.sock", true),
            ("unix:///run/tollgate.sock", true),
            ("unix:tollgate.sock", true),
            ("unix:", false),
            ("unix:///", false),
            ("unix:/run/", false),
            ("8081", false),
            (":8081", false),
            ("::1:8081", false),
            ("127.0.0.1:99999", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(listen(text).is_ok(), usable, "{text:?}");
        }
    }
}
