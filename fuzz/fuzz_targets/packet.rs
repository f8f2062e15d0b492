//! `cargo +nightly fuzz run packet`: see `sabani_fuzz::packet`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| sabani_fuzz::packet::run(data));

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("without cargo-fuzz, use: cargo run --release -- packet");
}
