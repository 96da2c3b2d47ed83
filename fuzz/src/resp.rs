//! Any bytes to the Redis-protocol surface: never a panic, nothing but whole replies, one for each command,
//! and the same in whatever pieces the bytes come.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tollgate_core::{ManualClock, Timestamp};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_net::Surface;
use tollgate_resp_api::{Password, RespApi, RespSettings};
use tollgate_rule_files::parse_text;
use tollgate_store_memory::{HashKey, MemoryConfig, MemoryStore};

const RULES: &str = "{domain: d, descriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 2}}]}";
/// The longest reply to a short command: what `COMMAND DOCS` says.
const LONGEST_REPLY: usize = 16 * 1024;

/// Sends `bytes` to a surface, whole and in pieces, and checks the replies. The first byte chooses the pieces
/// and whether there is a password.
///
/// # Panics
/// When a promise of the surface is broken.
pub fn send_any_bytes(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let has_password = choice & 1 == 1;
    let (whole, commands) = said(&[bytes], has_password);
    let replies = count_replies(&whole);
    let quits = whole.windows(5).any(|window| window == b"+OK\r\n");
    let is_refused = whole.windows(16).any(|window| window == b"-ERR Protocol er");
    // A protocol error is a reply without a command; a client that quits is gone before its command is
    // counted.
    assert!(
        (commands..=commands + 1 + u64::from(is_refused && quits)).contains(&replies),
        "{commands} commands, {replies} replies"
    );
    assert!(
        whole.len() <= (commands as usize + 2) * LONGEST_REPLY + 4 * bytes.len(),
        "{} bytes",
        whole.len()
    );
    let size = usize::from(choice >> 1) + 1;
    let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
    let (in_pieces, _) = said(&pieces, has_password);
    if whole.windows(18).any(|window| window == b"half_command_bytes") {
        return; // `INFO` tells the pieces apart
    }
    assert_eq!(whole.escape_ascii().to_string(), in_pieces.escape_ascii().to_string(), "in pieces of {size}");
}

/// All that is said to a client that sends these pieces, and how many commands were counted.
fn said(pieces: &[&[u8]], has_password: bool) -> (Vec<u8>, u64) {
    let policy = parse_text("d.yaml", RULES).expect("the rules are right");
    let config = MemoryConfig { max_bytes: 1 << 16, hash_key: HashKey::Fixed(7), ..MemoryConfig::default() };
    let limiter = Limiter::new(policy, MemoryStore::new(config), LimiterSettings::default());
    let clock = ManualClock::at(Timestamp::from_unix_seconds(1_700_000_000));
    let settings = RespSettings {
        password: has_password.then(|| Password::new("p")),
        max_bulk_bytes: 2_000,
        max_arguments: 40,
        max_command_bytes: 4_000,
        ..RespSettings::default()
    };
    let api: Arc<RespApi<MemoryStore>> = Arc::new(RespApi::new(Arc::new(limiter), Arc::new(clock), settings));
    let out = Arc::default();
    let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
    let peer = Peer { pieces, out: Arc::clone(&out) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(Arc::clone(&api).serve(peer, watch::channel(false).1));
    assert_eq!((api.stats().clients(), api.buffered_bytes()), (0, 0));
    let out = std::mem::take(&mut *out.lock());
    (out, api.stats().commands())
}

/// Says its pieces and listens.
struct Peer {
    pieces: VecDeque<Vec<u8>>,
    out: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.pieces.pop_front() {
            let rest = piece.split_off(piece.len().min(into.remaining()));
            into.put_slice(&piece);
            if !rest.is_empty() {
                self.pieces.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.out.lock().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The number of replies in `bytes`.
fn count_replies(mut bytes: &[u8]) -> u64 {
    let mut replies = 0;
    while !bytes.is_empty() {
        bytes = skip(bytes);
        replies += 1;
    }
    replies
}

/// The bytes after the first reply.
fn skip(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(2).position(|two| two == b"\r\n").expect("a line ends");
    let line = &bytes[..end];
    let mut rest = &bytes[end + 2..];
    let text = std::str::from_utf8(&line[1..]);
    let length = || text.expect("a number").parse::<i64>().expect("a number");
    match line[0] {
        b'+' | b'-' | b'_' => assert!(!line.contains(&b'\r') && !line.contains(&b'\n')),
        b':' => {
            length();
        }
        b'$' | b'=' => {
            if let Ok(length) = usize::try_from(length()) {
                assert_eq!(&rest[length..length + 2], b"\r\n");
                rest = &rest[length + 2..];
            }
        }
        b'*' | b'~' | b'%' => {
            let each = if line[0] == b'%' { 2 } else { 1 };
            for _ in 0..each * length().max(0) {
                rest = skip(rest);
            }
        }
        other => panic!("no reply begins with {other}"),
    }
    rest
}
