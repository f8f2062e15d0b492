//! What the 64 bits of a message's tag say: that it is a communicator's (bit 63), which one's (bits
//! 35 to 62), what kind of message (bits 32 to 34), and the program's own tag (bits 0 to 31).

use crate::Match;

/// A communicator's number, equal at all its ranks, and no other's among those that a process has ever
/// belonged to: what was sent in one is never taken for another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(u32);

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program's own.
    Message = 0,
    /// Data of collectives; the tag is the number of their row. What each is for stands in its header.
    Collective = 1,
    /// What survivors agree by; tagged with the agreement's number.
    Agreement = 2,
    /// A rank has ended the communicator: which one, and why.
    Revoked = 3,
    /// A process is lost, whatever communicators it is in: only in the world's context.
    Lost = 4,
    /// Who waits for data of collectives: their senders may wait for that, or have to be reminded.
    Ready = 5,
}

impl Context {
    /// All ranks.
    pub const WORLD: Context = Context(0);
    const BITS: u32 = 28;

    /// The `count`-th one (from 1) that this rank of a world of `size` gives away. No two ranks give
    /// away the same, so they need not agree. `None` if there are no more: some 2²⁸ / `size`.
    pub fn given(count: u32, rank: usize, size: usize) -> Option<Context> {
        let number = u64::from(count) * size as u64 + rank as u64;
        (number < 1 << Self::BITS).then_some(Context(number as u32))
    }

    /// As a number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// From what [`Context::number`] was at another rank.
    pub fn numbered(number: u32) -> Option<Context> {
        (number < 1 << Self::BITS).then_some(Context(number))
    }

    /// A tag on the wire.
    pub fn tag(self, kind: Kind, tag: u32) -> u64 {
        1 << 63 | u64::from(self.0) << 35 | (kind as u64) << 32 | u64::from(tag)
    }

    /// The program's own tag in one on the wire; `None` in that of another kind of message.
    pub fn program_tag(tag: u64) -> Option<u64> {
        let is_message = tag >> 63 == 1 && tag >> 32 & 7 == Kind::Message as u64;
        is_message.then_some(tag & u64::from(u32::MAX))
    }

    /// Messages of whatever rank.
    pub fn matching(self, kind: Kind, tag: u32) -> Match {
        Match::any().tag(self.tag(kind, tag))
    }

    /// The number of the communicator whose tag on the wire this is, and the kind of message.
    pub fn of_tag(tag: u64) -> Option<(u32, Kinds)> {
        let number = tag >> 35 & ((1 << Self::BITS) - 1);
        (tag >> 63 == 1).then_some((number as u32, Kinds(1 << (tag >> 32 & 7))))
    }
}

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    pub fn of(kinds: &[Kind]) -> Self {
        Kinds(kinds.iter().fold(0, |all, kind| all | 1 << *kind as u8))
    }

    /// Whether all of others are among these.
    pub fn have(self, others: Kinds) -> bool {
        self.0 & others.0 == others.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_give_away_different_numbers_until_there_are_no_more() {
        let size = 1000;
        let mut given: Vec<_> = (1..4)
            .flat_map(|count| (0..size).filter_map(move |rank| Context::given(count, rank, size)))
            .map(Context::number)
            .collect();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 3 * size);
        assert!(!given.contains(&Context::WORLD.number()));
        let most = (1 << Context::BITS) / size as u32;
        assert!(Context::given(most - 1, 999, size).is_some());
        assert_eq!(Context::given(most + 1, 0, size), None);
        assert_eq!(Context::given(u32::MAX, 0, size), None);
    }

    #[test]
    fn the_programs_tag_is_told_from_those_of_collectives() {
        let tag = Context::numbered(77).unwrap().tag(Kind::Message, u32::MAX);
        assert_eq!(Context::program_tag(tag), Some(u64::from(u32::MAX)));
        assert_eq!(
            Context::program_tag(Context::WORLD.tag(Kind::Collective, 3)),
            None
        );
    }

    #[test]
    fn kinds_are_matched_whatever_the_tag() {
        let context = Context::numbered(77).unwrap();
        let kinds = [
            Kind::Message,
            Kind::Collective,
            Kind::Agreement,
            Kind::Revoked,
            Kind::Lost,
            Kind::Ready,
        ];
        let matched = |wanted: &[Kind]| {
            let wanted = Kinds::of(wanted);
            let matches = |kind: &Kind| {
                let (number, of_tag) = Context::of_tag(context.tag(*kind, 0x8000_0001)).unwrap();
                assert_eq!(number, 77);
                wanted.have(of_tag)
            };
            kinds.into_iter().filter(matches).collect::<Vec<_>>()
        };
        let notices = [Kind::Agreement, Kind::Revoked];
        assert_eq!(matched(&notices), notices);
        assert_eq!(matched(&[Kind::Ready]), [Kind::Ready]);
        let last = Context::numbered((1 << Context::BITS) - 1).unwrap();
        let tag = last.tag(Kind::Lost, u32::MAX);
        let of_tag = (last.number(), Kinds::of(&[Kind::Lost]));
        assert_eq!(Context::of_tag(tag), Some(of_tag));
        assert_eq!(Context::of_tag(tag & !(1 << 63)), None);
    }

    #[test]
    fn tags_differ_in_whatever_they_say() {
        let last = Context::numbered((1 << Context::BITS) - 1).unwrap();
        let tags = [
            Context::WORLD.tag(Kind::Message, u32::MAX),
            Context::WORLD.tag(Kind::Collective, u32::MAX),
            last.tag(Kind::Message, u32::MAX),
            last.tag(Kind::Message, 0),
        ];
        assert!(tags.iter().all(|tag| tag >> 63 == 1));
        for (place, tag) in tags.iter().enumerate() {
            assert!(!tags[..place].contains(tag));
        }
        assert_eq!(Context::numbered(1 << Context::BITS), None);
    }
}
