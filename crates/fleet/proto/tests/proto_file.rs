//! The structs are what the proto file says.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use prost::Message;
use protox::prost_reflect::{DescriptorPool, DynamicMessage, Kind, ReflectMessage as _};
use tollgate_fleet_proto::*;

fn pool() -> DescriptorPool {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let mut compiler = protox::Compiler::new([root]).expect("a folder");
    compiler.open_file("tollgate/fleet/v1/fleet.proto").expect("a file without fault");
    compiler.descriptor_pool()
}

/// Every field of every message is set to something that is not its default.
fn everything() -> (Vec<NodeSays>, Vec<ControlSays>) {
    let text = || "x".to_owned();
    let label = || Label { key: text(), value: text() };
    let held = || Held { app: text(), version: 2, sha256: vec![3] };
    let fault = || Fault {
        app: text(),
        version: 2,
        domain: text(),
        line: 4,
        column: 5,
        path: text(),
        message: text(),
    };
    let hello = Hello {
        node: text(),
        incarnation: 2,
        name: text(),
        labels: vec![label()],
        software: text(),
        language: 6,
        epoch: text(),
        held: vec![held()],
        local_domains: vec![text()],
        crashed: vec![fault()],
        secret: vec![11],
    };
    let counts = RuleCounts {
        domain: text(),
        rule: text(),
        admitted: 3,
        denied: 4,
        shadow_denied: 5,
        degraded: 6,
        near: 7,
        both_denied: 8,
        forgotten: 9,
        alone_denied: 10,
    };
    let report = Report {
        sequence: 1,
        age_ms: 2,
        span_ms: 3,
        rules: vec![counts],
        top: vec![TopKey { domain: text(), rule: text(), key: text(), denied: 4 }],
        costs: vec![Cost { domain: text(), rule: text(), count: 3, sum_us: 4, max_us: 5, errors: 6 }],
        store: Some(Store { name: text(), available: true }),
        table_bytes: 8,
        wall_ms: 9,
        state_error: text(),
        rules_error: text(),
        unknown_domains: vec![text()],
        rejected: vec![RejectedRequests { surface: text(), status: text(), reason: text(), count: 4 }],
    };
    let node = vec![
        FromNode::Hello(hello),
        FromNode::Ack(Ack { bundle: 1, held: vec![held()] }),
        FromNode::Nack(Nack { bundle: 1, faults: vec![fault()], held: vec![held()] }),
        FromNode::Report(report),
        FromNode::Reply(Reply { command: 1, error: text(), body: text() }),
    ];
    let app = AppVersion { app: text(), version: 2, documents: 3, sha256: vec![4] };
    let document = Document { app: text(), version: 2, domain: text(), sha256: vec![4], yaml: text() };
    let block = Override { domain: text(), entries: vec![label()], action: Action::Deny.into(), until_ms: 4 };
    let control = vec![
        FromControl::Welcome(Welcome { epoch: text(), replica: text(), report_interval_ms: 3 }),
        FromControl::Begin(Begin { bundle: 1, full: true, apps: vec![app], removed: vec![text()] }),
        FromControl::Document(document),
        FromControl::End(End { bundle: 1 }),
        FromControl::Seen(Seen { sequence: 1 }),
        FromControl::Overrides(Overrides { revision: 1, overrides: vec![block] }),
        FromControl::Command(Command { command: 1, kind: text(), body: text() }),
        FromControl::Candidates(Candidates { apps: vec![CandidateVersion { app: text(), version: 2 }] }),
        FromControl::GoAway(GoAway { after_ms: 1, reason: text() }),
    ];
    (node.into_iter().map(Into::into).collect(), control.into_iter().map(Into::into).collect())
}

#[test]
fn every_field_of_the_structs_has_the_number_and_type_of_the_proto_file() {
    let pool = pool();
    let (node, control) = everything();
    let messages = node.iter().map(|says| ("NodeSays", says.encode_to_vec()));
    let messages = messages.chain(control.iter().map(|says| ("ControlSays", says.encode_to_vec())));
    for (name, bytes) in messages {
        let descriptor = pool.get_message_by_name(&format!("{}.{name}", package())).expect("a message");
        let read = DynamicMessage::decode(descriptor, &bytes[..]).expect("bytes of that message");
        let oneof = read.descriptor().oneofs().next().expect("a oneof");
        let set = oneof.fields().filter(|field| read.has_field(field)).count();
        assert_eq!(set, 1, "{name}: {read:?}");
        let field = oneof.fields().find(|field| read.has_field(field)).expect("counted");
        complete(read.get_field(&field).as_message().expect("a message"));
        assert_eq!(read.encode_to_vec(), bytes);
    }
    let oneofs = |name: &str| {
        let message = pool.get_message_by_name(&format!("{}.{name}", package())).expect("a message");
        message.fields().count()
    };
    assert_eq!((oneofs("NodeSays"), oneofs("ControlSays")), (node.len(), control.len()));
}

/// No field of the message is unknown to the proto file, and none of the proto file's is unset.
fn complete(message: &DynamicMessage) {
    assert_eq!(message.unknown_fields().count(), 0, "{message:?}");
    for field in message.descriptor().fields() {
        assert!(message.has_field(&field), "{} is not set", field.full_name());
        if let Kind::Message(_) = field.kind() {
            let value = message.get_field(&field);
            match value.as_list() {
                Some(list) => list.iter().for_each(|item| complete(item.as_message().expect("a message"))),
                None => complete(value.as_message().expect("a message")),
            }
        }
    }
}

fn package() -> &'static str {
    SERVICE.rsplit_once('.').expect("a package").0
}

#[test]
fn the_call_has_the_name_and_the_streams_of_the_proto_file() {
    let pool = pool();
    let service = pool.get_service_by_name(SERVICE).expect("the service");
    let method = service.methods().next().expect("a call");
    assert_eq!(format!("/{SERVICE}/{}", method.name()), ATTACH);
    assert!(method.is_client_streaming() && method.is_server_streaming());
}
