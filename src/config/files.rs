//! Checks that files which the configuration names can be read. What they hold is checked by who uses them.

use std::fs::File;
use std::path::PathBuf;

use super::problem::Wrong;
use super::rule::not_empty;

pub(super) fn readable(text: &str) -> Result<PathBuf, Wrong> {
    const ALLOWED: &str = "a file that can be read";
    let path = PathBuf::from(not_empty(text).map_err(|wrong| Wrong::new(wrong.what, ALLOWED))?);
    let unreadable =
        |error: std::io::Error| Wrong::new(format!("cannot be read: {error}"), ALLOWED);
    let metadata = File::open(&path)
        .and_then(|file| file.metadata())
        .map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(Wrong::new("is a directory", ALLOWED));
    }
    Ok(path)
}
