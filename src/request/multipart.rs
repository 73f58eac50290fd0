//! Finds the `model` field of a `multipart/form-data` body, without a copy of the body.

use std::borrow::Cow;

use memchr::memmem;

use super::error::BodyError;

/// The value of the form field `model`.
pub(super) fn model<'a>(content_type: &str, body: &'a [u8]) -> Result<Cow<'a, str>, BodyError> {
    let boundary = boundary(content_type)?;
    let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
    let finder = memmem::Finder::new(&delimiter);
    // The first delimiter may begin the body.
    let start = if body.starts_with(&delimiter[2..]) {
        delimiter.len() - 2
    } else {
        finder
            .find(body)
            .ok_or(BodyError::BadMultipart("its boundary does not occur"))?
            + delimiter.len()
    };
    let mut rest = &body[start..];
    let mut model = None;
    while !rest.starts_with(b"--") {
        let part = rest.strip_prefix(b"\r\n").ok_or(BodyError::BadMultipart(
            "a boundary is not followed by a new line",
        ))?;
        let end = finder
            .find(part)
            .ok_or(BodyError::BadMultipart("its last boundary is missing"))?;
        if let Some(value) = field(&part[..end], "model")
            && model.replace(value).is_some()
        {
            return Err(BodyError::TwoModels);
        }
        rest = &part[end + delimiter.len()..];
    }
    let value = model.ok_or(BodyError::NoModelField)?;
    match std::str::from_utf8(value).map(str::trim) {
        Ok("") => Err(BodyError::BadModel("an empty string")),
        Ok(name) => Ok(Cow::Borrowed(name)),
        Err(_) => Err(BodyError::BadModel("bytes that are not UTF-8")),
    }
}

fn boundary(content_type: &str) -> Result<&str, BodyError> {
    let mut parts = parameters(content_type);
    if !parts
        .next()
        .is_some_and(|media| media.trim().eq_ignore_ascii_case("multipart/form-data"))
    {
        return Err(BodyError::ContentType {
            given: super::media_type(Some(content_type)),
            expected: "multipart/form-data",
        });
    }
    let value = parts.find_map(|parameter| parameter_value(parameter, "boundary"));
    value
        .filter(|value| !value.is_empty())
        .ok_or(BodyError::BadMultipart(
            "its Content-Type names no boundary",
        ))
}

/// The value of the part if it is the form field of this name.
fn field<'a>(part: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let end = memmem::find(part, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&part[..end]).ok()?;
    let disposition = head.split("\r\n").find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim()
            .eq_ignore_ascii_case("content-disposition")
            .then_some(value)
    })?;
    let named = parameters(disposition)
        .skip(1)
        .find_map(|parameter| parameter_value(parameter, "name"))?;
    (named == name).then(|| &part[end + 4..])
}

/// What semicolons part. One between quotes (of a file's name, say) does not, or a name could pose as a parameter.
fn parameters(value: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |char| {
        let parts = char == ';' && !quoted;
        let quotes = char == '"' && !escaped;
        quoted ^= quotes;
        escaped = char == '\\' && quoted && !escaped;
        parts
    })
}

fn parameter_value<'a>(parameter: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = parameter.split_once('=')?;
    let value = value.trim();
    let unquoted = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
        .unwrap_or(value);
    key.trim().eq_ignore_ascii_case(name).then_some(unquoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(boundary: &str, parts: &[(&str, &[u8])]) -> Vec<u8> {
        let mut body = Vec::new();
        for (disposition, value) in parts {
            body.extend_from_slice(
                format!("--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n")
                    .as_bytes(),
            );
            body.extend_from_slice(value);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        body
    }

    fn check(content_type: &str, body: &[u8], expected: Result<&str, BodyError>) {
        assert_eq!(
            model(content_type, body),
            expected.map(Cow::Borrowed),
            "{content_type}"
        );
    }

    #[test]
    fn the_model_is_found_behind_a_file_of_any_bytes() {
        let file: Vec<u8> = (0..300_000_u32)
            .map(|i| (i * 7 % 256) as u8)
            .chain(*b"\r\n--\r\n\r\n--X\0")
            .collect();
        let body = form(
            "XYZ",
            &[
                ("name=\"file\"; filename=\"model\"", &file),
                ("name=\"model\"", b"m-b"),
            ],
        );
        check("multipart/form-data; boundary=XYZ", &body, Ok("m-b"));
        check(
            "Multipart/Form-Data; charset=x; Boundary=\"XYZ\"",
            &body,
            Ok("m-b"),
        );
        check(
            "multipart/form-data; boundary=other",
            &body,
            Err(BodyError::BadMultipart("its boundary does not occur")),
        );
        check(
            "multipart/form-data",
            &body,
            Err(BodyError::BadMultipart(
                "its Content-Type names no boundary",
            )),
        );
        check(
            "multipart/form-data; boundary=XYZ",
            &body[..1000],
            Err(BodyError::BadMultipart("its last boundary is missing")),
        );
    }

    #[test]
    fn what_is_quoted_names_nothing() {
        for disposition in [
            r#"filename="a; name=model; b"; name="file""#,
            r#"filename="a\"; name=model; b"; name=file"#,
            r#"filename="a; name=model"#,
        ] {
            let body = form("b;c", &[(disposition, b"evil"), ("name=model", b"m-b")]);
            let content_type = r#"multipart/form-data; x="; boundary=y"; boundary="b;c""#;
            check(content_type, &body, Ok("m-b"));
        }
    }

    #[test]
    fn a_form_must_name_one_model() {
        let content_type = "multipart/form-data; boundary=b";
        check(
            content_type,
            &form("b", &[("name=\"x\"", b"m")]),
            Err(BodyError::NoModelField),
        );
        check(
            content_type,
            &form("b", &[("name=\"model\"", b"")]),
            Err(BodyError::BadModel("an empty string")),
        );
        let twice = form("b", &[("name=model", b"a"), ("name=\"model\"", b"b")]);
        check(content_type, &twice, Err(BodyError::TwoModels));
    }
}
