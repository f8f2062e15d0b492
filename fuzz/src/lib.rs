//! Fuzz targets for Sabani's transport, each a plain function from bytes to "nothing bad happened".
//!
//! They run two ways. On a stable compiler, with inputs made and mutated from a seed:
//!
//! ```text
//! cargo run --release --manifest-path fuzz/Cargo.toml -- all --seconds 5
//! ```
//!
//! and, for hours rather than seconds, guided by coverage:
//!
//! ```text
//! cargo install cargo-fuzz
//! cargo +nightly fuzz run --dev hostile -- -max_total_time=3600 -max_len=4096
//! ```
//!
//! Either writes an input that fails to `fuzz/artifacts`; `cargo run … -- TARGET FILE` replays it.

pub mod encode;
pub mod hostile;
pub mod packet;
pub mod rng;
pub mod script;
pub mod sequence;
pub mod world;

/// Counts the bytes in use, so that targets can hold a node to its memory budget.
#[global_allocator]
pub static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

/// A target, and where its inputs begin.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Panics if the input shows a defect.
    pub run: fn(&[u8]),
    /// Makes an input worth mutating.
    pub begin: fn(&mut rng::Rng) -> Vec<u8>,
}

/// All targets.
pub const TARGETS: [Target; 3] = [
    Target {
        name: "packet",
        run: packet::run,
        begin: packet::begin,
    },
    Target {
        name: "sequence",
        run: sequence::run,
        begin: script::begin,
    },
    Target {
        name: "hostile",
        run: hostile::run,
        begin: script::begin,
    },
];
