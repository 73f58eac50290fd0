//! Undoes the Content-Encoding of a request body, in memory bounded by the limit.

use std::io::{self, Read};

use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, HeapAlloc, HuffmanCode};
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    #[error("`Content-Encoding: {0}` is not understood; send gzip, zstd, deflate, br or none")]
    Unsupported(String),
    #[error("the request body is not valid {0}, or not all of it")]
    Corrupt(String),
    #[error("the decoded request body is larger than the limit")]
    TooLarge,
}

/// More codings on one body serve no honest purpose.
const MOST_CODINGS: usize = 3;
/// Largest window a zstd frame may ask for (8 MiB), as HTTP clients are told to keep to.
const ZSTD_WINDOW_LOG: u32 = 23;

/// `codings`: the value of Content-Encoding; the last one was applied last.
pub fn decode(codings: &str, body: &[u8], limit: usize) -> Result<Bytes, CodingError> {
    let names: Vec<String> = codings
        .split(',')
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !name.is_empty() && name != "identity")
        .collect();
    if names.len() > MOST_CODINGS {
        return Err(CodingError::Unsupported(shown(codings)));
    }
    if let Some(unknown) = names.iter().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(CodingError::Unsupported(shown(unknown)));
    }
    let mut decoded: Option<Vec<u8>> = None;
    for name in names.iter().rev() {
        decoded = Some(decode_one(name, decoded.as_deref().unwrap_or(body), limit)?);
    }
    Ok(decoded.map_or_else(|| Bytes::copy_from_slice(body), Bytes::from))
}

const KNOWN: &[&str] = &["gzip", "x-gzip", "deflate", "zstd", "br"];

fn decode_one(name: &str, body: &[u8], limit: usize) -> Result<Vec<u8>, CodingError> {
    // Nothing is nothing in any coding; whether a body had to be there is for others to say.
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let corrupt = |_: io::Error| CodingError::Corrupt(name.to_owned());
    match name {
        "gzip" | "x-gzip" => read(flate2::bufread::MultiGzDecoder::new(body), limit, name),
        "deflate" => {
            // Some senders leave the zlib wrapper out.
            let mut zlib = flate2::bufread::ZlibDecoder::new(body);
            match read(&mut zlib, limit, name) {
                Ok(decoded) if zlib.into_inner().is_empty() => Ok(decoded),
                Err(CodingError::TooLarge) => Err(CodingError::TooLarge),
                _ => {
                    let mut raw = flate2::bufread::DeflateDecoder::new(body);
                    let decoded = read(&mut raw, limit, name)?;
                    nothing_left(raw.into_inner(), name)?;
                    Ok(decoded)
                }
            }
        }
        "zstd" => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(corrupt)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(corrupt)?;
            read(decoder, limit, name)
        }
        _ => brotli(body, limit),
    }
}

/// By the decoder's own face, not as a reader: that one takes windows of up to 1 GiB, which are not part of `br`, and
/// does not tell what it left unread.
fn brotli(body: &[u8], limit: usize) -> Result<Vec<u8>, CodingError> {
    let mut state = BrotliState::new_strict(
        HeapAlloc::new(0_u8),
        HeapAlloc::new(0_u32),
        HeapAlloc::new(HuffmanCode::default()),
    );
    let mut decoded = Vec::new();
    let mut chunk = vec![0; 16 << 10];
    let (mut unread, mut read, mut total) = (body.len(), 0, 0);
    loop {
        let (mut room, mut filled) = (chunk.len(), 0);
        let result = BrotliDecompressStream(
            &mut unread,
            &mut read,
            body,
            &mut room,
            &mut filled,
            &mut chunk,
            &mut total,
            &mut state,
        );
        decoded.extend_from_slice(&chunk[..filled]);
        if decoded.len() > limit {
            return Err(CodingError::TooLarge);
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess => break,
            BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                return Err(CodingError::Corrupt("br".to_owned()));
            }
        }
    }
    nothing_left(&body[read..], "br")?;
    Ok(decoded)
}

fn nothing_left(rest: &[u8], name: &str) -> Result<(), CodingError> {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(CodingError::Corrupt(name.to_owned()))
    }
}

