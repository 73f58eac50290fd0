//! HTTP/2 on either side, with and without TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use warmgate::sim::{Ended, Faults};
use xxhash_rust::xxh3::xxh3_64;

use crate::support::client::post_json;
use crate::support::gateway::Gateway;
use crate::support::{Engines, engines, eventually, free_address};

const COMPLETIONS: &str = "/v1/completions";

fn completion(bytes: usize) -> Value {
    json!({"model": "m-a", "max_tokens": 3, "prompt": "x y ".repeat(bytes / 4)})
}

type Sender = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

/// An HTTP/2 client connection; its task ends with the set.
async fn http2(
    io: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    tasks: &mut JoinSet<()>,
) -> Sender {
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io))
            .await
            .unwrap();
    tasks.spawn(async move {
        // The requests on it tell how it ended.
        let _ = connection.await;
    });
    sender
}

fn post(scheme: &str, body: &Value) -> Request<Full<Bytes>> {
    Request::post(format!("{scheme}://gateway.test{COMPLETIONS}"))
        .version(Version::HTTP_2)
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()))
        .unwrap()
}

async fn text(answer: Response<Incoming>) -> String {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8_lossy(&body).into_owned()
}

fn h2c_listener(config: &str) -> String {
    format!("server: {{listen: [{{address: \"$ADDRESS\", h2c: true}}], threads: 2}}\n{config}")
}

/// The engines' `pods:` section with HTTP/2 to them.
fn http2_pods(engines: &Engines) -> String {
    engines.pods().replace("name: e", "http2: true, name: e")
}

#[tokio::test]
async fn clients_without_tls_may_speak_either_version() {
    let engines = engines(2, &["m-a"]).await;
    for pods in [engines.pods(), http2_pods(&engines)] {
        let gateway = Gateway::start(&h2c_listener(&pods)).await;
        let mut tasks = JoinSet::new();
        let mut sender = http2(
            TcpStream::connect(gateway.address).await.unwrap(),
            &mut tasks,
        )
        .await;
        for size in [100, 64 << 10, 70 << 10, 1 << 20] {
            let body = completion(size);
            let answer = sender.send_request(post("http", &body)).await.unwrap();
            assert_eq!(answer.status(), 200, "{size}");
            assert!(answer.headers().contains_key("target-pod"));
            assert!(text(answer).await.contains("\"completion_tokens\":3"));
            let hash = xxh3_64(body.to_string().as_bytes());
            assert!(
                engines
                    .all_requests()
                    .iter()
                    .any(|seen| seen.body_hash == hash),
                "{size}"
            );
        }
        assert_eq!(
            post_json(gateway.address, COMPLETIONS, &completion(100))
                .await
                .status,
            200
        );
        let version = if pods.contains("http2") {
            "HTTP/2.0"
        } else {
            "HTTP/1.1"
        };
        assert!(
            engines
                .all_requests()
                .iter()
                .all(|seen| seen.version == version)
        );
        engines.0.iter().for_each(|engine| engine.clear_requests());
    }
}

#[tokio::test]
async fn many_streams_share_a_connection_and_each_can_be_given_up() {
    let engines = engines(2, &["m-a"]).await;
    let gateway = Gateway::start(&h2c_listener(&engines.pods())).await;
    let mut tasks = JoinSet::new();
    let sender = http2(
        TcpStream::connect(gateway.address).await.unwrap(),
        &mut tasks,
    )
    .await;
    let mut requests = JoinSet::new();
    for number in 0..40 {
        let mut sender = sender.clone();
        requests.spawn(async move {
            let mut body = completion(2000);
            body["prompt"] = json!(format!("{number} {}", body["prompt"].as_str().unwrap()));
            sender
                .send_request(post("http", &body))
                .await
                .unwrap()
                .status()
        });
    }
    while let Some(status) = requests.join_next().await {
        assert_eq!(status.unwrap(), 200);
    }
    engines.0.iter().for_each(|engine| engine.clear_requests());
    engines.set_faults(&Faults {
        never_answer: true,
        ..Faults::default()
    });
    let mut abandoned = sender.clone();
    let silent = tokio::spawn(async move {
        abandoned
            .send_request(post("http", &completion(100)))
            .await
            .map(|_| ())
    });
    eventually("it is at an engine", async || {
        (engines.all_requests().len() == 1).then_some(())
    })
    .await;
    silent.abort();
    eventually("the engine has noticed", async || {
        (engines.all_requests()[0].ended == Ended::ClientGone).then_some(())
    })
    .await;
    gateway.until_idle().await;
}

