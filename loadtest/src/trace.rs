//! Recorded traffic as one stream of turns, whatever wrote it down.
//!
//! The format is told by the first line. A trace holds no text: a prompt is its length and the
//! hashes of its full blocks, and those go to the gateway's index and to the engines as they are.
//! So both work in the blocks of the trace, which need not be those of a gateway or an engine.

mod azure;
mod capture;
mod mooncake;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use warmgate::routing::{BlockHash, BlockHasher, PrefixBlocks, Scope};

/// In order of arrival, the first at 0.
#[derive(Debug, PartialEq)]
pub(crate) struct Trace {
    pub(crate) format: &'static str,
    pub(crate) block_tokens: usize,
    pub(crate) turns: Vec<Turn>,
}

/// One request as it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Turn {
    pub(crate) at_us: u64,
    pub(crate) prompt_tokens: usize,
    pub(crate) output_tokens: usize,
    /// Of full blocks only; each stands for all before it, too.
    pub(crate) blocks: Vec<BlockHash>,
    /// From arrival to the answer's end, where that was recorded.
    pub(crate) took_us: Option<u64>,
    /// Where sessions were recorded: turns of one session have the same.
    pub(crate) session: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    #[error("cannot read the trace {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0}: line {1}: {2}")]
    Line(PathBuf, usize, String),
    #[error("{0} holds no request")]
    Empty(PathBuf),
}

/// Reads one line of a format that was recognised.
trait Format {
    fn name(&self) -> &'static str;

    /// `None` for a line that is no request.
    fn turn(&mut self, line: &str) -> Result<Option<Turn>, String>;

    /// Known once all lines are read.
    fn block_tokens(&self) -> usize;
}

/// Reads at most `limit` requests.
pub(crate) fn load(path: &Path, limit: usize) -> Result<Trace, TraceError> {
    let unreadable = |error| TraceError::Read(path.to_owned(), error);
    let mut format: Option<Box<dyn Format>> = None;
    let mut turns = Vec::new();
    for (number, line) in open(path).map_err(unreadable)?.lines().enumerate() {
        let line = line.map_err(unreadable)?;
        // Some spreadsheets begin a file with a byte order mark.
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() {
            continue;
        }
        if turns.len() == limit {
            break;
        }
        let wrong = |problem| TraceError::Line(path.to_owned(), number + 1, problem);
        let format = match &mut format {
            Some(format) => format,
            none => none.insert(recognise(line).map_err(wrong)?),
        };
        turns.extend(format.turn(line).map_err(wrong)?);
    }
    let format = format.ok_or_else(|| TraceError::Empty(path.to_owned()))?;
    turns.sort_by_key(|turn: &Turn| turn.at_us);
    let first = turns
        .first()
        .ok_or_else(|| TraceError::Empty(path.to_owned()))?
        .at_us;
    for turn in &mut turns {
        turn.at_us -= first;
    }
    Ok(Trace {
        format: format.name(),
        block_tokens: format.block_tokens(),
        turns,
    })
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let mut file = BufReader::new(File::open(path)?);
    if file.fill_buf()?.starts_with(&GZIP) {
        let unpacked: Box<dyn Read> = Box::new(MultiGzDecoder::new(file));
        return Ok(Box::new(BufReader::new(unpacked)));
    }
    Ok(Box::new(file))
}

fn recognise(line: &str) -> Result<Box<dyn Format>, String> {
    if mooncake::is_line(line) {
        return Ok(Box::new(mooncake::Mooncake));
    }
    if capture::is_line(line) {
        return Ok(Box::new(capture::Capture::default()));
    }
    if let Some(azure) = azure::Azure::of_header(line) {
        return Ok(Box::new(azure));
    }
    Err(
        "neither a Mooncake request (JSON with hash_ids) nor the header of an Azure trace \
         (TIMESTAMP,ContextTokens,GeneratedTokens)"
            .to_owned(),
    )
}

/// Names of blocks made into hashes with the gateway's own hasher, so that equal names after
/// different beginnings differ.
fn chain(names: impl IntoIterator<Item = u64>) -> Vec<BlockHash> {
    const SCOPE: Scope<'static> = Scope {
        model: "trace",
        cache_salt: None,
    };
    let names: Vec<u8> = names.into_iter().flat_map(u64::to_le_bytes).collect();
    let mut blocks = PrefixBlocks::default();
    BlockHasher::new(size_of::<u64>(), 0, usize::MAX).fill(SCOPE, [&names[..]], &mut blocks);
    blocks.hashes().to_vec()
}

#[cfg(test)]
mod tests;
