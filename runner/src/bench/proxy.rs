//! A longer way to the database: a TCP proxy that delivers everything a while after it came.
//!
//! It listens on this machine only and speaks to the server wherever that is, on a socket too.

use std::time::Duration;

use anyhow::Context;
use reqwest::Url;
use stokehold_queue::bench::Endpoint;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::bed::Bed;

/// Bytes read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that may be on their way in one direction; a real line holds more than it needs as well.
const PIECES: usize = 1_024;

/// Listens for as long as it lives.
pub(crate) struct Proxy {
    url: String,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Starts one before the database of a bed.
    pub(crate) async fn start(bed: &Bed, delay: Duration) -> anyhow::Result<Proxy> {
        let server = bed.database.options().endpoint();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = through(&bed.url, listener.local_addr()?.port())?;
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            // Ends with the set, and its connections with it.
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(connect(client, server.clone(), delay));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Proxy { url, _accepting: accepting })
    }

    /// The database's address by way of it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

async fn connect(client: TcpStream, server: Endpoint, delay: Duration) {
    let carried = async {
        client.set_nodelay(true)?;
        match server {
            Endpoint::Socket(path) => {
                both_ways(client, UnixStream::connect(path).await?, delay).await
            }
            Endpoint::Tcp(host, port) => {
                let stream = TcpStream::connect((host, port)).await?;
                stream.set_nodelay(true)?;
                both_ways(client, stream, delay).await
            }
        }
    };
    // A connection that breaks is for its two ends to notice.
    if let Err(error) = carried.await {
        tracing::debug!(%error, "a connection through the proxy has ended");
    }
}

async fn both_ways(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
    delay: Duration,
) -> std::io::Result<()> {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = tokio::io::split(server);
    // When one direction has ended the other has nothing left to say.
    tokio::select! {
        ended = one_way(from_client, to_server, delay) => ended,
        ended = one_way(from_server, to_client, delay) => ended,
    }
}

/// Delivers each piece a while after it came, however many are on their way.
async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
) -> std::io::Result<()> {
    let (sender, mut under_way) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let read = async {
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            if from.read_buf(&mut piece).await? == 0
                || sender.send((Instant::now(), piece)).await.is_err()
            {
                // Dropped here, so that the other half ends when it has delivered everything.
                drop(sender);
                return std::io::Result::Ok(());
            }
        }
    };
    let write = async {
        while let Some((came_at, piece)) = under_way.recv().await {
            tokio::time::sleep_until(came_at + delay).await;
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write).map(|_| ())
}

/// The same database at another port of this machine.
fn through(url: &str, port: u16) -> anyhow::Result<String> {
    let mut url = Url::parse(url).context("the database's address cannot be read")?;
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| !matches!(name.as_ref(), "host" | "hostaddr" | "port"))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.set_host(Some("127.0.0.1")).context("the database's address has no host")?;
    url.set_port(Some(port)).ok().context("the database's address has no port")?;
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_leads_to_the_same_database() {
        let url = "postgres://u:p@localhost/stokehold?host=/tmp/run&sslmode=disable";
        assert_eq!(
            through(url, 9).unwrap(),
            "postgres://u:p@127.0.0.1:9/stokehold?sslmode=disable"
        );
        assert_eq!(through("postgres://db:5432/x", 9).unwrap(), "postgres://127.0.0.1:9/x");
    }

    #[tokio::test]
    async fn what_goes_in_comes_out_later_and_whole() {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (mut client, proxied) = tokio::io::duplex(1 << 20);
        let delay = Duration::from_millis(20);
        tokio::spawn(both_ways(proxied, near, delay));
        let (mut from, mut to) = tokio::io::split(far);
        tokio::spawn(async move { tokio::io::copy(&mut from, &mut to).await });
        let begun = Instant::now();
        let sent = vec![7; 300_000];
        client.write_all(&sent).await.unwrap();
        let mut came = vec![0; sent.len()];
        client.read_exact(&mut came).await.unwrap();
        assert!(came == sent && begun.elapsed() >= delay * 2, "{:?}", begun.elapsed());
    }
}
