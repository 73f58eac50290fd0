//! Wrong files and every line that is said about them.

use super::*;

fn check(text: &str, want: &str) {
    let variables = [("HOST", "e9"), ("KEY", "two words")];
    let got = load_with(text, &[], &variables)
        .map_or_else(|errors| errors.to_string(), |_| "nothing wrong".to_owned());
    assert_eq!(got, want.trim(), "\n{text}");
}

#[test]
fn unknown_keys_are_found_at_every_level() {
    check(
        r#"pods: [http://e1:8000]
limts: {}"#,
        r#"
limts: unknown key, did you mean limits?; allowed: server, admin, limits, timeouts, retry, health, log, auth, pods, discovery, models, routing, metrics_poll, tokenizer, state_sync
"#,
    );
    check(
        r#"pods: [http://e1:8000]
limits: {bodi: 1, heders: 2}"#,
        r#"
limits.bodi: unknown key, did you mean body?; allowed: body, header_size, headers, header_timeout, body_idle
limits.heders: unknown key, did you mean headers?; allowed: body, header_size, headers, header_timeout, body_idle
"#,
    );
    check(
        r#"pods: [{url: http://e1, nam: x, tls: {verfy: true}}]"#,
        r#"
pods[0].tls: is set, but the url is plain http; allowed: tls only where the url starts with https://
pods[0].tls.verfy: unknown key, did you mean verify?; allowed: verify, sni, ca
pods[0].nam: unknown key, did you mean name?; allowed: url, name, models, role, engine, labels, metrics, kv_events, http2, tls
"#,
    );
    check(
        r#"pods: [{url: https://e1, tls: {verfy: true}, kv_events: {pub: "tcp://e1:1", sub: x}}]"#,
        r#"
pods[0].kv_events.sub: unknown key, did you mean pub?; allowed: pub, replay, topic
pods[0].tls.verfy: unknown key, did you mean verify?; allowed: verify, sni, ca
"#,
    );
    check(
        r#"pods: [http://e1:8000]
server: {listen: [{address: "1.2.3.4:1", port: 5}]}"#,
        r#"
server.listen[0].port: unknown key; allowed: address, tls, h2c
"#,
    );
    check(
        r#"pods: [http://e1:8000]
models: {m: {alias: [x], profiles: {a: {routingStrateg: random, routingConfig: {prefixCach: {}, prefixCache: {factor: 1}}}}}}"#,
        r#"
models.m.profiles.a.routingConfig.prefixCache.factor: unknown key; allowed: standardDeviationFactor
models.m.profiles.a.routingConfig.prefixCach: unknown key, did you mean prefixCache?; allowed: prefixCache, loadBalance, autoBlend, preble, vtc, pd, promptLengthBucketing, promptLenBucketMinLength, promptLenBucketMaxLength, combined, prefillScorePolicy, decodeScorePolicy
models.m.profiles.a.routingStrateg: unknown key, did you mean routingStrategy?; allowed: routingStrategy, routingConfig, requestsPerSecond, requestsPerSecondPerReplica, requestsInflight, promptTokensGte, promptTokensLt, maxTokensGte, maxTokensLt
models.m.alias: unknown key; allowed: aliases, strategy, default_profile, profiles
"#,
    );
    check(
        r#"pods: [http://e1:8000]
routing: {prefix_cache: {blocksize: 4}, load_balance: {alpha: 1}, auto_blend: {weight: 1}}"#,
        r#"
routing.auto_blend.weight: unknown key; allowed: load_balance_weight, least_request_weight, prefix_cache_weight, prefix_cache_load_balance_weight
routing.load_balance.alpha: unknown key; allowed: imbalance_factor, imbalance_min_gap, queued_weight, kv_pressure_alpha, kv_critical_free
routing.prefix_cache.blocksize: unknown key, did you mean block_size?; allowed: tokenizer, block_size, max_blocks, ttl, standard_deviation_factor, include_tools, hash_seed, index
"#,
    );
    check(
        r#"pods: [http://e1:8000]
tokenizer: {url: x}
state_sync: {redi: x}
admin: {port: 1}
retry: {count: 1}
health: {url: /}
log: {file: x}
auth: {keys: []}
timeouts: {conect: 1s}"#,
        r#"
admin.port: unknown key; allowed: listen
timeouts.conect: unknown key, did you mean connect?; allowed: connect, first_byte, idle, request, client_write
retry.count: unknown key; allowed: attempts
health.url: unknown key; allowed: path, interval, timeout, unhealthy_after, healthy_after, min_available
log.file: unknown key; allowed: level, format, access
auth.keys: unknown key; allowed: client_keys, engine_key
tokenizer.url: unknown key; allowed: timeout, ttl, cache, file
state_sync.redi: unknown key, did you mean redis?; allowed: redis, period, prefix
"#,
    );
    check(
        r#"pods: [http://e1:8000]
1: x
true: y
limits: {2: z}
models: {3: {}}"#,
        r#"
limits: has the key 2, which is not a string; allowed: strings; put the key in quotes if it is meant as one
models: has the key 3, which is not a string; allowed: strings; put the key in quotes if it is meant as one
the file: has the key 1, which is not a string; allowed: strings; put the key in quotes if it is meant as one
the file: has the key true, which is not a string; allowed: strings; put the key in quotes if it is meant as one
"#,
    );
}

