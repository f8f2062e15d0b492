//! Who talks to the receiver.
//!
//! Each sender has a thread that listens to it alone, so that what one of them asks for holds up nobody else.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use sabani::{Match, Message, NodeStats, PeerId, RejectReason};

use super::listener::{Listener, Senders};
use super::protocol::{Answer, Ask, HELLO_MAX, Reply, Request, TAG_HELLO};
use super::seldom::Seldom;
use super::worker::{Shared, Workers, greet, spawn};
use crate::interrupt::TICK;

/// Senders at a time: each has threads.
const SENDERS_MAX: usize = 256;

/// Handshakes that were turned away before the user hears of it: a sender that tries for 5 s has more.
const TURNED_AWAY: u64 = 3;

/// How often it is looked at the end whether somebody still listens.
const LOOK: Duration = Duration::from_millis(5);

/// The senders. All threads end with the process: what they leave behind is good at any time.
pub struct Desk {
    shared: Arc<Shared>,
    senders: Senders,
    /// The user knows that somebody comes without a hello.
    told: bool,
    /// Somebody was let in, sometime.
    served: bool,
    /// Handshakes that were turned away so far.
    turned_away: u64,
    /// Those of them that the user does not know of.
    untold: Seldom,
}

impl Desk {
    /// Nobody is there yet.
    pub fn open(shared: &Arc<Shared>) -> Self {
        Desk {
            shared: shared.clone(),
            senders: Senders::default(),
            told: false,
            served: false,
            turned_away: 0,
            untold: Seldom::default(),
        }
    }

    /// Whether anybody is being served, or may still come back to a connection that has not ended.
    pub fn is_busy(&self) -> bool {
        !self.senders.lock().is_empty()
    }

    /// What is said when the user stops the program.
    pub fn last_word(&self) -> String {
        let senders = self.senders.lock();
        let staying = senders.iter().filter(|&(_, &said_bye)| !said_bye);
        let (heard, silent): (Vec<PeerId>, _) = staying
            .map(|(&sender, _)| sender)
            .partition(|&sender| self.shared.is_heard(sender));
        let known = [
            (heard.len(), "is at work", "are at work"),
            (silent.len(), "has fallen silent", "have fallen silent"),
        ];
        let who: Vec<String> = known
            .into_iter()
            .filter_map(|(count, one, more)| match count {
                0 => None,
                1 => Some(format!("a sender {one}")),
                _ => Some(format!("{count} senders {more}")),
            })
            .collect();
        if who.is_empty() {
            let stats = self.shared.node.stats();
            return match turned_away(&stats) {
                count if count > 0 && !self.served => {
                    format!("interrupted; all who came {}", were_turned_away(&stats))
                }
                _ => "interrupted; nobody was sending".into(),
            };
        }
        format!(
            "interrupted while {}: who still runs waits now for a minute or what `--patience` says; start this again \
             to go on, what has come is kept",
            who.join(" and ")
        )
    }

    /// Waits for those who listen to end, with the node closed; not for longer than that.
    pub fn clear(self, patience: Duration) {
        let begun = Instant::now();
        while !self.senders.lock().is_empty() && begun.elapsed() < patience {
            thread::sleep(LOOK);
        }
    }

    /// Waits a little for somebody new.
    ///
    /// # Errors
    /// If the node is closed, or the key log can't be written.
    pub fn welcome(&mut self) -> Result<()> {
        self.look_at_the_door();
        let node = &self.shared.node;
        let hello = node.probe_timeout(Match::any().tag(TAG_HELLO), TICK)?;
        // Their ends are the listeners' concern.
        while self.shared.key_log.next_event(node)?.is_some() {}
        let Some(hello) = hello else { return Ok(()) };
        let from_them = Match::any().from(hello.source).tag(TAG_HELLO);
        // What has not come whole is no hello: to wait for the rest would keep all others out.
        if !hello.complete || hello.len > HELLO_MAX {
            node.discard(from_them)?;
            self.tell(hello.source);
        } else if let Ok(Some(hello)) = node.try_recv(from_them) {
            self.answer(&hello);
        }
        Ok(())
    }

    /// Says now and then that some were turned away: anybody can have that happen.
    fn look_at_the_door(&mut self) {
        let stats = self.shared.node.stats();
        let all = turned_away(&stats);
        let more = all - mem::replace(&mut self.turned_away, all);
        if let Some(count) = self.untold.add(more, TURNED_AWAY, Instant::now()) {
            self.shared.progress.note(format_args!(
                "{count} handshakes {}",
                were_turned_away(&stats)
            ));
        }
    }

