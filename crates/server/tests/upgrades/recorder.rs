//! Messages between a node and a control plane, recorded between them from the frames of HTTP/2.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tollgate_fleet_proto::{ControlSays, NodeSays};

use prost::Message as _;

/// Sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Node,
    Control,
}

/// One message, in the order in which it was passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) from: From,
    pub(crate) bytes: Vec<u8>,
}

impl Said {
    pub(crate) fn by_node(&self) -> NodeSays {
        NodeSays::decode(&*self.bytes).expect("a message of a node")
    }

    pub(crate) fn by_control(&self) -> ControlSays {
        ControlSays::decode(&*self.bytes).expect("a message of a control plane")
    }
}

/// One line for each message: `>` to the control plane, `<` from it, and its bytes.
pub(crate) fn to_text(said: &[Said]) -> String {
    let line = |said: &Said| {
        let hex: String = said.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {hex}\n", if said.from == From::Node { '>' } else { '<' })
    };
    said.iter().map(line).collect()
}

/// The messages of such lines.
pub(crate) fn from_text(text: &str) -> Vec<Said> {
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    let said = |line: &str| {
        let (from, hex) = line.split_once(' ').expect("a direction and bytes");
        let from = if from == ">" { From::Node } else { From::Control };
        Said { from, bytes: hex.as_bytes().chunks(2).map(byte).collect() }
    };
    text.lines().map(said).collect()
}

/// Stands between one node and its control plane.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<Vec<Said>>>,
    passing: JoinHandle<()>,
}

impl Recorder {
    /// Passes one connection on to `control`.
    pub(crate) fn start(control: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&said);
        let passing = std::thread::spawn(move || {
            let (node, _) = listener.accept().expect("a node");
            let control = TcpStream::connect(control).expect("a control plane");
            let to_node = node.try_clone();
            let to_control = control.try_clone();
            let to_node = to_node.expect("a handle");
            let to_control = to_control.expect("a handle");
            let back = Arc::clone(&kept);
            let back = std::thread::spawn(move || pass(From::Control, control, to_node, &back));
            pass(From::Node, node, to_control, &kept);
            back.join().expect("it ends");
        });
        Self { address, said, passing }
    }

    /// Messages recorded so far.
    pub(crate) fn said(&self) -> Vec<Said> {
        self.said.lock().clone()
    }

    /// All that was said, once the node has gone.
    pub(crate) fn end(self) -> Vec<Said> {
        self.passing.join().expect("it ends");
        self.said.lock().clone()
    }
}

/// Passes bytes on. A message is noted before its last byte is passed on, so an answer never precedes its
/// question.
fn pass(from: From, mut read: TcpStream, mut write: TcpStream, said: &Mutex<Vec<Said>>) {
    let mut frames = Frames::new(from);
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = read.read(&mut buffer) {
        let messages = frames.read(&buffer[..length]);
        let messages = messages.into_iter().map(|bytes| Said { from, bytes });
        said.lock().extend(messages);
        if write.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    drop(write.shutdown(Shutdown::Write));
}

/// One direction of a connection of HTTP/2 with one stream.
struct Frames {
    /// Bytes of the connection that are not read yet.
    bytes: Vec<u8>,
    /// Bytes of the stream that are not a whole message yet.
    data: Vec<u8>,
    /// Bytes of the greeting that are still to come.
    preface: usize,
}

impl Frames {
    fn new(from: From) -> Self {
        let preface = if from == From::Node { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len() } else { 0 };
        Self { bytes: Vec::new(), data: Vec::new(), preface }
    }

    /// The messages that these bytes complete.
    fn read(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.bytes.extend_from_slice(bytes);
        let greeting = self.preface.min(self.bytes.len());
        self.bytes.drain(..greeting);
        self.preface -= greeting;
        // Length (3), kind (1), flags (1), stream (4), and that many bytes.
        while let Some(&[a, b, c, kind, flags, ..]) = self.bytes.first_chunk::<9>() {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if self.bytes.len() < 9 + length {
                break;
            }
            let frame: Vec<u8> = self.bytes.drain(..9 + length).skip(9).collect();
            if kind == 0 {
                assert_eq!(flags & 8, 0, "padding");
                self.data.extend_from_slice(&frame);
            }
        }
        // A flag (1) and the length (4) of a message of gRPC.
        let mut messages = Vec::new();
        while let Some(&[compressed, a, b, c, d]) = self.data.first_chunk::<5>() {
            assert_eq!(compressed, 0);
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if self.data.len() < 5 + length {
                break;
            }
            messages.push(self.data.drain(..5 + length).skip(5).collect());
        }
        messages
    }
}