#[test]
fn wrong_types_say_what_is_allowed() {
    check(
        r#"[]"#,
        r#"
the file: is a list; allowed: a map of keys and values
pods: none given; list at least one URL here or give --pod URL
"#,
    );
    check(
        r#"just text"#,
        r#"
the file: is a string; allowed: a map of keys and values
pods: none given; list at least one URL here or give --pod URL
"#,
    );
    check(
        r#"pods: http://e1"#,
        r#"
pods: is a string; allowed: a list
"#,
    );
    check(
        r#"pods: {url: http://e1}"#,
        r#"
pods: is a map; allowed: a list
"#,
    );
    check(
        r#"pods: [1, null, [], true]"#,
        r#"
pods[0]: is a number; allowed: a URL, or a map with the key url
pods[1]: is without a value; allowed: a URL, or a map with the key url
pods[2]: is a list; allowed: a URL, or a map with the key url
pods[3]: is true or false; allowed: a URL, or a map with the key url
"#,
    );
    check(
        r#"pods: [http://e1:8000]
server: []
limits: 5
models: []
routing: none"#,
        r#"
server: is a list; allowed: a map of keys and values
limits: is a number; allowed: a map of keys and values
models: is a list; allowed: a map of names
routing: is a string; allowed: a map of keys and values
"#,
    );
    check(
        r#"pods: [http://e1:8000]
server: {listen: "0.0.0.0:8080", threads: four, shutdown_grace: [1s], upgrade_socket: 5}"#,
        r#"
server.listen: is a string; allowed: a list
server.threads: "four" is not a whole number; allowed: a whole number, 0 to 1024
server.shutdown_grace: is a list; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds
server.upgrade_socket: is a number; allowed: a string; put it in quotes if it is meant as one
"#,
    );
    check(
        r#"pods: [http://e1:8000]
limits: {body: big, header_size: {}, headers: 1.5, header_timeout: soon, body_idle: }"#,
        r#"
limits.body: "big" is not a size; allowed: a size such as 64KiB, 16MiB or 1GB; a bare number is bytes; 1 to 4GiB
limits.header_size: is a map; allowed: a size such as 64KiB, 16MiB or 1GB; a bare number is bytes; 1KiB to 1MiB
limits.headers: 1.5 is not a whole number; allowed: a whole number, 1 to 10000
limits.header_timeout: "soon" is not a duration; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds, or none
limits.body_idle: is without a value; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds, or none
"#,
    );
    check(
        r#"pods: [http://e1:8000]
log: {level: loud, format: xml, access: 1}"#,
        r#"
log.level: "loud" is not known; allowed: off, error, warn, info, debug, trace
log.format: "xml" is not known; allowed: text, json
log.access: 1 is not true or false; allowed: true, false
"#,
    );
    check(
        r#"pods: [http://e1:8000]
auth: {client_keys: one, engine_key: 12345}"#,
        r#"
auth.client_keys: is a string; allowed: a list
auth.engine_key: is a number; allowed: a string; put it in quotes if it is meant as one
"#,
    );
    check(
        r#"pods: [http://e1:8000]
auth: {client_keys: ["has space", "", 5]}"#,
        r#"
auth.client_keys[0]: is empty or has spaces or characters outside ASCII; allowed: visible ASCII characters
auth.client_keys[1]: is empty or has spaces or characters outside ASCII; allowed: visible ASCII characters
auth.client_keys[2]: is a number; allowed: a string; put it in quotes if it is meant as one
"#,
    );
    check(
        r#"pods: [{url: http://e1, name: 5, labels: {tier: 1, a: [x]}, models: m, metrics: metrics, http2: maybe}]"#,
        r#"
pods[0].name: is a number; allowed: a string; put it in quotes if it is meant as one
pods[0].models: is a string; allowed: a list
pods[0].labels.tier: is a number; allowed: a string; put it in quotes if it is meant as one
pods[0].labels.a: is a list; allowed: a string
pods[0].metrics: "metrics" is not a URL path; allowed: a path that starts with / and has no spaces, or none
pods[0].http2: "maybe" is not true or false; allowed: true, false
"#,
    );
    check(
        r#"pods: [http://e1:8000]
health: {path: health, interval: x, unhealthy_after: "3.5", min_available: half}"#,
        r#"
health.path: "health" is not a URL path; allowed: a path that starts with / and has no spaces
health.interval: "x" is not a duration; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds
health.unhealthy_after: "3.5" is not a whole number; allowed: a whole number, 1 to 1000
health.min_available: "half" is not a number; allowed: a number, 0 to 1
"#,
    );
    check(
        r#"pods: [http://e1:8000]
retry: {attempts: !tag 2}"#,
        r#"
retry.attempts: is a value with a YAML tag; allowed: a whole number, 0 to 16
"#,
    );
}

