//! `cargo +nightly fuzz run sequence`: see `sabani_fuzz::sequence`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| sabani_fuzz::sequence::run(data));

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("without cargo-fuzz, use: cargo run --release -- sequence");
}
