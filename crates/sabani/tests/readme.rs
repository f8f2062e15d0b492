//! The README's first program is the example, letter for letter.

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../../README.md");
    let example = include_str!("../examples/hello.rs");
    assert!(readme.contains(&format!("```rust\n{example}```")));
}
