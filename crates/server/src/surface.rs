//! Interface between a surface and the server: rows of settings, an address, and acceptors for connections.
//!
//! A surface is one file in `surfaces/` and one entry in its list. Nothing else knows it by name.

use std::any::Any;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use tollgate_net::Address;
use tollgate_policy::Policy;

use crate::acceptor::Acceptor;
use crate::node::ServerNode;
use crate::settings::decisions::Decisions;
use crate::settings::layers::Layers;
use crate::settings::parse::Listen;
use crate::settings::row::{Row, Setting};
use crate::settings::serving::Serving;

/// A surface that can be mounted: an entry in the list of all surfaces.
#[derive(Debug)]
pub(crate) struct SurfaceKind {
    /// The row of its address. The surface has that row's name, and the row's default is where it listens by
    /// default.
    pub(crate) listen: &'static Row<Listen>,
    /// All its rows.
    pub(crate) rows: &'static [&'static Setting],
    /// Reads its settings, except the address.
    pub(crate) read: fn(&mut Layers) -> Arc<dyn Mount>,
}

/// The settings of one surface, and how it is made of them.
pub(crate) trait Mount: Any + Same + Debug + Send + Sync {
    /// Makes what serves its connections.
    fn mount(&self, process: &MountContext<'_>) -> Mounted;

    /// The protocols that it offers in TLS.
    fn alpn(&self) -> &'static [&'static str] {
        &[]
    }

    /// The authority that must have signed clients' certificates.
    fn client_ca(&self) -> Option<&Path> {
        None
    }

    /// The name that clients' certificates must hold.
    fn client_name(&self) -> Option<&str> {
        None
    }

    /// Whether requests are decided here. A server without such a surface is useless.
    fn decides(&self) -> bool {
        true
    }

    /// The part that these settings leave unprotected where other machines can connect, and the remedy.
    fn unprotected(&self) -> Option<&'static str> {
        None
    }

    /// A shell command that asks this surface at `address` something that the rules of `policy` limit.
    fn try_command(&self, _address: &Address, _has_tls: bool, _policy: &Policy) -> Option<String> {
        None
    }
}

/// Context in which a surface is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MountContext<'a> {
    pub(crate) node: &'a Arc<ServerNode>,
    pub(crate) serving: &'a Serving,
    pub(crate) decisions: &'a Decisions,
    /// Where it listens; `None` if it is off.
    pub(crate) address: Option<&'a Address>,
}

/// A surface, ready to accept connections.
#[derive(Debug)]
pub(crate) struct Mounted {
    /// One for each worker, so that no core writes to what another one reads.
    pub(crate) acceptors: Vec<Acceptor>,
    /// Metrics of its own.
    pub(crate) metrics: Option<Box<dyn Collector>>,
}

/// A surface with its address, as the settings have it.
#[derive(Clone, Debug)]
pub struct Surface {
    kind: &'static SurfaceKind,
    listen: Listen,
    mount: Arc<dyn Mount>,
}

impl Surface {
    /// Reads the settings of `kind`.
    pub(crate) fn read(kind: &'static SurfaceKind, layers: &mut Layers) -> Self {
        Self { kind, listen: layers.one(kind.listen), mount: (kind.read)(layers) }
    }

    /// As people write it, such as `grpc`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind.listen.setting.name
    }

    /// Where it listens.
    #[must_use]
    pub const fn listen(&self) -> &Listen {
        &self.listen
    }

    /// Whether requests are decided here.
    pub(crate) fn decides(&self) -> bool {
        self.mount.decides()
    }

    /// Its other settings, if `T` is their type.
    #[must_use]
    pub fn settings<T: 'static>(&self) -> Option<&T> {
        (&*self.mount as &dyn Any).downcast_ref()
    }

    pub(crate) fn mount(&self) -> &dyn Mount {
        &*self.mount
    }

    pub(crate) fn client_ca(&self) -> Option<&Path> {
        self.mount.client_ca()
    }

    pub(crate) fn client_name(&self) -> Option<&str> {
        self.mount.client_name()
    }
}

impl PartialEq for Surface {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.listen == other.listen && self.mount.same(&*other.mount)
    }
}

/// Equality of values whose type is not known.
pub(crate) trait Same {
    fn same(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> Same for T {
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

#[cfg(test)]
mod tests;
