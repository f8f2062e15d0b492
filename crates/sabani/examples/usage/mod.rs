//! What examples without options say to `--help`.

use std::env;
use std::process;

/// Ends the program if it was asked for its usage, which is what its source begins with, or was given an argument
/// that it does not take.
pub fn heed(source: &str, arguments: &str) {
    let is_wrong = |argument: &String| arguments.is_empty() || argument.starts_with('-');
    let Some(argument) = env::args().skip(1).find(is_wrong) else {
        return;
    };
    let usage = format!("Usage: {} {arguments}", env!("CARGO_CRATE_NAME"));
    if argument == "--help" || argument == "-h" {
        for line in source.lines().map_while(|line| line.strip_prefix("//! ")) {
            println!("{line}");
        }
        println!("\n{}", usage.trim_end());
        process::exit(0);
    }
    eprintln!("`{argument}` is no argument of it\n\n{}", usage.trim_end());
    process::exit(2);
}
