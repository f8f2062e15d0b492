//! What it costs to hand one primitive over to another core: our rings, the queues of crossbeam, `rtrb` as it is.

use std::{
    thread,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_queue::ArrayQueue;
use sabani_ring::{cores, pin, ring};

/// As large as what the layers of the evaluation hand over.
type Primitive = [u64; 2];

const SLOTS: usize = 256;

/// The time that `put` and `take`, on a core each, need for so many primitives. Both are asked again while they
/// say that they moved none.
fn streamed(
    count: u64,
    mut put: impl FnMut(u64) -> u64 + Send,
    mut take: impl FnMut() -> u64 + Send,
) -> Duration {
    let places = cores(2);
    let (first, last) = (places[0], places[places.len() - 1]);
    thread::scope(|scope| {
        scope.spawn(move || {
            pin(first);
            let mut left = count;
            while left > 0 {
                left -= put(left);
            }
        });
        let taker = scope.spawn(move || {
            pin(last);
            let began = Instant::now();
            let mut left = count;
            while left > 0 {
                left -= take();
            }
            began.elapsed()
        });
        taker.join().expect("the taker takes")
    })
}

fn batches(count: u64, batch: usize) -> Duration {
    let (mut outlet, mut inlet) = ring::<Primitive>(SLOTS);
    let put = move |left: u64| {
        let primitives = (0..left).map(|number| [number; 2]);
        outlet.fill(batch, primitives) as u64
    };
    streamed(count, put, move || inlet.drain(batch).count() as u64)
}

fn rtrb(count: u64) -> Duration {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<Primitive>::new(SLOTS);
    let put = move |left| u64::from(producer.push([left; 2]).is_ok());
    streamed(count, put, move || u64::from(consumer.pop().is_ok()))
}

fn array_queue(count: u64) -> Duration {
    let queue = ArrayQueue::<Primitive>::new(SLOTS);
    let put = |left| u64::from(queue.push([left; 2]).is_ok());
    streamed(count, put, || u64::from(queue.pop().is_some()))
}

fn channel(count: u64) -> Duration {
    let (sender, receiver) = crossbeam_channel::bounded::<Primitive>(SLOTS);
    let put = move |left| u64::from(sender.try_send([left; 2]).is_ok());
    streamed(count, put, move || u64::from(receiver.try_recv().is_ok()))
}

fn rings(c: &mut Criterion) {
    let mut group = c.benchmark_group("one primitive to another core");
    group.throughput(Throughput::Elements(1));
    for batch in [1, 8, 64] {
        group.bench_function(format!("batches of {batch}"), |b| {
            b.iter_custom(|count| batches(count, batch));
        });
    }
    group.bench_function("rtrb, one by one", |b| b.iter_custom(rtrb));
    group.bench_function("crossbeam ArrayQueue", |b| b.iter_custom(array_queue));
    group.bench_function("crossbeam channel", |b| b.iter_custom(channel));
}

criterion_group!(benches, rings);
criterion_main!(benches);
