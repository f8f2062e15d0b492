//! What is above and below the layers that are measured: a user, and the place where everything turns round.

use std::{
    sync::mpsc::Sender,
    time::{Duration, Instant},
};

use sabani_ring::{Layer, Pool, Ports, pass};

use super::pdu::{Body, Pdu, UserData};

/// Buffers that the user's pool makes at a time.
const SLAB: usize = 256;

/// Sends PDUs as fast as the layers below take them, and checks that they come back in order.
pub struct User {
    buffers: Pool<UserData>,
    size_bytes: u32,
    sent: u64,
    received: u64,
    total: u64,
    /// So many do not count.
    warm_up: u64,
    began: Option<Instant>,
    finished: Sender<Duration>,
}

impl User {
    /// One that sends `total` PDUs of this size and tells how long all but the first `warm_up` took, as seen by who
    /// receives them.
    pub fn new(size_bytes: u32, total: u64, warm_up: u64, finished: Sender<Duration>) -> Self {
        let make = move || UserData {
            number: 0,
            bytes: vec![0; size_bytes as usize].into(),
        };
        Self {
            buffers: Pool::new(SLAB, make),
            size_bytes,
            sent: 0,
            received: 0,
            total,
            warm_up,
            began: None,
            finished,
        }
    }

    fn receive(&mut self, pdu: Pdu) {
        let Body::User(data) = pdu.body else {
            panic!("a header came up to the user");
        };
        assert_eq!(
            data.number, self.received,
            "a PDU was lost or overtook another"
        );
        self.buffers.give(data);
        self.received += 1;
        if self.received == self.warm_up {
            self.began = Some(Instant::now());
        }
        if self.received == self.total
            && let Some(began) = self.began
        {
            // Nobody listens after a failure.
            let _ = self.finished.send(began.elapsed());
        }
    }
}

impl Layer<Pdu> for User {
    fn step(&mut self, ports: &mut Ports<Pdu>) -> usize {
        let below = &mut ports.below;
        let left = usize::try_from(self.total - self.sent).unwrap_or(usize::MAX);
        let numbers = self.sent..;
        let pdus = numbers.map(|number| Pdu {
            body: Body::User(self.buffers.take(|data| data.number = number)),
            len_bytes: self.size_bytes,
        });
        let sent = below.outlet.fill(left.min(ports.batch), pdus);
        self.sent += sent as u64;
        let arrived = below.inlet.drain(ports.batch);
        sent + arrived.map(|pdu| self.receive(pdu)).count()
    }
}

/// Sends everything back up.
pub struct Loopback;

impl Layer<Pdu> for Loopback {
    fn step(&mut self, ports: &mut Ports<Pdu>) -> usize {
        let above = &mut ports.above;
        pass(&mut above.inlet, &mut above.outlet, ports.batch, Some)
    }
}
