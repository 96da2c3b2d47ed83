//! Tests of the Redis protocol on real sockets, in one program, which builds faster than eight.

mod any_bytes;
mod clients;
mod common;
mod deciding;
mod ending;
mod oversized;
mod redis_cell;
mod talking;
mod wire;
