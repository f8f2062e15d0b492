//! The README's programs are the examples, letter for letter, but for what those say to `--help`.

#[test]
fn the_readme_shows_the_examples() {
    let readme = include_str!("../../../README.md");
    let examples = [
        include_str!("../examples/hello.rs"),
        include_str!("../examples/pi.rs"),
    ];
    for example in examples {
        let program = |line: &&str| !line.contains("usage");
        let example: String = example.split_inclusive('\n').filter(program).collect();
        assert!(readme.contains(&format!("```rust\n{example}```")));
    }
}
