//! Variables that Kubernetes sets in every container of a namespace with a Service called `tollgate`, or one
//! whose name begins so, such as `tollgate-grpc`. They describe the Service and are not settings.

/// Whether Kubernetes sets a variable called `name` to such a `value`, for any Service.
pub(super) fn is_of_a_service(name: &str, value: &str) -> bool {
    name.match_indices('_').any(|(end, _)| ends_as_of_a_service(&name[end..], value))
}

/// The address of a Service, such as `tcp://10.0.0.11:8080`, which is never a port.
pub(super) fn is_address(value: &str) -> bool {
    ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme))
}

/// `end` is what follows the name of the Service: `_SERVICE_HOST`, `_SERVICE_PORT`, `_SERVICE_PORT_HTTP`,
/// `_PORT`, `_PORT_8080_TCP`, or `_PORT_8080_TCP_ADDR`.
fn ends_as_of_a_service(end: &str, value: &str) -> bool {
    if let Some(rest) = end.strip_prefix("_SERVICE_") {
        return matches!(rest, "HOST" | "PORT")
            || rest.strip_prefix("PORT_").is_some_and(|port| !port.is_empty());
    }
    let Some(rest) = end.strip_prefix("_PORT") else { return false };
    match rest.split('_').collect::<Vec<_>>()[..] {
        // `TOLLGATE_PORT=8080` was written by a person.
        [""] => is_address(value),
        ["", port, "TCP" | "UDP" | "SCTP"]
        | ["", port, "TCP" | "UDP" | "SCTP", "PROTO" | "PORT" | "ADDR"] => port.parse::<u16>().is_ok(),
        _ => false,
    }
}
