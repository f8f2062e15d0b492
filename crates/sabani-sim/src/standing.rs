//! What hosts are doing, in words: for who asks why a rule was broken.

use std::fmt::Debug;

use sabani_proto::{Dropped, PeerStats};

use crate::{Host, HostId, Network};

/// More lines would hide the first ones.
const SHOWN: usize = 24;

impl Network {
    /// What the hosts are doing: those with something under way first, of those that are at rest only what they
    /// have counted, and at most a few lines.
    pub(crate) fn describe(&self) -> String {
        let hosts = self.hosts.iter().enumerate();
        let mut told: Vec<_> = hosts
            .map(|(index, host)| describe(HostId(index as u32), host))
            .collect();
        told.sort_by_key(|lines| lines.len() < 2);
        let mut lines = told.concat();
        let hidden = lines.len().saturating_sub(SHOWN);
        lines.truncate(SHOWN);
        if hidden > 0 {
            lines.push(format!("  and {hidden} more such lines"));
        }
        lines.join("\n")
    }
}

/// A host, if there is something to tell, and each peer that it has something to do with.
fn describe(id: HostId, host: &Host) -> Vec<String> {
    let Some(node) = &host.node else {
        return vec![format!("  {id} has crashed")];
    };
    let stats = node.stats();
    let own = counts(&[
        (host.socket.len() as u64, "datagrams unread"),
        (host.socket.overflows, "lost for want of room in the socket"),
        (stats.unmatched_messages as u64, "messages untaken"),
        (stats.credit.waiting as u64, "peers wait for credit"),
        (stats.credit.outstanding, "bytes of credit given to them"),
        (stats.stalled_ns / 1_000_000, "ms stalled"),
    ]);
    let dropped = thrown_away(&stats.dropped);
    let parts = [own, dropped].into_iter().filter(|part| !part.is_empty());
    let parts: Vec<_> = parts.collect();
    let peers = node.peer_ids().filter_map(|peer| node.peer_stats(peer));
    let busy: Vec<_> = peers.filter(is_busy).map(|peer| to_peer(&peer)).collect();
    if parts.is_empty() && busy.is_empty() {
        return Vec::new();
    }
    let what = match parts.is_empty() {
        true => "nothing unusual counted".into(),
        false => parts.join("; "),
    };
    let mut lines = vec![format!("  {id}: {what}")];
    lines.extend(busy);
    lines
}

fn is_busy(peer: &PeerStats) -> bool {
    peer.queued_messages > 0 || peer.in_flight_bytes > 0 || peer.backlog_bytes > 0
}

fn thrown_away(dropped: &Dropped) -> String {
    let all = counts(&[
        (dropped.malformed, "malformed"),
        (dropped.unknown_connection, "of unknown connections"),
        (dropped.forged, "forged or damaged"),
        (dropped.replayed, "received before"),
        (dropped.rejected, "handshakes turned away"),
        (dropped.cookies, "handshakes answered with a cookie"),
        (dropped.crowded_out, "handshakes crowded out"),
    ]);
    match all.is_empty() {
        true => all,
        false => format!("datagrams thrown away: {all}"),
    }
}

/// One end of a connection.
fn to_peer(peer: &PeerStats) -> String {
    let counted = &peer.counters;
    let figures = counts(&[
        (peer.queued_messages, "messages queued"),
        (peer.queued_bytes as u64, "bytes queued"),
        (peer.in_flight_bytes.into(), "bytes in flight"),
        (peer.window_bytes.into(), "bytes of window"),
        (
            peer.congestion_window_bytes.into(),
            "bytes of congestion window",
        ),
        (peer.held_resends as u64, "pieces held back"),
        (
            peer.backlog_bytes,
            "bytes of credit held by messages untaken",
        ),
        (counted.packets_sent, "packets sent"),
        (counted.packets_received, "received"),
        (counted.packets_lost, "lost"),
        (counted.polls, "polls"),
        (counted.timeouts, "timeouts"),
        (peer.rtt_ns / 1_000, "us there and back"),
    ]);
    let (to, state, limit) = (HostId(peer.peer.0), words(&peer.state), words(&peer.limit));
    format!("    with {to}: {state}, limited by {limit}: {figures}")
}

/// Those that are not zero, with their names.
fn counts(all: &[(u64, &str)]) -> String {
    let some = all.iter().filter(|(count, _)| *count > 0);
    let some: Vec<_> = some
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    some.join(", ")
}

/// The name of a variant as people write it.
fn words(variant: &impl Debug) -> String {
    let mut text = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn names_are_words_and_zeros_are_silent() {
        assert_eq!(words(&sabani_proto::Limit::HeldResends), "held resends");
        assert_eq!(
            counts(&[(0, "sheep"), (2, "goats"), (1, "cows")]),
            "2 goats, 1 cows"
        );
    }

    #[test]
    fn what_is_under_way_comes_first_and_one_peer_has_one_line() {
        let text = "hosts = 60\npatience = \"1s\"\n[[fault]]\nfrom = 59\nto = 58\ncut = true\nat = \"1ms\"\n\
                    [[fault]]\nfrom = 0\nto = 1\nduplicate = 1.0\n[[traffic]]\n[[traffic]]\nfrom = 59\nto = 58\nbytes = 100\nat = \"2ms\"\n";
        let failure = Plan::from_toml(text).unwrap().run().failure;
        let state = failure.expect("it does not arrive").state;
        let lines: Vec<_> = state.lines().collect();
        assert!(lines[0].starts_with("  host 59: "), "{state}");
        let said = "    with host 58: open, limited by application: 1 messages queued, ";
        assert!(lines[1].starts_with(said), "{state}");
        let counted = |line: &&str| line.starts_with("  host 1: datagrams thrown away: ");
        assert!(lines[2..].iter().any(counted), "{state}");
        assert!(lines.len() < 6, "the others are at rest: {state}");
        assert!(!state.contains('{') && !state.contains(" 0 "), "{state}");
        assert!(lines.iter().all(|line| line.len() < 250), "{state}");
    }
}
