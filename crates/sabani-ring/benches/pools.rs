//! What it costs to take a buffer and to give it back: here, and from another core.

use std::{
    hint::black_box,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sabani_ring::{Item, Pool, Recycle, cores, pin, ring};

const BATCH: usize = 64;

#[derive(Default)]
struct Buffer([u64; 4]);

impl Recycle for Buffer {}

fn pool() -> Pool<Buffer> {
    Pool::new(2 * BATCH, Buffer::default)
}

fn take(pool: &mut Pool<Buffer>) -> Item<Buffer> {
    pool.take(|buffer| buffer.0[0] = black_box(1))
}

/// A thread takes, another gives back; the time of the first for so many.
fn given_back_elsewhere<T: Send>(count: u64, mut take: impl FnMut() -> T + Send) -> Duration {
    let places = cores(2);
    let (first, last) = (places[0], places[places.len() - 1]);
    let (mut outlet, mut inlet) = ring(4 * BATCH);
    thread::scope(|scope| {
        scope.spawn(move || {
            pin(last);
            let mut left = count;
            while left > 0 {
                left -= inlet.drain(BATCH).map(drop).count() as u64;
            }
        });
        let taker = scope.spawn(move || {
            pin(first);
            let began = Instant::now();
            let mut left = count;
            while left > 0 {
                let batch = left.min(BATCH as u64) as usize;
                let room = batch.min(outlet.room(batch));
                left -= outlet.fill(room, (0..room).map(|_| take())) as u64;
            }
            began.elapsed()
        });
        taker.join().expect("the taker takes")
    })
}

fn pools(c: &mut Criterion) {
    let mut group = c.benchmark_group("take and give back");
    group.throughput(Throughput::Elements(1));
    let mut here = pool();
    group.bench_function("here", |b| {
        b.iter(|| {
            let item = take(&mut here);
            here.give(item);
        });
    });
    group.bench_function("here, by dropping", |b| b.iter(|| drop(take(&mut here))));
    group.bench_function("here, Arc", |b| {
        b.iter(|| drop(black_box(Arc::new(Buffer([1; 4])))))
    });
    group.bench_function("elsewhere", |b| {
        b.iter_custom(|count| {
            let mut pool = pool();
            given_back_elsewhere(count, || take(&mut pool))
        });
    });
    group.bench_function("elsewhere, Arc", |b| {
        b.iter_custom(|count| given_back_elsewhere(count, || Arc::new(Buffer([1; 4]))));
    });
}

criterion_group!(benches, pools);
criterion_main!(benches);
