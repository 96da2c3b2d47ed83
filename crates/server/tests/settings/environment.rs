//! Variables that begin as Tollgate's own do and are not settings: those that Kubernetes sets, and unknown
//! ones.

use super::*;

#[test]
fn what_kubernetes_sets_for_a_service_called_tollgate_is_ignored() {
    let env = [
        ("TOLLGATE_SERVICE_HOST", "10.0.0.11"),
        ("TOLLGATE_SERVICE_PORT", "8080"),
        ("TOLLGATE_SERVICE_PORT_HTTP", "8080"),
        ("TOLLGATE_SERVICE_PORT_GRPC_WEB", "8081"),
        ("TOLLGATE_PORT", "tcp://10.0.0.11:8080"),
        ("TOLLGATE_PORT_8080_TCP", "tcp://10.0.0.11:8080"),
        ("TOLLGATE_PORT_8080_TCP_PROTO", "tcp"),
        ("TOLLGATE_PORT_8080_TCP_PORT", "8080"),
        ("TOLLGATE_PORT_8080_TCP_ADDR", "10.0.0.11"),
        ("TOLLGATE_PORT_53_UDP", "udp://10.0.0.11:53"),
        ("TOLLGATE_PORT_53_UDP_ADDR", "10.0.0.11"),
        ("TOLLGATE_PORT_9_SCTP_PORT", "9"),
        // Variables of a Service called tollgate-http, which are not the setting TOLLGATE_HTTP.
        ("TOLLGATE_HTTP_SERVICE_HOST", "10.0.0.12"),
        ("TOLLGATE_HTTP_SERVICE_PORT", "80"),
        ("TOLLGATE_HTTP_PORT", "tcp://10.0.0.12:80"),
        ("TOLLGATE_HTTP_PORT_80_TCP_ADDR", "10.0.0.12"),
    ];
    assert_eq!(read_with_rules(&[], &env, None), read_with_rules(&[], &[], None));
    let with_setting: Vec<_> = env.into_iter().chain([("TOLLGATE_HTTP", "127.0.0.1:9")]).collect();
    assert_eq!(listen(&read_with_rules(&[], &with_setting, None), "http"), &at("127.0.0.1:9"));
}

#[test]
fn a_misspelt_name_is_a_fault_and_any_other_unknown_one_is_noted_with_the_nearest_setting() {
    let read_one = |name, value| read(&[("rules", "rules")], &[(name, value)], None);
    for (name, nearest) in [
        ("TOLLGATE_GRCP", "TOLLGATE_GRPC"),
        ("TOLLGATE_MAX_CONECTIONS", "TOLLGATE_MAX_CONNECTIONS"),
        ("TOLLGATE_CONFIGS", "TOLLGATE_CONFIG"),
        ("TOLLGATE_LOGLEVEL", "TOLLGATE_LOG_LEVEL"),
    ] {
        let want = format!("environment: {name}: unknown setting; did you mean {nearest}?");
        assert_eq!(faults(read_one(name, "1")), [want]);
    }
    for (name, value, nearest) in [
        ("TOLLGATE_PORT", "8080", "TOLLGATE_"), // by a person: Kubernetes sets an address
        ("TOLLGATE_HTTP_PORT", "8080", "TOLLGATE_HTTP"),
        ("TOLLGATE_PORT_HTTP_TCP", "8080", "TOLLGATE_"),
        ("TOLLGATE_SERVICE_PORT_", "8080", "TOLLGATE_"),
        ("TOLLGATE_IMAGE_DIGEST", "sha256:0", "TOLLGATE_"),
    ] {
        let notes = read_one(name, value).expect("no fault").notes;
        let [note] = &notes[..] else { panic!("{name}: {notes:?}") };
        let want = format!("{name}: no effect: unknown setting; the nearest is {nearest}");
        assert!(note.starts_with(&want), "{note}");
    }
}
