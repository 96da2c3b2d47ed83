//! Frame by frame, as no well-behaved server would send them. A real server answers in `tests/servers.rs`.

use super::*;
use crate::tests::{at_ms, check, plan_for};

fn client() -> (Http2, Vec<u8>) {
    let plan = Plan { in_flight: 2, ..plan_for("grpc://h:1", check()) };
    let request = Arc::new(RequestTemplate::new(&plan).expect("can be asked"));
    let mut client = Http2::new(request, &plan);
    let mut out = Vec::new();
    client.open(&mut out);
    assert!(out.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04\0\0\0\0\0"), "{out:?}");
    (client, out)
}

fn framed(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame(kind, flags, id, payload.len() as u32, &mut out);
    out.extend(payload);
    out
}

fn send(client: &mut Http2) -> Vec<u8> {
    let mut out = Vec::new();
    client.request(1, Sent { intended: at_ms(0), is_counted: true }, &mut out);
    out
}

#[test]
fn nothing_is_sent_before_the_settings_and_no_more_than_they_allow() {
    let (mut client, mut out) = client();
    let mut tally = Tally::new();
    assert!(!client.has_room());
    out.clear();
    let settings = framed(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]);
    for cut in 0..settings.len() {
        assert_eq!(client.read(&settings[..cut], &mut out, at_ms(1), &mut tally), Ok(0));
    }
    assert_eq!(client.read(&settings, &mut out, at_ms(1), &mut tally), Ok(settings.len()));
    assert_eq!(out, framed(SETTINGS, ACK, 0, &[]));
    assert!(client.has_room());
    send(&mut client);
    assert!(!client.has_room(), "one stream at a time");
}

#[test]
fn the_second_request_names_fields_by_number() {
    let (mut client, _) = client();
    let first = send(&mut client);
    let second = send(&mut client);
    assert!(first.len() > second.len() + 80);
    // POST, http, then path, authority, content type and te as the server remembers them; stream 3.
    assert!(second.starts_with(&framed(HEADERS, END_HEADERS, 3, &[0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe])));
}

#[test]
fn a_server_that_remembers_nothing_is_told_everything() {
    let (mut client, mut out) = client();
    let settings = framed(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]);
    assert!(client.read(&settings, &mut out, at_ms(1), &mut Tally::new()).is_ok());
    let first = send(&mut client);
    let second = send(&mut client);
    assert_eq!(first[HEAD..HEAD + 3], [0x20, 0x83, 0x86]);
    assert_eq!(first.len(), second.len() + 1);
}

#[test]
fn every_way_to_end_a_call_is_counted() {
    for (frames, want) in [
        (vec![framed(DATA, END_STREAM, 1, &[0, 0, 0, 0, 2, 8, 1])], "admitted"),
        (vec![framed(DATA, 0, 1, &[0, 0, 0, 0, 2, 8, 2]), framed(HEADERS, 5, 1, &[0x20])], "denied"),
        (
            vec![framed(DATA, 0, 1, &[0, 0, 0, 0, 0]), framed(HEADERS, 5, 1, &[])],
            "an answer with overall code 0, which is neither OK nor OVER_LIMIT",
        ),
        (
            vec![framed(HEADERS, 5, 1, b"\x88\0\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x82\x08\xbf")],
            "gRPC status 12 (unimplemented)",
        ),
        (vec![framed(HEADERS, 5, 1, b"\x88\0\x0bgrpc-status\x0216")], "gRPC status 16 (unauthenticated)"),
        (vec![framed(HEADERS, 5, 1, b"\x8d")], "an answer without a message (is it a gRPC server?)"),
        (vec![framed(RST_STREAM, 0, 1, &[0, 0, 0, 7])], "the server reset the call with HTTP/2 error 7"),
    ] {
        let (mut client, mut out) = client();
        let mut tally = Tally::new();
        send(&mut client);
        for frame in &frames {
            assert_eq!(client.read(frame, &mut out, at_ms(5), &mut tally), Ok(frame.len()));
        }
        let told = match (tally.admitted, tally.denied, tally.errors.keys().next()) {
            (1, 0, None) => "admitted",
            (0, 1, None) => "denied",
            (0, 0, Some(what)) => what,
            _ => "counted wrongly",
        };
        assert_eq!(told, want);
        assert_eq!((client.waiting(), tally.requests()), (0, 1));
    }
}

#[test]
fn an_answer_without_a_rule_is_not_taken_for_one_that_a_rule_admits() {
    for (message, unmatched) in [
        (&[8, 1, 0x12, 2, 8, 1][..], 1),
        (&[8, 1, 0x12, 8, 8, 1, 0x12, 4, 8, 5, 0x10, 1], 0), // a limit
        (&[8, 1, 0x12, 4, 8, 1, 0x18, 7], 0),                // permits that remain
        (&[8, 1], 0),
        (&[8, 2, 0x12, 2, 8, 2], 0),
        (&[8, 1, 0x12, 7, 8], 0), // cut off
    ] {
        let (mut client, mut out) = client();
        let mut tally = Tally::new();
        send(&mut client);
        let payload = [&[0, 0, 0, 0, message.len() as u8], message].concat();
        let frame = framed(DATA, END_STREAM, 1, &payload);
        assert_eq!(client.read(&frame, &mut out, at_ms(5), &mut tally), Ok(frame.len()));
        assert_eq!((tally.requests(), tally.unmatched), (1, unmatched), "{message:?}");
    }
}

#[test]
fn answers_out_of_order_and_for_no_call_do_no_harm() {
    let (mut client, mut out) = client();
    let mut tally = Tally::new();
    send(&mut client);
    send(&mut client);
    let message = [0, 0, 0, 0, 2, 8, 1];
    for id in [3, 3, 2, 99, 0, 1, 1] {
        let frame = framed(DATA, END_STREAM, id, &message);
        assert_eq!(client.read(&frame, &mut out, at_ms(5), &mut tally), Ok(frame.len()));
    }
    assert_eq!((tally.admitted, client.waiting(), client.first), (2, 0, 5));
}

#[test]
fn pings_are_answered_and_a_goodbye_ends_the_connection_after_the_last_answer() {
    let (mut client, mut out) = client();
    let mut tally = Tally::new();
    send(&mut client);
    out.clear();
    let ping = framed(PING, 0, 0, b"12345678");
    assert!(client.read(&ping, &mut out, at_ms(1), &mut tally).is_ok());
    assert_eq!(out, framed(PING, ACK, 0, b"12345678"));
    let goodbye = framed(GOAWAY, 0, 0, &[0; 8]);
    assert!(client.read(&goodbye, &mut out, at_ms(1), &mut tally).is_ok());
    assert!(!client.has_room());
    let answer = framed(DATA, END_STREAM, 1, &[0, 0, 0, 0, 2, 8, 1]);
    assert!(client.read(&answer, &mut out, at_ms(1), &mut tally).is_err());
    assert_eq!(tally.admitted, 1);
}

#[test]
fn what_is_not_http2_breaks_the_connection() {
    let (mut client, mut out) = client();
    let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    assert!(client.read(answer, &mut out, at_ms(1), &mut Tally::new()).is_err());
}
