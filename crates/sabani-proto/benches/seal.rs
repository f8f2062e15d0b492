//! What it costs to seal and to open a packet: as Sabani does it (AEGIS-128X4), and for comparison
//! under AES-128-GCM.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};
use sabani_proto::seal::{Entropy, Initiator, JobKey, JobKeys, Mode, Responder, SealRx, SealTx};
use sabani_proto::wire::Prelude;

const PRELUDE: [u8; Prelude::LEN] = [1; Prelude::LEN];
const TAG: usize = 16;

/// The two ends of one direction.
fn connect() -> (SealTx, SealRx) {
    let mode = Mode::Sealed(JobKeys::from(JobKey::from_bytes([7; 32])));
    let mut entropy = Entropy::from_seed([1; 32]);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let mut initiator = Initiator::start(&mode, b"", b"", &mut entropy, &mut first).unwrap();
    let (_, responder) = Responder::open(&mode, b"", &first).unwrap();
    let (_, rx) = responder.reply(b"", &mut entropy, &mut second).unwrap();
    let (_, tx, _) = initiator.finish(&second).unwrap();
    (tx, rx)
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn ours(group: &mut BenchmarkGroup<'_, WallTime>, len: usize) {
    let (mut tx, mut rx) = connect();
    let mut packet = vec![7; len + TAG];
    tx.seal(0, &PRELUDE, &mut packet);
    group.bench_function("Sabani opens", |b| {
        let open = |packet: &mut Vec<u8>| rx.open(0, &PRELUDE, packet).is_ok();
        b.iter_batched_ref(|| packet.clone(), open, BatchSize::SmallInput);
    });
    let mut number = 0;
    group.bench_function("Sabani seals", |b| {
        b.iter(|| {
            number += 1;
            tx.seal(number, &PRELUDE, &mut packet);
        });
    });
}

fn aes(group: &mut BenchmarkGroup<'_, WallTime>, len: usize) {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).unwrap());
    let seal = |number, body: &mut [u8]| {
        key.seal_in_place_separate_tag(nonce(number), Aad::from(&PRELUDE), body)
            .unwrap()
    };
    let mut packet = vec![7; len];
    let tag = seal(0, &mut packet);
    packet.extend_from_slice(tag.as_ref());
    group.bench_function("AES-128-GCM opens", |b| {
        let open = |packet: &mut Vec<u8>| {
            key.open_in_place(nonce(0), Aad::from(&PRELUDE), packet)
                .is_ok()
        };
        b.iter_batched_ref(|| packet.clone(), open, BatchSize::SmallInput);
    });
    let mut number = 0;
    group.bench_function("AES-128-GCM seals", |b| {
        b.iter(|| {
            number += 1;
            seal(number, &mut packet[..len])
        });
    });
}

fn packets(c: &mut Criterion) {
    for len in [64, 1_440] {
        let mut group = c.benchmark_group(format!("{len} B"));
        group.throughput(Throughput::Bytes(len as u64));
        ours(&mut group, len);
        aes(&mut group, len);
    }
}

criterion_group!(benches, packets);
criterion_main!(benches);
