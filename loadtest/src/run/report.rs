//! The report: one summary of plain numbers, in the forms people and programs read.

mod html;
mod markdown;
mod plots;
mod series;
mod summary;

use std::path::Path;

use anyhow::{Context, Result};

pub(super) use markdown::text;
pub(super) use summary::{Summary, summarize};

/// Writes `report.json`, `report.md` and `report.html`.
pub(super) fn write(summary: &Summary, folder: &Path) -> Result<()> {
    let files = [
        ("report.json", serde_json::to_string_pretty(summary)?),
        ("report.md", markdown::document(summary)),
        ("report.html", html::document(summary)?),
    ];
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
