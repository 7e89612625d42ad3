//! A reader that reads nothing (INV-12): no turn waits for it, and it misses nothing durable.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::Rig;
use crate::support::rig::within;

/// Opens a stream of events on a connection that holds next to nothing for who does not read.
async fn open(rig: &Rig) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    let mut stream = socket.connect(rig.at).await.unwrap();
    let ask = format!("GET /v1/sessions/s/events HTTP/1.1\r\nhost: {}\r\n\r\n", rig.at);
    stream.write_all(ask.as_bytes()).await.unwrap();
    stream
}

/// Reads the stream, without HTTP's chunk headers, up to the durable event that ends the n-th turn.
async fn read_up_to(stream: &mut TcpStream, turns: usize) -> Vec<Value> {
    let (mut events, mut text, mut piece) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    let mut ended = 0;
    while ended < turns {
        let n = within(stream.read(&mut piece)).await.unwrap();
        assert!(n > 0, "the stream ended");
        text.extend_from_slice(&piece[..n]);
        while let Some(end) = text.windows(2).position(|it| it == b"\n\n") {
            let block: Vec<u8> = text.drain(..end + 2).collect();
            let block = String::from_utf8(block).unwrap();
            // Each frame is one piece of HTTP's: the line of its length stands before it.
            let Some(data) = block.lines().find_map(|it| it.strip_prefix("data: ")) else { continue };
            let event: Value = serde_json::from_str(data).unwrap();
            ended += usize::from(event.get("outcome").is_some());
            events.push(event);
        }
    }
    events
}

// D9, INV-10
#[tokio::test]
async fn turns_end_while_a_reader_reads_nothing_and_it_misses_nothing_durable() {
    const TURNS: usize = 8;
    const WORDS: usize = 4000;
    let rig = Rig::start().await;
    rig.pace.run_free();
    let client = rig.client();
    client.post("/v1/sessions", &serde_json::json!({ "id": "s" })).await;
    let mut idle = open(&rig).await;
    let words = vec!["w"; WORDS].join(" ");
    for _ in 0..TURNS {
        let sent = serde_json::json!({ "content": format!("slow {words}") });
        let outcome = within(client.post("/v1/sessions/s/messages", &sent)).await;
        assert_eq!(outcome.json()["status"], "completed");
    }
    let seen = read_up_to(&mut idle, TURNS).await;
    let durable: Vec<&str> = seen.iter().filter_map(|it| it["id"].as_str()).collect();
    let all = client.get("/v1/sessions/s/turns").await.json()["items"].as_array().unwrap().len();
    assert_eq!((durable.len(), all), (3 * TURNS, TURNS));
    let numbers: Vec<u64> =
        durable.iter().map(|it| it.rsplit_once('.').unwrap().1.parse().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..3 * TURNS as u64), "{numbers:?}");
    // It was behind: the transient events went by, and were stored for nobody.
    let deltas = seen.iter().filter(|it| it["type"] == "delta").count();
    assert!(deltas < TURNS * WORDS, "it saw all {deltas}: it was not behind");
}
