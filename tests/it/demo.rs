//! `warmgate demo`: what it leaves behind.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::support::client::get;
use crate::support::eventually;

#[tokio::test]
async fn a_demo_that_is_ended_takes_its_gateway_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_warmgate"))
        .args(["demo", "--engines", "1", "--seconds", "600"])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the demo starts");
    let config = folder
        .path()
        .join(format!("warmgate-demo-{}.yaml", demo.id()));
    let admin: SocketAddr = eventually("its gateway is ready", async || {
        let text = std::fs::read_to_string(&config).ok()?;
        let (_, rest) = text.split_once("admin: {listen: \"")?;
        let address = rest.split('"').next()?.parse().ok()?;
        (get(address, "/readyz").await.ok()?.status == 200).then_some(address)
    })
    .await;
    let told = Command::new("kill").arg(demo.id().to_string()).status();
    assert!(told.expect("a signal").success());
    let status = eventually("the demo ends", async || demo.try_wait().ok()?).await;
    assert_eq!(
        status.code(),
        Some(1),
        "it was told to end before its table"
    );
    eventually("its gateway ends", async || {
        get(admin, "/livez").await.is_err().then_some(())
    })
    .await;
    assert!(!config.exists());
}
