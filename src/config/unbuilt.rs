//! Sections of the contract that this version does not have: switched off they pass, switched on they
//! are refused rather than passed over.

use super::problem::Wrong;
use super::reader::Node;

pub(super) fn discovery(node: &Node<'_>) {
    for source in node.list().unwrap_or_default() {
        source.map(|map| {
            map.refuse(&["file", "dns", "kubernetes"], "an empty list of sources");
            // Only says how; without dns it is nothing.
            map.take("port");
        });
    }
}

pub(super) fn state_sync(node: &Node<'_>) {
    if !node.is_map() {
        node.scalar(|text| match text {
            "none" => Ok(()),
            _ => Err(Wrong::new("is not known", "none")),
        });
        return;
    }
    node.map(|map| {
        if map.take("redis").is_some() {
            node.add("redis is not supported by this version", "none");
        }
        // These only say how; without redis they are nothing.
        map.take("period");
        map.take("prefix");
    });
}
