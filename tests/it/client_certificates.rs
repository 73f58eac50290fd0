//! Listeners that ask clients for a certificate.

use std::sync::Arc;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::support::client::head;
use crate::support::engines;
use crate::support::gateway::Gateway;

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    cert_pem: String,
    key_pem: String,
}

fn identity(name: &str) -> Identity {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    Identity {
        certificate: made.cert.der().clone(),
        key: PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap(),
        cert_pem: made.cert.pem(),
        key_pem: made.signing_key.serialize_pem(),
    }
}

/// The answer's first line, or why there is none.
async fn ask(
    gateway: &Gateway,
    server: &Identity,
    client: Option<&Identity>,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        Some(client) => config
            .with_client_auth_cert(vec![client.certificate.clone()], client.key.clone_key())
            .unwrap(),
        None => config.with_no_client_auth(),
    };
    let tcp = TcpStream::connect(gateway.address).await?;
    let name = ServerName::try_from("gateway.test").unwrap();
    let mut tls = TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await?;
    let body = json!({"model": "m-a", "prompt": "x", "max_tokens": 1}).to_string();
    tls.write_all(&head(
        "POST",
        "/v1/completions",
        &[("connection", "close")],
        Some(body.len()),
    ))
    .await?;
    tls.write_all(body.as_bytes()).await?;
    let mut answer = vec![0; 15];
    tls.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_right_authority_are_served() {
    let engines = engines(1, &["m-a"]).await;
    let (server, client, stranger) = (
        identity("gateway.test"),
        identity("client"),
        identity("stranger"),
    );
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let tls = format!(
        "{{cert: \"{}\", key: \"{}\", client_ca: \"{}\"}}",
        file("cert.pem", &server.cert_pem),
        file("key.pem", &server.key_pem),
        file("clients.pem", &client.cert_pem)
    );
    let config = format!(
        "server: {{listen: [{{address: \"$ADDRESS\", tls: {tls}}}]}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    assert_eq!(
        ask(&gateway, &server, Some(&client)).await.unwrap(),
        "HTTP/1.1 200 OK"
    );
    assert!(ask(&gateway, &server, Some(&stranger)).await.is_err());
    assert!(ask(&gateway, &server, None).await.is_err());
    assert_eq!(engines.all_requests().len(), 1);
}
