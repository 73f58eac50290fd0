//! Client keys: who may send requests, and what of a client's credentials an engine sees.

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, ORIGIN};
use http::{HeaderMap, Method};
use pingora_http::header_value_from_slice;

use crate::config::Auth;

const API_KEY: &str = "x-api-key";

/// Whether the request carries one of the client keys, as Bearer or x-api-key. Without client keys everybody may.
pub(super) fn is_allowed(auth: &Auth, headers: &HeaderMap) -> bool {
    if auth.client_keys.is_empty() {
        return true;
    }
    let bearer = headers
        .get_all(AUTHORIZATION)
        .iter()
        .filter_map(|value| bearer(value.as_bytes()));
    let api_key = headers
        .get_all(API_KEY)
        .iter()
        .map(|value| value.as_bytes());
    bearer.chain(api_key).any(|given| {
        auth.client_keys
            .iter()
            .any(|key| same(key.as_bytes(), given))
    })
}

/// A browser asks, without credentials, whether it may send a request; the engines answer it.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Gives the engine its own key, and never a key of the gateway's clients.
pub(super) fn replace(auth: &Auth, headers: &mut HeaderMap) {
    if auth.engine_key.is_none() && auth.client_keys.is_empty() {
        return;
    }
    headers.remove(AUTHORIZATION);
    headers.remove(API_KEY);
    if let Some(key) = &auth.engine_key {
        let value = header_value_from_slice(format!("Bearer {key}").as_bytes());
        headers.insert(AUTHORIZATION, value);
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, key) = value.split_at_checked(SCHEME.len())?;
    scheme
        .eq_ignore_ascii_case(SCHEME)
        .then(|| key.trim_ascii())
}

/// Compares in a time that depends on the lengths alone.
fn same(key: &[u8], given: &[u8]) -> bool {
    key.len() == given.len()
        && key
            .iter()
            .zip(given)
            .fold(0, |differing, (a, b)| differing | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn auth(client_keys: &[&str], engine_key: Option<&str>) -> Auth {
        Auth {
            client_keys: client_keys.iter().map(|&key| key.to_owned()).collect(),
            engine_key: engine_key.map(str::to_owned),
        }
    }

    #[test]
    fn a_key_is_taken_as_bearer_or_as_x_api_key() {
        let auth = auth(&["sk-1", "sk-2"], None);
        for (name, value, allowed) in [
            ("authorization", "Bearer sk-1", true),
            ("authorization", "bearer  sk-2", true),
            ("authorization", "Basic sk-1", false),
            ("authorization", "sk-1", false),
            ("authorization", "Bearer sk-10", false),
            ("x-api-key", "sk-2", true),
            ("x-api-key", "", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(is_allowed(&auth, &headers), allowed, "{name}: {value}");
        }
    }

    #[test]
    fn an_engine_gets_one_authorization_and_no_client_key() {
        for (auth, expected) in [
            (auth(&["sk-1"], Some("ek")), Some("Bearer ek")),
            (auth(&["sk-1"], None), None),
            (auth(&[], Some("ek")), Some("Bearer ek")),
            (auth(&[], None), Some("Bearer theirs")),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer theirs"));
            headers.append(API_KEY, HeaderValue::from_static("sk-1"));
            replace(&auth, &mut headers);
            let values: Vec<_> = headers.get_all(AUTHORIZATION).iter().collect();
            assert_eq!(values.len(), usize::from(expected.is_some()));
            assert_eq!(
                values.first().map(|value| value.to_str().unwrap()),
                expected
            );
            assert_eq!(headers.contains_key(API_KEY), auth == self::auth(&[], None));
        }
    }
}