    fn answer(&mut self, hello: &Message) {
        let sender = hello.source;
        let Ok((Request { job, attempt, ask }, _)) = Request::decode(hello.body()) else {
            return self.tell(sender);
        };
        let Ask::Hello { version } = ask else {
            return self.tell(sender);
        };
        let reply = match greet(version) {
            Reply::Welcome { version } => match self.admit(sender) {
                Ok(()) => {
                    self.served = true;
                    Reply::Welcome { version }
                }
                Err(why) => Reply::Refused(why),
            },
            refused => refused,
        };
        let answer = Answer {
            job,
            attempt,
            reply,
        };
        self.shared.answer(sender, &answer);
    }

    /// Has a sender listened to from now on, or says why not.
    fn admit(&self, sender: PeerId) -> Result<(), String> {
        let mut senders = self.senders.lock();
        if senders.contains_key(&sender) {
            return Ok(());
        }
        if senders.len() >= SENDERS_MAX {
            return Err(format!(
                "{SENDERS_MAX} senders are at work already: give the same command again later"
            ));
        }
        let listener = Listener {
            sender,
            shared: self.shared.clone(),
            workers: Workers::default(),
            senders: self.senders.clone(),
            said_bye: false,
            told: false,
        };
        spawn(format!("sender {sender}"), move || listener.run())
            .map_err(|error| format!("{error:#}: try again later, with fewer senders at a time"))?;
        senders.insert(sender, false);
        Ok(())
    }

    fn tell(&mut self, sender: PeerId) {
        if !mem::replace(&mut self.told, true) {
            let sender = match self.shared.address(sender) {
                Some(address) => address.to_string(),
                None => format!("peer {sender}"),
            };
            let note = format!(
                "what {sender} says is no sender's hello, and is ignored; so is what others say in \
                 its place"
            );
            self.shared.progress.note(note);
        }
    }
}

/// Handshakes that were turned away.
fn turned_away(stats: &NodeStats) -> u64 {
    stats.dropped.rejected + stats.dropped.crowded_out
}

/// The end of a sentence: that some were turned away, who was the last, and what helps.
fn were_turned_away(stats: &NodeStats) -> String {
    let Some((address, why)) = stats.rejected_last else {
        return format!("were turned away: {KEYS}");
    };
    let cure = match why {
        RejectReason::Version => {
            "`sabani --version` tells it here and there: upgrade the older one"
        }
        RejectReason::Full => "they may come back when others are done",
        _ => KEYS,
    };
    format!(
        "were turned away, the last from {address} ({}): {cure}",
        in_words(why)
    )
}

/// What helps as a rule.
const KEYS: &str =
    "senders need the same `--key` as this receiver, or `--plain` if it has that, too";

/// Why a handshake was turned away.
fn in_words(why: RejectReason) -> &'static str {
    match why {
        RejectReason::Version => "it speaks another version",
        RejectReason::Mode => "only one of both is `--plain`",
        RejectReason::Key => "another job key",
        RejectReason::Full => "too many peers already",
        RejectReason::Checksum => "another checksum",
        _ => "it is no sender",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_senders_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let desk = Desk::open(&Arc::new(Shared::in_folder(folder.path())));
        let full = SENDERS_MAX as u32;
        desk.senders
            .lock()
            .extend((1..=full).map(|id| (PeerId(id), false)));
        assert!(desk.admit(PeerId(full)).is_ok());
        let why = desk.admit(PeerId(full + 1)).unwrap_err();
        assert!(why.contains("again later"), "{why}");
    }

    #[test]
    fn who_was_turned_away_is_told_what_helps() {
        let mut stats = NodeStats::default();
        assert!(were_turned_away(&stats).contains("--key"));
        let from = ([127, 0, 0, 1], 7).into();
        for (why, cure) in [
            (RejectReason::Key, "`--key`"),
            (RejectReason::Version, "`sabani --version`"),
        ] {
            stats.rejected_last = Some((from, why));
            let told = were_turned_away(&stats);
            let keys = told.contains("--key");
            assert_eq!(keys, why == RejectReason::Key, "{told}");
            assert!(
                told.contains(cure) && told.contains("127.0.0.1:7"),
                "{told}"
            );
        }
    }

    #[test]
    fn who_is_not_heard_any_more_is_not_said_to_be_at_work() {
        let folder = tempfile::tempdir().unwrap();
        let desk = Desk::open(&Arc::new(Shared::in_folder(folder.path())));
        desk.senders.lock().insert(PeerId(1), false);
        let word = desk.last_word();
        assert!(word.contains("while a sender has fallen silent:"), "{word}");
        // Who has said goodbye is not waited for, though its connection is still there.
        desk.senders.lock().insert(PeerId(1), true);
        assert_eq!(desk.last_word(), "interrupted; nobody was sending");
    }
}
