//! Nodes and control plane together: a seeded simulation of hub, agents, network and crashes, and parts of
//! tests over real sockets. Not published.

pub mod real;
pub mod sim;
