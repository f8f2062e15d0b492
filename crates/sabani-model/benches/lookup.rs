//! What it costs to look up an algorithm, beside what the rule costs.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sabani_collective::{Collective, Context, Counts, Hosts, choose};
use sabani_model::choose::{Lookup, Row, usual_ranks};

const HOSTS: usize = 1024;

/// As large as tables get: each collective for powers of two, and lengths that each have a choice of their own.
fn table() -> Lookup {
    let mut rows = Vec::new();
    for ranks in usual_ranks(HOSTS) {
        for collective in Collective::ALL {
            let names = collective.algorithms().map(|algorithm| algorithm.name);
            let names: Vec<_> = names.collect();
            let lengths = (0..14).map(|class| if class == 0 { 0 } else { 1 << (2 * class - 2) });
            rows.extend(lengths.zip(names.iter().cycle()).map(|(bytes, name)| Row {
                collective: collective.name().to_owned(),
                ranks,
                hosts: ranks,
                bytes,
                choice: (*name).to_owned(),
                expected_ns: 1.0,
                rule_ns: 2.0,
            }));
        }
    }
    Lookup::new(&rows).expect("they are right")
}

fn lookups(criterion: &mut Criterion) {
    let table = table();
    let hosts = Hosts::new(&(0..48).collect::<Vec<_>>());
    let cx = Context {
        element_bytes: 8,
        hosts: Some(&hosts),
        ..Context::new(48, Counts::Each(1_000))
    };
    let mut group = criterion.benchmark_group("choice for 48 ranks");
    group.bench_function("table", |bencher| {
        bencher.iter(|| table.find(black_box(Collective::Alltoall), black_box(&cx)));
    });
    group.bench_function("rule", |bencher| {
        bencher.iter(|| choose(black_box(Collective::Alltoall), black_box(&cx)));
    });
    group.finish();
}

criterion_group!(benches, lookups);
criterion_main!(benches);
