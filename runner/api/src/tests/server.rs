//! The server on a real socket.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::harness::Api;

async fn talk(stream: &mut TcpStream, request: String) {
    stream.write_all(request.as_bytes()).await.unwrap();
}

async fn listen() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn a_server_that_stops_answers_who_waits_and_takes_nobody_new() {
    let api = Api::start().await;
    api.kind("k").await;
    let id = api.job("k").await;
    let (listener, address) = listen().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(crate::serve(listener, api.state.clone(), async {
        let _ = stopped.await;
    }));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let key = &api.key;
    let request = format!(
        "GET /v1/jobs/{id}?wait=60 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\
         connection: close\r\n\r\n"
    );
    talk(&mut stream, request).await;
    // The server has it when it waits for the job: then one place is taken.
    while api.state.requests.available_permits() == crate::MAX_REQUESTS {
        tokio::task::yield_now().await;
    }
    let ordered = Instant::now();
    stop.send(()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\"state\":\"available\""), "{answer}");
    server.await.unwrap().unwrap();
    assert!(ordered.elapsed() < Duration::from_secs(5), "{:?}", ordered.elapsed());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_client_that_sends_too_much_still_reads_why() {
    let api = Api::start().await;
    let (listener, address) = listen().await;
    let server = tokio::spawn(crate::serve(listener, api.state.clone(), std::future::pending()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (length, key) = (4 << 20, &api.key);
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    talk(&mut stream, head).await;
    stream.write_all(&vec![b' '; length]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("request.too-large") && answer.contains("2097152"), "{answer}");
    server.abort();
}