#[test]
fn ranges_are_kept() {
    check(
        r#"pods: [http://e1:8000]
server: {threads: 5000}
limits: {body: 0, header_size: 10, headers: 0}"#,
        r#"
server.threads: 5000 is out of range; allowed: a whole number, 0 to 1024
limits.body: 0 is out of range; allowed: a size such as 64KiB, 16MiB or 1GB; a bare number is bytes; 1 to 4GiB
limits.header_size: 10 is out of range; allowed: a size such as 64KiB, 16MiB or 1GB; a bare number is bytes; 1KiB to 1MiB
limits.headers: 0 is out of range; allowed: a whole number, 1 to 10000
"#,
    );
    check(
        r#"pods: [http://e1:8000]
retry: {attempts: 17}
health: {interval: 0, timeout: 0s, unhealthy_after: 0, healthy_after: -1, min_available: 1.5}"#,
        r#"
retry.attempts: 17 is out of range; allowed: a whole number, 0 to 16
health.interval: 0 is zero; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds; more than 0, at most 365 days
health.timeout: "0s" is zero; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds; more than 0, at most 365 days
health.unhealthy_after: 0 is out of range; allowed: a whole number, 1 to 1000
health.healthy_after: -1 is out of range; allowed: a whole number, 1 to 1000
health.min_available: 1.5 is out of range; allowed: a number, 0 to 1
"#,
    );
    check(
        r#"pods: [http://e1:8000]
routing: {prefix_cache: {block_size: 0, max_blocks: 0, ttl: 0, standard_deviation_factor: 0, hash_seed: -1}}"#,
        r#"
routing.prefix_cache.block_size: 0 is out of range; allowed: a size such as 64KiB, 16MiB or 1GB; a bare number is bytes; 1 to 64KiB
routing.prefix_cache.max_blocks: 0 is out of range; allowed: a whole number, 1 to 1000000000
routing.prefix_cache.ttl: 0 is zero; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds; more than 0, at most 365 days
routing.prefix_cache.standard_deviation_factor: 0 is out of range; allowed: a number above 0
routing.prefix_cache.hash_seed: -1 is out of range; allowed: a whole number, 0 to 18446744073709551615, or none
"#,
    );
    check(
        r#"pods: [http://e1:8000]
routing: {prefix_cache: {block_size: 128KiB, hash_seed: 18446744073709551616, standard_deviation_factor: .nan}}"#,
        r#"
warmgate.yaml: is not readable as YAML: routing.prefix_cache.hash_seed: invalid type: integer `18446744073709551616` as u128, expected any YAML value at line 2 column 57
"#,
    );
    check(
        r#"pods: [http://e1:8000]
routing: {auto_blend: {prefix_cache_weight: 0, load_balance_weight: 1000001}, load_balance: {imbalance_factor: 0, imbalance_min_gap: 0, queued_weight: -1, kv_critical_free: 2}}"#,
        r#"
routing.auto_blend.load_balance_weight: 1000001 is out of range; allowed: a whole number, 0 to 1000000
routing.auto_blend.prefix_cache_weight: 0 is out of range; allowed: a whole number, 1 to 1000000
routing.load_balance.imbalance_factor: 0 is out of range; allowed: a number above 0
routing.load_balance.imbalance_min_gap: 0 is out of range; allowed: a whole number, 1 to 4294967295
routing.load_balance.queued_weight: -1 is out of range; allowed: a number, 0 or more
routing.load_balance.kv_critical_free: 2 is out of range; allowed: a number, 0 to 1
"#,
    );
    check(
        r#"pods: [http://e1:8000]
metrics_poll: none
timeouts: {connect: 400d, idle: -5s}"#,
        r#"
timeouts.connect: "400d" is out of range; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds; at most 365 days, or none
timeouts.idle: "-5s" is not a duration; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds, or none
metrics_poll: "none" is not a duration; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds
"#,
    );
}

