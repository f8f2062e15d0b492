//! What a run looked like over time, for reports to plot. When messages were sent and delivered is
//! what the [`checker`](crate::checker) knows.

use std::collections::BTreeMap;

use crate::engine::Action;
use crate::fabric::PortId;
use crate::{HostId, Network};

/// Series over virtual time. Sample `k` of each covers the interval that ends at `at_ns[k]`; a
/// series that ends early was zero from there on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Length of an interval, in nanoseconds.
    pub every_ns: u64,
    /// The ends of the intervals, in nanoseconds of virtual time.
    pub at_ns: Vec<u64>,
    /// Of each port at which anything ever waited: the most bytes that waited, headers included.
    pub queues: BTreeMap<PortId, Vec<u64>>,
    /// Of each host that ever received anything: bytes of datagrams that its process read.
    pub received: BTreeMap<HostId, Vec<u64>>,
}

/// Adds a sample to a series that leaves out zeros at its end.
fn note<K: Ord>(series: &mut BTreeMap<K, Vec<u64>>, key: K, interval: usize, value: u64) {
    if value > 0 {
        let series = series.entry(key).or_default();
        series.resize(interval, 0);
        series.push(value);
    }
}

impl Network {
    /// Records from now on, at intervals of this length. Costs a look at every port and host for
    /// each interval.
    pub fn record(&mut self, every_ns: u64) {
        let fresh = self.recording.is_none();
        self.recording = Some(Box::new(Recording {
            every_ns: every_ns.max(1),
            ..Recording::default()
        }));
        self.look(|_, _| {}, |_, _| {});
        if fresh {
            self.sample_later();
        }
    }

    /// What has been recorded, if anything.
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.as_deref()
    }

    fn sample_later(&mut self) {
        if let Some(recording) = &self.recording {
            let at_ns = self.engine.now_ns + recording.every_ns;
            self.engine.agenda.push(at_ns, Action::Sample);
        }
    }

    /// Ends an interval.
    pub(crate) fn sample(&mut self) {
        let Some(mut recording) = self.recording.take() else {
            return;
        };
        let interval = recording.at_ns.len();
        recording.at_ns.push(self.engine.now_ns);
        self.look(
            |port, bytes| note(&mut recording.queues, port, interval, bytes),
            |host, bytes| note(&mut recording.received, host, interval, bytes),
        );
        self.recording = Some(recording);
        self.sample_later();
    }

    /// Tells what each port and host has seen since the last look.
    fn look(&mut self, mut queued: impl FnMut(PortId, u64), mut read: impl FnMut(HostId, u64)) {
        for (index, port) in self.fabric.ports.iter_mut().enumerate() {
            queued(PortId(index as u32), port.take_recent_max());
        }
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let bytes = std::mem::take(&mut host.socket.recently_read_bytes);
            read(HostId(index as u32), bytes);
        }
    }
}
