//! Sections of the contract that this version does not have: switched off they pass, switched on they
//! are refused rather than passed over.

use super::problem::Wrong;
use super::reader::Node;

const SOURCES: &[&str] = &["file", "dns", "kubernetes"];

pub(super) fn discovery(node: &Node<'_>) {
    for source in node.list().unwrap_or_default() {
        source.map(|map| map.refuse(SOURCES, "an empty list of sources"));
    }
}

pub(super) fn state_sync(node: &Node<'_>) {
    if node.is_map() {
        node.map(|map| {
            map.refuse(&["redis"], "none");
            // These only say how; without redis they are nothing.
            map.take("period");
            map.take("prefix");
        });
    } else {
        node.scalar(|text| match text {
            "none" => Ok(()),
            _ => Err(Wrong::new("is not known", "none")),
        });
    }
}
