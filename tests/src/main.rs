//! A node under remote control, for tests.

fn main() {}