#[tokio::test]
async fn errors_and_broken_streams_are_told_in_http2_terms() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&h2c_listener(&engines.pods())).await;
    let mut tasks = JoinSet::new();
    let mut sender = http2(
        TcpStream::connect(gateway.address).await.unwrap(),
        &mut tasks,
    )
    .await;
    let unknown = sender
        .send_request(post("http", &json!({"model": "nope", "prompt": "x"})))
        .await
        .unwrap();
    assert_eq!(unknown.status(), 404);
    assert!(text(unknown).await.contains("model_not_found"));
    engines.set_faults(&Faults {
        events: Some(9),
        die_after_events: Some(2),
        ..Faults::default()
    });
    let answer = sender
        .send_request(post("http", &completion(100)))
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    assert!(
        answer.into_body().collect().await.is_err(),
        "a broken answer looked whole"
    );
}

/// A certificate for these names, signed by itself; its files, and itself as a root.
fn certificate(folder: &Path, names: &[&str]) -> (String, String, RootCertStore) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    (cert.display().to_string(), key.display().to_string(), roots)
}

#[tokio::test]
async fn clients_with_tls_agree_on_a_version() {
    let engines = engines(1, &["m-a"]).await;
    let folder = tempfile::tempdir().unwrap();
    let (cert, key, roots) = certificate(folder.path(), &["gateway.test"]);
    let config = format!(
        "server: {{listen: [{{address: \"$ADDRESS\", tls: {{cert: \"{cert}\", key: \"{key}\"}}}}], threads: 2}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    let mut client = ClientConfig::builder_with_provider(Arc::new(
        tokio_rustls::rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_root_certificates(roots)
    .with_no_client_auth();
    for protocol in ["h2", "http/1.1"] {
        client.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let tcp = TcpStream::connect(gateway.address).await.unwrap();
        let name = ServerName::try_from("gateway.test").unwrap();
        let tls = TlsConnector::from(Arc::new(client.clone()))
            .connect(name, tcp)
            .await
            .unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        let mut tasks = JoinSet::new();
        let answer = if protocol == "h2" {
            http2(tls, &mut tasks)
                .await
                .send_request(post("https", &completion(100_000)))
                .await
                .unwrap()
        } else {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(tls))
                    .await
                    .unwrap();
            tasks.spawn(async move {
                let _ = connection.await;
            });
            let request = Request::post(COMPLETIONS)
                .header("host", "gateway.test")
                .body(Full::from(completion(100_000).to_string()));
            sender.send_request(request.unwrap()).await.unwrap()
        };
        assert_eq!(answer.status(), 200, "{protocol}");
    }
    assert!(
        engines
            .all_requests()
            .iter()
            .all(|seen| seen.header("x-forwarded-proto") == Some("https"))
    );
}

#[tokio::test]
async fn a_client_that_shakes_no_hands_is_let_go_and_a_listener_without_tls_stays_one() {
    let engines = engines(1, &["m-a"]).await;
    let folder = tempfile::tempdir().unwrap();
    let (cert, key, _) = certificate(folder.path(), &["gateway.test"]);
    let secure = free_address();
    let config = format!(
        "server: {{listen: [\"$ADDRESS\", {{address: \"{secure}\", tls: {{cert: \"{cert}\", key: \"{key}\"}}}}], threads: 1}}\n\
         limits: {{header_timeout: 300ms}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    for sent in [&b""[..], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut tcp = TcpStream::connect(secure).await.unwrap();
        tcp.write_all(sent).await.unwrap();
        let mut got = Vec::new();
        // A reset says the same as an end; an alert of TLS may come before.
        let _ = tcp.read_to_end(&mut got).await;
        assert!(!got.starts_with(b"HTTP"), "{got:?}");
    }
    let answer = post_json(gateway.address, COMPLETIONS, &completion(100)).await;
    assert_eq!(answer.status, 200);
}

