//! Spans for those who record them with `tracing`.

use tracing::span::{Id, Span};

use crate::PeerId;

/// A span that takes 8 bytes while nobody records it.
#[derive(Debug)]
pub(crate) struct PeerSpan(Option<Box<Span>>);

impl PeerSpan {
    /// From this side's first message until it is answered, or given up.
    pub fn handshake(peer: PeerId) -> Self {
        tracing::info_span!(parent: None, "handshake", %peer).into()
    }

    /// From when a connection is made until it ends.
    pub fn connection(peer: PeerId, incarnation: u64) -> Self {
        tracing::info_span!(parent: None, "connection", %peer, incarnation).into()
    }

    /// What events in it have to name.
    pub fn id(&self) -> Option<Id> {
        self.0.as_ref()?.id()
    }
}

impl From<Span> for PeerSpan {
    fn from(span: Span) -> Self {
        PeerSpan((!span.is_disabled()).then(|| Box::new(span)))
    }
}
