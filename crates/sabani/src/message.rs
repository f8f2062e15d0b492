//! A received message.

use sabani_proto::Body;

use crate::PeerId;

/// A message that has arrived. Its memory is used again for later ones when it is dropped.
#[derive(Debug)]
pub struct Message {
    /// Who sent it.
    pub source: PeerId,
    /// The tag it was sent with.
    pub tag: u64,
    body: Body,
}

impl Message {
    /// The bytes.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The bytes as a vector of their own; no copy above 64 bytes.
    pub fn into_vec(self) -> Vec<u8> {
        self.body.into_vec()
    }
}

impl From<sabani_proto::Message> for Message {
    fn from(message: sabani_proto::Message) -> Self {
        Message {
            source: message.source,
            tag: message.tag,
            body: message.body,
        }
    }
}

impl From<Message> for sabani_proto::Message {
    fn from(message: Message) -> Self {
        sabani_proto::Message {
            source: message.source,
            tag: message.tag,
            body: message.body,
        }
    }
}