/// Speaks TLS for an engine that does not.
async fn tls_before(
    engine: SocketAddr,
    cert: &str,
    key: &str,
    protocol: &'static [u8],
    tasks: &mut JoinSet<()>,
) -> SocketAddr {
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
    let certs = CertificateDer::pem_file_iter(cert)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let mut server = ServerConfig::builder_with_provider(Arc::new(
        tokio_rustls::rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(certs, key)
    .unwrap();
    server.alpn_protocols = vec![protocol.to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                // A client that does not trust the certificate ends the handshake.
                let Ok(mut tls) = acceptor.accept(tcp).await else {
                    return;
                };
                let mut plain = TcpStream::connect(engine).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut tls, &mut plain).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn engines_with_tls_are_reached_only_if_their_certificate_holds() {
    let engines = engines(1, &["m-a"]).await;
    let folder = tempfile::tempdir().unwrap();
    let (cert, key, _) = certificate(folder.path(), &["engine.test"]);
    for (protocol, http2) in [(&b"http/1.1"[..], false), (b"h2", true)] {
        let mut tasks = JoinSet::new();
        let address = tls_before(engines.0[0].address(), &cert, &key, protocol, &mut tasks).await;
        for (tls, works) in [
            (format!("{{ca: \"{cert}\", sni: engine.test}}"), true),
            ("{verify: false}".to_owned(), true),
            (format!("{{ca: \"{cert}\", sni: other.test}}"), false),
            (format!("{{ca: \"{cert}\"}}"), false),
            ("{sni: engine.test}".to_owned(), false),
        ] {
            let pods = format!(
                "pods:\n  - {{url: \"https://{address}\", http2: {http2}, name: e1, models: [m-a], tls: {tls}}}\n"
            );
            let gateway = Gateway::start_unready(&format!("metrics_poll: 1h\n{pods}")).await;
            let answer = post_json(gateway.address, COMPLETIONS, &completion(70_000)).await;
            let expected = if works { &[200][..] } else { &[502, 503] };
            assert!(
                expected.contains(&answer.status),
                "{tls} http2 {http2}: {} {}",
                answer.status,
                answer.text()
            );
        }
    }
    let works = 2 * 2;
    assert_eq!(engines.all_requests().len(), works);
}

#[tokio::test]
async fn an_ipv6_engine_is_named_in_brackets() {
    let Ok(engine) = warmgate::sim::start(warmgate::sim::Options {
        address: "[::1]:0".parse().unwrap(),
        models: vec!["m-a".to_owned()],
        time_scale: 0.0,
        ..warmgate::sim::Options::default()
    })
    .await
    else {
        // A machine without IPv6 has nothing to show here.
        assert!(std::net::TcpListener::bind("[::1]:0").is_err());
        return;
    };
    let gateway = Gateway::start(&format!("pods: [\"{}\"]\n", engine.url())).await;
    let answer = post_json(gateway.address, COMPLETIONS, &completion(100)).await;
    assert_eq!(
        (answer.status, answer.pod()),
        (200, engine.address().to_string().as_str())
    );
    assert_eq!(
        engine.requests()[0].header("host"),
        Some(engine.address().to_string().as_str())
    );
}

#[tokio::test]
async fn a_pod_by_name_is_resolved_and_reached() {
    let engines = engines(1, &["m-a"]).await;
    let port = engines.0[0].address().port();
    let dead = free_address().port();
    let gateway = Gateway::start(&format!(
        "pods: [\"http://localhost:{port}\", {{url: \"http://name.invalid:{dead}\", models: [m-a]}}]\n"
    ))
    .await;
    for _ in 0..5 {
        let answer = post_json(gateway.address, COMPLETIONS, &completion(100)).await;
        assert_eq!(
            (answer.status, answer.pod()),
            (200, format!("localhost:{port}").as_str())
        );
    }
    assert_eq!(
        engines.all_requests()[0].header("host"),
        Some(format!("localhost:{port}").as_str())
    );
}
