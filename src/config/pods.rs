//! Reads the pods: of the file, and of the command line, which replaces them.

use std::collections::{BTreeMap, HashMap};

use super::files::readable;
use super::problem::{Problems, Wrong};
use super::reader::{Map, Node};
use super::rule;
use super::sections::required;
use super::url::{authority, host_name, pod_url, tcp_endpoint};
use crate::fleet::settings::{EngineKind, KvEvents, PodSpec, PodUrl, Role};

const ENGINES: &[(&str, EngineKind)] = &[
    ("vllm", EngineKind::Vllm),
    ("sglang", EngineKind::Sglang),
    ("trtllm", EngineKind::Trtllm),
    ("llamacpp", EngineKind::Llamacpp),
    ("xllm", EngineKind::Xllm),
];

pub(super) fn pods(node: &Node<'_>) -> Vec<PodSpec> {
    let Some(items) = node.list() else {
        return Vec::new();
    };
    let problems = node.context().problems;
    let mut unique = Unique::default();
    let mut pods = Vec::new();
    for item in &items {
        if let Some(pod) = pod(item) {
            unique.check(item.path(), &pod, problems);
            pods.push(pod);
        }
    }
    pods
}

/// The pods of `--pod URL`, everything but the URL at its default.
pub(super) fn from_command_line(urls: &[String], problems: &Problems) -> Vec<PodSpec> {
    let mut unique = Unique::default();
    let mut pods = Vec::new();
    for (i, text) in urls.iter().enumerate() {
        let path = format!("--pod[{i}]");
        match pod_url(text) {
            Ok(url) => {
                let pod = at_defaults(url);
                unique.check(&path, &pod, problems);
                pods.push(pod);
            }
            Err(wrong) => problems.add(path, wrong),
        }
    }
    pods
}

fn at_defaults(url: PodUrl) -> PodSpec {
    PodSpec {
        name: authority(&url),
        url,
        models: None,
        role: Role::Mixed,
        engine: None,
        labels: BTreeMap::new(),
        metrics: Some("/metrics".to_owned()),
        kv_events: None,
    }
}

fn pod(node: &Node<'_>) -> Option<PodSpec> {
    if node.is_text() {
        return url(node).map(at_defaults);
    }
    if !node.is_map() {
        node.wrong_kind("a URL, or a map with the key url");
        return None;
    }
    node.map(|map| {
        let url = required(map, "url", url);
        let known = url.is_some();
        // The other keys are read even if the URL is wrong, for their own problems.
        let mut pod = at_defaults(url.unwrap_or_else(|| PodUrl {
            tls: None,
            host: String::new(),
            port: 0,
            base_path: String::new(),
            http2: false,
        }));
        // The name goes into headers.
        map.text(&mut pod.name, "name", rule::header_token);
        map.set(&mut pod.models, "models", |node| {
            model_names(node).map(Some)
        });
        map.scalar(&mut pod.role, "role", role);
        map.scalar(&mut pod.engine, "engine", |text| {
            rule::one_of(ENGINES)(text).map(Some)
        });
        map.set(&mut pod.labels, "labels", |node| Some(labels(node)));
        map.text(&mut pod.metrics, "metrics", rule::or_none(rule::url_path));
        map.set(&mut pod.kv_events, "kv_events", kv_events);
        map.scalar(&mut pod.url.http2, "http2", rule::flag);
        tls(map, &mut pod.url, known);
        known.then_some(pod)
    })
    .flatten()
}

/// A URL may hold a password by mistake, so it is never shown.
fn url(node: &Node<'_>) -> Option<PodUrl> {
    node.secret_text(pod_url)
}

fn tls(map: &mut Map<'_, '_>, url: &mut PodUrl, url_known: bool) {
    let Some(node) = map.take("tls") else {
        return;
    };
    let mut unused = super::url::VERIFIED;
    if url_known && url.tls.is_none() {
        node.add(
            "is set, but the url is plain http",
            "tls only where the url starts with https://",
        );
    }
    let tls = url.tls.as_mut().unwrap_or(&mut unused);
    node.map(|map| {
        map.scalar(&mut tls.verify, "verify", rule::flag);
        map.text(&mut tls.sni, "sni", rule::or_none(host_name));
        map.text(&mut tls.ca, "ca", rule::or_none(readable));
    });
}

fn role(text: &str) -> Result<Role, Wrong> {
    match text {
        "prefill" | "decode" => Err(Wrong::unsupported("mixed")),
        _ => rule::one_of(&[("mixed", Role::Mixed)])(text),
    }
}

/// Names of models: at least one, none twice.
fn model_names(node: &Node<'_>) -> Option<Vec<String>> {
    let names = node.list_of(|node| node.text(rule::not_empty))?;
    if node.list().is_some_and(|items| items.is_empty()) {
        node.add(
            "is empty",
            "at least one name; leave the key out to ask the engine",
        );
    }
    super::models::report_twice(node, &names);
    Some(names)
}

fn labels(node: &Node<'_>) -> BTreeMap<String, String> {
    node.named()
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.text(anything)?)))
        .collect()
}

fn kv_events(node: &Node<'_>) -> Option<Option<KvEvents>> {
    if node.is_none() {
        return Some(None);
    }
    node.map(|map| {
        let publish = required(map, "pub", |node| node.text(tcp_endpoint));
        let mut replay = None;
        map.text(&mut replay, "replay", rule::or_none(tcp_endpoint));
        let mut topic = String::new();
        map.text(&mut topic, "topic", anything);
        Some(KvEvents {
            publish: publish?,
            replay,
            topic,
        })
    })
}

/// The rule for text without rules.
fn anything(text: &str) -> Result<String, Wrong> {
    Ok(text.to_owned())
}

/// Finds pods that are listed twice, or that could not be told apart in logs and metrics.
#[derive(Default)]
struct Unique {
    names: HashMap<String, String>,
    urls: HashMap<String, String>,
}

impl Unique {
    fn check(&mut self, path: &str, pod: &PodSpec, problems: &Problems) {
        let url = format!("{}{}", authority(&pod.url), pod.url.base_path);
        if let Some(first) = self.urls.get(&url) {
            problems.add(
                path,
                Wrong::new(
                    format!("is the same engine as {first}"),
                    "every engine once",
                ),
            );
            return;
        }
        self.urls.insert(url, path.to_owned());
        if let Some(first) = self.names.get(&pod.name) {
            problems.add(
                path,
                Wrong::new(
                    format!("has the same name as {first}: {:?}", pod.name),
                    "a name of its own for every pod, by the key name",
                ),
            );
            return;
        }
        self.names.insert(pod.name.clone(), path.to_owned());
    }
}
