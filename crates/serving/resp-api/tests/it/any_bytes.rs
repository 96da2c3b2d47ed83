//! Any bytes to a connection: the function of the fuzz target, on stable.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

#[path = "../../../../../fuzz/src/resp.rs"]
#[allow(unreachable_pub, reason = "public in the crate of the fuzz target")]
mod resp;

use proptest::prelude::*;
use resp::send_any_bytes;

/// Pieces of streams: whole commands, and parts of them.
const PIECES: [&[u8]; 24] = [
    b"*1\r\n$4\r\nPING\r\n",
    b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$1\r\n2\r\n$2\r\n30\r\n$2\r\n60\r\n",
    b"*6\r\n$8\r\nTHROTTLE\r\n$1\r\nb\r\n$1\r\n2\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n2\r\n",
    b"*4\r\n$14\r\nTOLLGATE.CHECK\r\n$1\r\nd\r\n$1\r\nk\r\n$1\r\nv\r\n",
    b"tollgate.throttle \"a\\x00b\" 1 1 1\r\n",
    b"HELLO 3\r\n",
    b"HELLO 2 AUTH default p SETNAME me\r\n",
    b"AUTH p\r\n",
    b"COMMAND DOCS\r\n",
    b"COMMAND INFO ping nothing\r\n",
    b"INFO rules\r\n",
    b"CLIENT INFO\r\n",
    b"RESET\r\n",
    b"QUIT\r\n",
    b"POST / HTTP/1.1\r\n",
    b"GET \"x\r\n",
    b"*2\r\n$4\r\nECHO\r\n$1500\r\n",
    b"*-1\r\n",
    b"\r\n",
    b"*3\r\n",
    b"$",
    b"4\r\n",
    b"PING",
    b"\0",
];

/// Streams made of such pieces, with some bytes between them.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => prop::sample::select(PIECES.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 1..8),
        1 => prop::collection::vec(Just(b'x'), 1_000..3_000),
    ];
    (any::<u8>(), prop::collection::vec(piece, 0..40))
        .prop_map(|(choice, pieces)| [&[choice][..], &pieces.concat()].concat())
}

#[test]
fn a_long_pipeline_is_the_same_in_every_piece() {
    let stream = PIECES[..4].concat().repeat(300);
    for choice in [0, 14, 254] {
        send_any_bytes(&[&[choice][..], &stream].concat());
    }
}

proptest! {
    #[test]
    fn likely_bytes_are_answered_alike_in_any_pieces(stream in streams()) {
        send_any_bytes(&stream);
    }

    #[test]
    fn any_bytes_are_answered_alike_in_any_pieces(stream in prop::collection::vec(any::<u8>(), 0..300)) {
        send_any_bytes(&stream);
    }
}
