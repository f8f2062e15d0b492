//! Running other commands from the repository's root.

use std::env;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate has a folder of its own in the root")
}

/// A cargo command that starts in the root. It is the cargo that runs this program, unless the
/// arguments choose a toolchain.
pub fn cargo(arguments: &str) -> Command {
    let chooses = arguments.starts_with('+');
    let program = env::var_os("CARGO").filter(|_| !chooses);
    let mut command = Command::new(program.unwrap_or_else(|| "cargo".into()));
    if chooses {
        // Set by the toolchain that runs this program; it would win over the one chosen.
        command.env_remove("RUSTUP_TOOLCHAIN");
    }
    command
        .args(arguments.split_whitespace())
        .current_dir(root())
        .stdin(Stdio::null());
    command
}

/// Says what is run, runs it, and fails unless it succeeds.
pub fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    ensure!(status.success(), "`{}` failed ({status})", shown(command));
    Ok(())
}

/// Runs a command and hands over each line that it prints, on either output, in order.
pub fn lines(command: Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let name = shown(&command);
    let (output, mut child) =
        start_piped(command).with_context(|| format!("cannot start `{name}`"))?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.with_context(|| format!("cannot read what `{name}` prints"))?;
        each(String::from_utf8_lossy(&line).trim_end());
    }
    child
        .wait()
        .with_context(|| format!("cannot wait for `{name}`"))
}

/// Both outputs go into one pipe. The command is used up: its copies would keep the pipe open.
fn start_piped(mut command: Command) -> io::Result<(PipeReader, Child)> {
    let (output, input) = io::pipe()?;
    let child = command.stdout(input.try_clone()?).stderr(input).spawn()?;
    Ok((output, child))
}

/// What a command prints, if it succeeds.
pub fn output(command: &mut Command) -> Result<String> {
    let name = shown(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{name}`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{name}` failed: {}", said.trim());
    String::from_utf8(output.stdout).with_context(|| format!("`{name}` does not print text"))
}

/// A command as one would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
