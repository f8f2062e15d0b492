//! The README's programs are the examples, letter for letter.

#[test]
fn the_readme_shows_the_examples() {
    let readme = include_str!("../../../README.md");
    let examples = [
        include_str!("../examples/hello.rs"),
        include_str!("../examples/pi.rs"),
    ];
    for example in examples {
        assert!(readme.contains(&format!("```rust\n{example}```")));
    }
}
