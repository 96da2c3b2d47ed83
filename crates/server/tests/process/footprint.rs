//! Cost of an idle connection, as `docs/operating.md` states it.

use super::*;

const PAGE: &str = include_str!("../../../../docs/operating.md");

/// The bytes that the page says for a connection of `surface`.
fn on_the_page(surface: &str) -> usize {
    let (_, table) = PAGE.split_once("| idle connection").expect("a table");
    let row = table.lines().find_map(|line| line.strip_prefix(&format!("| {surface} | "))).expect("a row");
    let kib = row.split_once(" KiB").expect("a size").0.parse::<f64>().expect("a number");
    (kib * 1024.0) as usize
}

/// Bytes of physical memory that `server` has.
fn resident(server: &ServerProcess) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().strip_suffix(" kB").expect("a size").parse::<usize>().expect("a number") * 1024
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A connection on which one call has been answered.
fn used_grpc(to: SocketAddr) -> TcpStream {
    const PATH: &[u8] = tollgate_testkit::grpc::SHOULD_RATE_LIMIT.as_bytes();
    const END: u8 = 1;
    let mut stream = connect(to);
    let length = u8::try_from(PATH.len()).expect("short");
    // POST, http, then literals: the path, the authority, the content type.
    let head = [&b"\x83\x86\x04"[..], &[length], PATH, b"\x01\x01t\x0f\x10\x10application/grpc"].concat();
    let frames = [frame(4, 0, 0, b""), frame(1, 4, 1, &head), frame(0, END, 1, super::grpc_ending::BOB)];
    stream.write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frames.concat()].concat()).expect("sent");
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("a frame");
        let [a, b, c, kind, flags, ..] = head;
        stream.read_exact(&mut vec![0; u32::from_be_bytes([0, a, b, c]) as usize]).expect("its payload");
        if kind == 1 && flags & END != 0 {
            return stream; // the trailers
        }
    }
}

/// A connection on which `request` has been answered by something that ends with `end`.
fn used(to: SocketAddr, request: &[u8], end: &[u8]) -> TcpStream {
    let mut stream = connect(to);
    stream.write_all(request).expect("sent");
    let mut reply = Vec::new();
    while !reply.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a reply");
        reply.extend(byte);
    }
    stream
}

#[test]
fn an_idle_connection_costs_what_the_page_says() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--workers", "1"]);
    let at = |surface| server.says(surface).and_then(|text| text.parse().ok()).expect("an address");
    let grpc: SocketAddr = at("grpc");
    let http: SocketAddr = at("http");
    let resp: SocketAddr = at("resp");
    let get = b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n";
    let connections: [(&str, &dyn Fn() -> TcpStream); 3] = [
        ("HTTP", &|| used(http, get, b"\r\n\r\nok\n")),
        ("gRPC", &|| used_grpc(grpc)),
        ("Redis protocol", &|| used(resp, b"PING\r\n", b"+PONG\r\n")),
    ];
    let mut held = Vec::new();
    for (surface, connect) in connections {
        // The first connections also cause one-time allocations of the process.
        held.extend((0..50).map(|_| connect()));
        let before = resident(&server);
        held.extend((0..200).map(|_| connect()));
        let each = (resident(&server) - before) / 200;
        let want = on_the_page(surface);
        assert!(
            (want * 7 / 10..=want * 11 / 10).contains(&each),
            "{surface}: {each} bytes, {want} on the page"
        );
    }
}