#[test]
fn pods_are_checked() {
    check(
        r#""#,
        r#"
pods: none given; list at least one URL here or give --pod URL
"#,
    );
    check(
        r#"pods:"#,
        r#"
pods: none given; list at least one URL here or give --pod URL
"#,
    );
    check(
        r#"pods: []"#,
        r#"
pods: none given; list at least one URL here or give --pod URL
"#,
    );
    check(
        r#"pods: [{}]"#,
        r#"
pods[0]: has no url; allowed: a map with the key url
"#,
    );
    check(
        r#"pods: [{name: x, role: boss}]"#,
        r#"
pods[0]: has no url; allowed: a map with the key url
pods[0].role: "boss" is not known; allowed: mixed
"#,
    );
    check(
        r#"pods: [ftp://e1, "http://u:secret@e1", "http://e1:99999", e1:8000, "http://e1?x=1", "http://::1"]"#,
        r#"
pods[0]: is a URL of another scheme than http and https; allowed: http://HOST:PORT or https://HOST:PORT, with or without a path
pods[1]: is a URL with a user name; allowed: http://HOST:PORT or https://HOST:PORT, with or without a path
pods[2]: is a URL whose port is not a number from 1 to 65535; allowed: http://HOST:PORT or https://HOST:PORT, with or without a path
pods[3]: is not a URL: http:// or https:// is missing; allowed: http://HOST:PORT or https://HOST:PORT, with or without a path
pods[4]: is a URL with a query or a fragment; allowed: http://HOST:PORT or https://HOST:PORT, with or without a path
pods[5]: is a URL whose IPv6 address is not in brackets; allowed: http://HOST:PORT or https://HOST:PORT, with or without a path
"#,
    );
    check(
        r#"pods: [http://e1:8000, http://E1:8000/v1]"#,
        r#"
pods[1]: is the same engine as pods[0]; allowed: every engine once
"#,
    );
    check(
        r#"pods: [http://e1:8000/a, http://e1:8000/b]"#,
        r#"
pods[1]: has the same name as pods[0]: "e1:8000"; allowed: a name of its own for every pod, by the key name
"#,
    );
    check(
        r#"pods: [{url: http://e1, name: x}, {url: http://e2, name: x}]"#,
        r#"
pods[1]: has the same name as pods[0]: "x"; allowed: a name of its own for every pod, by the key name
"#,
    );
    check(
        r#"pods: [{url: http://e1, engine: tgi, models: [], tls: {verify: false}}]"#,
        r#"
pods[0].models: is empty; allowed: at least one name; leave the key out to ask the engine
pods[0].engine: "tgi" is not known; allowed: vllm, sglang, trtllm, llamacpp, xllm
pods[0].tls: is set, but the url is plain http; allowed: tls only where the url starts with https://
"#,
    );
    check(
        r#"pods: [{url: http://e1, models: [a, a, ""]}]"#,
        r#"
pods[0].models[2]: "" is empty; allowed: a string with something in it
pods[0].models: has "a" twice; allowed: every name once
"#,
    );
    check(
        r#"pods: [{url: https://e1, tls: {sni: 10.0.0.1, ca: /nonexistent/ca.pem}, kv_events: {replay: "tcp://e1"}}]"#,
        r#"
pods[0].kv_events: has no pub; allowed: a map with the key pub
pods[0].kv_events.replay: "tcp://e1" is an endpoint without a port; allowed: tcp://HOST:PORT, or none
pods[0].tls.sni: "10.0.0.1" is not a host name; allowed: a name such as engine.example, or none
pods[0].tls.ca: "/nonexistent/ca.pem" cannot be read: No such file or directory (os error 2); allowed: a file that can be read, or none
"#,
    );
}

