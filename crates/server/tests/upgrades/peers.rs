//! A control plane and a node of another release, played from recordings of their messages: each message is
//! sent once the other side has sent as much as then.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use parking_lot::Mutex;
use prost::Message as _;
use tollgate_fleet_proto::{ATTACH, Ack, ControlSays, FromControl, FromNode, Nack, Seen};

use crate::recorder::{From, Said};

/// Messages that a peer has received so far.
pub(crate) type Heard = Arc<Mutex<Vec<Said>>>;

/// A control plane that says what another has said. Returns where it listens.
pub(crate) fn control(script: Vec<Said>) -> (SocketAddr, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    listener.set_nonblocking(true).expect("a socket");
    let heard = Heard::default();
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        run(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            let (stream, _) = listener.accept().await.expect("a node");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            let (request, mut respond) = connection.accept().await.expect("a call").expect("HTTP/2");
            assert_eq!(request.uri().path(), ATTACH);
            let answer = http::Response::builder().header("content-type", "application/grpc");
            let send = respond.send_response(answer.body(()).expect("a head"), false).expect("sent");
            let stream = Stream::new(From::Control, send, request.into_body(), kept);
            tokio::select! {
                () = stream.say(&script) => {}
                _ = std::future::poll_fn(|context| connection.poll_closed(context)) => {}
            }
        });
    });
    (address, heard)
}

/// Has a node say what another has said, until all of it is said and `is_done`.
pub(crate) fn node(
    control: SocketAddr,
    token: &str,
    script: &[Said],
    is_done: impl Fn(&[Said]) -> bool,
) -> Heard {
    let heard = Heard::default();
    run(async {
        let stream = tokio::net::TcpStream::connect(control).await.expect("a control plane");
        let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let request = http::Request::post(format!("http://{control}{ATTACH}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("authorization", format!("Bearer {token}"));
        let mut client = client.ready().await.expect("HTTP/2");
        let (answer, send) = client.send_request(request.body(()).expect("a head"), false).expect("sent");
        let answer = answer.await.expect("a head");
        assert_eq!((answer.status().as_u16(), answer.headers().get("grpc-status")), (200, None));
        let mut stream = Stream::new(From::Node, send, answer.into_body(), Arc::clone(&heard));
        stream.say_all(script).await;
        while !is_done(&heard.lock()) {
            stream.hear().await.expect("the control plane keeps the stream");
        }
    });
    heard
}

fn run(what: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(what);
}

/// One side of the call.
struct Stream {
    me: From,
    send: SendStream<Bytes>,
    receive: RecvStream,
    bytes: BytesMut,
    heard: Heard,
}

impl Stream {
    fn new(me: From, send: SendStream<Bytes>, receive: RecvStream, heard: Heard) -> Self {
        Self { me, send, receive, bytes: BytesMut::new(), heard }
    }

    /// Says the script, and then listens until the other side has gone.
    async fn say(mut self, script: &[Said]) {
        self.say_all(script).await;
        while self.hear().await.is_some() {}
    }

    async fn say_all(&mut self, script: &[Said]) {
        let mut before = 0;
        for said in script {
            if said.from != self.me {
                before += usize::from(is_step(said));
                continue;
            }
            // Reports are numbered, and are answered as they come.
            if self.me == From::Control && matches!(said.by_control().says, Some(FromControl::Seen(_))) {
                continue;
            }
            while self.steps() < before {
                assert!(self.hear().await.is_some(), "the other side left before {said:?}");
            }
            match self.me {
                From::Control => self.send(&said.bytes),
                From::Node => self.send(&self.answering(said)),
            }
        }
    }

    /// The next message of a node. The control plane numbers bundles since its start, so an answer has the
    /// number that this one has sent.
    fn answering(&self, said: &Said) -> Vec<u8> {
        let heard = self.heard.lock();
        let mut begun = heard.iter().rev().filter_map(|said| match said.by_control().says? {
            FromControl::Begin(begin) => Some(begin.bundle),
            _ => None,
        });
        let mut says = said.by_node();
        if let Some(FromNode::Ack(Ack { bundle, .. }) | FromNode::Nack(Nack { bundle, .. })) = &mut says.says
        {
            *bundle = begun.next().expect("an answer to a bundle");
        }
        says.encode_to_vec()
    }

    /// Number of messages of the other side that the script waits for.
    fn steps(&self) -> usize {
        self.heard.lock().iter().filter(|said| is_step(said)).count()
    }

    fn send(&mut self, message: &[u8]) {
        let length = u32::try_from(message.len()).expect("a small message").to_be_bytes();
        let frame = [&[0], &length[..], message].concat();
        self.send.send_data(frame.into(), false).expect("sent");
    }

    /// Waits for the next bytes; `None` at the end.
    async fn hear(&mut self) -> Option<()> {
        let bytes = self.receive.data().await?.ok()?;
        self.receive.flow_control().release_capacity(bytes.len()).expect("they were counted");
        self.bytes.extend_from_slice(&bytes);
        while let Some(&[_, a, b, c, d]) = self.bytes.first_chunk::<5>() {
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if self.bytes.len() < 5 + length {
                break;
            }
            self.bytes.advance(5);
            let from = if self.me == From::Node { From::Control } else { From::Node };
            let said = Said { from, bytes: self.bytes.split_to(length).to_vec() };
            if from == From::Node
                && let Some(FromNode::Report(report)) = said.by_node().says
            {
                let seen = FromControl::Seen(Seen { sequence: report.sequence });
                self.send(&ControlSays { says: Some(seen) }.encode_to_vec());
            }
            self.heard.lock().push(said);
        }
        Some(())
    }
}

/// Whether the other side waits for this message before it says more.
fn is_step(said: &Said) -> bool {
    match said.from {
        From::Node => matches!(
            said.by_node().says,
            Some(FromNode::Hello(_) | FromNode::Ack(_) | FromNode::Nack(_) | FromNode::Reply(_))
        ),
        From::Control => {
            matches!(
                said.by_control().says,
                Some(FromControl::Welcome(_) | FromControl::End(_) | FromControl::Command(_))
            )
        }
    }
}
