//! Two nodes in one process send each other a message, encrypted.

mod usage;
use std::time::Duration;

use sabani::{JobKey, Match, Node, PeerId};

/// How long it may take until the other one has acknowledged all.
const TIMEOUT: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    usage::heed(include_str!("hello.rs"), "");
    let key = JobKey::generate()?;
    let open = |id| {
        Node::builder(PeerId(id))
            .bind(([127, 0, 0, 1], 0).into())
            .job_key(key.clone())
            .open()
    };
    let (alice, bob) = (open(0)?, open(1)?);
    alice.add_peer(PeerId(1), bob.local_addr())?;

    alice.send(PeerId(1), 7, b"hello")?;
    let question = bob.recv(Match::any().tag(7))?;
    bob.send(question.source, 8, b"hello to you")?;
    let answer = alice.recv(Match::any().from(PeerId(1)))?;
    println!("{}", String::from_utf8_lossy(answer.body()));
    alice.close(TIMEOUT)?;
    bob.close(TIMEOUT)?;
    Ok(())
}