#[test]
fn what_is_not_built_is_refused() {
    check(
        r#"pods: [http://e1:8000]
discovery: [{file: pods.json}, {dns: e, port: 1}, {kubernetes: {}}, {consul: x}]"#,
        r#"
discovery[0].file: is not supported by this version; allowed: an empty list of sources
discovery[1].dns: is not supported by this version; allowed: an empty list of sources
discovery[2].kubernetes: is not supported by this version; allowed: an empty list of sources
discovery[3].consul: unknown key; allowed: file, dns, kubernetes, port
"#,
    );
    check(
        r#"pods: [http://e1:8000]
state_sync: {redis: "redis://127.0.0.1:6379", period: 10s, prefix: w}"#,
        r#"
state_sync: redis is not supported by this version; allowed: none
"#,
    );
    check(
        r#"pods: [http://e1:8000]
state_sync: etcd"#,
        r#"
state_sync: "etcd" is not known; allowed: none
"#,
    );
    check(
        r#"pods: [http://e1:8000]
routing: {prefix_cache: {index: kv-events, tokenizer: remote}}"#,
        r#"
routing.prefix_cache.tokenizer: "remote" is not supported by this version; allowed: character, tiktoken
routing.prefix_cache.index: "kv-events" is not supported by this version; allowed: standard
"#,
    );
    check(
        r#"pods: [http://e1:8000]
routing: {prefix_cache: {index: best, tokenizer: huggingface}}"#,
        r#"
routing.prefix_cache.tokenizer: "huggingface" is not supported by this version; allowed: character, tiktoken
routing.prefix_cache.index: "best" is not known; allowed: standard
"#,
    );
    check(
        r#"pods: [{url: http://e1, role: prefill}, {url: http://e2, role: decode}]"#,
        r#"
pods[0].role: "prefill" is not supported by this version; allowed: mixed
pods[1].role: "decode" is not supported by this version; allowed: mixed
"#,
    );
    check(
        r#"pods: [http://e1:8000]
models: {m: {profiles: {a: {requestsPerSecond: 5, routingConfig: {loadBalance: {}, pd: {}}}}}}"#,
        r#"
models.m.profiles.a.routingConfig.loadBalance: is not supported by this version; allowed: prefixCache
models.m.profiles.a.routingConfig.pd: is not supported by this version; allowed: prefixCache
models.m.profiles.a.requestsPerSecond: is not supported by this version; allowed: routingStrategy, routingConfig
"#,
    );
}

#[test]
fn models_and_strategies_are_checked() {
    check(
        r#"pods: [http://e1:8000]
routing: {strategy: fastest}"#,
        r#"
routing.strategy: "fastest" is not a strategy: "fastest" is unknown; allowed: random, least-request, load-balance, prefix-cache
"#,
    );
    check(
        r#"pods: [http://e1:8000]
routing: {strategy: ""}"#,
        r#"
routing.strategy: "" is empty; allowed: a string with something in it
"#,
    );
    check(
        r#"pods: [http://e1:8000]
models: {m: {strategy: "random,best", profiles: {a: {routingStrategy: worst}}}}"#,
        r#"
models.m.strategy: "random,best" is not a strategy: "best" is unknown; allowed: random, least-request, load-balance, prefix-cache
models.m.profiles.a.routingStrategy: "worst" is not a strategy: "worst" is unknown; allowed: random, least-request, load-balance, prefix-cache
"#,
    );
    check(
        r#"pods: [http://e1:8000]
models: {m: {default_profile: b, profiles: {a: {}}}, n: {default_profile: x}}"#,
        r#"
models.m.default_profile: "b" is not a profile of this model; allowed: a
models.n.default_profile: "x" is not a profile of this model; allowed: no profile is listed
"#,
    );
    check(
        r#"pods: [http://e1:8000]
models: {m: {aliases: [n, x, x]}, n: {aliases: [x]}}"#,
        r#"
models.m: has the alias "n", which already stands for "n"; allowed: every name and alias once
models.m: has the alias "x", which already stands for "m"; allowed: every name and alias once
models.n: has the alias "x", which already stands for "m"; allowed: every name and alias once
"#,
    );
    check(
        r#"pods: [http://e1:8000]
models: {org/m.a: {profiles: {a: {routingConfig: {prefixCache: {standardDeviationFactor: -2}}}}}}"#,
        r#"
models["org/m.a"].profiles.a.routingConfig.prefixCache.standardDeviationFactor: -2 is out of range; allowed: a number above 0
"#,
    );
}

