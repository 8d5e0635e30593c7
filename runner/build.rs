//! Turns the text of the benchmark's own handlers into modules, so that the binary carries them.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::var("OUT_DIR")?;
    for (folder, name) in
        [("noop", "noop"), ("noop", "noop-command"), ("sleep", "sleep"), ("clock", "clock")]
    {
        let text = format!("../tests/guests/{folder}/{name}.wat");
        println!("cargo:rerun-if-changed={text}");
        std::fs::write(Path::new(&out).join(format!("{name}.wasm")), wat::parse_file(&text)?)?;
    }
    Ok(())
}
