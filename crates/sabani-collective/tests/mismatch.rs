//! Ranks that are in different collectives find out, and say which.

use sabani_collective::execute::{
    Exchange, Fingerprint, Handled, Header, Kind, Memory, MessageId, Rejected,
};
use sabani_collective::{Algorithm, Collective, Context, Counts, Parameters, Side};

const SIZE: usize = 4;
const LEN: usize = 16;

fn no_operation(_: &[u8], _: &mut [u8], _: Side) {}

struct Buffers {
    input: [u8; LEN],
    output: [u8; LEN],
    scratch: [u8; 2 * LEN],
}

impl Buffers {
    fn new() -> Self {
        Buffers {
            input: [1; LEN],
            output: [2; LEN],
            scratch: [3; 2 * LEN],
        }
    }

    fn enter(
        &mut self,
        algorithm: &'static Algorithm,
        rank: usize,
        sequence: u32,
        root: usize,
    ) -> Exchange<'_> {
        let cx = Context {
            root,
            ..Context::new(SIZE, Counts::Vector(LEN))
        };
        let fingerprint = Fingerprint {
            epoch: 1,
            sequence,
            collective: algorithm.collective,
            algorithm: algorithm.id(),
            operation: 5,
            element_type: 6,
            size: LEN as u64,
            root: root as u32,
            parameters: Fingerprint::of_parameters(&Parameters::default()),
        };
        let memory = Memory {
            input: &self.input,
            output: &mut self.output,
            scratch: &mut self.scratch,
            element_bytes: 1,
        };
        Exchange::new(
            algorithm.schedule,
            cx,
            rank,
            fingerprint,
            memory,
            &no_operation,
        )
    }
}

/// The next message of a rank, as it travels.
fn next(exchange: &mut Exchange) -> Option<(usize, Header, Vec<u8>)> {
    let outgoing = exchange.poll()?;
    Some((outgoing.to, outgoing.header, outgoing.payload.to_vec()))
}

fn algorithm(collective: Collective, name: &str) -> &'static Algorithm {
    collective.algorithm(name).expect("it is there")
}

#[test]
fn another_collective_algorithm_or_root_is_named_with_both_sides() {
    let bcast = algorithm(Collective::Bcast, "binomial");
    let others = [
        (algorithm(Collective::Bcast, "chain"), 0),
        (algorithm(Collective::Allreduce, "ring"), 0),
        (bcast, 1),
    ];
    for (other, root) in others {
        let (mut here, mut there) = (Buffers::new(), Buffers::new());
        let mut sender = here.enter(bcast, 0, 9, 0);
        let mut receiver = there.enter(other, 2, 9, root);
        let (_, header, payload) = next(&mut sender).unwrap();
        let rejected = receiver.handle(0, &header, &payload).unwrap_err();
        let said = rejected.to_string();
        assert!(matches!(rejected, Rejected::Mismatch(_)));
        assert!(
            said.contains("rank 2 is in") && said.contains("rank 0 in bcast binomial"),
            "{said}"
        );
        assert!(said.contains(other.name), "{said}");
    }
}

#[test]
fn two_that_only_wait_for_each_other_find_out_by_a_reminder() {
    let reduce = algorithm(Collective::Reduce, "binomial");
    let bcast = algorithm(Collective::Bcast, "binomial");
    let (mut here, mut there) = (Buffers::new(), Buffers::new());
    let mut root_of_reduce = here.enter(reduce, 0, 9, 0);
    let mut leaf_of_bcast = there.enter(bcast, 1, 9, 0);
    assert_eq!(next(&mut root_of_reduce), None);
    assert_eq!(next(&mut leaf_of_bcast), None);
    leaf_of_bcast.remind();
    let (to, header, payload) = next(&mut leaf_of_bcast).unwrap();
    assert_eq!((to, header.kind), (0, Kind::Ready));
    let rejected = root_of_reduce.handle(1, &header, &payload).unwrap_err();
    assert!(matches!(rejected, Rejected::Mismatch(_)), "{rejected}");
}

#[test]
fn a_later_collective_waits_and_an_old_reminder_is_no_mistake() {
    let bcast = algorithm(Collective::Bcast, "binomial");
    let (mut here, mut there) = (Buffers::new(), Buffers::new());
    let mut ahead = here.enter(bcast, 0, u32::MAX, 0);
    let mut behind = there.enter(bcast, 2, u32::MAX - 1, 0);
    let (_, header, payload) = next(&mut ahead).unwrap();
    assert_eq!(behind.handle(0, &header, &payload), Ok(Handled::Later));
    assert_eq!(next(&mut behind), None);
    behind.remind();
    let (_, header, payload) = next(&mut behind).unwrap();
    assert_eq!(ahead.handle(2, &header, &payload), Ok(Handled::Taken));
}

#[test]
fn messages_that_there_are_not_and_wrong_lengths_are_rejected() {
    let bcast = algorithm(Collective::Bcast, "binomial");
    let (mut here, mut there) = (Buffers::new(), Buffers::new());
    let mut sender = here.enter(bcast, 0, 9, 0);
    let mut receiver = there.enter(bcast, 2, 9, 0);
    let (_, header, payload) = next(&mut sender).unwrap();
    for round in [7, usize::MAX >> 16] {
        let message = MessageId { round, lane: 0 };
        let strange = Header { message, ..header };
        let rejected = receiver.handle(0, &strange, &payload);
        assert_eq!(rejected, Err(Rejected::Unknown { peer: 0, message }));
    }
    assert_eq!(receiver.handle(0, &header, &payload), Ok(Handled::Early));
    assert_eq!(next(&mut receiver).map(|(to, ..)| to), None);
    let rejected = receiver.handle(0, &header, &payload[1..]).unwrap_err();
    assert!(
        matches!(rejected, Rejected::Length { expected: LEN, .. }),
        "{rejected}"
    );
    assert_eq!(receiver.handle(0, &header, &payload), Ok(Handled::Taken));
    assert_eq!(next(&mut receiver).map(|(to, ..)| to), Some(3));
}
