//! When not to look at the socket.

use super::Clock;

/// So long a stream's socket is left alone. A train takes 8 to 13 µs to be sent where nothing is slower than the
/// processors, and much longer elsewhere: what waits meanwhile is one train or two.
const PAUSE_NS: u64 = 8_000;
/// From here on a stream is one: what ends sooner is waited for without pauses, for they would delay its end.
const STREAM_BYTES: u64 = 256 << 10;
/// Less than this is not worth a pause: the system and the sender work on each datagram by itself.
const TRAIN_BYTES: usize = 16 << 10;

/// Pauses between two looks at the socket, while trains of a long message come.
///
/// On one machine it is the sender's core that puts a train into the receiver's socket. Whoever looks there again and again takes
/// the socket's cache lines away from it each time: a burst of 512 KiB messages over veth then moves 5.6 GB/s, and
/// 7.2 GB/s with pauses of 8 µs (`sabani bench burst --sizes 512k --plain --where veth`; 4 µs: 6.8, 16 µs: 6.8).
/// Threads that share cores leave it alone while others run; pauses beside that made a broadcast of 512 KiB to four ranks
/// on two cores take a tenth longer.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// What has come since the socket was last found empty.
    taken_bytes: usize,
    /// A stream is coming.
    is_stream: bool,
    until_ns: u64,
    off: bool,
}

impl Pause {
    /// From now on there are none.
    pub fn switch_off(&mut self) {
        self.off = true;
        self.end();
    }

    /// It is time for a look.
    pub fn end(&mut self) {
        self.until_ns = 0;
    }

    /// So many bytes are still to come from whoever was heard last.
    #[inline]
    pub fn expect(&mut self, bytes: u64) {
        self.is_stream = bytes >= STREAM_BYTES;
    }

    /// Whether the socket is to be left alone. The clock is read only after a train: a program may have been away since it was
    /// last read.
    #[inline]
    pub fn lasts(&mut self, clock: &mut Clock) -> bool {
        self.until_ns > 0 && self.lasts_at(clock.read())
    }

    #[inline]
    fn lasts_at(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.until_ns {
            self.end();
        }
        now_ns < self.until_ns
    }

    /// The socket held so much.
    #[inline]
    pub fn on_taken(&mut self, bytes: usize) {
        self.taken_bytes += bytes;
    }

    /// The socket is empty.
    #[inline]
    pub fn on_empty(&mut self, now_ns: u64) {
        let taken_bytes = std::mem::take(&mut self.taken_bytes);
        if self.is_stream && taken_bytes >= TRAIN_BYTES && !self.off {
            self.until_ns = now_ns + PAUSE_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of which a train has just been taken out.
    fn streaming() -> Pause {
        let mut pause = Pause::default();
        pause.expect(STREAM_BYTES);
        pause.on_taken(TRAIN_BYTES);
        pause
    }

    #[test]
    fn a_stream_pauses_once_for_each_train() {
        let mut pause = streaming();
        assert!(!pause.lasts_at(1_000));
        pause.on_empty(1_000);
        assert!(pause.lasts_at(1_000 + PAUSE_NS - 1));
        assert!(!pause.lasts_at(1_000 + PAUSE_NS));
        pause.on_empty(20_000);
        assert!(!pause.lasts_at(20_000), "nothing has come");
    }

    #[test]
    fn a_pause_is_over_when_the_program_has_been_away() {
        let mut clock = Clock::new();
        let mut pause = streaming();
        pause.on_empty(clock.read());
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(!pause.lasts(&mut clock), "nobody has read the clock");
    }

    #[test]
    fn nothing_that_is_nearly_there_or_comes_in_single_datagrams_waits() {
        let mut pause = streaming();
        pause.expect(STREAM_BYTES - 1);
        pause.on_empty(1_000);
        assert!(!pause.lasts_at(1_000));

        let mut pause = Pause::default();
        pause.expect(STREAM_BYTES);
        pause.on_taken(TRAIN_BYTES - 1);
        pause.on_empty(1_000);
        assert!(!pause.lasts_at(1_000));
    }

    #[test]
    fn a_pause_ends_before_anybody_sleeps_and_for_those_who_watch_the_socket_there_is_none() {
        let mut pause = streaming();
        pause.on_empty(1_000);
        pause.end();
        assert!(!pause.lasts_at(1_000));

        let mut pause = streaming();
        pause.switch_off();
        pause.on_empty(1_000);
        assert!(!pause.lasts_at(1_000));
    }
}