#[test]
fn listeners_are_checked() {
    check(
        r#"pods: [http://e1:8000]
server: {listen: []}"#,
        r#"
server.listen: is empty; allowed: at least one address such as 0.0.0.0:8080
"#,
    );
    check(
        r#"pods: [http://e1:8000]
server: {listen: ["localhost:8080", ":8080", "[::]:8080", {tls: none}]}"#,
        r#"
server.listen[0]: "localhost:8080" is not an address; allowed: IP:PORT such as 0.0.0.0:8080 or [::]:8080
server.listen[1]: ":8080" is not an address; allowed: IP:PORT such as 0.0.0.0:8080 or [::]:8080
server.listen[3]: has no address; allowed: a map with the key address
"#,
    );
    check(
        r#"pods: [http://e1:8000]
server: {listen: ["0.0.0.0:8080", "127.0.0.1:8080", "0.0.0.0:9090"]}"#,
        r#"
server.listen[1]: takes the port of server.listen[0]; allowed: an address and port of its own for every listener
server.listen[2]: takes the port of admin.listen; allowed: an address and port of its own for every listener
"#,
    );
    check(
        r#"pods: [http://e1:8000]
server: {listen: [{address: "0.0.0.0:1", h2c: true, tls: {cert: /nonexistent/cert.pem, client_ca: /}}]}"#,
        r#"
server.listen[0].tls.cert: "/nonexistent/cert.pem" cannot be read: No such file or directory (os error 2); allowed: a file that can be read
server.listen[0].tls: has no key; allowed: a map with the key key
server.listen[0].tls.client_ca: "/" is a directory; allowed: a file that can be read, or none
server.listen[0]: has both tls and h2c; allowed: one of them; with tls, HTTP/2 is agreed on by ALPN
"#,
    );
}

#[test]
fn yaml_errors_name_line_and_column() {
    check(
        r#"pods: [http://e1:8000]
limits: {body: 1"#,
        r#"
warmgate.yaml: is not readable as YAML: did not find expected ',' or '}' at line 3 column 1, while parsing a flow mapping at line 2 column 9
"#,
    );
    check(
        r#"pods: [http://e1:8000]
retry: {attempts: 1}
retry: {attempts: 2}"#,
        r#"
warmgate.yaml: is not readable as YAML: duplicate entry with key "retry"
"#,
    );
    check(
        r#"pods:
  - url: http://e1
    url: http://e2"#,
        r#"
warmgate.yaml: is not readable as YAML: pods[0]: duplicate entry with key "url" at line 2 column 5
"#,
    );
    check(
        r#"pods: [http://e1:8000]
a: [b
c: d"#,
        r#"
warmgate.yaml: is not readable as YAML: did not find expected ',' or ']' at line 3 column 2, while parsing a flow sequence at line 2 column 4
"#,
    );
    check(
        r#"pods: [http://e1:8000]
---
retry: {}"#,
        r#"
warmgate.yaml: is not readable as YAML: deserializing from YAML containing more than one document is not supported
"#,
    );
    check(
        r#"pods: [http://e1:8000]
limits: *nothing"#,
        r#"
warmgate.yaml: is not readable as YAML: unknown anchor at line 2 column 9
"#,
    );
}

#[test]
fn variables_in_strings_must_be_set() {
    check(
        r#"pods: ["http://${HOST}:8000", "http://${NOT_SET}:8000"]
auth: {engine_key: "${KEY}", client_keys: ["${OPEN", "${BAD KEY}"]}
limits: {body: "${HOST}"}"#,
        r#"
limits.body: "${HOST}" is not a size; allowed: a size such as 64KiB, 16MiB or 1GB; a bare number is bytes; 1 to 4GiB
auth.client_keys[0]: has ${ without }; allowed: ${NAME}, or $${ for ${ itself
auth.client_keys[1]: has ${BAD KEY}, which names no variable; allowed: letters, digits and underscores
auth.engine_key: is empty or has spaces or characters outside ASCII; allowed: visible ASCII characters, or none
pods[1]: needs the environment variable NOT_SET, which is not set; allowed: set NOT_SET, or write the value here
"#,
    );
}