fn read(decoder: impl Read, limit: usize, name: &str) -> Result<Vec<u8>, CodingError> {
    let mut decoded = Vec::new();
    decoder
        .take((limit as u64).saturating_add(1))
        .read_to_end(&mut decoded)
        .map_err(|_| CodingError::Corrupt(name.to_owned()))?;
    if decoded.len() > limit {
        return Err(CodingError::TooLarge);
    }
    Ok(decoded)
}

fn shown(name: &str) -> String {
    name.chars()
        .take(40)
        .map(|c| if c.is_ascii_graphic() { c } else { '?' })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TEXT: &[u8] = b"{\"model\":\"m\",\"prompt\":\"one two three one two three\"}";

    fn encode(name: &str, text: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::default();
        match name {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "zlib" => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "raw" => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "zstd" => zstd::encode_all(text, 3).unwrap(),
            _ => {
                let mut out = Vec::new();
                brotli::CompressorWriter::new(&mut out, 4096, 5, 20)
                    .write_all(text)
                    .unwrap();
                out
            }
        }
    }

    #[test]
    fn each_coding_is_undone_and_its_faults_are_told() {
        for (coding, form) in [
            ("gzip", "gzip"),
            ("X-GZIP", "gzip"),
            ("deflate", "zlib"),
            ("deflate", "raw"),
            ("zstd", "zstd"),
            ("br", "br"),
        ] {
            let coded = encode(form, TEXT);
            assert_eq!(
                decode(coding, &coded, 1000).unwrap(),
                TEXT,
                "{coding} {form}"
            );
            let cut = decode(coding, &coded[..coded.len() / 2], 1000);
            assert!(
                matches!(cut, Err(CodingError::Corrupt(_))),
                "{coding} {form} cut: {cut:?}"
            );
            let more = decode(coding, &[&coded[..], b"garbage"].concat(), 1000);
            assert!(
                matches!(more, Err(CodingError::Corrupt(_))),
                "{coding} {form} with more: {more:?}"
            );
            assert_eq!(
                decode(coding, &coded, TEXT.len() - 1),
                Err(CodingError::TooLarge),
                "{coding} {form}"
            );
        }
    }

    #[test]
    fn a_list_is_undone_from_its_end_and_must_be_known() {
        let twice = encode("br", &encode("gzip", TEXT));
        assert_eq!(decode("gzip, br", &twice, 1000).unwrap(), TEXT);
        assert_eq!(decode("identity", TEXT, 1000).unwrap(), TEXT);
        assert_eq!(decode("", TEXT, 1000).unwrap(), TEXT);
        assert_eq!(
            decode("foo", TEXT, 1000),
            Err(CodingError::Unsupported("foo".to_owned()))
        );
        assert!(matches!(
            decode("gzip,gzip,gzip,gzip", TEXT, 1000),
            Err(CodingError::Unsupported(_))
        ));
    }

    #[test]
    fn an_empty_body_is_empty_in_any_coding() {
        for coding in ["gzip", "deflate", "zstd", "br", "gzip, br"] {
            assert_eq!(decode(coding, b"", 0).unwrap(), "", "{coding}");
        }
    }

    #[test]
    fn parts_written_one_after_another_are_one_body() {
        for form in ["gzip", "zstd"] {
            let parts = [encode(form, b"one "), encode(form, b"two")].concat();
            assert_eq!(decode(form, &parts, 7).unwrap(), "one two", "{form}");
        }
    }

    #[test]
    fn windows_beyond_the_coding_are_refused() {
        let params = brotli::enc::BrotliEncoderParams {
            large_window: true,
            lgwin: 30,
            ..Default::default()
        };
        let mut large = Vec::new();
        brotli::CompressorWriter::with_params(&mut large, 4096, &params)
            .write_all(TEXT)
            .unwrap();
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(ZSTD_WINDOW_LOG + 1).unwrap();
        encoder.include_contentsize(false).unwrap();
        encoder.write_all(TEXT).unwrap();
        let wide = encoder.finish().unwrap();
        for (coding, body) in [("br", large), ("zstd", wide)] {
            let decoded = decode(coding, &body, 1000);
            assert!(
                matches!(decoded, Err(CodingError::Corrupt(_))),
                "{coding}: {decoded:?}"
            );
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        for form in ["gzip", "zstd", "br"] {
            let bomb = encode(form, &vec![b' '; 8 << 20]);
            assert_eq!(
                decode(form, &bomb, 1 << 18),
                Err(CodingError::TooLarge),
                "{form}"
            );
        }
    }
}
