//! Tests of sockets and connections, in one program, which builds faster than six.

mod accept;
mod common;
mod descriptors;
mod documentation;
mod reload;
mod tls;
mod unix_sockets;
