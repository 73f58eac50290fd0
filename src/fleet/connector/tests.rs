use pingora_core::connectors::http::Connector as HttpConnector;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_http::RequestHeader;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// An engine that answers by hand, and a connector that asks it.
struct Bench {
    engine: TcpListener,
    peer: HttpPeer,
    idle: Arc<IdleConnections>,
    connector: HttpConnector<EngineConnector>,
}

type Session = HttpSession<()>;

impl Bench {
    async fn new(most: usize) -> Self {
        let engine = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = HttpPeer::new(engine.local_addr().unwrap(), false, String::new());
        peer.options.alpn = protocol();
        peer.options.idle_timeout = Some(Duration::from_secs(60));
        let idle = Arc::new(IdleConnections::new(most));
        let connector = EngineConnector::new(None, Arc::clone(&idle));
        Self {
            engine,
            peer,
            idle,
            connector: HttpConnector::new_custom(None, connector),
        }
    }

    async fn session(&self) -> Session {
        self.connector.get_http_session(&self.peer).await.unwrap().0
    }

    async fn accept(&self) -> TcpStream {
        self.engine.accept().await.unwrap().0
    }

    /// One request and its answer. `told`: the proxy says that the answer is whole.
    async fn exchange(&self, session: &mut Session, engine: &mut TcpStream, told: bool) {
        let mut request = RequestHeader::build("GET", b"/", None).unwrap();
        request.insert_header("host", "engine").unwrap();
        session
            .write_request_header(Box::new(request))
            .await
            .unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(engine.read_u8().await.unwrap());
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwhat";
        engine.write_all(answer).await.unwrap();
        session.read_response_header().await.unwrap();
        let mut body = Vec::new();
        while let Some(chunk) = session.read_response_body().await.unwrap() {
            body.extend_from_slice(&chunk);
        }
        assert_eq!(body, b"what");
        if told {
            handle(session).answered();
        }
    }

    async fn release(&self, session: Session) {
        let timeout = self.peer.options.idle_timeout;
        self.connector
            .release_http_session(session, &self.peer, timeout)
            .await;
    }

    /// A connection that has served a request and is kept; the engine's end of it.
    async fn kept(&self) -> TcpStream {
        let (mut session, mut engine) = tokio::join!(self.session(), self.accept());
        self.exchange(&mut session, &mut engine, true).await;
        self.release(session).await;
        assert_eq!(self.idle.len(), 1);
        engine
    }
}

fn handle(session: &Session) -> Handle {
    Handle::of(session.digest().unwrap()).unwrap().clone()
}

/// What the engine did has arrived at the other end.
async fn arrived(idle: &IdleConnections) {
    while idle.len() > 0 {
        tokio::task::yield_now().await;
        idle.sweep(Instant::now());
    }
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let bench = Bench::new(8).await;
    let mut engine = bench.kept().await;
    for _ in 0..3 {
        let mut session = bench.session().await;
        assert_eq!(bench.idle.len(), 0);
        assert!(handle(&session).was_kept());
        bench.exchange(&mut session, &mut engine, true).await;
        bench.release(session).await;
        assert_eq!(bench.idle.len(), 1);
    }
}

#[tokio::test]
async fn a_new_connection_says_so() {
    let bench = Bench::new(8).await;
    let (session, _engine) = tokio::join!(bench.session(), bench.accept());
    assert!(!handle(&session).was_kept());
}

#[tokio::test]
async fn an_answer_that_nobody_called_whole_leaves_the_connection_to_pingora() {
    for (most, told) in [(8, false), (0, true)] {
        let bench = Bench::new(most).await;
        let (mut session, mut engine) = tokio::join!(bench.session(), bench.accept());
        bench.exchange(&mut session, &mut engine, told).await;
        bench.release(session).await;
        assert_eq!(bench.idle.len(), 0);
        let (mut session, reused) = bench.connector.get_http_session(&bench.peer).await.unwrap();
        assert!(reused, "out of Pingora's pool");
        bench.exchange(&mut session, &mut engine, told).await;
    }
}

#[tokio::test]
async fn what_the_engine_closed_or_wrote_into_is_not_used_again() {
    for unasked in [&b""[..], b"?"] {
        let bench = Bench::new(8).await;
        let mut engine = bench.kept().await;
        engine.write_all(unasked).await.unwrap();
        engine.shutdown().await.unwrap();
        arrived(&bench.idle).await;
        let (session, _engine) = tokio::join!(bench.session(), bench.accept());
        assert!(!handle(&session).was_kept());
    }
}

#[tokio::test]
async fn the_last_one_used_is_taken_first_and_old_ones_are_closed() {
    let bench = Bench::new(8).await;
    let (mut one, mut first) = tokio::join!(bench.session(), bench.accept());
    let (mut two, mut second) = tokio::join!(bench.session(), bench.accept());
    bench.exchange(&mut one, &mut first, true).await;
    bench.exchange(&mut two, &mut second, true).await;
    bench.release(one).await;
    let between = Instant::now();
    bench.release(two).await;
    assert_eq!(bench.idle.len(), 2);

    let mut again = bench.session().await;
    bench.exchange(&mut again, &mut second, true).await;
    bench.release(again).await;
    bench.idle.sweep(between + Duration::from_secs(60));
    assert_eq!(bench.idle.len(), 1);
    assert_eq!(first.read(&mut [0]).await.unwrap(), 0, "it was closed");
    bench.idle.sweep(Instant::now() + Duration::from_secs(60));
    assert_eq!(bench.idle.len(), 0);
    assert_eq!(second.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn another_engine_gets_none_of_them() {
    let bench = Bench::new(8).await;
    let _engine = bench.kept().await;
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut peer = bench.peer.clone();
    peer._address = other.local_addr().unwrap().into();
    let (session, accepted) = tokio::join!(bench.connector.get_http_session(&peer), other.accept());
    assert!(!handle(&session.unwrap().0).was_kept());
    accepted.unwrap();
    assert_eq!(bench.idle.len(), 1);
}
