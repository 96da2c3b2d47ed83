//! HTTP over a Unix socket, for `ureq`. A request has a connection of its own.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Connects to one socket, whatever the URL says.
#[derive(Debug)]
pub(crate) struct Socket(pub(crate) PathBuf);

/// A connection with its buffers.
pub(crate) struct UnixConnection {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Connector for Socket {
    type Out = UnixConnection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<UnixConnection>, Error> {
        let stream = UnixStream::connect(&self.0)?;
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(UnixConnection { stream, buffers }))
    }
}

impl Transport for UnixConnection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(timeout.not_zero().map(|it| *it))?;
        self.stream.write_all(&self.buffers.output()[..amount]).map_err(|error| in_time(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(timeout.not_zero().map(|it| *it))?;
        let read = self.stream.read(self.buffers.input_append_buf());
        let amount = read.map_err(|error| in_time(error, timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        false // it is not used again
    }
}

/// Turns `WouldBlock`, the socket's error on a timeout, into a timeout.
fn in_time(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

impl std::fmt::Debug for UnixConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connection").field(&self.stream).finish()
    }
}
