//! Nodes, and frozen apps.

use crate::calls::Call;
use crate::describe::{Describe as _, replies};
use crate::params::{ForceBody, PageQuery, TakeOverBody};
use crate::rows::{ApiOperation, delete, get, post};
use crate::views::{Frozen, Node, Nodes, Thawed};

pub(super) fn rows() -> Vec<ApiOperation> {
    vec![
        get("/api/v1/nodes", Call::Nodes, "listNodes", "Lists the nodes and what each has in force", || {
            replies::<Nodes>().queried_by::<PageQuery>()
        }),
        get("/api/v1/nodes/{node}", Call::Node, "getNode", "Returns a node by its id", replies::<Node>),
        delete(
            "/api/v1/nodes/{node}",
            Call::RemoveNode,
            "removeNode",
            "Removes a node that does not report; it appears again if it attaches",
            replies::<Node>,
        ),
        get(
            "/api/v1/apps/{app}/frozen",
            Call::Frozen,
            "getFrozen",
            "Returns the versions of a frozen app: on nodes, and in the database",
            replies::<Frozen>,
        ),
        post(
            "/api/v1/apps/{app}/force",
            Call::Force,
            "forceApp",
            "Puts what the database has of a frozen app in place of what nodes hold",
            || replies::<Thawed>().takes_body::<ForceBody>(r#"{"reason": "the copy is what we want"}"#),
        ),
        post(
            "/api/v1/apps/{app}/take-over",
            Call::TakeOver,
            "takeOverApp",
            "Makes the rules of a frozen app those that a node holds",
            || {
                replies::<Thawed>()
                    .takes_body::<TakeOverBody>(r#"{"node": "3b1c", "reason": "the copy is a day old"}"#)
            },
        ),
    ]
}
