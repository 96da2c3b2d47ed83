//! Bounds that both ends enforce on each other.

/// Highest language level of rules that this release reads. A new rule key raises it.
pub const LANGUAGE: u32 = 3;
/// Most bytes of the text of one document.
pub const MAX_DOCUMENT_BYTES: usize = 4 << 20;
/// Most bytes of one message of a node.
pub const MAX_NODE_MESSAGE_BYTES: usize = 4 << 20;
/// Most bytes of one message of the control plane: all blocks and allowances, or a document, and what
/// surrounds it.
pub const MAX_CONTROL_MESSAGE_BYTES: usize = MAX_OVERRIDE_BYTES + (64 << 10);
/// Most bytes of the blocks and allowances in force, as they travel.
pub const MAX_OVERRIDE_BYTES: usize = 16 << 20;
/// Most apps of one control plane.
pub const MAX_APPS: usize = 10_000;
/// Most documents of one app.
pub const MAX_DOCUMENTS: usize = 1_000;
/// Most labels of a node.
pub const MAX_LABELS: usize = 64;
/// Most bytes of a name, a label or a version.
pub const MAX_TEXT_BYTES: usize = 256;
/// Most rules, top keys and costs of one report, each.
pub const MAX_REPORT_ROWS: usize = 10_000;
