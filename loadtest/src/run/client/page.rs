//! Single pages of a gateway's admin address.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Request;
use http::header::HOST;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Status and text of a page.
pub(crate) async fn get(authority: &str, path: &str) -> Result<(u16, String)> {
    let name = || format!("http://{authority}{path}");
    let stream = TcpStream::connect(authority).await.with_context(name)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its end is seen by the request.
    tokio::spawn(connection);
    let request = Request::get(path)
        .header(HOST, authority)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await.with_context(name)?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.with_context(name)?;
    Ok((
        status,
        String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    ))
}
