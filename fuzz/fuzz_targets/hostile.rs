//! `cargo +nightly fuzz run hostile`: see `sabani_fuzz::hostile`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| sabani_fuzz::hostile::run(data));

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("without cargo-fuzz, use: cargo run --release -- hostile");
}
