//! A lane: what one thread of one runtime uses of a store, its own connections and their tasks, so that no call crosses a core.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Handle, Id};

use crate::hub::{Hub, Traffic};
use crate::link::Link;
use crate::topology::Node;
use crate::trouble::{Kind, Trouble};

#[derive(Debug)]
pub(crate) struct Lane {
    hub: Arc<Hub>,
    runtime: Handle,
    /// By node and kind of traffic. By number where there is a Cluster, one node only elsewhere.
    links: Mutex<Vec<Option<Arc<Link>>>>,
}

struct Known {
    store: u64,
    runtime: Id,
    lane: Arc<Lane>,
}

thread_local! {
    static LANES: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

impl Lane {
    /// This thread's lane in the runtime that it is in.
    pub(crate) fn here(hub: &Arc<Hub>) -> Result<Arc<Self>, Trouble> {
        let runtime = Handle::try_current()
            .map_err(|_| Trouble::new(Kind::Wrong, "called from outside of a tokio runtime"))?;
        let (store, id) = (hub.id(), runtime.id());
        LANES.with_borrow_mut(|lanes| {
            if let Some(known) = lanes.iter().find(|known| known.store == store && known.runtime == id) {
                return Ok(known.lane.clone());
            }
            lanes.retain(|known| !known.lane.has_ended());
            let lane = Arc::new(Self { hub: hub.clone(), runtime, links: Mutex::default() });
            lanes.push(Known { store, runtime: id, lane: lane.clone() });
            Ok(lane)
        })
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The link to a node for one kind of traffic, begun where there is none.
    pub(crate) fn link(self: &Arc<Self>, node: Node, traffic: Traffic) -> Arc<Link> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let place = 2 * usize::from(node) + traffic as usize;
        if links.len() <= place {
            links.resize(place + 1, None);
        }
        match &links[place] {
            Some(link) if !link.has_ended() || self.hub.has_ended() => link.clone(),
            _ => links[place].insert(Link::begin(self, node, traffic)).clone(),
        }
    }

    fn has_ended(&self) -> bool {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.iter().flatten().all(|link| link.has_ended())
    }
}
