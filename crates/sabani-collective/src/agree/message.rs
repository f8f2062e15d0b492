//! What ranks tell each other to agree.

use super::{Accepted, Contribution, Decision, Ranks};

/// A message of an agreement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// A later coordinator asks for a contribution.
    Ask {
        /// Who has failed, as far as it knows.
        failed: Ranks,
    },
    /// A rank tells its coordinator what it has.
    Contribute {
        /// Who has failed, as far as it knows.
        failed: Ranks,
        /// What it has.
        contribution: Contribution,
    },
    /// A coordinator has heard from all.
    Propose {
        /// Who has failed, as far as it knows.
        failed: Ranks,
        /// What follows.
        proposal: Decision,
    },
    /// A rank will tell later coordinators of this one's proposal.
    Accept,
    /// It is decided.
    Decided(Decision),
}

impl Message {
    /// As bytes, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Message::Ask { failed } => {
                to.number(0);
                to.ranks(failed);
            }
            Message::Contribute {
                failed,
                contribution,
            } => {
                to.number(1);
                to.ranks(failed);
                to.bits(contribution.bits);
                if let Some(accepted) = &contribution.accepted {
                    to.number(accepted.coordinator);
                    to.decision(&accepted.proposal);
                }
            }
            Message::Propose { failed, proposal } => {
                to.number(2);
                to.ranks(failed);
                to.decision(proposal);
            }
            Message::Accept => to.number(3),
            Message::Decided(decision) => {
                to.number(4);
                to.decision(decision);
            }
        }
        to.0
    }

    /// From bytes; `None` if they are no message.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let mut from = Reader(bytes);
        let message = match from.number()? {
            0 => Message::Ask {
                failed: from.ranks()?,
            },
            1 => Message::Contribute {
                failed: from.ranks()?,
                contribution: Contribution {
                    bits: from.bits()?,
                    accepted: match from.is_at_end() {
                        true => None,
                        false => Some(Accepted {
                            coordinator: from.number()?,
                            proposal: from.decision()?,
                        }),
                    },
                },
            },
            2 => Message::Propose {
                failed: from.ranks()?,
                proposal: from.decision()?,
            },
            3 => Message::Accept,
            4 => Message::Decided(from.decision()?),
            _ => return None,
        };
        from.is_at_end().then_some(message)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: usize) {
        self.0.extend((number as u32).to_le_bytes());
    }

    fn bits(&mut self, bits: u64) {
        self.0.extend(bits.to_le_bytes());
    }

    fn ranks(&mut self, ranks: &Ranks) {
        self.number(ranks.len());
        ranks.iter().for_each(|&rank| self.number(rank));
    }

    fn decision(&mut self, decision: &Decision) {
        self.bits(decision.bits);
        self.ranks(&decision.failed);
        self.number(decision.offer as usize);
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<usize> {
        Some(u32::from_le_bytes(self.take()?) as usize)
    }

    fn bits(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    /// Takes no more than there is, whatever number stands before them.
    fn ranks(&mut self) -> Option<Ranks> {
        let count = self.number()?;
        (0..count).map(|_| self.number()).collect()
    }

    fn decision(&mut self) -> Option<Decision> {
        Some(Decision {
            bits: self.bits()?,
            failed: self.ranks()?,
            offer: self.number()? as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Message; 6] {
        let failed = Ranks::from([0, 3, 70_000]);
        let decision = Decision {
            bits: u64::MAX - 5,
            failed: failed.clone(),
            offer: u32::MAX,
        };
        let contribution = |accepted| Message::Contribute {
            failed: failed.clone(),
            contribution: Contribution { bits: 9, accepted },
        };
        [
            Message::Ask {
                failed: failed.clone(),
            },
            contribution(None),
            contribution(Some(Accepted {
                coordinator: 2,
                proposal: decision.clone(),
            })),
            Message::Propose {
                failed: failed.clone(),
                proposal: decision.clone(),
            },
            Message::Accept,
            Message::Decided(decision),
        ]
    }

    #[test]
    fn messages_survive_the_wire() {
        for message in all() {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn what_is_cut_too_long_or_strange_is_no_message() {
        for message in all() {
            let bytes = message.encode();
            for len in 0..bytes.len() {
                assert_ne!(Message::decode(&bytes[..len]), Some(message.clone()));
            }
            assert_eq!(Message::decode(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(Message::decode(&[9, 0, 0, 0]), None);
        assert_eq!(Message::decode(&[0, 0, 0, 0, 255, 255, 255, 255]), None);
    }
}
