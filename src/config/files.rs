//! Checks that files which the configuration names can be read, or written. What they hold is checked by who uses them.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

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

/// A file to add lines to. One that is not there yet is not made: checking a configuration leaves no trace.
pub(super) fn appendable(text: &str) -> Result<PathBuf, Wrong> {
    const ALLOWED: &str = "a file that can be written, in a folder that is there";
    let path = PathBuf::from(not_empty(text).map_err(|wrong| Wrong::new(wrong.what, ALLOWED))?);
    let wrong = |what: String| Wrong::new(what, ALLOWED);
    match path.metadata() {
        // Opening a pipe would wait for its reader.
        Ok(metadata) if !metadata.is_file() => return Err(wrong("is not a file".to_owned())),
        Ok(_) => {
            let opened = OpenOptions::new().append(true).open(&path);
            opened.map_err(|error| wrong(format!("cannot be written: {error}")))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound && has_folder(&path) => {}
        Err(error) => return Err(wrong(format!("cannot be written: {error}"))),
    }
    Ok(path)
}

fn has_folder(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new("/"));
    folder.as_os_str().is_empty() || folder.is_dir()
}
