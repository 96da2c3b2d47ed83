//! One thread, one epoll, blocking on nothing else: the fastest that a server of the Redis protocol can be
//! here.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use super::{REPLY, REQUEST};

const LISTENER: u64 = 0;

pub(super) fn serve(port: u16) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    // Each with the bytes of a request that are there already.
    let mut streams: HashMap<u64, (TcpStream, usize)> = HashMap::new();
    let mut next = LISTENER + 1;
    let replies = REPLY.repeat(1_024);
    let mut input = vec![0; REQUEST * 1_000];
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), None)?;
        for event in &events {
            let id = event.data.u64();
            if id == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                epoll::add(&poll, &stream, epoll::EventData::new_u64(next), epoll::EventFlags::IN)?;
                streams.insert(next, (stream, 0));
                next += 1;
            } else if let Some((stream, begun)) = streams.get_mut(&id)
                && !answer(stream, begun, &mut input, &replies)
            {
                // Closing it takes it out of the epoll too.
                streams.remove(&id);
            }
        }
    }
}

/// Answers the requests that have arrived; `false` when the other side has gone.
fn answer(stream: &mut TcpStream, begun: &mut usize, input: &mut [u8], replies: &[u8]) -> bool {
    match stream.read(input) {
        Ok(count @ 1..) => {
            let all = *begun + count;
            *begun = all % REQUEST;
            stream.write_all(&replies[..all / REQUEST * REPLY.len()]).is_ok()
        }
        Err(error) => error.kind() == ErrorKind::WouldBlock,
        Ok(0) => false,
    }
}
