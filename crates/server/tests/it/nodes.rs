//! The list of the servers that share a database.

use std::sync::Arc;

use serde_json::json;
use singletree_durable::{BoxFuture, Result};
use singletree_protocol::native::Node;
use singletree_server::NodeDirectory;

use crate::support::Rig;

/// Two servers, one of which died.
#[derive(Debug)]
struct TwoNodes;

impl NodeDirectory for TwoNodes {
    fn list_nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        let node = |incarnation: u64, address: Option<&str>, lease_left_ms: u64| Node {
            incarnation,
            name: "singletree serve".into(),
            address: address.map(str::to_owned),
            alive: lease_left_ms > 0,
            lease_left_ms,
            sessions: incarnation,
        };
        let nodes = vec![node(1, Some("https://one.example"), 4000), node(2, None, 0)];
        Box::pin(std::future::ready(Ok(nodes)))
    }
}

#[tokio::test]
async fn the_operator_alone_lists_the_servers() {
    let rig = Rig::builder().server(|it| it.node_directory(Arc::new(TwoNodes))).start().await;
    let listed = rig.operator().get("/v1/nodes").await;
    let expected = json!({ "items": [
        { "incarnation": 1, "name": "singletree serve", "address": "https://one.example", "alive": true,
          "lease_left_ms": 4000, "sessions": 1 },
        { "incarnation": 2, "name": "singletree serve", "alive": false, "lease_left_ms": 0, "sessions": 2 },
    ] });
    assert_eq!((listed.status, listed.json()), (200, expected));
    let refused = rig.client().get("/v1/nodes").await;
    assert_eq!((refused.status, &refused.json()["error"]["category"]), (403, &json!("server_forbidden")));
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_has_its_database_alone_lists_none() {
    let rig = Rig::start().await;
    let listed = rig.operator().get("/v1/nodes").await;
    assert_eq!((listed.status, listed.json()), (200, json!({ "items": [] })));
    rig.stop().await;
}
